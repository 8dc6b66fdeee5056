package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// failingListener gives what is in results: errors as accept has them, or a connection for nil.
type failingListener struct {
	results chan error
	closed  chan struct{}
}

func (l *failingListener) Accept() (net.Conn, error) {
	select {
	case err := <-l.results:
		if err != nil {
			return nil, err
		}
		conn, _ := net.Pipe()
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *failingListener) Close() error   { close(l.closed); return nil }
func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

func acceptError(errno syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
}

func newFailing(results ...error) (*retryingListener, *bytes.Buffer) {
	ln := &failingListener{make(chan error, len(results)), make(chan struct{})}
	for _, err := range results {
		ln.results <- err
	}
	said := new(bytes.Buffer)
	return newRetryingListener(ln, slog.New(slog.NewTextHandler(said, nil)), AcceptErrors(nil, "data")), said
}

// A server that has run out of file descriptors for a while must go on serving when there are some again.
func TestAcceptErrorsThatPassAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []error
		for range 20 {
			results = append(results, acceptError(syscall.EMFILE), acceptError(syscall.ECONNABORTED))
		}
		retrying, said := newFailing(append(results, nil)...)
		began := time.Now()
		conn, err := retrying.Accept()
		if err != nil || conn == nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 30*time.Second || took > 40*time.Second {
			t.Errorf("took %s: neither tried without pause nor after ages", took)
		}
		if lines := strings.Count(said.String(), "\n"); lines != 2 || !strings.Contains(said.String(), "too many open files") {
			t.Errorf("%d lines for two kinds of errors in less than a minute:\n%s", lines, said)
		}
		if n := testutil.ToFloat64(retrying.failed); n != 40 {
			t.Errorf("counted %v", n)
		}
	})
}

func TestAcceptErrorsOfManyKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED, syscall.EINTR, syscall.EPROTO, syscall.EPERM, syscall.ENETDOWN} {
			retrying, _ := newFailing(acceptError(errno), nil)
			if _, err := retrying.Accept(); err != nil {
				t.Errorf("%v ends serving: %v", errno, err)
			}
		}
		for _, end := range []error{acceptError(syscall.EBADF), acceptError(syscall.EINVAL), net.ErrClosed, errors.New("other")} {
			retrying, _ := newFailing(end)
			if _, err := retrying.Accept(); !errors.Is(err, end) {
				t.Errorf("%v is waited out: %v", end, err)
			}
		}
	})
}

func TestCloseEndsTheWaitForDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []error
		for range 100 {
			results = append(results, acceptError(syscall.EMFILE))
		}
		retrying, _ := newFailing(results...)
		ended := make(chan error, 1)
		go func() {
			_, err := retrying.Accept()
			ended <- err
		}()
		synctest.Wait()
		if err := retrying.Close(); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
