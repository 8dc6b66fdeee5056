package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func wantKind(t *testing.T, err error, kind Kind) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != kind {
		t.Fatalf("error %v, want one of kind %v", err, kind)
	}
}

// TestOnlyReads runs everything that the room does and holds it to the API keys that change nothing.
func TestOnlyReads(t *testing.T) {
	k := brokers(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", "secret"), kfake.AllowAutoTopicCreation())
	admin := SASLOptions{Name: "PLAIN", Username: "reader", Password: "secret"}
	mechanism, err := admin.Mechanism()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[int16]int{}
	k.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		seen[req.Key()]++
		if m, ok := req.(*kmsg.MetadataRequest); ok && m.AllowAutoTopicCreation {
			t.Error("a Metadata request would create topics")
		}
		return nil, nil, false
	})
	cfg := quiet(k.ListenAddrs()...)
	cfg.SASL = mechanism
	c := open(t, cfg, nil)
	watch(t, c, "orders")
	if p := part(t, c, 0); p.HighWatermark != 0 {
		t.Errorf("got %+v", p)
	}
	if err := k.MoveTopicPartition("orders", 0, 1-k.LeaderFor("orders", 0)); err != nil {
		t.Fatal(err)
	}
	part(t, c, 0)
	if err := k.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	refreshed(t, c)
	c.Close()

	mu.Lock()
	defer mu.Unlock()
	must := []int16{int16(kmsg.ApiVersions), int16(kmsg.Metadata), int16(kmsg.ListOffsets), int16(kmsg.OffsetForLeaderEpoch),
		int16(kmsg.SASLHandshake), int16(kmsg.SASLAuthenticate)}
	for _, key := range must {
		if seen[key] == 0 {
			t.Errorf("%s was never asked: the test does not reach everything", kmsg.NameForKey(key))
		}
	}
	for key, n := range seen {
		if !slices.Contains(must, key) {
			t.Errorf("%s was sent %d times", kmsg.NameForKey(key), n)
		}
	}
	if k.TopicInfo("orders") != nil {
		t.Error("asking for a topic by name has created it again")
	}
}

func TestRefreshIsShared(t *testing.T) {
	k := brokers(t)
	views := 0
	c := open(t, quiet(k.ListenAddrs()...), func(*View) { views++ })
	refreshed(t, c)
	// The first of them holds a round up until all others wait.
	entered, leave := make(chan struct{}), make(chan struct{})
	var metadata atomic.Int64
	k.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		if metadata.Add(1) == 1 {
			close(entered)
			<-leave
		}
		return nil, nil, false
	})
	const callers = 100
	outcomes := make(chan error, callers+1)
	called := time.Now()
	go func() { outcomes <- c.Refresh(t.Context()) }()
	<-entered
	first := c.View()
	later := time.Now()
	var started sync.WaitGroup
	for range callers {
		started.Add(1)
		go func() {
			started.Done()
			err := c.Refresh(t.Context())
			if err == nil && c.View().At.Before(later) {
				err = errors.New("the view is older than the call")
			}
			outcomes <- err
		}()
	}
	started.Wait()
	close(leave)
	for range callers + 1 {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	if !first.At.Before(called) {
		t.Error("a view came before the cluster answered")
	}
	c.Close()
	// Callers that the scheduler brought late may have come to a round of their own.
	if n := metadata.Load(); n < 2 || n > 10 {
		t.Errorf("%d callers made %d rounds", callers, n)
	}
	if want := int(testutil.ToFloat64(c.metrics.rounds.WithLabelValues(resultOK))); views != want {
		t.Errorf("notified %d times of %d rounds", views, want)
	}
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	k := brokers(t)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	refreshed(t, c)
	entered, leave := make(chan struct{}), make(chan struct{})
	k.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(entered)
		<-leave
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	err := c.Refresh(ctx)
	wantKind(t, err, Canceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(leave)
}

func TestCloseSendsWaitersAway(t *testing.T) {
	k := brokers(t)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	v := refreshed(t, c)
	entered, leave := make(chan struct{}), make(chan struct{})
	k.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(entered)
		<-leave
		return nil, nil, false
	})
	outcome := make(chan error)
	for range 2 { // one in the round, one perhaps behind it
		go func() { outcome <- c.Refresh(context.Background()) }()
	}
	<-entered
	c.Close()
	close(leave)
	wantKind(t, <-outcome, Canceled)
	wantKind(t, <-outcome, Canceled)
	wantKind(t, c.Refresh(t.Context()), Canceled)
	if c.View() != v {
		t.Error("the last view is gone")
	}
	c.Close()
}

