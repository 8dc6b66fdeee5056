package gateway

import (
	"strings"
	"testing"
	"time"
)

// TestTimes holds what is a time in a parameter. Values are as they are after form decoding, where a plus has become a
// space.
func TestTimes(t *testing.T) {
	at := func(text string) int64 {
		v, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMilli()
	}
	for text, want := range map[string]int64{
		"0": 0, "1700000000000": 1700000000000, "9223372036854775807": 1<<63 - 1,
		"1700000400ms": 1700000400, "0ms": 0,
		"2023-11-14T22:13:20Z":           1700000000000,
		"2023-11-14t22:13:20z":           1700000000000,
		"2023-11-14T23:13:20+01:00":      1700000000000,
		"2023-11-14T23:13:20 01:00":      1700000000000,
		"2023-11-14T17:43:20-04:30":      1700000000000,
		"2023-11-15T22:12:20+23:59":      1700000000000,
		"2023-11-14T22:13:20-00:00":      1700000000000,
		"2023-11-14T22:13:20.5Z":         1700000000500,
		"2023-11-14T22:13:20.05Z":        1700000000050,
		"2023-11-14T22:13:20.0010Z":      1700000000001,
		"2023-11-14T22:13:20.0010001Z":   1700000000002,
		"2023-11-14T22:13:20.9999Z":      1700000001000,
		"2023-11-14T22:13:20.1-00:01":    1700000060100,
		"2023-11-14":                     at("2023-11-14T00:00:00Z"),
		"2024-02-29":                     at("2024-02-29T00:00:00Z"),
		"1970-01-01":                     0,
		"9999-12-31":                     at("9999-12-31T00:00:00Z"),
		"2023-11-14 22:13:20":            1700000000000,
		"2023-11-14 22:13:20.25":         1700000000250,
		"2023-11-14 22:13:20Z":           1700000000000,
		"2023-11-14 23:13:20+01:00":      1700000000000,
		"2023-11-14 23:13:20 01:00":      1700000000000,
		"2023-11-14 21:13:20-01:00":      1700000000000,
		"1970-01-01T00:59:59.9999+01:00": 0,
		"1990-12-31T23:59:60Z":           at("1991-01-01T00:00:00Z"),
		"1990-12-31T15:59:60.5-08:00":    at("1991-01-01T00:00:00.5Z"),
		"2016-06-30 23:59:60":            at("2016-07-01T00:00:00Z"),
	} {
		if got, err := timestamp("timestamp", []byte(text)); err != nil || got.ms != want {
			t.Errorf("%q: %d %v, want %d", text, got.ms, err, want)
		}
	}
	for _, text := range []string{"", "now", "-1", "+1", " 1", "1 ", "1e3", "9223372036854775808", "ms", "-1ms", "1 ms", "1MS", "1s", "1.5", "0x10",
		"2023-11-14T2:20:00Z", "2023-11-14T22:20:00,5Z", "2023-11-14T22:20:00+24:00", "2023-11-14T22:20:00 24:00", "2023-11-14T22:20:00+12:60",
		"2023-11-14T24:00:00Z", "2023-11-14T22:60:00Z", "2023-11-14T22:20:61Z", "2023-11-14T22:20:60Z", "2023-11-30T23:59:60Z", "1990-12-31T22:59:60Z",
		"2023-11-14T22:20:00", "2023-11-14T22:20Z", "2023-11-14T22Z", "2023-11-14T", "2023-11-14 ", "2023-11-14Z", "2023-11-14+01:00",
		"2023-11-14T22:20:00.Z", "2023-11-14T22:20:00.", "2023-11-14T22:20:00Z ", " 2023-11-14", "2023-11-14  22:20:00", "2023-11-14T 2:20:00Z",
		"2023-11-14T22:20:00+0100", "2023-11-14T22:20:00+01", "2023-11-14T22:20:00+1:00", "2023-11-14T22:20:00 +01:00", "2023-11-14T22:20:00*01:00",
		"2023-11-14T22:20:00ZZ", "2023-11-14T22:20:00UTC", "2023-11-14_22:20:00Z", "2023-11-14T22.20.00Z", "2023-11-14T22:20:00−01:00",
		"2023-02-29", "2023-04-31", "2023-00-10", "2023-13-10", "2023-10-00", "2023-1-10", "2023/11/14", "12023-11-14", "+2023-11-14", "-023-11-14",
		"1969-12-31", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z"} {
		if got, err := timestamp("timestamp", []byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, got.ms)
		} else if err.code != codeBadParameter || err.parameter != "timestamp" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestEpochSecondsAreAskedAbout: seconds taken for milliseconds are a day in 1970, and the answer would be the whole
// partition.
func TestEpochSecondsAreAskedAbout(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a")})
	r.fake.span = [2]int64{1_690_000_000_000, 1_700_000_000_000}
	const offsets = "/topics/orders/partitions/3/offsets"
	for _, c := range []struct {
		path, query, parameter string
	}{
		{recordsPath, "timestamp=1695000000", "timestamp"},
		{recordsPath, "timestamp=1690000000", "timestamp"},
		{recordsPath, "timestamp=1700000000", "timestamp"},
		{recordsPath, "timestamp=1695000000&explain=true", "timestamp"},
		{recordsPath, "timestamp=1695000000000&end_timestamp=1695000001000", ""},
		{recordsPath, "offset=10&end_timestamp=1695000000", "end_timestamp"},
		{offsets, "timestamp=1695000000", "timestamp"},
		{recordsPath, "timestamp=1695000000ms", ""},
		{recordsPath, "offset=10&end_timestamp=1695000000ms", ""},
		{offsets, "timestamp=1695000000ms", ""},
		{recordsPath, "timestamp=0", ""},
		{recordsPath, "timestamp=1", ""},
		{recordsPath, "timestamp=1689999999", ""}, // outside either way
		{recordsPath, "timestamp=1700000001", ""},
		{recordsPath, "timestamp=1695000000000", ""},
		{recordsPath, "timestamp=1970-01-20T16:13:20Z", ""},
	} {
		got := r.get(t, c.path+"?"+c.query)
		if c.parameter == "" {
			if got.StatusCode != 200 {
				t.Errorf("%s: %d %s", c.query, got.StatusCode, got.body)
			}
			continue
		}
		if got.StatusCode != 400 || !strings.Contains(got.body, "were seconds meant") || !strings.Contains(got.body, `"parameter":"`+c.parameter+`"`) {
			t.Errorf("%s: %d %s", c.query, got.StatusCode, got.body)
		}
	}
	r.fake.span = [2]int64{-1000, 1_700_000_000_000} // the number itself is inside
	if got := r.get(t, recordsPath+"?timestamp=1695000000"); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	r.fake.span = [2]int64{}
	if got := r.get(t, recordsPath+"?timestamp=1695000000"); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}
