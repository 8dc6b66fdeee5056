//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWhatChangesUnderReaders is what operators do to a cluster on a good day, as clients and coldtap's log show it:
// brokers that are restarted one by one are nobody's trouble, and a topic that is deleted, or taken out of the tier, is
// so at once.
func TestWhatChangesUnderReaders(t *testing.T) {
	st := newHarness(t)
	g, err := newGateway(st.ctx, st.cluster)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(st.cluster.start(st.ctx, append([]int{controller}, brokerIDs...)...))
	st.restart(t, g)
	t.Cleanup(g.kill)
	everywhere := [][]int{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}
	st.topics = nil
	for _, name := range []string{"kept", "deleted", "disabled"} {
		st.topics = append(st.topics, &topic{name: name, replicas: everywhere})
	}
	for _, topic := range st.topics {
		must(st.create(topic))
		for _, p := range topic.pens {
			must(p.batches("lz4", 20))
		}
	}
	must(st.moveToTier())
	must(st.create(&topic{name: "untiered", replicas: [][]int{{1, 2, 3}}, tierLate: true}))
	for _, topic := range st.topics {
		for partition := range everywhere {
			must(st.caughtUp(g, topic.name, partition))
		}
	}

	t.Run("nothing tiered yet", func(t *testing.T) {
		var a answer
		err := st.within(5*time.Second, func() (err error) {
			a, err = g.read("untiered", 0, "read_committed", 0, 1<<20)
			return err
		})
		if err != nil || a.end != "tier" || !a.atBroker || a.next != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		if _, err := g.read("nobody.has.it", 0, "read_committed", 0, 1<<20); codeOf(err) != 40401 {
			t.Errorf("a topic that nobody has: %v", err)
		}
	})

	t.Run("brokers are restarted one by one", func(t *testing.T) {
		before, err := os.ReadFile(g.output)
		must(err)
		readers := newWatch(g, "kept")
		for _, broker := range brokerIDs {
			must(st.cluster.nodes[broker].stop())
			must(st.cluster.start(st.ctx, broker))
			for _, topic := range st.topics {
				must(st.lead(topic.name, broker-1, broker)) // waits until it is in sync
			}
		}
		readers.dismiss()
		after, err := os.ReadFile(g.output)
		must(err)
		for line := range bytes.Lines(after[len(before):]) {
			if bytes.Contains(line, []byte("level=WARN")) || bytes.Contains(line, []byte("level=ERROR")) {
				t.Errorf("logged: %s", line)
			}
		}
		for _, seen := range readers.steps {
			if strings.Contains(seen, "40401") || strings.Contains(seen, "41601") {
				t.Errorf("a reader heard %q", seen)
			}
		}
		t.Logf("readers heard %q", readers.steps)
	})

	t.Run("a topic is deleted", func(t *testing.T) {
		readers := newWatch(g, "deleted")
		must(st.stock.ask(question{Do: "delete", Topic: "deleted"}, nil))
		must(st.within(20*time.Second, func() error {
			if err := g.get("/topics/deleted", new([]byte)); codeOf(err) != 40401 {
				return fmt.Errorf("it is still there: %v", err)
			}
			return expect(len(st.storedFiles("deleted", 0)) == 0, "its objects are still there")
		}))
		readers.dismiss()
		readers.inOneStep(t, "40401")
	})

	t.Run("tiering is switched off", func(t *testing.T) {
		readers := newWatch(g, "disabled")
		must(st.configure("disabled", map[string]string{"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}))
		for partition := range everywhere {
			must(st.within(30*time.Second, func() error {
				return expect(len(st.storedFiles("disabled", partition)) == 0, "its objects are still there")
			}))
			must(st.caughtUp(g, "disabled", partition))
		}
		readers.dismiss()
		for _, seen := range readers.steps {
			if strings.Contains(seen, "40401") || strings.Contains(seen, "contradicts") {
				t.Errorf("readers heard %q", readers.steps)
			}
		}
		t.Logf("readers heard %q", readers.steps)
	})
}

// watch is one client that asks for everything about a topic's first partition again and again, and keeps what changes.
type watch struct {
	stop, done chan struct{}
	steps      []string
}

func newWatch(g *gateway, name string) *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{})}
	var first offsetsNow
	err := g.get(partitionPath(name, 0)+"/offsets", &first)
	if err != nil {
		w.steps = append(w.steps, err.Error())
	}
	go func() {
		defer close(w.done)
		for {
			for what, seen := range map[string]string{
				"offsets": w.offsets(g, name),
				"start":   w.read(g, name, first.Beginning),
				"middle":  w.read(g, name, (first.Beginning+first.TieredEnd)/2),
			} {
				if seen = what + " " + seen; !slices.Contains(w.steps, seen) {
					w.steps = append(w.steps, seen)
				}
			}
			select {
			case <-w.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *watch) dismiss() {
	close(w.stop)
	<-w.done
}

type offsetsNow struct {
	Beginning int64  `json:"beginning_offset"`
	TieredEnd int64  `json:"tiered_end_offset"`
	Local     *int64 `json:"local_log_start_offset"`
}

func (w *watch) offsets(g *gateway, name string) string {
	var o offsetsNow
	if err := g.get(partitionPath(name, 0)+"/offsets", &o); err != nil {
		return fmt.Sprint(codeOf(err))
	}
	seen := fmt.Sprintf("[%d, %d)", o.Beginning, o.TieredEnd)
	if o.Local != nil && max(o.Beginning, o.TieredEnd) < *o.Local {
		seen += fmt.Sprintf(" contradicts local %d", *o.Local)
	}
	return seen
}

func (w *watch) read(g *gateway, name string, from int64) string {
	a, err := g.read(name, 0, "read_committed", from, 1<<20)
	if err != nil {
		return fmt.Sprint(codeOf(err))
	}
	return fmt.Sprintf("%d records to %d, %s", len(a.records), a.next, a.end)
}

// inOneStep wants nothing but what was there before, and code; "try again" besides.
func (w *watch) inOneStep(t *testing.T, code string) {
	t.Helper()
	kinds := map[string]int{}
	for _, seen := range w.steps {
		what, answer, _ := strings.Cut(seen, " ")
		if answer != code && answer != "50302" {
			kinds[what]++
		}
	}
	for what, n := range kinds {
		if n != 1 {
			t.Errorf("%s: %d different answers before the last one: %q", what, n, w.steps)
		}
	}
	t.Logf("readers heard %q", w.steps)
}
