package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/internal/sample"
	"coldtap/segment"
)

// scripted is a gateway that serves the first batches of the sample's partition plain-0, unless a script says
// otherwise.
type scripted struct {
	*httptest.Server
	batches []segment.Batch
	id      string
	start   int64
	end     int64
	// records answers a read at an offset in place of the batches; false: it did not.
	records func(w http.ResponseWriter, offset int64) bool
	listing string // in place of the topic's own

	mu      sync.Mutex
	offsets []int64 // that were asked for
}

// Two of the offsets, of 0 to 91, at which batches begin; a test holds them against the sample.
const (
	lower, upper = 45, 65
	last         = 91
)

const (
	firstID  = "AAAAAAAAAAAAAAAAAAAAAQ"
	secondID = "AAAAAAAAAAAAAAAAAAAAAg"
)

var plainLog = sync.OnceValues(func() ([]byte, error) {
	files, err := sample.Files()
	return files["plain-0/00000000000000000000.log"], err
})

func newScripted(t *testing.T) *scripted {
	t.Helper()
	segmentLog, err := plainLog()
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{id: firstID}
	for b, err := range segment.Batches(segmentLog) {
		if err != nil {
			t.Fatal(err)
		}
		s.batches = append(s.batches, b)
		s.end = b.Header.LastOffset() + 1
	}
	begins := func(offset int64) bool {
		return slices.ContainsFunc(s.batches, func(b segment.Batch) bool { return b.Header.BaseOffset == offset })
	}
	if !begins(lower) || !begins(upper) || s.end != last+1 {
		t.Fatal("the sample is not what this test was made for")
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/topics/plain":
		if s.listing != "" {
			io.WriteString(w, s.listing)
			return
		}
		fmt.Fprintf(w, `{"name":"plain","topic_id":%q,"partitions":[{"partition":0,"log_start_offset":%d,"tiered_end_offset":%d}]}`, s.id, s.start, s.end)
	case strings.HasSuffix(r.URL.Path, "/records"):
		offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
		if err != nil {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.offsets = append(s.offsets, offset)
		s.mu.Unlock()
		if s.records == nil || !s.records(w, offset) {
			s.serve(w, offset, s.end, endedTier)
		}
	default:
		http.NotFound(w, r)
	}
}

// serve gives the batches of [offset, to), where to begins a batch, and then the end.
func (s *scripted) serve(w http.ResponseWriter, offset, to int64, end string) {
	w.Header().Set("Content-Type", mediaBatches)
	w.Header().Set("X-Kafka-Next-Offset", strconv.FormatInt(max(to, offset), 10))
	w.Header().Set("X-Kafka-End", end)
	for _, b := range s.batches {
		if b.Header.LastOffset() >= offset && b.Header.LastOffset() < to {
			w.Write(b.Bytes)
		}
	}
}

func (s *scripted) options(dir string) Options {
	return small(Options{URL: s.URL, Topic: "plain", To: Latest, Format: NDJSON, Dir: dir})
}

func refuse(w http.ResponseWriter, status int, body string) bool {
	w.WriteHeader(status)
	io.WriteString(w, body)
	return true
}

// offsetsOf gives the offsets of the records in an ndjson file.
func offsetsOf(t *testing.T, text string) (offsets []int64) {
	t.Helper()
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, `"offset":`)
		digits, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, n)
	}
	return offsets
}

func numbers(from, to int64) (n []int64) {
	for ; from < to; from++ {
		n = append(n, from)
	}
	return n
}

