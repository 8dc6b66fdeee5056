//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// troubled is the topic whose brokers die and whose segments go while it is read.
const troubled = "troubled"

func fillTroubled(_ *harness, pens []*pen) error {
	for _, p := range pens {
		for range 6 {
			err := inOrder(
				func() error { return p.batches("none", 4) },
				func() error { return p.transact("txn-lz4", 2, true) },
				func() error { return p.batches("zstd", 4) },
				func() error { return p.transact("txn-plain", 2, false) },
			)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// crowd are clients that read the troubled topic from anywhere, over and over, until they are dismissed. Every answer
// is kept, and judged when it is known what the brokers had.
type crowd struct {
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
	ends [3]atomic.Int64 // by partition: they read from offsets up to this

	mu      sync.Mutex
	answers []heard
}

type heard struct {
	answer
	partition int
	isolation string
	raw       bool // asked for stored batches
	err       error
	at        time.Time
}

func newCrowd(g *gateway, readers int) *crowd {
	c := &crowd{stop: make(chan struct{})}
	for seed := range readers {
		c.wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), 405))
			// A pace, so that the brokers on the same cores get their turns: 100 requests a second and reader.
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-c.stop:
					return
				case <-pace.C:
				}
				h := heard{partition: rng.IntN(3), isolation: isolations[rng.IntN(2)]}
				from := rng.Int64N(c.ends[h.partition].Load() + 1)
				read := reader(g.read)
				if h.raw = rng.IntN(3) == 0; h.raw {
					read = g.readRaw
				}
				h.answer, h.err = read(troubled, h.partition, h.isolation, from, []int{1, 4000, 20_000, 1 << 20}[rng.IntN(4)])
				h.at = time.Now()
				c.mu.Lock()
				c.answers = append(c.answers, h)
				c.mu.Unlock()
			}
		})
	}
	return c
}

func (c *crowd) dismiss() {
	c.once.Do(func() { close(c.stop) })
	c.wg.Wait()
}

