package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// told is a gateway whose every answer to a read is the same.
type told struct {
	status              int
	body                []byte
	next, end, trailing string
	cut                 bool
}

func (g told) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Trailer: http.Header{}, Request: r}
	body := fmt.Sprintf(`{"name":"plain","topic_id":%q,"partitions":[{"partition":0,"log_start_offset":0,"tiered_end_offset":80}]}`, firstID)
	if !strings.HasSuffix(r.URL.Path, "/records") {
		resp.Body = io.NopCloser(strings.NewReader(body))
		return resp, nil
	}
	resp.StatusCode = g.status
	resp.Header.Set("Content-Type", mediaBatches)
	resp.Header.Set("X-Kafka-Next-Offset", g.next)
	resp.Header.Set("X-Kafka-End", g.end)
	resp.Trailer.Set("X-Kafka-Next-Offset", g.trailing)
	var from io.Reader = bytes.NewReader(g.body)
	if g.cut {
		from = io.MultiReader(from, brokenReader{})
	}
	resp.Body = io.NopCloser(from)
	return resp, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// FuzzAnswers: whatever a gateway answers, an export ends, and what it wrote ascends.
func FuzzAnswers(f *testing.F) {
	log, err := plainLog()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(200), log[:2512], "8", "limit", "", false)
	f.Add(uint16(200), log[:4077], "", "", "10", true)
	f.Add(uint16(200), log, "", "", "", false)
	f.Add(uint16(200), []byte{}, "9223372036854775807", "undecided", "-1", false)
	f.Add(uint16(500), []byte(`{"error_code":50002,"message":"m","next_offset":20}`), "", "", "", false)
	f.Add(uint16(416), []byte(`{"error_code":41601,"message":"m","log_start_offset":20}`), "", "", "", false)
	f.Add(uint16(503), []byte(`{`), "", "", "", true)
	f.Fuzz(func(t *testing.T, status uint16, body []byte, next, end, trailing string, cut bool) {
		for _, skip := range []bool{false, true} {
			var out bytes.Buffer
			o := small(Options{URL: "http://gateway", Topic: "plain", To: Latest, Format: NDJSON, Out: &out, SkipDamaged: skip})
			o.transport = told{status: int(status), body: body, next: next, end: end, trailing: trailing, cut: cut}
			m, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			p := m.Partitions[0]
			at, records := p.StartOffset-1, int64(0)
			for line := range strings.Lines(out.String()) {
				var r struct{ Offset int64 }
				if err := json.Unmarshal([]byte(line), &r); err != nil || r.Offset <= at || r.Offset >= *p.EndOffset {
					t.Fatalf("%v: offset %d behind %d", err, r.Offset, at)
				}
				at = r.Offset
				records++
			}
			if p.NextOffset <= at || p.NextOffset > *p.EndOffset || p.Records != records || p.Ended == "" {
				t.Fatalf("%+v with %d records up to %d", p, records, at)
			}
		}
	})
}
