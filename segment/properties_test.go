package segment

import (
	"maps"
	"testing"

	"coldtap/internal/sample"
)

func TestProperties(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want map[string]string
	}{
		{"", nil},
		{"#\n#Sat Nov 29 12:00:00 UTC 2025\ncluster.id=abc_-9\nversion=1\n", map[string]string{"cluster.id": "abc_-9", "version": "1"}},
		{"a=1\r\nb=2\rc=3", map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"a:1\nb 2\nc\t3\nd = 4\ne : 5\nf  :  = 6\ng", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "= 6", "g": ""}},
		{"  \t\f a=1 \n\n   # comment\n ! another\n", map[string]string{"a": "1 "}},
		{"a=1,\\\n   2,\\\r\n\t3\nb=4", map[string]string{"a": "1,2,3", "b": "4"}},
		{"# comment\\\na=1", map[string]string{"a": "1"}},
		{"a=x\\\\\nb=y\\", map[string]string{"a": `x\`, "b": "y"}},
		{"a=1\\\n\nb=2", map[string]string{"a": "1", "b": "2"}},
		{`a\:b\=c\ d=\t\n\r\f\q\\`, map[string]string{"a:b=c d": "\t\n\r\fq\\"}},
		{`k=\u00e9\u20ac\ud83d\ude00!`, map[string]string{"k": "é€😀!"}},
		{"k=\xe9", map[string]string{"k": "é"}},
		{"a=1\na=2", map[string]string{"a": "2"}},
		{"=1", map[string]string{"": "1"}},
	} {
		got, err := ParseProperties([]byte(c.raw))
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.raw, got, err)
		}
	}
	for _, raw := range []string{`a=\u12`, `a=\u12g4`, `\u=1`, `a=\u+123`} {
		_, err := ParseProperties([]byte(raw))
		if err == nil {
			t.Errorf("%q: accepted", raw)
			continue
		}
		wantKind(t, err, Corrupt)
	}
	_, err := ParseProperties(make([]byte, maxPropertiesSize+1))
	wantKind(t, err, TooLarge)
}

func TestPropertiesOfSample(t *testing.T) {
	_, files := sampleFiles(t, "meta.properties")
	got, err := ParseProperties(files["meta.properties"])
	if err != nil || got["cluster.id"] != sample.ClusterID || got["version"] != "1" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ParseUUID(got["cluster.id"]); err != nil {
		t.Error(err)
	}
}

func FuzzProperties(f *testing.F) {
	_, files := sampleFiles(f, "meta.properties")
	f.Add(files["meta.properties"])
	f.Add([]byte("a\\:b = \\u00e9\\\n  more\n! c\nd:e"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := ParseProperties(raw); (got == nil) == (err == nil) {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
