package embedded

import (
	"slices"
	"testing"
)

// What people or other tools leave in the column must be refused or read, never misread.
func FuzzParseEpochs(f *testing.F) {
	for _, text := range []string{"[]", "[[4,0]]", "[[4,0],[6,150]]", "[[1,2,3]]", "[[-1,5]]", "[[2147483648,0]]", "null", "[[1.5,2]]", "{}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseEpochs(text)
		if err != nil {
			return
		}
		again, err := parseEpochs(formatEpochs(list))
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%q reads as %v, and that as %v (%v)", text, list, again, err)
		}
	})
}