// TestWhatIsMissingIsSaid: each way in which an export cannot be complete, what the manifest then holds, and that a
// later run goes on when the reason is gone.
func TestWhatIsMissingIsSaid(t *testing.T) {
	for _, c := range []struct {
		name    string
		records func(s *scripted) func(w http.ResponseWriter, offset int64) bool
		change  func(o *Options)
		ended   string
		message string
		has     func(s *scripted) []int64
		holes   string
		resumes bool // once the script is gone, the export is whole
	}{
		{"retention took the start", func(s *scripted) func(http.ResponseWriter, int64) bool {
			return func(w http.ResponseWriter, offset int64) bool {
				return offset < lower && refuse(w, 416, `{"error_code":41601,"message":"offset out of range","log_start_offset":`+fmt.Sprint(lower)+`,"tiered_end_offset":92}`)
			}
		}, nil, endedRange, "", func(s *scripted) []int64 { return numbers(lower, s.end) }, fmt.Sprintf("0-%d retention took it", lower), false},
		{"damage", func(s *scripted) func(http.ResponseWriter, int64) bool {
			return damageAt(s, fmt.Sprintf(`,"next_offset":%d`, upper))
		}, nil, endedDamaged, fmt.Sprintf("damage from offset %d to %d: 50002: a batch is damaged", lower, upper-1), func(s *scripted) []int64 { return numbers(0, lower) }, "", true},
		{"damage that is skipped", func(s *scripted) func(http.ResponseWriter, int64) bool {
			return damageAt(s, fmt.Sprintf(`,"next_offset":%d`, upper))
		}, func(o *Options) { o.SkipDamaged = true }, endedRange, "", func(s *scripted) []int64 {
			return append(numbers(0, lower), numbers(upper, s.end)...)
		}, fmt.Sprintf("%d-%d 50002: a batch is damaged", lower, upper), false},
		{"damage without an end", func(s *scripted) func(http.ResponseWriter, int64) bool { return damageAt(s, "") },
			func(o *Options) { o.SkipDamaged = true }, endedDamaged, fmt.Sprintf("damage at offset %d, and the gateway does not say where to go on", lower),
			func(s *scripted) []int64 { return numbers(0, lower) }, "", true},
		{"undecided", func(s *scripted) func(http.ResponseWriter, int64) bool {
			return func(w http.ResponseWriter, offset int64) bool {
				s.serve(w, offset, max(offset, lower), endedUndecided)
				return true
			}
		}, nil, endedUndecided, fmt.Sprintf("what follows offset %d is undecided", lower), nil, "", true},
		{"the tier ends", func(s *scripted) func(http.ResponseWriter, int64) bool { return nil },
			func(o *Options) { o.To = Offset(500) }, endedTier, "the tier ends at offset 92", func(s *scripted) []int64 { return numbers(0, s.end) }, "", false},
		{"refused", func(s *scripted) func(http.ResponseWriter, int64) bool {
			return func(w http.ResponseWriter, offset int64) bool {
				return refuse(w, 403, `{"error_code":40301,"message":"not\nallowed \u001b[31m"}`)
			}
		}, nil, endedFailed, "40301: not?allowed ?[31m", func(s *scripted) []int64 { return nil }, "", true},
		{"no progress", func(s *scripted) func(http.ResponseWriter, int64) bool {
			return func(w http.ResponseWriter, offset int64) bool {
				if offset < lower {
					return false
				}
				s.serve(w, offset, offset, "limit")
				return true
			}
		}, nil, endedRange, "", nil, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScripted(t)
			s.records = c.records(s)
			dir := t.TempDir()
			o := s.options(dir)
			if c.change != nil {
				c.change(&o)
			}
			m, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			p := m.Partitions[0]
			if p.Ended != c.ended || !strings.HasPrefix(p.Message, c.message) || m.Complete && c.name != "no progress" {
				t.Errorf("ended %q %q, complete %v", p.Ended, p.Message, m.Complete)
			}
			var holes []string
			for _, h := range p.Holes {
				holes = append(holes, fmt.Sprintf("%d-%d %s", h.From, h.To, h.Reason))
			}
			if got := strings.Join(holes, ";"); got != c.holes {
				t.Errorf("holes %q, want %q", got, c.holes)
			}
			got := offsetsOf(t, readFile(t, dir, "plain-0.ndjson"))
			if c.has != nil && !slices.Equal(got, c.has(s)) {
				t.Errorf("offsets %v", got)
			}
			var text bytes.Buffer
			m.Summarize(&text)
			if !m.Complete && (!strings.Contains(text.String(), "incomplete: ") || c.message != "" && !strings.Contains(text.String(), c.message)) {
				t.Errorf("said: %s", text.String())
			}
			if c.resumes {
				s.records = nil
				mustRun(t, o)
				if got := offsetsOf(t, readFile(t, dir, "plain-0.ndjson")); !slices.Equal(got, numbers(0, s.end)) {
					t.Errorf("in the end: offsets %v", got)
				}
			}
		})
	}
}

