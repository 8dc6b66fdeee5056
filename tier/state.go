package tier

import "strconv"

// State is where a segment stands in its life; the numbers are those of Kafka's RemoteLogSegmentState.
type State int8

const (
	CopyStarted    State = iota // its bytes may be incomplete: not readable
	CopyFinished                // durable and readable
	DeleteStarted               // its bytes may vanish at any moment: not readable
	DeleteFinished              // gone
)

var stateNames = [...]string{
	CopyStarted:    "COPY_SEGMENT_STARTED",
	CopyFinished:   "COPY_SEGMENT_FINISHED",
	DeleteStarted:  "DELETE_SEGMENT_STARTED",
	DeleteFinished: "DELETE_SEGMENT_FINISHED",
}

// legal[from][to]: a state may follow itself, because retries publish the same step again.
var legal = [...][4]bool{
	CopyStarted:    {CopyStarted: true, CopyFinished: true, DeleteStarted: true},
	CopyFinished:   {CopyFinished: true, DeleteStarted: true},
	DeleteStarted:  {DeleteStarted: true, DeleteFinished: true},
	DeleteFinished: {DeleteFinished: true},
}

// Known says whether s is one of the four states.
func (s State) Known() bool { return s >= CopyStarted && s <= DeleteFinished }

// String gives Kafka's name of the state, e.g. COPY_SEGMENT_FINISHED.
func (s State) String() string {
	if !s.Known() {
		return "State(" + strconv.Itoa(int(s)) + ")"
	}
	return stateNames[s]
}

// ParseState is the inverse of String; ok is false for anything but the four names.
func ParseState(name string) (s State, ok bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// CanBecome says whether next may follow s, self-transitions included, as brokers allow
// (RemoteLogSegmentState.isValidTransition). A new segment has no state: its first one is CopyStarted.
func (s State) CanBecome(next State) bool {
	return s.Known() && next.Known() && legal[s][next]
}
