package embedded

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"coldtap/catalog"
	"coldtap/segment"
	"coldtap/tier"

	"go.uber.org/goleak"
)

// childRole is the environment variable by which the test binary plays another process.
const childRole = "COLDTAP_SQLITE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(childRole) {
	case "":
		goleak.VerifyTestMain(m)
	case "steps":
		playSteps()
	case "follow":
		playFollow()
	case "open":
		playOpen()
	}
}

// child starts this binary again in a role.
func child(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

var (
	topicA = segment.UUID{0: 1, 15: 0xa}
	topicB = segment.UUID{0: 1, 15: 0xb}
	part0  = tier.PartitionID{Topic: topicA}
)

func id(n uint64) (u segment.UUID) {
	u[0] = 1
	binary.BigEndian.PutUint64(u[8:], n)
	return u
}

func seg(n uint64, base, end int64) tier.Segment {
	return tier.Segment{
		ID: id(n), Partition: part0, Topic: "orders", BaseOffset: base, EndOffset: end, MaxTimestamp: 1_700_000_000_000 + end,
		BrokerID: 3, Size: 1000, Epochs: []segment.EpochStart{{Epoch: 4, StartOffset: base}}, Custom: []byte("custom"),
	}
}

func dbPath(t *testing.T) string { return filepath.Join(t.TempDir(), "meta", "coldtap.db") }

func openWriter(t *testing.T, path string) *DB {
	t.Helper()
	d, err := OpenWriter(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// openReader polls so seldom that only Refresh matters, unless opt says otherwise.
func openReader(t *testing.T, path string, opt ReaderOptions) *Reader {
	t.Helper()
	if opt.Poll == 0 {
		opt.Poll = time.Hour
	}
	r, err := OpenReader(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func wantKind(t *testing.T, err error, kind catalog.Kind) {
	t.Helper()
	e, ok := errors.AsType[*catalog.Error](err)
	if !ok || e.Kind != kind {
		t.Fatalf("error %v, want one of kind %d", err, kind)
	}
}

func finish(t *testing.T, d *DB, segs ...tier.Segment) {
	t.Helper()
	for _, s := range segs {
		must(t, d.StartCopy(t.Context(), s), d.FinishCopy(t.Context(), s.Partition, s.ID))
	}
}

func view0(t *testing.T, s *tier.Snapshot) *tier.Partition {
	t.Helper()
	p, ok := s.Partition(part0)
	if !ok {
		t.Fatal("the partition is not known")
	}
	return p
}
