package cluster

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// rights makes brokers answer Metadata as Kafka does when the principal may not describe everything: the list of all
// topics leaves out what is denied, and an answer by id has no name.
type rights struct {
	mu     sync.Mutex
	topic  segment.UUID
	listed bool
	codes  []*kerr.Error // answers by id or name, the last one for ever
	asked  int           // requests that name the topic
}

func (r *rights) set(listed bool, codes ...*kerr.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed, r.codes, r.asked = listed, codes, 0
}

func (r *rights) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func withRights(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *rights) {
	t.Helper()
	k := brokers(t, opts...)
	r := &rights{topic: k.TopicInfo("orders").TopicID, listed: true}
	metadataWith(k, func(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if req.Topics == nil {
			if r.listed {
				resp.Topics = append(resp.Topics, answerTopic("orders", r.topic, 0, k.LeaderFor("orders", 0), k.LeaderFor("orders", 1)))
			}
			return
		}
		code := r.codes[min(r.asked, len(r.codes)-1)]
		r.asked++
		for _, rt := range req.Topics {
			answer := answerTopic("orders", r.topic, 0, 0, 0)
			if code != nil {
				answer = kmsg.NewMetadataResponseTopic()
				answer.Topic, answer.TopicID, answer.ErrorCode = rt.Topic, rt.TopicID, code.Code
			}
			resp.Topics = append(resp.Topics, answer)
		}
	})
	return k, r
}

// TestMissingTopics: why a watched topic is not listed, whether or not it was seen before.
func TestMissingTopics(t *testing.T) {
	for _, tt := range []struct {
		name  string
		codes []*kerr.Error
		why   Absence // 0: it is there
		asked int
	}{
		{"denied", []*kerr.Error{kerr.TopicAuthorizationFailed}, TopicDenied, 1},
		{"gone", []*kerr.Error{kerr.UnknownTopicID}, TopicGone, 2},
		{"one broker does not know it yet", []*kerr.Error{kerr.UnknownTopicID, nil}, 0, 2},
		{"one broker does not know it yet, the other denies it", []*kerr.Error{kerr.UnknownTopicID, kerr.TopicAuthorizationFailed}, TopicDenied, 2},
		{"a broker that lags listed less", []*kerr.Error{nil}, 0, 1},
		{"in trouble", []*kerr.Error{kerr.LeaderNotAvailable}, TopicUnclear, 1},
	} {
		for _, seen := range []bool{true, false} {
			k, r := withRights(t)
			c := open(t, quiet(k.ListenAddrs()...), nil)
			if seen {
				c.Watch(nameless(r.topic))
				if p := part(t, c, 0); p.HighWatermark != 0 {
					t.Fatalf("got %+v", p)
				}
			} else {
				r.set(false, nil)
				refreshed(t, c)
			}
			r.set(false, tt.codes...)
			c.Watch(map[segment.UUID]string{r.topic: "orders"})
			v := refreshed(t, c)
			topic, ok := v.Topic(r.topic)
			if want := tt.why == 0 || seen && tt.why != TopicGone; ok != want || ok && len(topic.Partitions) != 2 {
				t.Errorf("%s, seen %v: there %v: %+v", tt.name, seen, ok, topic)
			}
			if v.Missing[r.topic] != tt.why || len(v.Missing) > 0 != (tt.why > 0) {
				t.Errorf("%s, seen %v: missing %v", tt.name, seen, v.Missing)
			}
			if n := r.requests(); n < tt.asked {
				t.Errorf("%s, seen %v: asked for %d times", tt.name, seen, n)
			}
			c.Close()
			k.Close()
		}
	}
}

