package episode

import (
	"testing"
	"time"
)

func TestSeldom(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	s := Seldom[string]{Every: time.Minute}
	for i, step := range []struct {
		after time.Duration
		key   string
		due   bool
	}{
		{0, "a", true}, {time.Second, "b", true}, {59 * time.Second, "a", false}, {60 * time.Second, "a", true}, {60 * time.Second, "b", false},
	} {
		if got := s.Due(step.key, start.Add(step.after)); got != step.due {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if s.Forget(); !s.Due("b", start.Add(61*time.Second)) {
		t.Error("what was forgotten is not due")
	}
}

func TestSeldomIsBounded(t *testing.T) {
	const most = 100
	s := Seldom[int]{Every: time.Hour, Most: most}
	for i := range 2*most + 1 {
		s.Due(i, time.Now())
		if n := len(s.at); n > most {
			t.Fatalf("%d are remembered", n)
		}
	}
}
