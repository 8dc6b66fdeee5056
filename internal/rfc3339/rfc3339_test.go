package rfc3339

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// FuzzParse holds Parse against the standard library, which takes more than RFC 3339 allows.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"2023-11-14T22:13:20Z", "2023-11-14t22:13:20.123456789z", "2023-11-14T22:13:20,5Z", "2023-11-14T2:13:20+24:00", "2023-11-14",
		"2023-11-14 22:13:20", "2023-11-14 22:13:20.1 01:00", "1990-12-31T23:59:60Z", "2023-02-29T00:00:00-23:59", "1700000000000", "5ms"} {
		f.Add(seed)
	}
	shape := regexp.MustCompile(`^\d{4}-\d\d-\d\d([Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[-+ ]([01]\d|2[0-3]):[0-5]\d)?)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		ms, ok := Parse([]byte(text))
		if len(text) > 18 && text[17:19] == "60" {
			return // the library knows no leap seconds
		}
		rfc := strings.ToUpper(text)
		switch {
		case len(text) == 10:
			rfc += "T00:00:00Z"
		case len(text) > 10 && text[10] == ' ':
			rfc = rfc[:10] + "T" + rfc[11:]
			if !strings.ContainsAny(rfc[11:], "Z+- ") {
				rfc += "Z"
			}
		}
		at, err := time.Parse(time.RFC3339Nano, strings.Replace(rfc, " ", "+", 1))
		if want := err == nil && shape.MatchString(text); ok != want {
			t.Fatalf("%q: taken %v, want %v", text, ok, want)
		}
		if !ok {
			return
		}
		want := at.UnixMilli()
		exact := len(text) < 20 || text[19] != '.' || strings.Trim(strings.TrimLeft(text[min(23, len(text)):], "0"), "Zz") == ""
		if ms != want && (exact || ms != want+1) {
			t.Fatalf("%q: %d, want %d", text, ms, want)
		}
	})
}
