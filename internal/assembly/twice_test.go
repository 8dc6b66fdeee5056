package assembly

import (
	"errors"
	"testing"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
)

// What a bit flip on the way from the store spoils is read once more; what the store itself says is not.
func TestContentIsReadTwice(t *testing.T) {
	damaged := &layout.Error{Object: "o", Err: errors.New("checksum")}
	for name, errs := range map[string][]error{
		"sound": {nil}, "flipped": {damaged, nil}, "damaged": {damaged, damaged}, "unreachable": {&rangeio.Error{Kind: rangeio.Unavailable}},
	} {
		reads := 0
		cost, err := twice(func() (readcost.Cost, error) {
			reads++
			return readcost.Cost{Requests: 2, Bytes: 10}, errs[reads-1]
		})
		if reads != len(errs) || cost.Requests != 2*reads || cost.Bytes != int64(10*reads) || !errors.Is(err, errs[reads-1]) {
			t.Errorf("%s: %d reads, %+v, %v", name, reads, cost, err)
		}
	}
}
