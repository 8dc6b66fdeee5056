package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"coldtap/internal/readlimit"
)

const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	maxManifest     = 256 << 20
)

// Manifest is what an export was asked for, the range of each partition, and how far each is. It lies beside the files
// as manifest.json.
type Manifest struct {
	Version   int    `json:"version"`
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	ClusterID string `json:"cluster_id,omitempty"`
	// Asked holds the options that decide what the files hold, as text.
	Asked      map[string]string `json:"asked"`
	Complete   bool              `json:"complete"`
	Partitions []*Partition      `json:"partitions"`
}

// Why reading a partition stopped.
const (
	endedRange       = "range"       // at its end
	endedTier        = "tier"        // where the tier ends, which is before the end
	endedUndecided   = "undecided"   // where read_committed cannot be proven further
	endedDamaged     = "damaged"     // before damage
	endedFailed      = "failed"      // the gateway refused, or did not answer
	endedInterrupted = "interrupted" // by a signal
)

// Partition is the state of one partition.
type Partition struct {
	Partition   int32 `json:"partition"`
	StartOffset int64 `json:"start_offset"`
	// EndOffset is exclusive; null: the first record at or after StopTimestamp ends the range, and it is not in the tier
	// yet.
	EndOffset     *int64 `json:"end_offset"`
	StopTimestamp *int64 `json:"stop_timestamp,omitempty"`
	// NextOffset is where to go on: everything before it is in the files or in Holes.
	NextOffset int64  `json:"next_offset"`
	Records    int64  `json:"records"`
	Ended      string `json:"ended,omitempty"`
	Message    string `json:"message,omitempty"`
	Holes      []Hole `json:"holes,omitempty"`
	Files      []File `json:"files"`
}

// Hole is a range of offsets, To exclusive, whose records are not in the files.
type Hole struct {
	From   int64  `json:"from_offset"`
	To     int64  `json:"to_offset"`
	Reason string `json:"reason"`
}

// File is a data file; Bytes of it are on disk and hold the records of [StartOffset, NextOffset).
type File struct {
	Name        string `json:"name"`
	Bytes       int64  `json:"bytes"`
	Records     int64  `json:"records"`
	StartOffset int64  `json:"start_offset"`
	NextOffset  int64  `json:"next_offset"`
}

// done says that there is nothing more to read.
func (p *Partition) done() bool { return p.Ended == endedRange }

// complete says that the files hold the whole range.
func (p *Partition) complete() bool { return p.done() && len(p.Holes) == 0 }

// asked are the options that decide what the files hold. Keys and headers are quoted: JSON takes no bytes that are not
// UTF-8, and an empty key is not none.
func (o *Options) asked() map[string]string {
	asked := map[string]string{
		"partitions": formatPartitions(o.Partitions), "from": o.From.String(), "to": o.To.String(),
		"format": string(o.Format), "isolation": o.Isolation,
	}
	if o.Encoding != "" {
		asked["encoding"] = o.Encoding
	}
	if o.Key != nil {
		asked["key"] = strconv.Quote(*o.Key)
	}
	if o.Lateness > 0 {
		asked["lateness"] = o.Lateness.String()
	}
	for _, h := range o.Headers {
		asked["header "+strconv.Quote(h.Key)] += strconv.Quote(h.Value)
	}
	return asked
}

// fits refuses options that would make other files than those that are there.
func (m *Manifest) fits(o *Options) error {
	var differ []string
	note := func(name, was, is string) {
		if was != is {
			differ = append(differ, fmt.Sprintf("%s was %s and is %s", name, shown(was), shown(is)))
		}
	}
	note("topic", m.Topic, o.Topic)
	asked := o.asked()
	names := make(map[string]bool)
	for name := range asked {
		names[name] = true
	}
	for name := range m.Asked {
		names[name] = true
	}
	for name := range names {
		note(name, m.Asked[name], asked[name])
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return badOption("%s holds another export: %s; give another folder", o.Dir, strings.Join(differ, ", "))
}

// shown is an option's value for people.
func shown(value string) string {
	switch {
	case value == "":
		return "not given"
	case value[0] == '"':
		return printable(value)
	}
	return strconv.Quote(printable(value))
}

// check refuses a manifest that contradicts itself.
func (m *Manifest) check() error {
	if m.Version != manifestVersion {
		return fmt.Errorf("%s has version %d; this coldtap knows version %d", manifestName, m.Version, manifestVersion)
	}
	sound := len(m.Partitions) > 0
	last := int32(-1)
	for _, p := range m.Partitions {
		if sound = sound && p != nil && p.Partition > last && p.sound(); sound {
			last = p.Partition
		}
	}
	if !sound {
		return fmt.Errorf("%s contradicts itself: it was changed by hand; start again in a new folder", manifestName)
	}
	return nil
}

// sound says that a partition's numbers agree: two readers of one file, or a file that is taken for more than it holds,
// would be a gap or a duplicate.
func (p *Partition) sound() bool {
	switch {
	case p.StartOffset < 0, p.NextOffset < p.StartOffset, p.EndOffset == nil && (p.StopTimestamp == nil || p.done()),
		p.EndOffset != nil && (p.NextOffset > *p.EndOffset || p.done() && p.NextOffset != *p.EndOffset):
		return false
	}
	records, at := int64(0), p.StartOffset
	for _, f := range p.Files {
		if f.Bytes < 0 || f.Records < 0 || f.StartOffset < at || f.NextOffset < f.StartOffset {
			return false
		}
		records, at = records+f.Records, f.NextOffset
	}
	return records == p.Records && at <= p.NextOffset
}

// journal keeps the manifest: in the export's folder, or in memory only.
type journal struct {
	folder *folder // nil: memory only
	every  time.Duration

	mu       sync.Mutex
	manifest *Manifest
	saved    time.Time
}

func loadManifest(f *folder) (*Manifest, error) {
	file, err := f.root.Open(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := readlimit.All(file, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, m.check()
}

// update changes a partition's state, which must be true of what is on disk. It is saved now, or with a later update:
// an older manifest beside newer files only means that more is read again.
func (j *journal) update(p *Partition, now bool, change func(p *Partition)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(p)
	if !now && time.Since(j.saved) < j.every {
		return nil
	}
	return j.save()
}

// save replaces the manifest's file; the caller holds the lock, or no other goroutine runs yet.
func (j *journal) save() error {
	j.manifest.Complete = true
	for _, p := range j.manifest.Partitions {
		j.manifest.Complete = j.manifest.Complete && p.complete()
	}
	if j.folder == nil {
		return nil
	}
	raw, err := json.MarshalIndent(j.manifest, "", " ")
	if err != nil {
		return err
	}
	j.saved = time.Now()
	return j.folder.replace(manifestName, append(raw, '\n'))
}
