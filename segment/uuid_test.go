package segment

import (
	"encoding/json"
	"testing"
)

func TestUUID(t *testing.T) {
	u := UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	if u.String() != "AQIDBAUGBwgJCgsMDQ4PEA" {
		t.Errorf("%s", u)
	}
	for _, s := range []string{"AQIDBAUGBwgJCgsMDQ4PEA", "LWgrMmVrT0a__7a4SasuPA", "AAAAAAAAAAAAAAAAAAAAAA", "_____________________w"} {
		got, err := ParseUUID(s)
		if err != nil || got.String() != s {
			t.Errorf("%q: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "AQIDBAUGBwgJCgsMDQ4PE", "AQIDBAUGBwgJCgsMDQ4PEA=", "AQIDBAUGBwgJCgsMDQ4PEA==", "AQIDBAUGBwgJCgsMDQ4PEB",
		"AQIDBAUGBwgJCgsMDQ4P/A", "AQIDBAUGBwgJCgsMDQ4P+A", "AQIDBAUGBwgJCgsMDQ4\nEA", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
	} {
		got, err := ParseUUID(s)
		if err == nil || !got.IsZero() {
			t.Errorf("%q: %s, %v", s, got, err)
			continue
		}
		wantKind(t, err, Corrupt)
	}
}

func TestUUIDInJSON(t *testing.T) {
	type manifest struct {
		ID UUID `json:"id"`
	}
	in := manifest{UUID{15: 1}}
	raw, err := json.Marshal(in)
	if err != nil || string(raw) != `{"id":"AAAAAAAAAAAAAAAAAAAAAQ"}` {
		t.Fatalf("%s, %v", raw, err)
	}
	var out manifest
	if err := json.Unmarshal(raw, &out); err != nil || out != in {
		t.Fatalf("%+v, %v", out, err)
	}
	before := out
	if err := json.Unmarshal([]byte(`{"id":"short"}`), &out); err == nil || out != before {
		t.Fatalf("%+v, %v", out, err)
	}
}

func FuzzUUID(f *testing.F) {
	f.Add("AQIDBAUGBwgJCgsMDQ4PEA")
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := ParseUUID(s); err == nil && u.String() != s {
			t.Fatalf("%q is %s too", s, u)
		}
	})
}
