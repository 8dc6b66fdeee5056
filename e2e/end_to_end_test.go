//go:build e2e

// Package e2e runs coldtap beside a real Apache Kafka: what stock clients wrote, and the brokers tiered, is read
// through coldtap and through a stock consumer and compared record for record. It needs Go, a JDK 17 and Maven; `make
// e2e` runs it. Nothing outlives a run but the cache of jars, and what the processes wrote when the run failed.
package e2e

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

// interrupted ends with Ctrl-C, and everything with it.
var interrupted context.Context

func TestMain(m *testing.M) {
	var stop context.CancelFunc
	interrupted, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := m.Run()
	stop()
	os.Exit(code)
}

// TestColdtapAgreesWithTheBrokers is one story: each step stands on what the ones before it left.
func TestColdtapAgreesWithTheBrokers(t *testing.T) {
	st := newHarness(t)
	g, err := newGateway(st.ctx, st.cluster) // first: a compiler beside brokers makes both slow
	if err != nil {
		t.Fatal(err)
	}
	// A step that fails is the last one; a comparison that fails lets the other comparisons go on.
	step := func(name string, f func(t *testing.T)) {
		began := time.Now()
		passed := t.Run(name, f)
		t.Logf("%-45s %6.1f s", name, time.Since(began).Seconds())
		if !passed {
			t.FailNow()
		}
	}
	must := func(f func() error) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
	}
	step("brokers start", must(func() error { return st.cluster.start(st.ctx, append([]int{controller}, brokerIDs...)...) }))
	// From the first event on: what follows reaches it live. Its later starts read the same from a snapshot and from the
	// topic.
	step("coldtap starts beside an empty cluster", func(t *testing.T) { st.restart(t, g) })
	t.Cleanup(g.kill)
	step("stock clients write", func(t *testing.T) {
		for _, topic := range st.topics {
			began := time.Now()
			if err := st.create(topic); err != nil {
				t.Fatal(err)
			}
			if err := topic.fill(st, topic.pens); err != nil {
				t.Fatalf("%s: %v", topic.name, err)
			}
			t.Logf("%-20s %6.1f s", topic.name, time.Since(began).Seconds())
		}
	})
	step("everything is tiered", must(st.moveToTier))
	step("tiered topics change", must(st.change))
	var truths []*truth
	step("a stock consumer reads", func(t *testing.T) {
		truths = st.truths(t)
		st.checkCases(t, truths)
	})

	var before trace
	step("coldtap has seen all that", func(t *testing.T) {
		for _, tr := range truths {
			if err := st.caughtUp(g, tr.topic, tr.partition); err != nil {
				t.Error(err)
			}
		}
		var err error
		if before, err = st.trace(); err != nil {
			t.Fatal(err)
		}
	})
	agree := true
	compare := func(name string, check func(*testing.T, *gateway, *truth)) {
		began := time.Now()
		agree = t.Run(name, func(t *testing.T) {
			for _, tr := range truths {
				check(t, g, tr)
			}
		}) && agree
		t.Logf("%-45s %6.1f s", name, time.Since(began).Seconds())
	}
	agree = t.Run("topics", func(t *testing.T) { st.checkTopics(t, g, truths) }) && agree
	compare("borders", st.checkBorders)
	compare("records", st.checkReads)
	agree = t.Run("a lost tail", func(t *testing.T) { st.checkLostTail(t, g) }) && agree
	compare("stored batches", st.checkRaw)
	compare("timestamps", st.checkTimes)
	compare("segments", st.checkSegments)
	step("coldtap left no trace", func(t *testing.T) {
		after, err := st.trace()
		if err != nil {
			t.Fatal(err)
		}
		if !after.equal(before) {
			t.Errorf("it was\n%+v\nand is\n%+v", before, after)
		}
	})
	if !agree {
		t.FailNow()
	}

	readers := newCrowd(g, 3)
	t.Cleanup(readers.dismiss)
	if err := readers.reachEnds(st); err != nil {
		t.Fatal(err)
	}
	step("brokers die under readers", must(func() error { return st.brokersDie(readers) }))
	var held []*truth // all that the troubled partitions ever held
	step("a stock consumer reads what they wrote", func(t *testing.T) {
		for partition := range st.topic(troubled).replicas {
			tr, err := st.truth(troubled, partition)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, tr)
		}
	})
	step("segments go under readers", must(st.segmentsGo))
	step("coldtap has caught up", func(t *testing.T) {
		var starts, tiered []int64
		for _, tr := range truths {
			if tr.topic == troubled {
				tiered = append(tiered, tr.bounds.tieredEnd)
			}
		}
		for _, tr := range held {
			if err := st.caughtUp(g, tr.topic, tr.partition); err != nil {
				t.Error(err)
			}
			start, err := st.stock.offset(tr.topic, tr.partition, logStart)
			if err != nil {
				t.Fatal(err)
			}
			starts = append(starts, start)
		}
		readers.dismiss()
		readers.judge(t, held, starts, tiered)
	})

	truths = slices.DeleteFunc(truths, func(tr *truth) bool { return tr.topic == troubled })
	step("coldtap restarts from its snapshot", func(t *testing.T) {
		for partition := range held {
			tr, err := st.truth(troubled, partition)
			if err != nil {
				t.Fatal(err)
			}
			truths = append(truths, tr)
		}
		if err := g.process.stop(); err != nil {
			t.Fatal(err)
		}
		st.restart(t, g)
		st.checkTiers(t, g, truths)
		g.kill()
		st.restart(t, g)
		st.checkTiers(t, g, truths)
	})
	step("coldtap restarts from the metadata topic", func(t *testing.T) {
		if err := g.process.stop(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(g.snapshot); err != nil {
			t.Fatal(err)
		}
		st.restart(t, g)
		st.checkTiers(t, g, truths)
	})
	step("all brokers are dead", func(t *testing.T) {
		st.cluster.close()
		st.checkTiers(t, g, truths)
	})
	step("coldtap restarts without brokers", func(t *testing.T) {
		if err := g.process.stop(); err != nil {
			t.Fatal(err)
		}
		if err := g.run(st.ctx); err != nil {
			t.Fatal(err)
		}
		// What its snapshot knows may be deleted by now: it waits for the brokers' word.
		err := st.within(20*time.Second, func() error {
			_, err := g.read(truths[0].topic, truths[0].partition, "read_committed", truths[0].bounds.logStart, 1)
			return expect(codeOf(err) == 50302, "the answer is %v, want 50302", err)
		})
		if err != nil {
			t.Fatal(err)
		}
		if state, err := g.ready(); err == nil {
			t.Errorf("it is %q", state)
		}
	})
	step("the brokers come back", func(t *testing.T) {
		if err := st.cluster.start(st.ctx, append([]int{controller}, brokerIDs...)...); err != nil {
			t.Fatal(err)
		}
		st.awaitReady(t, g)
		st.checkTiers(t, g, truths)
	})
}

