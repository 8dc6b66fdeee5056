package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"coldtap/catalog"

	_ "modernc.org/sqlite" // the driver
)

// file is the reader's connection to the database. It is one connection, because PRAGMA data_version says what
// others committed since the same connection asked last. Not for concurrent use.
type file struct {
	db      *sql.DB
	conn    *sql.Conn
	info    os.FileInfo
	version int64 // data_version before the last complete read, 0 before the first
	fixed   bool  // opened as one that no process changes
}

const opFollow = "follow the metadata database"

func notReady(err error) error { return &catalog.Error{Kind: catalog.NotReady, Op: opFollow, Err: err} }

// statFile is asked instead of opening the file: closing a file of our own would drop the locks that SQLite holds on it
// in this process.
func statFile(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notReady(fmt.Errorf("%s is not there: no offloader has made it yet", path))
	case err != nil:
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: opFollow, Err: err}
	case info.IsDir():
		return nil, &catalog.Error{Kind: catalog.Damaged, Op: opFollow, Err: fmt.Errorf("%s is a directory", path)}
	case info.Size() == 0:
		return nil, notReady(fmt.Errorf("%s: %w", path, errBlank))
	}
	return info, nil
}

// openFile opens the database for reading only: it is never changed, not even by a checkpoint of the write-ahead log of
// a writer that died. To follow a writer takes files beside the database, which a read-only mount does not allow;
// there, a database that its writer has closed is read as one that no process changes.
func openFile(ctx context.Context, path string, info os.FileInfo) (*file, error) {
	f, err := openWith(ctx, path, info, "&mode=ro")
	if err == nil {
		var version int64
		if err = f.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err == nil {
			return f, nil
		}
		f.close()
	}
	if !isRefused(err) || !isClosed(path) {
		return nil, accessHint(err)
	}
	if f, err = openWith(ctx, path, info, "&mode=ro&immutable=1"); err != nil {
		return nil, accessHint(err)
	}
	f.fixed = true
	return f, nil
}

// isClosed says that a database is whole without the files beside it, and lies on a mount through which no process can
// write.
func isClosed(path string) bool {
	if !isReadOnly(filepath.Dir(path)) {
		return false
	}
	info, err := os.Stat(path + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// isStale says that a database that was opened as fixed has changed after all, by another machine.
func (f *file) isStale(path string, now os.FileInfo) bool {
	return f.fixed && (now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime()) || !isClosed(path))
}

func openWith(ctx context.Context, path string, info os.FileInfo, how string) (*file, error) {
	name, err := address(path, how)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &file{db: db, conn: conn, info: info}, nil
}

func (f *file) close() {
	f.conn.Close()
	f.db.Close()
}

// read calls do in one read transaction if another connection has committed since the last time that do succeeded. do
// sees the state of one commit.
func (f *file) read(ctx context.Context, do func(querier) error) error {
	var version int64
	if err := f.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return accessHint(err)
	}
	if version == f.version {
		return nil
	}
	tx, err := f.conn.BeginTx(ctx, nil)
	if err != nil {
		return accessHint(err)
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return accessHint(err)
	}
	f.version = version
	return nil
}
