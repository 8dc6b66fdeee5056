package embedded

import (
	"database/sql"
	"errors"
	"fmt"

	"coldtap/catalog"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// damage marks an error that stays when the call is repeated.
type damage struct{ error }

func damaged(err error) error { return damage{err} }

func (d damage) Unwrap() error { return d.error }

// kindOf distinguishes a file that cannot be read from one that cannot be reached right now.
func kindOf(err error) catalog.Kind {
	if errors.As(err, new(damage)) || errors.Is(err, sql.ErrNoRows) {
		return catalog.Damaged
	}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Code() & 0xff {
		// A plain SQLITE_ERROR is a table or column that is not there: the statements themselves are constant.
		case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB, codes.SQLITE_ERROR, codes.SQLITE_MISMATCH:
			return catalog.Damaged
		}
	}
	return catalog.Unavailable
}

// failure makes err an error of the catalog, unless it is one.
func failure(op string, err error) *catalog.Error {
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		return e
	}
	return &catalog.Error{Kind: kindOf(err), Op: op, Err: err}
}

func illegal(op, format string, args ...any) error {
	return &catalog.Error{Kind: catalog.Illegal, Op: op, Err: fmt.Errorf(format, args...)}
}

// accessHint explains the refusals that surprise: reading needs more than the file's read permission.
func accessHint(err error) error {
	if !isRefused(err) {
		return err
	}
	return fmt.Errorf("%w: to follow a database while it is written, its reader needs read permission on the file and write permission on the directory (for the -shm and -wal files beside it)", err)
}

// isRefused says that the operating system does not let a database be used as asked.
func isRefused(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_CANTOPEN, codes.SQLITE_READONLY, codes.SQLITE_PERM:
		return true
	}
	return false
}