// restart runs coldtap and waits until it is ready. It must not be running.
func (st *harness) restart(t *testing.T, g *gateway) {
	t.Helper()
	if err := g.run(st.ctx); err != nil {
		t.Fatal(err)
	}
	st.awaitReady(t, g)
}

func (st *harness) awaitReady(t *testing.T, g *gateway) {
	t.Helper()
	began := time.Now()
	var state string
	err := st.within(60*time.Second, func() (err error) {
		state, err = g.ready()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("coldtap is ready after %.2f s: %q", time.Since(began).Seconds(), state)
}

// checkTiers reads every partition's tier once under both isolation levels.
func (st *harness) checkTiers(t *testing.T, g *gateway, truths []*truth) {
	t.Helper()
	for _, tr := range truths {
		for _, isolation := range isolations {
			st.checkWhole(t, g.read, tr, isolation, 1<<20)
		}
	}
}

// newHarness makes a harness whose processes end with the test. What they wrote stays when it failed.
func newHarness(t *testing.T) *harness {
	t.Helper()
	dir, err := os.MkdirTemp("", "coldtap-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the processes wrote is in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	jars, err := classPath()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCluster(interrupted, dir, jars)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	s, err := newStock(interrupted, c, "stock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.process.kill)
	t.Logf("%-40s %6.1f s", "jars and formatted directories", time.Since(began).Seconds())
	return &harness{ctx: interrupted, cluster: c, stock: s, topics: everyTopic()}
}

// truths reads every partition through the stock consumer.
func (st *harness) truths(t *testing.T) (all []*truth) {
	t.Helper()
	for _, topic := range st.topics {
		if topic.name == lostTail {
			continue // checkLostTail
		}
		for partition := range topic.replicas {
			tr, err := st.truth(topic.name, partition)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tr)
		}
	}
	return all
}
