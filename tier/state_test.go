package tier

import "testing"

func TestStateTransitionsAreKafkas(t *testing.T) {
	allowed := map[[2]State]bool{
		{CopyStarted, CopyStarted}: true, {CopyStarted, CopyFinished}: true, {CopyStarted, DeleteStarted}: true,
		{CopyFinished, CopyFinished}: true, {CopyFinished, DeleteStarted}: true,
		{DeleteStarted, DeleteStarted}: true, {DeleteStarted, DeleteFinished}: true,
		{DeleteFinished, DeleteFinished}: true,
	}
	for from := State(-1); from <= 4; from++ {
		for to := State(-1); to <= 4; to++ {
			if got := from.CanBecome(to); got != allowed[[2]State{from, to}] {
				t.Errorf("%v to %v: %v", from, to, got)
			}
		}
	}
}

func TestStateNames(t *testing.T) {
	for s := CopyStarted; s <= DeleteFinished; s++ {
		if back, ok := ParseState(s.String()); !ok || back != s {
			t.Errorf("%v reads back as %v %v", s, back, ok)
		}
	}
	if s, ok := ParseState("State(7)"); ok {
		t.Errorf("an unknown name was read as %v", s)
	}
	if got := State(7).String(); got != "State(7)" {
		t.Errorf("an unknown state prints as %q", got)
	}
}
