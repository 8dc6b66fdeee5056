package inspect

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"coldtap/catalog/embedded"
	"coldtap/internal/sample"
	"coldtap/layout/native"
	"coldtap/offload"
	"coldtap/rangeio"
	"coldtap/tier"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sampleFiles = sync.OnceValues(sample.Files)

func sampleFile(t testing.TB, name string) []byte {
	t.Helper()
	files, err := sampleFiles()
	if err != nil {
		t.Fatal(err)
	}
	raw, ok := files[name]
	if !ok {
		t.Fatalf("the sample has no %s", name)
	}
	return raw
}

// stand is a tier with a topic of the sample in it, which has one partition.
type stand struct {
	topic   string
	dir     string
	backend rangeio.Backend
	store   *rangeio.Client
	layout  *native.Layout
	db      *embedded.DB
	reader  *embedded.Reader
}

func newStand(t *testing.T) *stand { return newStandOf(t, "plain") }

func newStandOf(t *testing.T, topic string) *stand {
	t.Helper()
	logs := t.TempDir()
	if err := sample.Extract(logs); err != nil {
		t.Fatal(err)
	}
	s := &stand{topic: topic, dir: t.TempDir()}
	var err error
	if s.backend, err = rangeio.OpenFile(s.dir, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.backend.Close() })
	s.store = rangeio.NewClient(s.backend, rangeio.Config{Attempts: 1})
	s.layout = native.New(s.store, "")
	path := filepath.Join(t.TempDir(), "coldtap.db")
	if s.db, err = embedded.OpenWriter(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.db.Close() })
	report, err := offload.Once(t.Context(), offload.Config{LogDirs: []string{logs}, Include: []string{topic}, Catalog: s.db, Layout: s.layout})
	if err != nil || report.Failed() {
		t.Fatalf("offload: %v", err)
	}
	if s.reader, err = embedded.OpenReader(t.Context(), path, embedded.ReaderOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.reader.Close() })
	return s
}

func (s *stand) segments(t *testing.T) []*tier.Segment {
	t.Helper()
	topic, ok := s.db.Snapshot().TopicByName(s.topic)
	if !ok {
		t.Fatalf("no topic %s", s.topic)
	}
	p, _ := s.db.Snapshot().Partition(tier.PartitionID{Topic: topic.ID})
	return p.Segments(true)
}

func (s *stand) file(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

// lines runs show with JSON output and gives the values.
func lines(t *testing.T, show func(*Output) error) (values []map[string]any, err error) {
	t.Helper()
	var out bytes.Buffer
	o := NewOutput(&out, true)
	err = show(o)
	if cerr := o.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	for line := range strings.Lines(out.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		values = append(values, v)
	}
	return values, err
}

// table runs show with a table as its output.
func table(t *testing.T, show func(*Output) error) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o := NewOutput(&out, false)
	err := show(o)
	if cerr := o.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	return out.String(), err
}