// TestClientOptions holds what the other tests would not notice.
func TestClientOptions(t *testing.T) {
	cl, err := kgo.NewClient(Config{Bootstrap: []string{"127.0.0.1:1"}}.kgoOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if cl.OptValue(kgo.DisableClientMetrics) != true {
		t.Error("client metrics are pushed to the brokers")
	}
	if cl.OptValue(kgo.AllowAutoTopicCreation) != false {
		t.Error("consuming would create topics")
	}
	if id := cl.OptValue(kgo.ClientID); id != "coldtap" {
		t.Errorf("client id %v", id)
	}
}

// TestOutage takes all brokers away and brings them back under their old addresses.
func TestOutage(t *testing.T) {
	k := brokers(t)
	produce(t, k, 0, 5)
	addrs := k.ListenAddrs()
	log := newLines()
	cfg := quiet(addrs...)
	cfg.Logger, cfg.patience = slog.New(log), 1
	c := open(t, cfg, nil)
	id := watch(t, c, "orders")
	before := part(t, c, 0)
	v := c.View()
	k.Close()
	for range 2 {
		wantKind(t, c.Refresh(t.Context()), Unreachable)
	}
	wantKind(t, c.LastError(), Unreachable)
	if c.View() != v {
		t.Error("the view is gone")
	}
	if n := log.of("the cluster does not answer"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if n := testutil.ToFloat64(c.metrics.unanswered); n != 2 {
		t.Errorf("%v partitions are unanswered while no broker answers", n)
	}
	if least := time.Since(v.At); c.Age() < least {
		t.Errorf("age %v, the view's %v", c.Age(), least)
	}
	var ports []int
	for _, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		ports = append(ports, n)
	}
	back := brokers(t, kfake.Ports(ports...))
	produce(t, back, 0, 2)
	now := refreshed(t, c)
	if c.LastError() != nil || now == v || log.of("the cluster answers again") != 1 {
		t.Errorf("error %v, logged %v", c.LastError(), log.count)
	}
	// It is another cluster, so the topic is another one too.
	if _, ok := now.Topic(id); ok {
		t.Error("the topic of the old cluster is still there")
	}
	if before.HighWatermark != 5 {
		t.Errorf("before: %+v", before)
	}
	if got := testutil.ToFloat64(c.metrics.rounds.WithLabelValues("unreachable")); got != 2 {
		t.Errorf("counted %v", got)
	}
}

// TestOneBrokerAway keeps the bounds of its partitions and goes on with the others'.
func TestOneBrokerAway(t *testing.T) {
	k := brokers(t)
	for number := range int32(2) {
		if k.LeaderFor("orders", number) != number {
			if err := k.MoveTopicPartition("orders", number, number); err != nil {
				t.Fatal(err)
			}
		}
		produce(t, k, number, 5)
	}
	log := newLines()
	cfg := quiet(k.ListenAddrs()...)
	cfg.Logger, cfg.patience = slog.New(log), 1
	c := open(t, cfg, nil)
	watch(t, c, "orders")
	before := part(t, c, 1)
	produce(t, k, 0, 1)
	var away atomic.Bool
	away.Store(true)
	k.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		if away.Load() && k.CurrentNode() == 1 {
			return nil, errors.New("closed"), true
		}
		return nil, nil, false
	})
	for range 3 {
		v := refreshed(t, c)
		parts := named(t, v, "orders").Partitions
		if parts[0].HighWatermark != 6 || !parts[0].BoundsAt.Equal(v.At) {
			t.Errorf("of the broker that answers: %+v", parts[0])
		}
		if parts[1].five() != before.five() || !parts[1].BoundsAt.Equal(before.BoundsAt) || len(parts[1].Lineage) != len(before.Lineage) {
			t.Errorf("of the other: %+v, before %+v", parts[1], before)
		}
	}
	away.Store(false)
	refreshed(t, c)
	if log.of("leaders of watched partitions do not answer") != 1 || log.of("all leaders of watched partitions answer again") != 1 {
		t.Errorf("logged %v", log.count)
	}
}

