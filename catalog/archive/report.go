package archive

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Problem says why something of the bucket is not served, or what a reader will run into.
type Problem string

const (
	Orphan         Problem = "orphan"          // a log or small files without manifest: an unfinished copy or a half-done delete
	Incomplete     Problem = "incomplete"      // a manifest whose other objects are missing, or have other sizes than it says
	Damaged        Problem = "damaged"         // a manifest that cannot be believed
	Withheld       Problem = "withheld"        // an object that the store does not give: in an archive storage class, or access is denied
	UnknownVersion Problem = "unknown_version" // a manifest of a version that this program does not read
	Undescribed    Problem = "undescribed"     // a manifest that does not say which segment it describes (Aiven's of before September 2023)
	Misplaced      Problem = "misplaced"       // a manifest under the key of another segment, or a segment's id or topic's name used twice
	Changing       Problem = "changing"        // overwritten while it was read: the next listing decides
	Duplicate      Problem = "duplicate"       // the same range of the same lineage is there again, and that copy is served
	Divergent      Problem = "divergent"       // of a lineage that lost (a deposed leader's): never served
	Gap            Problem = "gap"             // offsets between two segments that no segment holds: reads there fail
	NoLineage      Problem = "no_lineage"      // the newest checkpoint cannot be used: the lineage comes from the segments alone, and DeleteRecords are not seen
	DamagedStart   Problem = "damaged_start"   // a start object that cannot be believed: its partition is left out
	OtherCluster   Problem = "other_cluster"   // a segment of another cluster than the one that is served
)

// Problems lists all of them.
func Problems() []Problem {
	return []Problem{Orphan, Incomplete, Damaged, Withheld, UnknownVersion, Undescribed, Misplaced, Changing, Duplicate, Divergent, Gap,
		NoLineage, DamagedStart, OtherCluster}
}

// Finding is one example of a problem.
type Finding struct {
	Problem Problem `json:"problem"`
	Object  string  `json:"object"` // a key, or the name of a segment or partition
	Detail  string  `json:"detail,omitempty"`
}

// Report is what the newest complete listing found.
type Report struct {
	At        time.Time         `json:"at"` // when the listing ended
	Took      time.Duration     `json:"took"`
	Objects   int64             `json:"objects"` // listed
	Foreign   int64             `json:"foreign"` // of them, no objects of the layout
	Manifests int64             `json:"manifests"`
	Read      int64             `json:"read"`     // manifests that had to be read; the others were known
	Segments  int               `json:"segments"` // in the view, divergent ones included
	Problems  map[Problem]int64 `json:"problems"` // those that occurred
	Findings  []Finding         `json:"findings"` // at most 16 of each problem
}

// maxExamples bounds the findings of one problem: enough to see a pattern, whatever the bucket holds.
const maxExamples = 16

// tally counts problems and keeps the first examples. All methods may be called concurrently.
type tally struct {
	mu       sync.Mutex
	counts   map[Problem]int64
	findings []Finding
}

func (t *tally) add(p Problem, object, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = make(map[Problem]int64)
	}
	t.counts[p]++
	if t.counts[p] <= maxExamples {
		t.findings = append(t.findings, Finding{p, strings.Clone(object), detail})
	}
}

func (t *tally) addFinding(f *Finding) { t.add(f.Problem, f.Object, f.Detail) }

// merge adds what another tally has.
func (t *tally) merge(o *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = make(map[Problem]int64)
	}
	have := make(map[Problem]int64)
	for p, n := range t.counts {
		have[p] = min(n, maxExamples)
	}
	for _, f := range o.findings {
		if have[f.Problem] < maxExamples {
			have[f.Problem]++
			t.findings = append(t.findings, f)
		}
	}
	for p, n := range o.counts {
		t.counts[p] += n
	}
}

// fill puts the tally into a report.
func (t *tally) fill(r *Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Problems = maps.Clone(t.counts)
	r.Findings = slices.SortedFunc(slices.Values(t.findings), func(a, b Finding) int {
		return cmp.Or(strings.Compare(string(a.Problem), string(b.Problem)), strings.Compare(a.Object, b.Object))
	})
}
