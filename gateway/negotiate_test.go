package gateway

import (
	"bytes"
	"strings"
	"testing"

	"coldtap/gateway/engine"
)

func TestNegotiate(t *testing.T) {
	const none = formatCount
	for accept, want := range map[string]format{
		"":                                    formatJSON,
		"  ":                                  formatJSON,
		"*/*":                                 formatJSON,
		"application/*":                       formatJSON,
		"application/json":                    formatJSON,
		"APPLICATION/X-NDJSON":                formatLines,
		"application/x-ndjson; charset=utf-8": formatLines,
		rawType:                               formatBatches,
		"text/html":                           none,
		"text/*":                              formatEvents,
		"image/*":                             none,
		"application/json;q=0":                none,
		"application/json;q=0, */*":           formatLines,
		"application/json;q=0.5, application/x-ndjson":                            formatLines,
		"application/x-ndjson;q=0.2, application/json;q=0.3":                      formatJSON,
		"application/x-ndjson, application/json":                                  formatLines,
		"application/json, application/x-ndjson":                                  formatJSON,
		"*/*, application/x-ndjson":                                               formatLines,
		"*/*;q=0.1, application/x-ndjson;q=0.05":                                  formatJSON,
		"application/*;q=0.9, application/json;q=0.1":                             formatLines,
		"text/html, application/xhtml+xml, */*;q=0.8":                             formatJSON,
		"application/vnd.kafka.binary.v2+json":                                    formatBinaryV2,
		"application/vnd.kafka.json.v2+json;q=0.9, application/vnd.kafka.v2+json": formatJSONV2,
		"application/vnd.kafka.text.v2+json, */*;q=0.1":                           formatTextV2,
		"application/vnd.kafka.avro.v2+json":                                      none,
		"text/event-stream":                                                       formatEvents,
		"text/event-stream;q=0.2, application/json;q=0.1":                         formatEvents,
		"application/x-ndjson;q=bogus, application/json":                          formatJSON,
		"application/x-ndjson; q=1.000, application/json;q=.5":                    formatLines,
		";;,,=,q, /, */, application/vnd.kafka.recordbatch;q=0.001":               formatBatches,
	} {
		got := none
		if offer := negotiate([]byte(accept), formats[:]); offer != nil {
			got = offer.format
		}
		if got != want {
			t.Errorf("%q: %d, want %d", accept, got, want)
		}
	}
}

func TestNothingAcceptableNamesWhatIs(t *testing.T) {
	r := newHarness(t)
	got := r.get(t, recordsPath+"?offset=1", "Accept", "text/html")
	if got.StatusCode != 406 || !strings.HasSuffix(got.body, `,"supported":["application/json","application/x-ndjson","application/vnd.kafka.recordbatch",`+
		`"application/vnd.kafka.binary.v2+json","application/vnd.kafka.json.v2+json","application/vnd.kafka.text.v2+json","text/event-stream","application/json-seq","application/ndjson","application/jsonl"]}`+"\n") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if got := r.get(t, "/topics", "Accept", "text/html"); got.StatusCode != 200 {
		t.Errorf("a listing has one format, whatever is accepted: %d", got.StatusCode)
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add([]byte("application/json;q=0.5, */*;q=0.1,, text/html;level=1"))
	f.Add([]byte(";q=,=;q=1.0000"))
	f.Fuzz(func(t *testing.T, accept []byte) {
		for _, offers := range [][]offer{recordFormats, messageFormats[:]} {
			if got := negotiate(accept, offers); got != nil && got.format >= formatCount {
				t.Errorf("%q: %d", accept, got.format)
			}
		}
	})
}

func TestNegotiateCoding(t *testing.T) {
	for accept, want := range map[string]engine.Coding{
		"": engine.Identity, "identity": engine.Identity, "br": engine.Identity, "gzip;q=0": engine.Identity, "*;q=0": engine.Identity, ";,=": engine.Identity,
		"gzip": engine.Gzip, "x-gzip": engine.Gzip, "GZIP;q=0.5": engine.Gzip, "deflate, gzip;q=1.0, *;q=0.5": engine.Gzip, "*": engine.Gzip,
		"zstd": engine.Zstd, "gzip, deflate, br, zstd": engine.Zstd, "gzip;q=0.5, zstd;q=0.4": engine.Gzip, "gzip, zstd;q=0": engine.Gzip,
		"identity, gzip;q=0.5": engine.Identity, "identity;q=0.1, gzip;q=0.5": engine.Gzip, "gzip;q=0, zstd;q=0, *": engine.Identity,
	} {
		if got := negotiateCoding([]byte(accept)); got != want {
			t.Errorf("%q: %v, want %v", accept, got, want)
		}
	}
}

func FuzzNegotiateCoding(f *testing.F) {
	f.Add([]byte("gzip;q=0.5, zstd;q=1.0, *;q=0, identity"))
	f.Add([]byte(",;=q,x-gzip;;q=9"))
	f.Fuzz(func(t *testing.T, accept []byte) {
		if got := negotiateCoding(accept); got == engine.Zstd && !bytes.Contains(bytes.ToLower(accept), []byte("zstd")) {
			t.Errorf("%q: zstd, which was not named", accept)
		}
	})
}