// TestRoundsOfTheirOwn waits for rounds that nobody asks for.
func TestRoundsOfTheirOwn(t *testing.T) {
	k := brokers(t)
	cfg := quiet(k.ListenAddrs()...)
	cfg.Interval = time.Millisecond
	views := make(chan *View)
	ctx, cancel := context.WithCancel(t.Context())
	c := open(t, cfg, func(v *View) {
		select {
		case views <- v:
		case <-ctx.Done():
		}
	})
	first := <-views
	c.Watch(nameless(named(t, first, "orders").ID))
	for v := range views {
		if p := named(t, v, "orders").Partitions[0]; !p.BoundsAt.IsZero() {
			break
		}
	}
	cancel()
}

// TestRequestsOfARound counts what a round costs the brokers, and what is left of it when nothing is watched.
func TestRequestsOfARound(t *testing.T) {
	k := brokers(t)
	for number := range int32(2) {
		if k.LeaderFor("orders", number) != number {
			if err := k.MoveTopicPartition("orders", number, number); err != nil {
				t.Fatal(err)
			}
		}
		produce(t, k, number, 1)
	}
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	part(t, c, 0)
	var mu sync.Mutex
	counted := map[int16]int{}
	k.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		if m, ok := req.(*kmsg.MetadataRequest); !ok || m.Topics == nil { // kgo's own asks for no topics
			counted[req.Key()]++
		}
		return nil, nil, false
	})
	count := func(key kmsg.Key) int {
		mu.Lock()
		defer mu.Unlock()
		n := counted[int16(key)]
		delete(counted, int16(key))
		return n
	}
	refreshed(t, c)
	if m, l, o := count(kmsg.Metadata), count(kmsg.ListOffsets), count(kmsg.OffsetForLeaderEpoch); m != 1 || l != 2*int(boundKinds) || o != 0 {
		t.Errorf("one round, two brokers: %d Metadata, %d ListOffsets, %d OffsetForLeaderEpoch", m, l, o)
	}
	c.Watch(nameless())
	refreshed(t, c)
	if m, l := count(kmsg.Metadata), count(kmsg.ListOffsets); m != 1 || l != 0 {
		t.Errorf("nothing watched: %d Metadata, %d ListOffsets", m, l)
	}
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		failures int
		want     time.Duration
	}{
		{0, 0, time.Second}, {time.Second, 1, 2 * time.Second}, {time.Second, 3, 8 * time.Second}, {time.Second, 99, 10 * time.Second},
		{100 * time.Millisecond, 99, time.Second}, {time.Minute, 99, time.Minute},
	} {
		if got := (Config{Interval: tt.interval}).pause(tt.failures); got != tt.want {
			t.Errorf("%v after %d failures: %v, want %v", tt.interval, tt.failures, got, tt.want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(Config{}, nil)
	wantKind(t, err, Option)
	cfg := quiet("127.0.0.1:not-a-port")
	_, err = Open(cfg, nil)
	wantKind(t, err, Option)
	cfg = quiet("127.0.0.1:1")
	open(t, cfg, nil)
	_, err = Open(cfg, nil) // the same registerer again
	wantKind(t, err, Option)
}

func TestMetricsAreRegistered(t *testing.T) {
	k := brokers(t)
	cfg := quiet(k.ListenAddrs()...)
	reg := cfg.Registerer.(*prometheus.Registry)
	c := open(t, cfg, nil)
	refreshed(t, c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		if f.GetName() == "coldtap_cluster_view_age_seconds" && f.GetMetric()[0].GetGauge().GetValue() < 0 {
			t.Error("the view is from the future")
		}
	}
	want := []string{"coldtap_cluster_denied_topics", "coldtap_cluster_partition_refreshes_total", "coldtap_cluster_refresh_seconds", "coldtap_cluster_refreshes_total", "coldtap_cluster_rejected_answers_total",
		"coldtap_cluster_unanswered_partitions", "coldtap_cluster_view_age_seconds"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
}