// damageAt serves what comes before the offset lower, and refuses there.
func damageAt(s *scripted, field string) func(http.ResponseWriter, int64) bool {
	return func(w http.ResponseWriter, offset int64) bool {
		switch {
		case offset < lower:
			s.serve(w, offset, lower, "limit")
		case offset < upper:
			return refuse(w, 500, `{"error_code":50002,"message":"a batch is damaged"`+field+`}`)
		default:
			return false
		}
		return true
	}
}

// TestAnotherExportIsRefused: a folder takes the export that it holds and no other.
func TestAnotherExportIsRefused(t *testing.T) {
	s := newScripted(t)
	s.records = func(w http.ResponseWriter, offset int64) bool {
		s.serve(w, offset, max(offset, lower), endedUndecided)
		return true
	}
	dir := t.TempDir()
	if m, err := Run(t.Context(), s.options(dir)); err != nil || m.Complete {
		t.Fatal(m, err)
	}
	before := readFile(t, dir, manifestName)
	key := "k"
	for _, c := range []struct {
		want   string
		change func(o *Options)
	}{
		{`to was "latest" and is "100"`, func(o *Options) { o.To = Offset(100) }},
		{`from was "earliest" and is "2023-11-14T22:13:20Z"`, func(o *Options) { o.From = Time(1700000000000) }},
		{`format was "ndjson" and is "raw"`, func(o *Options) { o.Format = Raw }},
		{`encoding was "text" and is "base64"`, func(o *Options) { o.Encoding = "base64" }},
		{`isolation was "read_committed" and is "read_uncommitted"`, func(o *Options) { o.Isolation = "read_uncommitted" }},
		{`key was not given and is ""`, func(o *Options) { o.Key = new(string) }},
		{`key was not given and is "k"`, func(o *Options) { o.Key = &key }},
		{`header "h" was not given and is "1"`, func(o *Options) { o.Headers = []Header{{"h", "1"}} }},
		{`partitions was "all" and is "0"`, func(o *Options) { o.Partitions = []int32{0} }},
		{`topic was "plain" and is "other"`, func(o *Options) { o.Topic = "other" }},
		{`created anew`, func(*Options) { s.id = secondID }},
	} {
		o := s.options(dir)
		c.change(&o)
		_, err := Run(t.Context(), o)
		if _, ok := errors.AsType[*OptionError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		s.id = firstID
	}
	if readFile(t, dir, manifestName) != before {
		t.Error("a refused run changed the manifest")
	}
	for _, c := range []struct {
		want   string
		change func(dir string) error
	}{
		{"is not empty and holds no manifest.json", func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }},
		{"it was changed", func(dir string) error { return os.Truncate(filepath.Join(dir, "plain-0.ndjson"), 5) }},
		{"a file that is not there", func(dir string) error { return os.Remove(filepath.Join(dir, "plain-0.ndjson")) }},
		{"version 9", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, manifestName), []byte(strings.Replace(before, `"version": 1`, `"version": 9`, 1)), 0o644)
		}},
		{"contradicts itself", replaced(before, `"start_offset": 0`, `"start_offset": 99`)},
		{"contradicts itself", replaced(before, `"bytes": `, `"bytes": -`)},
		{"contradicts itself", replaced(before, `"records": `, `"records": 1`)},
		{"contradicts itself", replaced(before, `"ended": "undecided"`, `"ended": "range"`)},
		{"contradicts itself", replaced(before, `"partition": 0`, `"partition": -1`)},
		{"contradicts itself", func(dir string) error {
			one := before[strings.Index(before, `"partitions": [`)+len(`"partitions": [`) : strings.LastIndex(before, "]")]
			return replaced(before, one, one+","+one)(dir)
		}},
		{"contradicts itself", func(dir string) error {
			one := before[strings.Index(before, `"partitions": [`)+len(`"partitions": [`) : strings.LastIndex(before, "]")]
			return replaced(before, one, "")(dir)
		}},
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := c.change(copied); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), s.options(copied)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// replaced changes a manifest by hand.
func replaced(manifest, was, is string) func(dir string) error {
	return func(dir string) error {
		return os.WriteFile(filepath.Join(dir, manifestName), []byte(strings.Replace(manifest, was, is, 1)), 0o644)
	}
}