// judge holds every answer against all that the partitions ever held (truths) and where they begin now. tiered is where
// each tier ended before the trouble.
func (c *crowd) judge(t *testing.T, truths []*truth, starts, tiered []int64) {
	t.Helper()
	outcomes := map[string]int{}
	wrong := map[string]int{}
	for _, h := range c.answers {
		kind, bad := h.verdict(truths[h.partition], starts[h.partition], tiered[h.partition])
		outcomes[kind]++
		if bad == "" {
			continue
		}
		if wrong[kind]++; wrong[kind] <= 5 {
			t.Errorf("%s %s-%d %s from %d: %s", h.at.Format("15:04:05.000"), troubled, h.partition, h.isolation, h.from, bad)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%6d × %s, %d of them wrong", outcomes[kind], kind, wrong[kind])
	}
	for _, kind := range []string{"limit", "tier", "41601"} {
		if outcomes[kind] < 10 {
			t.Errorf("only %d answers were %s: the readers were not where the trouble was", outcomes[kind], kind)
		}
	}
}

// verdict names what kind of answer it is, and what is wrong with it. Right are the brokers' records up to where the
// answer says; a refusal because the start is deleted; and, for what was tiered since the trouble began, a refusal
// because nobody could be asked whether it is there by now.
func (h *heard) verdict(tr *truth, start, tiered int64) (kind, wrong string) {
	next := h.next
	if h.err != nil && len(h.records) > 0 {
		next = h.records[len(h.records)-1].Offset + 1 // what came before it broke must be right all the same
	}
	if len(h.records) > 0 || h.err == nil {
		if d := differ(h.records, between(tr.records[h.isolation], h.from, next)); d != "" {
			return "wrong records", fmt.Sprintf("to %d: %s", next, d)
		}
	}
	var p *problem
	switch {
	case h.err == nil && h.end == "limit" && h.next <= h.from:
		return h.end, fmt.Sprintf("limit without progress at %d", h.next)
	case h.err == nil:
		return h.end, ""
	case errors.Is(h.err, io.ErrUnexpectedEOF):
		return "broken off", "" // the only way to take back a status of 200; the client knows that the body is not whole
	case !errors.As(h.err, &p):
		return "torn", h.err.Error()
	case p.Code == 50302 && h.from >= tiered:
		return "50302", ""
	case p.Code != 41601:
		return fmt.Sprint(p.Code), p.Error()
	case len(h.records) > 0:
		return "41601 behind records", ""
	case p.LogStart == nil || *p.LogStart <= h.from || *p.LogStart > start:
		return "41601", fmt.Sprintf("%v, but its log start is%s and the brokers' %d", p, told(p.LogStart), start)
	}
	return "41601", ""
}

// brokersDie kills one broker after the other under the readers, and moves the leaders about; every leader there is
// writes and tiers some more.
func (st *harness) brokersDie(c *crowd) error {
	pens := st.topic(troubled).pens
	write := func() error {
		for _, p := range pens {
			if err := p.batches("lz4", 8); err != nil {
				return err
			}
		}
		return nil
	}
	for _, broker := range brokerIDs {
		err := inOrder(
			func() error { st.cluster.kill(broker); return nil },
			write,
			func() error { return st.cluster.start(st.ctx, broker) },
			func() error {
				for partition := range pens {
					if err := st.lead(troubled, partition, (broker+partition)%3+1); err != nil {
						return err
					}
				}
				return nil
			},
			write,
		)
		if err != nil {
			return err
		}
		if err := c.reachEnds(st); err != nil {
			return err
		}
	}
	everyTroubled := func(condition func(string, int) error) func() error {
		return func() error {
			for partition := range pens {
				if err := condition(troubled, partition); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return inOrder(
		func() error { return st.within(60*time.Second, everyTroubled(st.tiered)) },
		func() error { return st.within(60*time.Second, everyTroubled(st.remoteOnly)) },
		st.quiet,
	)
}

// reachEnds lets the readers start anywhere up to the present ends.
func (c *crowd) reachEnds(st *harness) error {
	for partition := range c.ends {
		end, err := st.stock.offset(troubled, partition, logEnd)
		if err != nil {
			return err
		}
		c.ends[partition].Store(end)
	}
	return nil
}

// segmentsGo takes the troubled topic's oldest segments away under the readers, a few at a time: by retention
// everywhere, by DeleteRecords in one partition.
func (st *harness) segmentsGo() error {
	for keep := int64(8); keep >= 2; keep -= 2 {
		err := st.configure(troubled, map[string]string{"retention.bytes": fmt.Sprint(keep * 8192)})
		if err != nil {
			return err
		}
		if err := st.quiet(); err != nil {
			return err
		}
		b, err := st.bounds(troubled, 1)
		if err != nil {
			return err
		}
		before := b.logStart + (b.tieredEnd-b.logStart)/8
		err = st.stock.ask(question{Do: "delete-records", Topic: troubled, Partition: 1, Before: before}, nil)
		if err != nil {
			return err
		}
	}
	return st.quiet()
}

// caughtUp waits until coldtap tells the brokers' bounds of a partition.
func (st *harness) caughtUp(g *gateway, name string, partition int) error {
	return st.within(20*time.Second, func() error {
		b, err := st.bounds(name, partition)
		if err != nil {
			return err
		}
		var o struct {
			Beginning *int64 `json:"beginning_offset"`
			TieredEnd *int64 `json:"tiered_end_offset"`
		}
		if err := g.get(partitionPath(name, partition)+"/offsets", &o); err != nil {
			return err
		}
		if got, want := told(o.Beginning, o.TieredEnd), told(&b.logStart, &b.tieredEnd); got != want {
			return fmt.Errorf("%s-%d: start and tiered end are %s, want %s", name, partition, got, want)
		}
		return nil
	})
}