// TestDeniedTopicShows in the log, once, and in the metrics; nothing of it is left when the right is back.
func TestDeniedTopicShows(t *testing.T) {
	k, r := withRights(t)
	log := newLines()
	cfg := quiet(k.ListenAddrs()...)
	cfg.Logger = slog.New(log)
	c := open(t, cfg, nil)
	watch(t, c, "orders")
	before := part(t, c, 0)
	r.set(false, kerr.TopicAuthorizationFailed)
	for range 3 {
		if p := part(t, c, 0); p.five() != before.five() || !p.BoundsAt.Equal(before.BoundsAt) {
			t.Errorf("got %+v, before %+v", p, before)
		}
	}
	if testutil.ToFloat64(c.metrics.denied) != 1 || testutil.ToFloat64(c.metrics.unanswered) != 2 {
		t.Error("the metrics do not say it")
	}
	r.set(true, nil)
	v := refreshed(t, c)
	if p := named(t, v, "orders").Partitions[0]; !p.BoundsAt.Equal(v.At) || len(v.Missing) != 0 {
		t.Errorf("got %+v, missing %v", p, v.Missing)
	}
	if testutil.ToFloat64(c.metrics.denied) != 0 || testutil.ToFloat64(c.metrics.unanswered) != 0 {
		t.Error("the metrics still say it")
	}
	if n := log.of("leaders of watched partitions do not answer"); n != 0 {
		t.Errorf("leaders were blamed %d times", n)
	}
	for _, line := range []string{"the cluster denies DESCRIBE on watched topics", "the cluster lets watched topics be described again"} {
		if log.of(line) != 1 {
			t.Errorf("%q was logged %d times", line, log.of(line))
		}
	}
}

// TestMissingTopicsRest: an answer that stays the same is not asked for in each round, and a topic that is listed again
// is there at once all the same.
func TestMissingTopicsRest(t *testing.T) {
	k, r := withRights(t)
	r.set(false, kerr.TopicAuthorizationFailed)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	c.Watch(nameless(r.topic))
	for range 16 {
		if v := refreshed(t, c); v.Missing[r.topic] != TopicDenied {
			t.Fatalf("missing %v", v.Missing)
		}
	}
	if testutil.ToFloat64(c.metrics.unanswered) != 1 {
		t.Error("a topic that was never seen counts as one partition")
	}
	if n := r.requests(); n < 4 || n > 6 {
		t.Errorf("asked for %d times", n)
	}
	r.set(true, nil)
	if v := refreshed(t, c); len(v.Missing) != 0 || len(v.Topics) != 1 {
		t.Errorf("missing %v", v.Missing)
	}
}

// TestMissingTopicsOfOldBrokers are asked for by name.
func TestMissingTopicsOfOldBrokers(t *testing.T) {
	for _, tt := range []struct {
		code *kerr.Error
		why  Absence
	}{{kerr.TopicAuthorizationFailed, TopicDenied}, {kerr.UnknownTopicOrPartition, TopicGone}, {nil, 0}} {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(int16(kmsg.Metadata), idVersion-1)
		k, r := withRights(t, kfake.MaxVersions(versions))
		r.set(false, tt.code)
		c := open(t, quiet(k.ListenAddrs()...), nil)
		refreshed(t, c)
		c.Watch(map[segment.UUID]string{r.topic: "orders"})
		if v := refreshed(t, c); v.Missing[r.topic] != tt.why {
			t.Errorf("%v: missing %v", tt.code, v.Missing)
		}
		c.Watch(nameless(r.topic, segment.UUID{7})) // of which nobody knows a name
		if v := refreshed(t, c); v.Missing[segment.UUID{7}] != TopicUnclear {
			t.Errorf("%v: missing %v", tt.code, v.Missing)
		}
		c.Close()
		k.Close()
	}
}

// TestMissingTopicsAnsweredByNonsense: what was not asked for is no answer.
func TestMissingTopicsAnsweredByNonsense(t *testing.T) {
	k := brokers(t)
	id := segment.UUID{1}
	metadataWith(k, func(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		if req.Topics != nil {
			resp.Topics = []kmsg.MetadataResponseTopic{answerTopic("other", segment.UUID{2}, 0, 0), answerTopic("../etc", id, 0, 0)}
		}
	})
	c := open(t, quiet(k.ListenAddrs()...), nil)
	c.Watch(nameless(id))
	v := refreshed(t, c)
	if len(v.Topics) != 0 || v.Missing[id] != TopicUnclear || len(v.Missing) != 1 {
		t.Errorf("got %+v", v)
	}
	for _, reason := range []string{rejectName, rejectRepeated} {
		if testutil.ToFloat64(c.metrics.rejected.WithLabelValues(reason)) == 0 {
			t.Errorf("not counted: %s", reason)
		}
	}
	if names := firstNames(strings.Split(strings.Repeat("x ", 20), " ")); len(names) != loggedNames {
		t.Errorf("%d names", len(names))
	}
}