// TestAnOptionOfAnyBytesGoesOn: what is filtered by is compared with the manifest byte for byte.
func TestAnOptionOfAnyBytesGoesOn(t *testing.T) {
	s := newScripted(t)
	key := "a\xff\n"
	o := s.options(t.TempDir())
	o.Key, o.Headers = &key, []Header{{"h\xfe", "\xfd"}}
	mustRun(t, o)
	mustRun(t, o)
	key = "a\xfe\n"
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `key was "a\xff\n" and is "a\xfe\n"`) {
		t.Error(err)
	}
}

// TestPartsThatTheManifestDoesNotNameGo: a part that was finished just before a kill may be cut elsewhere by the next
// run, and must not stay beside it. Other people's files stay.
func TestPartsThatTheManifestDoesNotNameGo(t *testing.T) {
	s := newScripted(t)
	s.records = func(w http.ResponseWriter, offset int64) bool {
		s.serve(w, offset, max(offset, lower), endedUndecided)
		return true
	}
	o := s.options(t.TempDir())
	o.Format = Parquet
	if m, err := Run(t.Context(), o); err != nil || len(m.Partitions[0].Files) == 0 {
		t.Fatal(m, err)
	}
	left := []string{"plain-0-00000000000000000050.parquet", "plain-0.partial"}
	theirs := []string{"plain-00000000000000000000.parquet", "plain-1-00000000000000000050.parquet", "plain-0-50.parquet", "notes.parquet", "other-0.partial"}
	for _, name := range slices.Concat(left, theirs) {
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte("PAR1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.records = nil
	m := mustRun(t, o)
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(o.Dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	for _, name := range theirs {
		if _, err := os.Stat(filepath.Join(o.Dir, name)); err != nil {
			t.Error(err)
		}
		os.Remove(filepath.Join(o.Dir, name))
	}
	if got := lineReaders[Parquet](t, o.Dir, "plain-0", m, m.Partitions[0]); len(got) != int(s.end) {
		t.Errorf("%d records of %d", len(got), s.end)
	}
}

// brokenSink is a full disk that is found as the run ends.
type brokenSink struct {
	sink
	end context.CancelFunc
}

var errFull = errors.New("no space left on device")

func (s *brokenSink) write(*segment.Record) error { s.end(); return errFull }

// TestWhatASinkLostIsNotSettled: when all partitions find the disk full, the first to say so ends the others' context;
// theirs have lost buffered records just as well, and must not be taken for interrupted.
func TestWhatASinkLostIsNotSettled(t *testing.T) {
	s := newScripted(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := s.options(t.TempDir())
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	c, err := newClient(&o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	p := &Partition{EndOffset: &s.end}
	r := &reader{e: &export{options: o, client: c, filter: newFilter(&o), journal: &journal{manifest: &Manifest{Partitions: []*Partition{p}}}},
		p: p, sink: &brokenSink{end: cancel}, decoder: segment.NewDecoder(maxDecoded, nil), end: s.end, stop: -1,
		batches: batchReader{from: bufio.NewReader(nil)}}
	defer r.decoder.Close()
	if ended, _, err := r.run(ctx); !errors.Is(err, errFull) {
		t.Errorf("ended %q, %v", ended, err)
	}
}

// TestABatchInAnotherPlaceIsNotTaken: a checksum says nothing of a batch's base offset. Garbled on the way, it moves
// the batch behind those that follow it, or behind where the answer says it ends.
func TestABatchInAnotherPlaceIsNotTaken(t *testing.T) {
	for _, at := range []string{"middle", "end"} {
		s := newScripted(t)
		asked := 0
		s.records = func(w http.ResponseWriter, offset int64) bool {
			if asked++; asked > 1 {
				return false
			}
			w.Header().Set("Content-Type", mediaBatches)
			w.Header().Set("X-Kafka-Next-Offset", fmt.Sprint(upper))
			for i := range s.batches {
				b := &s.batches[i]
				raw := bytes.Clone(b.Bytes)
				if b.Header.BaseOffset == lower && at == "middle" || b.Header.LastOffset()+1 == upper && at == "end" {
					raw[7] += 7
				}
				if b.Header.LastOffset() < upper {
					w.Write(raw)
				}
			}
			return true
		}
		o := s.options(t.TempDir())
		o.To = Offset(s.end)
		mustRun(t, o)
		if got := offsetsOf(t, readFile(t, o.Dir, "plain-0.ndjson")); !slices.Equal(got, numbers(0, s.end)) || asked != 2 {
			t.Errorf("%s: offsets %v after %d answers", at, got, asked)
		}
	}
}

// TestAnAnswerOfNoLengthIsNotTrustedToBeWhole: HTTP/1.0 ends an answer by closing the connection, and so does a cut.
func TestAnAnswerOfNoLengthIsNotTrustedToBeWhole(t *testing.T) {
	s := newScripted(t)
	cuts := 0
	s.records = func(w http.ResponseWriter, offset int64) bool {
		if cuts++; cuts > 2 {
			return false
		}
		conn, out, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		defer conn.Close()
		fmt.Fprintf(out, "HTTP/1.0 200 OK\r\nContent-Type: %s\r\nX-Kafka-Next-Offset: %d\r\nX-Kafka-End: range\r\n\r\n", mediaBatches, s.end)
		for _, b := range s.batches {
			if offset < lower && b.Header.LastOffset() < lower {
				out.Write(b.Bytes)
			}
		}
		out.Flush()
		return true
	}
	o := s.options(t.TempDir())
	mustRun(t, o)
	if got := offsetsOf(t, readFile(t, o.Dir, "plain-0.ndjson")); !slices.Equal(got, numbers(0, s.end)) || cuts != 3 {
		t.Errorf("offsets %v after %d answers", got, cuts)
	}
}

// TestOneExportToAFolderAtATime: the second one is refused while the first one runs.
func TestOneExportToAFolderAtATime(t *testing.T) {
	s := newScripted(t)
	dir := t.TempDir()
	var second error
	s.records = func(w http.ResponseWriter, offset int64) bool {
		_, second = Run(context.Background(), s.options(dir))
		return false
	}
	mustRun(t, s.options(dir))
	if second == nil || !strings.Contains(second.Error(), "another export is writing") {
		t.Error(second)
	}
}

// TestInterruptedExportGoesOn: ending the context keeps what was read.
func TestInterruptedExportGoesOn(t *testing.T) {
	for _, format := range []Format{NDJSON, Parquet} {
		s := newScripted(t)
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		s.records = func(w http.ResponseWriter, offset int64) bool {
			if offset >= lower {
				cancel()
			}
			s.serve(w, offset, max(lower, offset), "limit")
			return true
		}
		o := s.options(dir)
		o.Format = format
		o.tuning.partBytes = 1 << 30
		m, err := Run(ctx, o)
		if err != nil || m.Partitions[0].Ended != endedInterrupted || m.Partitions[0].NextOffset != lower {
			t.Fatalf("%v %+v", err, m.Partitions[0])
		}
		s.records = nil
		m = mustRun(t, o)
		if got := lineReaders[format](t, dir, "plain-0", m, m.Partitions[0]); len(got) != int(s.end) {
			t.Errorf("%s: %d records of %d", format, len(got), s.end)
		}
		cancel()
	}
}

// TestHostileGateways: whatever a gateway says, an export ends with an error or says what is missing, and writes
// nothing but its own files.
func TestHostileGateways(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(s *scripted)
	}{
		{"another topic's name", "is about", func(s *scripted) { s.listing = `{"name":"../../etc","topic_id":"` + firstID + `","partitions":[]}` }},
		{"a bad id", "is about", func(s *scripted) { s.listing = `{"name":"plain","topic_id":"../../../../../../../x","partitions":[]}` }},
		{"a negative partition", "twice or wrongly", func(s *scripted) {
			s.listing = `{"name":"plain","topic_id":"` + firstID + `","partitions":[{"partition":-1}]}`
		}},
		{"a partition twice", "twice or wrongly", func(s *scripted) {
			s.listing = `{"name":"plain","topic_id":"` + firstID + `","partitions":[{"partition":1},{"partition":1}]}`
		}},
		{"no partition", "has no partition", func(s *scripted) {
			s.listing = `{"name":"plain","topic_id":"` + firstID + `"}`
		}},
		{"no JSON", "not what a gateway says", func(s *scripted) { s.listing = `<html>` }},
		{"an endless listing", "too large", func(s *scripted) { s.listing = strings.Repeat(" ", maxListing+10) }},
		{"no batches", `sent "text/html`, func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Content-Type", "text/html")
				return true
			}
		}},
		{"a redirect", "status 302", func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(http.StatusFound)
				return true
			}
		}},
		{"endless headers", "", func(s *scripted) {
			s.records = func(w http.ResponseWriter, offset int64) bool {
				w.Header().Set("X-Long", strings.Repeat("a", maxAnswerHeaders+4096))
				s.serve(w, offset, s.end, endedTier)
				return true
			}
		}},
		{"a step back", "go on at", func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Content-Type", mediaBatches)
				w.Header().Set("X-Kafka-Next-Offset", "-5")
				return true
			}
		}},
		{"a batch that claims 200 MiB", "broke off", func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Content-Type", mediaBatches)
				b := bytes.Clone(s.batches[0].Bytes)
				b[8], b[9], b[10], b[11] = 12, 0, 0, 0
				w.Write(b)
				return true
			}
		}},
		{"a batch above the limit", "too large", func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Content-Type", mediaBatches)
				b := bytes.Clone(s.batches[0].Bytes)
				b[8] = 0x7f
				w.Write(b)
				return true
			}
		}},
		{"the same batch twice", "out of order", func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Content-Type", mediaBatches)
				w.Write(s.batches[1].Bytes)
				w.Write(s.batches[0].Bytes)
				return true
			}
		}},
		{"bytes that fail their checksum", "damage at offset 0", func(s *scripted) {
			s.records = func(w http.ResponseWriter, _ int64) bool {
				w.Header().Set("Content-Type", mediaBatches)
				b := bytes.Clone(s.batches[0].Bytes)
				b[len(b)-1] ^= 1
				w.Write(b)
				return true
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScripted(t)
			c.change(s)
			dir := t.TempDir()
			o := s.options(filepath.Join(dir, "out"))
			o.SkipDamaged = true
			m, err := Run(t.Context(), o)
			said := fmt.Sprint(err)
			if err == nil {
				var text bytes.Buffer
				m.Summarize(&text)
				said = text.String()
			}
			if m != nil && m.Complete || !strings.Contains(said, c.want) {
				t.Errorf("said %s, want %q", said, c.want)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("%v %v", entries, err)
			}
		})
	}
}

