package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"coldtap/cluster"
	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTroubleIsLoggedOnce, however many attempts fail and however their errors read, and so is its end.
func TestTroubleIsLoggedOnce(t *testing.T) {
	s := newHarness(t, 4)
	s.write(t, 4, finished(1, orders3, 0, 99)...)
	var log syncBuffer
	reg := prometheus.NewRegistry()
	f := s.open(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: reg, patience: 1})
	ready(t, f)
	s.fail(-1, true)
	until(t, f, func() bool { return sampleOf(t, reg, "coldtap_catalog_polls_total", "unavailable") >= 4 })
	s.fail(-1, false)
	until(t, f, func() bool { return f.Status().Trouble == nil })
	for line, want := range map[string]int{"level=WARN": 1, "the metadata topic cannot be followed": 1, "the metadata topic is followed again": 1} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, got, want, log.String())
		}
	}
}

// TestLeadersThatMoveAreNoTrouble: what an orderly restart of the brokers, one by one, looks like from here.
func TestLeadersThatMoveAreNoTrouble(t *testing.T) {
	s := newHarness(t, 2)
	var log syncBuffer
	f := s.open(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ready(t, f)
	for n := range byte(3) {
		for p := range int32(2) {
			if err := s.MoveTopicPartition(Name, p, int32(n+byte(p)+1)%3); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		s.noFetch = int32(n) // the one that goes down
		s.mu.Unlock()
		s.write(t, 2, finished(n, orders3, int64(n)*100, int64(n)*100+99)...)
		until(t, f, func() bool { return f.Snapshot().Segments() == int(n)+1 })
	}
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("logged:\n%s", log.String())
	}
}

// TestKindsOfTrouble: the same trouble has the same kind, whichever broker had it and whatever its text says.
func TestKindsOfTrouble(t *testing.T) {
	refused := func(port int) error {
		return fmt.Errorf("broker %d: %w", port, &net.OpError{Op: "dial", Addr: &net.TCPAddr{Port: port}, Err: errors.New("connection refused")})
	}
	first, passing := troubleKind(refused(1))
	second, _ := troubleKind(errors.Join(refused(2), fmt.Errorf("%w: [3]", cluster.ErrNoLeader)))
	if first != second || !passing {
		t.Errorf("%q and %q, passing %t", first, second, passing)
	}
	for _, tt := range []struct {
		err     error
		kind    string
		passing bool
	}{
		{cluster.ErrNoTopic, "no topic", true},
		{restart{errDiverged}, "read anew", true},
		{fmt.Errorf("partition 1: %w", &segment.Error{}), "unreadable", false},
		{fmt.Errorf("partition 1: %w", kerr.NotLeaderForPartition), cluster.Unreachable.String(), true},
		{kerr.TopicAuthorizationFailed, cluster.Denied.String(), false},
		{kerr.SaslAuthenticationFailed, cluster.Unauthorized.String(), false},
	} {
		if kind, passing := troubleKind(tt.err); kind != tt.kind || passing != tt.passing {
			t.Errorf("%v: %q, passing %t", tt.err, kind, passing)
		}
	}
}

// TestOneLeaderThatStaysAwayIsTrouble: the others deliver all the time, and their success is not its end. They do so at
// once here, before the one that is away has failed.
func TestOneLeaderThatStaysAwayIsTrouble(t *testing.T) {
	s := newHarness(t, 3)
	for p := range int32(3) {
		if err := s.MoveTopicPartition(Name, p, p); err != nil {
			t.Fatal(err)
		}
	}
	var log syncBuffer
	reg := prometheus.NewRegistry()
	f := s.open(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: reg, patience: 1})
	ready(t, f)
	s.mu.Lock()
	s.noFetch = 2
	s.serve = func(req *kmsg.FetchRequest) kmsg.Response { req.MaxWaitMillis = 0; return nil }
	s.mu.Unlock()
	until(t, f, func() bool { return sampleOf(t, reg, "coldtap_catalog_polls_total", "unavailable") >= 6 })
	s.mu.Lock()
	s.noFetch, s.serve = -1, nil
	s.mu.Unlock()
	until(t, f, func() bool { return f.Status().Trouble == nil })
	for line, want := range map[string]int{"the metadata topic cannot be followed": 1, "the metadata topic is followed again": 1} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, got, want, log.String())
		}
	}
}
