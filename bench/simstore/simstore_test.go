package simstore_test

import (
	"io"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func TestMemoryAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend { return simstore.NewMemory() })
}

func TestCountingAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend { return simstore.NewCounting(simstore.NewMemory()) })
}

func TestCountingCounts(t *testing.T) {
	mem := simstore.NewMemory()
	mem.Set("a.log", []byte("0123456789"))
	mem.Set("a.meta", []byte("01234"))
	s := simstore.NewCounting(mem)
	for _, key := range []string{"a.log", "a.meta", "a.log", "b.log"} {
		body, _, err := s.Open(t.Context(), key, 2, 3, "")
		if err != nil {
			continue
		}
		if _, err := io.ReadAll(body); err != nil {
			t.Fatal(err)
		}
		body.Close()
	}
	if s.LogGets() != 3 || s.BytesRead() != 9 {
		t.Errorf("%d GETs of logs, %d bytes", s.LogGets(), s.BytesRead())
	}
}