func TestTokenAndURL(t *testing.T) {
	s := newScripted(t)
	var seen sync.Map
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"), true)
		http.StripPrefix("/below", s).ServeHTTP(w, r)
	}))
	defer front.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := s.options("")
	o.Out = io.Discard
	o.URL, o.TokenFile = front.URL+"/below/", file
	mustRun(t, o)
	if _, ok := seen.Load("Bearer secret"); !ok {
		t.Error("no token was sent")
	}
	for _, bad := range []string{"", "ftp://x", "127.0.0.1:8080", "http://", "http://user:pw@h", "http://user:p w@h", "http://h?x=1", "http://h/\x00"} {
		o.URL = bad
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%q is taken for a URL", bad)
		}
	}
}

// TestHolesOfTheTierAreSaid: what the offloader gave up is passed over by reads, and no export that includes it is
// complete.
func TestHolesOfTheTierAreSaid(t *testing.T) {
	s := newScripted(t)
	s.listing = fmt.Sprintf(`{"name":"plain","topic_id":%q,"partitions":[{"partition":0,"log_start_offset":0,"tiered_end_offset":%d,
		"holes":[{"from_offset":45,"to_offset":65,"reason":"damaged"},{"from_offset":90,"to_offset":91,"reason":"elsewhere"}]}]}`, firstID, s.end)
	o := s.options(t.TempDir())
	o.To = Offset(90)
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	m.Summarize(&text)
	if p := m.Partitions[0]; m.Complete || p.Ended != endedRange || len(p.Holes) != 1 || !strings.Contains(text.String(), "offsets 45 to 64: given up when it was copied: damaged") {
		t.Errorf("%+v: %s", p, text.String())
	}
}

// TestCertificates: a gateway is trusted by the file that is given, and by no other.
func TestCertificates(t *testing.T) {
	s := newScripted(t)
	secure := httptest.NewUnstartedServer(s)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	o := s.options("")
	o.Out, o.URL = io.Discard, secure.URL
	o.tuning.wait = func(time.Duration) <-chan time.Time { t.Error("asked again"); return noWait(0) }
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the file: %v", err)
	}
	o.CAFile = file
	mustRun(t, o)
}
