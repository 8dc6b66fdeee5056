package bench

import (
	"context"
	"testing"
)

// A herd on a cold range costs one GET per chunk, not one per reader.
func TestHerdCostsOneGetPerChunk(t *testing.T) {
	requireBars(t, Herd)
}

// A scan of ten times the memory bound fetches each byte once.
func TestScanFetchesEachByteOnce(t *testing.T) {
	requireBars(t, Scan)
}

func requireBars(t *testing.T, run func(context.Context) ([]Figure, error)) {
	t.Helper()
	figures, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		t.Logf("%s: %s (%s)", f.Name, f.Value, f.Bar)
		if !f.OK {
			t.Errorf("%s is %s, must be %s", f.Name, f.Value, f.Bar)
		}
	}
}
