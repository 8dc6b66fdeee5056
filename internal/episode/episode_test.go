package episode

import (
	"testing"
	"time"
)

func TestTroubleIsLoggedOncePerKind(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	e := Episode{Patience: 5 * time.Second}
	for _, step := range []struct {
		at      int
		kind    string
		passing bool
		logged  bool
	}{
		{0, "unreachable", true, false}, // a broker that is restarted
		{2, "unreachable", true, false},
		{5, "unreachable", true, true},
		{6, "bad answer", true, true},
		{7, "unreachable", true, false}, // kinds that alternate
		{8, "bad answer", true, false},
		{9, "denied", false, true},
		{10, "denied", false, false},
	} {
		if got := e.Failed(at(step.at), step.kind, step.passing); got != step.logged {
			t.Errorf("%s after %d s: logged %t", step.kind, step.at, got)
		}
	}
	if lasted, logged := e.Over(at(20)); lasted != 20*time.Second || !logged {
		t.Errorf("over after %v, logged %t", lasted, logged)
	}
	if _, logged := e.Over(at(21)); logged {
		t.Error("it is over twice")
	}
	e.Failed(at(30), "unreachable", true)
	if _, logged := e.Over(at(31)); logged {
		t.Error("the end of what nobody heard of is logged")
	}
	if !e.Failed(at(40), "denied", false) {
		t.Error("what does not pass by itself is not logged at once")
	}
}

func TestWithoutPatience(t *testing.T) {
	var e Episode
	if !e.Failed(time.Now(), "damaged", true) || e.Failed(time.Now(), "damaged", true) {
		t.Error("not the first failure is logged, or not it alone")
	}
}
