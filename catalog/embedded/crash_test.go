package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coldtap/catalog"
	"coldtap/tier"
)

// lines starts cmd and gives what it prints, line by line.
func lines(t *testing.T, cmd *exec.Cmd) <-chan string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	ch := make(chan string)
	go func() {
		defer close(ch)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			ch <- sc.Text()
		}
	}()
	return ch
}

// The life of segment n, in the order that playSteps goes through: three steps make it readable and begin its delete,
// then it is gone.
var life = []struct {
	name  string
	do    func(*DB, uint64) error
	state tier.State
}{
	{"start copy", func(d *DB, n uint64) error {
		return d.StartCopy(context.Background(), seg(n, int64(n)*100, int64(n)*100+99))
	}, tier.CopyStarted},
	{"finish copy", func(d *DB, n uint64) error { return d.FinishCopy(context.Background(), part0, id(n)) }, tier.CopyFinished},
	{"start delete", func(d *DB, n uint64) error { return d.StartDelete(context.Background(), part0, id(n)) }, tier.DeleteStarted},
	{"finish delete", func(d *DB, n uint64) error { return d.FinishDelete(context.Background(), part0, id(n)) }, tier.DeleteFinished},
}

// playSteps records steps as fast as it can and prints each one's number when it is recorded. Every third segment is
// deleted.
func playSteps() {
	d, err := OpenWriter(context.Background(), os.Args[1])
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var first uint64
	fmt.Sscan(os.Args[2], &first)
	for n := first; ; n++ {
		for i, step := range life {
			if i >= 2 && n%3 != 0 {
				break
			}
			if err := step.do(d, n); err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Println(n, i)
		}
	}
}

func playOpen() {
	_, err := OpenWriter(context.Background(), os.Args[1])
	if e, ok := errors.AsType[*catalog.Error](err); ok && e.Kind == catalog.Locked {
		fmt.Println("locked", err)
		return
	}
	r, rerr := OpenReader(context.Background(), os.Args[1], ReaderOptions{})
	if rerr == nil {
		rerr = r.Ready()
		r.Close()
	}
	fmt.Println("writer:", err)
	fmt.Println("reader:", rerr)
}

// A writer that is killed at any moment has lost no step that it reported, and at most one more is there.
func TestKilledWriterLosesNoRecordedStep(t *testing.T) {
	path := dbPath(t)
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	first := uint64(1)
	var follower *Reader
	for round := range 6 {
		cmd := child(t, "steps", path, fmt.Sprint(first))
		out := lines(t, cmd)
		var n uint64
		var step int
		stop := 1 + rng.IntN(60)
		for range stop {
			line, ok := <-out
			if _, err := fmt.Sscan(line, &n, &step); !ok || err != nil {
				t.Fatalf("the writer says %q", line)
			}
		}
		must(t, cmd.Process.Signal(syscall.SIGKILL))
		for line := range out { // what it had reported before it died
			if _, err := fmt.Sscan(line, &n, &step); err != nil {
				t.Fatalf("the writer says %q", line)
			}
		}
		cmd.Wait()

		// A reader comes first: it must read the dead writer's log as it is.
		if follower == nil {
			follower = openReader(t, path, ReaderOptions{})
			must(t, follower.Ready())
		} else {
			must(t, follower.Refresh(t.Context(), tier.PartitionID{}))
		}
		d := openWriter(t, path)
		same(t, follower.Snapshot(), d.Snapshot())
		checkLives(t, d, first, n, step)
		// The next writer goes on behind what this one may have begun.
		first = n + 2
		must(t, d.Close())
		if t.Failed() {
			t.Fatalf("in round %d, killed after step %q of segment %d", round, life[step].name, n)
		}
	}
}

// checkLives wants all that was done before step of segment last, and at most the one after it.
func checkLives(t *testing.T, d *DB, first, last uint64, step int) {
	t.Helper()
	p := view0(t, d.Snapshot())
	for n := first; n <= last+1; n++ {
		end := 1
		if n%3 == 0 {
			end = 3
		}
		s, ok := p.Segment(id(n))
		got := tier.DeleteFinished
		if ok {
			got = s.State
		}
		switch {
		case n < last && got != life[end].state:
			t.Errorf("segment %d is %v, want %v", n, got, life[end].state)
		case n == last && got != life[step].state && (step == end || got != life[step+1].state):
			t.Errorf("segment %d is %v after %q was recorded", n, got, life[step].name)
		case n > last && ok && got != tier.CopyStarted:
			t.Errorf("segment %d is %v though its copy had hardly begun", n, got)
		}
	}
}

// To follow a live database SQLite must make its shared-memory file beside it; the error has to say so.
func TestReaderWithoutWritePermissionIsToldWhy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to start a process of a user who may not write")
	}
	dir, err := os.MkdirTemp("", "coldtap-ro")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	binary, err := os.ReadFile(os.Args[0])
	must(t, err, os.WriteFile(filepath.Join(dir, "reader"), binary, 0o755))
	path := filepath.Join(dir, "coldtap.db")
	d := openWriter(t, path)
	finish(t, d, seg(1, 0, 99))

	look := func() string {
		t.Helper()
		cmd := child(t, "open", path)
		cmd.Path, cmd.Dir = filepath.Join(dir, "reader"), dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		must(t, err)
		_, reader, _ := strings.Cut(string(out), "reader: ")
		return strings.TrimSpace(reader)
	}
	if got := look(); got != "<nil>" {
		t.Errorf("while the writer is there, everybody can read: %s", got)
	}
	must(t, d.Close())
	if got := look(); !strings.Contains(got, "write permission on the directory") {
		t.Errorf("%q does not say what is missing", got)
	}
}
