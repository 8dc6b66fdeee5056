package clusterfixture_test

import (
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/layout/aiven"
	"coldtap/segment"
)

// TestWhatIsWrongWithObjectsIsLogged, with the segment's name, once however often it is read: a manifest or indexes
// that are missing, and a chunk that fails authentication, like a batch that fails its checksum.
func TestWhatIsWrongWithObjectsIsLogged(t *testing.T) {
	sets := clusterfixture.LoadAiven(t)
	set := sets[slices.IndexFunc(sets, func(s *clusterfixture.AivenSet) bool { return s.Name == "encrypted" })]
	for _, tt := range []struct {
		suffix, line string
		remove       bool
	}{
		{aiven.SuffixManifest, "an object is missing or not what the metadata says", true},
		{aiven.SuffixLog, "an object is missing or not what the metadata says", true},
		{aiven.SuffixIndexes, "index files are missing or damaged", true},
		{aiven.SuffixLog, "damaged log bytes", false},
	} {
		s := newAivenStand(t, set, 24<<10, lineageHidden)
		p := s.fixture.Partitions()[0]
		seg := s.view(t, p).Segments(false)[0]
		for _, key := range s.memory.Keys() {
			switch {
			case !strings.Contains(key, seg.ID.String()) || !strings.HasSuffix(key, tt.suffix):
			case tt.remove:
				if err := s.memory.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			default:
				b := slices.Clone(s.memory.Bytes(key))
				b[len(b)/2] ^= 1
				b[20] ^= 1
				s.memory.Set(key, b)
			}
		}
		for range 3 {
			r := request(p, seg.BaseOffset+1, "read_uncommitted")
			st, err := s.Open(t.Context(), &r)
			if err != nil {
				continue
			}
			for rec := (segment.Record{}); err == nil; {
				err = st.NextRecord(t.Context(), &rec)
			}
			st.Close()
		}
		if n := strings.Count(s.log.String(), tt.line); n != 1 || !strings.Contains(s.log.String(), "level=WARN") || !strings.Contains(s.log.String(), seg.ID.String()) {
			t.Errorf("%s, removed %t: %q is logged %d times:\n%s", tt.suffix, tt.remove, tt.line, n, s.log.String())
		}
	}
}
