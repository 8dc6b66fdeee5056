package cache

import (
	"sync"
	"testing"
)

func TestVerifiedRange(t *testing.T) {
	type span struct{ from, to int }
	for name, tc := range map[string]struct {
		marks []span
		want  span // exactly this is verified
	}{
		"nothing":                   {nil, span{0, 0}},
		"first":                     {[]span{{10, 20}}, span{10, 20}},
		"adjoining above":           {[]span{{10, 20}, {20, 30}}, span{10, 30}},
		"adjoining below":           {[]span{{10, 20}, {5, 10}}, span{5, 20}},
		"overlapping":               {[]span{{10, 20}, {15, 30}}, span{10, 30}},
		"within":                    {[]span{{10, 20}, {12, 15}}, span{10, 20}},
		"around":                    {[]span{{10, 20}, {0, 40}}, span{0, 40}},
		"disjoint and larger":       {[]span{{10, 20}, {30, 50}}, span{30, 50}},
		"disjoint and smaller":      {[]span{{10, 20}, {30, 35}}, span{10, 20}},
		"disjoint and as large":     {[]span{{10, 20}, {30, 40}}, span{10, 20}},
		"empty":                     {[]span{{10, 20}, {30, 30}}, span{10, 20}},
		"backwards":                 {[]span{{20, 10}}, span{0, 0}},
		"beyond the chunk":          {[]span{{90, 200}}, span{90, 100}},
		"before the chunk":          {[]span{{-5, 10}}, span{0, 10}},
		"chunk by chunk to the end": {[]span{{0, 50}, {50, 100}}, span{0, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			ch := &Chunk{bytes: make([]byte, 100)}
			for _, m := range tc.marks {
				ch.MarkVerified(m.from, m.to)
			}
			for from := range 100 {
				if got, want := ch.Verified(from, from+1), from >= tc.want.from && from < tc.want.to; got != want {
					t.Fatalf("byte %d verified: %v", from, got)
				}
			}
			if tc.want.to > tc.want.from {
				if !ch.Verified(tc.want.from, tc.want.to) || ch.Verified(tc.want.from, tc.want.to+1) || ch.Verified(tc.want.from-1, tc.want.to) {
					t.Error("the whole range is not what is verified")
				}
			}
			if !ch.Verified(7, 7) {
				t.Error("nothing at all needs no check")
			}
		})
	}
}

// Two readers that check different batches of one chunk: whatever the order, nothing is called verified that neither
// checked.
func TestVerifiedRangeConcurrently(t *testing.T) {
	ch := &Chunk{bytes: make([]byte, 1000)}
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			for i := range 100 {
				from := (i*4 + reader) * 2
				ch.MarkVerified(from, from+2)
				if ch.Verified(800, 801) {
					t.Error("verified what nobody checked")
				}
			}
		})
	}
	wg.Wait()
}

func TestTryAcquireNeverRevives(t *testing.T) {
	for refs, want := range map[int32]bool{-1: false, 0: false, 1: true, 2: true} {
		ch := &Chunk{}
		ch.refs.Store(refs)
		if got := ch.tryAcquire(); got != want {
			t.Errorf("with %d holders: %v", refs, got)
		}
		if got := ch.refs.Load(); want && got != refs+1 || !want && got != refs {
			t.Errorf("%d holders became %d", refs, got)
		}
	}
}
