package faultstore_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/internal/testing/faultstore"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func TestStoreWithoutRulesAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend { return faultstore.New(simstore.NewMemory()) })
}

func TestRulesCountAndEnd(t *testing.T) {
	mem := simstore.NewMemory()
	mem.Set("a.log", []byte("content"))
	s := faultstore.New(mem)
	s.Inject(faultstore.Rule{Op: faultstore.Stat, Key: faultstore.Suffix(".log"), Skip: 1, Times: 2, Fault: faultstore.Fault{Kind: rangeio.Throttled}})
	var got []bool
	for range 5 {
		_, err := s.Stat(t.Context(), "a.log")
		got = append(got, err == nil)
		if err != nil {
			rangeiotest.IsKind(t, err, rangeio.Throttled)
		}
	}
	for i, want := range []bool{true, false, false, true, true} {
		if got[i] != want {
			t.Errorf("call %d succeeded: %v, want %v", i, got[i], want)
		}
	}
	remove := s.Inject(faultstore.Rule{Fault: faultstore.Fault{Kind: rangeio.Forbidden}})
	rangeiotest.IsKind(t, s.Delete(t.Context(), "other"), rangeio.Forbidden)
	remove()
	if err := s.Delete(t.Context(), "other"); err != nil {
		t.Error(err)
	}
	if s.Count(faultstore.Stat, nil) != 5 || s.Count(faultstore.Any, faultstore.Exactly("other")) != 2 {
		t.Errorf("calls: %v", s.Calls())
	}
}

func TestBodies(t *testing.T) {
	mem := simstore.NewMemory()
	mem.Set("o", []byte("0123456789"))
	s := faultstore.New(mem)
	for _, c := range []struct {
		fault faultstore.Fault
		want  string
		err   error
	}{
		{faultstore.Fault{CutAfter: 4}, "2345", faultstore.ErrInjected},
		{faultstore.Fault{CutAfter: -1}, "", faultstore.ErrInjected},
		{faultstore.Fault{EndAfter: 4}, "2345", nil},
		{faultstore.Fault{EndAfter: -1}, "", nil},
		{faultstore.Fault{Content: func(off int64, p []byte) {
			if i := 5 - off; i >= 0 && i < int64(len(p)) {
				p[i] = 'X'
			}
		}}, "234X6789", nil},
	} {
		remove := s.Inject(faultstore.Rule{Op: faultstore.Get, Fault: c.fault})
		body, _, err := s.Open(t.Context(), "o", 2, 100, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("read %q, %v, want %q, %v", got, err, c.want, c.err)
		}
		remove()
	}
	s.WaitClosed()
}

func TestCrashPoints(t *testing.T) {
	put := func(s *faultstore.Store, key string) error {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"))
		return err
	}
	for _, before := range []bool{false, true} {
		mem := simstore.NewMemory()
		s := faultstore.New(mem)
		if before {
			s.CrashBeforePut(2)
		} else {
			s.CrashAfterPut(2)
		}
		if err := put(s, "1"); err != nil {
			t.Fatal(err)
		}
		if err := put(s, "2"); !errors.Is(err, faultstore.ErrCrashed) {
			t.Errorf("the writer of 2 got %v", err)
		}
		if err := put(s, "3"); !errors.Is(err, faultstore.ErrCrashed) || !s.Crashed() {
			t.Errorf("a dead process wrote: %v", err)
		}
		if err := s.Delete(t.Context(), "1"); !errors.Is(err, faultstore.ErrCrashed) {
			t.Errorf("a dead process deleted: %v", err)
		}
		want := 2
		if before {
			want = 1
		}
		if got := mem.Keys(); len(got) != want {
			t.Errorf("before=%v: store has %q", before, got)
		}
		s.Clear()
		if err := put(s, "4"); err != nil {
			t.Error(err)
		}
	}
}

func TestLostAnswerAndBlock(t *testing.T) {
	mem := simstore.NewMemory()
	s := faultstore.New(mem)
	gate := make(chan struct{})
	s.Inject(faultstore.Rule{Op: faultstore.Put, Fault: faultstore.Fault{Kind: rangeio.Unavailable, After: true, Block: gate}})
	done := make(chan error)
	go func() {
		_, err := s.Put(t.Context(), "o", bytes.NewReader([]byte("x")))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("did not block: %v", err)
	default:
	}
	close(gate)
	rangeiotest.IsKind(t, <-done, rangeio.Unavailable)
	if mem.Bytes("o") == nil {
		t.Error("the put whose answer is lost did not happen")
	}
}
