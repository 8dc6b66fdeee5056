package jsonenc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"coldtap/segment"
)

func encoder(encoding Encoding) *Encoder {
	e := new(Encoder)
	e.Reset("orders", 3, encoding)
	return e
}

func TestRecordShape(t *testing.T) {
	record := segment.Record{
		Offset: 42, Timestamp: 1700000000000, LeaderEpoch: 7,
		Key: []byte("k\"1"), Value: []byte{0xff, 0xfe},
		Headers: []segment.RecordHeader{{Key: []byte("h"), Value: nil}, {Key: []byte("h"), Value: []byte{}}},
	}
	const head = `{"topic":"orders","partition":3,"offset":42,"timestamp":1700000000000,"timestamp_type":"CREATE_TIME",`
	for _, c := range []struct {
		name     string
		encoding Encoding
		change   func(*segment.Record)
		want     string
	}{
		{"text", Text, func(*segment.Record) {},
			`"key":"k\"1","value":{"__raw__":"//4="},"headers":[{"key":"h","value":null},{"key":"h","value":""}],"leader_epoch":7}`},
		{"base64", Base64, func(*segment.Record) {},
			`"key":"ayIx","value":"//4=","headers":[{"key":"h","value":null},{"key":"h","value":""}],"leader_epoch":7}`},
		{"null and empty differ", Text, func(r *segment.Record) { r.Key, r.Value, r.Headers = nil, []byte{}, nil },
			`"key":null,"value":"","headers":[],"leader_epoch":7}`},
		{"null in base64", Base64, func(r *segment.Record) { r.Key, r.Value, r.Headers = nil, []byte{}, nil },
			`"key":null,"value":"","headers":[],"leader_epoch":7}`},
		{"json is embedded verbatim", JSON, func(r *segment.Record) {
			r.Value, r.Headers = []byte(`{ "a b" : [1,	2, "x \" y"] }`), []segment.RecordHeader{{Key: []byte("n"), Value: []byte("12.50")}}
		},
			`"key":"k\"1","value":{ "a b" : [1,	2, "x \" y"] },"headers":[{"key":"n","value":12.50}],"leader_epoch":7}`},
		{"no json stays text", JSON, func(r *segment.Record) { r.Value, r.Headers = []byte("{oops"), nil },
			`"key":"k\"1","value":"{oops","headers":[],"leader_epoch":7}`},
		{"json null is not a null value", JSON, func(r *segment.Record) { r.Value, r.Headers = []byte(""), nil },
			`"key":"k\"1","value":"","headers":[],"leader_epoch":7}`},
		{"unknown epoch", Text, func(r *segment.Record) { r.Value, r.Headers, r.LeaderEpoch = nil, nil, -1 },
			`"key":"k\"1","value":null,"headers":[],"leader_epoch":-1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record
			c.change(&r)
			got := string(encoder(c.encoding).AppendRecord(nil, &r))
			if got != head+c.want {
				t.Errorf("got  %s\nwant %s", got, head+c.want)
			}
			if !json.Valid([]byte(got)) {
				t.Error("not JSON")
			}
		})
	}
	append1 := record
	append1.TimestampType = segment.LogAppendTime
	if got := encoder(Text).AppendRecord(nil, &append1); !bytes.Contains(got, []byte(`"timestamp_type":"LOG_APPEND_TIME"`)) {
		t.Errorf("%s", got)
	}
}

// reference is how encoding/json writes the same record.
type reference struct {
	Topic         string            `json:"topic"`
	Partition     int32             `json:"partition"`
	Offset        int64             `json:"offset"`
	Timestamp     int64             `json:"timestamp"`
	TimestampType string            `json:"timestamp_type"`
	Key           any               `json:"key"`
	Value         any               `json:"value"`
	Headers       []referenceHeader `json:"headers"`
	LeaderEpoch   int32             `json:"leader_epoch"`
}

type referenceHeader struct {
	Key   any `json:"key"`
	Value any `json:"value"`
}

type rawBytes struct {
	Raw []byte `json:"__raw__"`
}

func asText(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return string(b)
	default:
		return rawBytes{b}
	}
}

func asBase64(b []byte) any {
	if b == nil {
		return nil
	}
	return base64.StdEncoding.EncodeToString(b)
}

func referenceOf(r *segment.Record, show func([]byte) any) *reference {
	ref := &reference{
		Topic: "orders", Partition: 3, Offset: r.Offset, Timestamp: r.Timestamp, TimestampType: "CREATE_TIME",
		Key: show(r.Key), Value: show(r.Value), Headers: []referenceHeader{}, LeaderEpoch: r.LeaderEpoch,
	}
	for _, h := range r.Headers {
		key := h.Key
		if key == nil {
			key = []byte{}
		}
		ref.Headers = append(ref.Headers, referenceHeader{asText(key), show(h.Value)})
	}
	return ref
}

func encodingJSON(tb testing.TB, v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// separated escapes what encoding/json leaves: U+0085 everywhere, U+2028 and U+2029 in embedded documents.
var separated = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// FuzzAgainstEncodingJSON holds every byte of the output against encoding/json's, whatever the record holds.
func FuzzAgainstEncodingJSON(f *testing.F) {
	f.Add([]byte("key"), []byte("a \"quoted\" \\ value\n\t\x00\x1f\x7f"), []byte("h"), []byte("\u2028é😀"), int64(5))
	f.Add([]byte("\u0085a\u2028\u2029"), []byte("[\"\u2028\", \"\u0085\"]"), []byte("\u2029"), []byte("\u2027\u0084"), int64(7))
	f.Add([]byte(nil), []byte{0xff, 'a'}, []byte{}, []byte(strings.Repeat("0123456\"", 9)), int64(-1))
	f.Add([]byte(strings.Repeat("x", 40)+"\u2029"), []byte(strings.Repeat("é", 20)+"\xc3"), []byte("\xff"), []byte(nil), int64(1<<62))
	f.Fuzz(func(t *testing.T, key, value, headerKey, headerValue []byte, n int64) {
		r := segment.Record{Offset: n, Timestamp: n, LeaderEpoch: int32(n), Key: key, Value: value,
			Headers: []segment.RecordHeader{{Key: headerKey, Value: headerValue}, {Key: value, Value: key}}}
		for _, c := range []struct {
			encoding Encoding
			show     func([]byte) any
		}{{Text, asText}, {Base64, asBase64}} {
			e := encoder(c.encoding)
			got := e.AppendRecord(nil, &r)
			if bound := e.SizeBound(&r); len(got) > bound {
				t.Errorf("%d bytes, bound %d", len(got), bound)
			}
			if want := separated.Replace(encodingJSON(t, referenceOf(&r, c.show))); string(got) != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
	})
}

// inPieces appends a record through a buffer that is as small as it may be.
func inPieces(t *testing.T, e *Encoder, r *segment.Record) string {
	t.Helper()
	var got []byte
	buf, err := e.AppendInPieces(make([]byte, 0, PieceRoom), r, func(b []byte) ([]byte, error) {
		got = append(got, b...)
		return b[:0], nil
	})
	if err != nil || cap(buf) != PieceRoom {
		t.Errorf("a buffer of %d bytes, then %d: %v", PieceRoom, cap(buf), err)
	}
	return string(append(got, buf...))
}

// FuzzInPieces: a record written in pieces is the record.
func FuzzInPieces(f *testing.F) {
	f.Add([]byte("a \"quoted\" \\ value\n\x00\u2028\u0085é😀"), []byte("k"), uint16(4000))
	f.Add([]byte("\xff\xfe"), []byte{}, uint16(9000))
	f.Add([]byte(`{"a":[1,2,"x"]}`), []byte(`[1]`), uint16(1))
	f.Add([]byte(`"`), []byte("\x01"), uint16(60_000))
	f.Fuzz(func(t *testing.T, unit, key []byte, times uint16) {
		value := bytes.Repeat(unit, min(int(times), 200_000/max(len(unit), 1)))
		list := []byte("[1" + strings.Repeat(" ", int(times)) + ",2]")
		for _, r := range []segment.Record{
			{Offset: 1, Key: key, Value: value},
			{Offset: 1, Key: value, Value: list, Headers: []segment.RecordHeader{{Key: value, Value: key}, {Key: key, Value: value}, {}}},
			{Offset: 1, Value: []byte(`["` + strings.Repeat("é", int(times)) + `"]`)},
		} {
			for _, encoding := range []Encoding{Text, Base64, JSON} {
				e := encoder(encoding)
				if got, want := inPieces(t, e, &r), string(e.AppendRecord(nil, &r)); got != want {
					t.Errorf("encoding %d: %d bytes, want %d: %.200q", encoding, len(got), len(want), got)
				}
			}
		}
	})
}

func TestPiecesEndWhereTheyCannotGo(t *testing.T) {
	e := encoder(Text)
	calls, gone := 0, errors.New("gone")
	_, err := e.AppendInPieces(make([]byte, 0, PieceRoom), &segment.Record{Value: bytes.Repeat([]byte("x"), 1<<20)}, func(b []byte) ([]byte, error) {
		calls++
		return b[:0], gone
	})
	if err != gone || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestSizeBoundHoldsForLongText(t *testing.T) {
	for name, value := range map[string]string{
		"plain":    strings.Repeat("a", 100<<10),
		"controls": strings.Repeat("\x01", 100<<10),
		"quotes":   strings.Repeat(`"`, 100<<10),
		"no text":  strings.Repeat("\xff", 100<<10),
		"breaks":   strings.Repeat("\u0085\u2028\u2029", 10<<10),
	} {
		r := segment.Record{Value: []byte(value)}
		e := encoder(Text)
		got, bound := len(e.AppendRecord(nil, &r)), e.SizeBound(&r)
		if got > bound || bound > got+len(value) {
			t.Errorf("%s: %d bytes, bound %d", name, got, bound)
		}
	}
}

func TestAppendStringMendsWhatIsNoText(t *testing.T) {
	if got := string(AppendString([]byte("x"), "a\xffb\"")); got != `x"a`+"\uFFFD"+`b\""` {
		t.Errorf("%s", got)
	}
}

func TestNoAllocations(t *testing.T) {
	e := encoder(Text)
	r := benchRecords()[0]
	dst := make([]byte, 0, 64<<10)
	if n := testing.AllocsPerRun(100, func() { dst = e.AppendRecord(dst[:0], &r) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// TestStrictEncodings: what a client's parser would choke on is told, and what it takes comes as it wants it.
func TestStrictEncodings(t *testing.T) {
	for _, c := range []struct {
		name       string
		encoding   Encoding
		key, value []byte
		fits       bool
		want       string
	}{
		{"json", OnlyJSON, []byte(`{"id": 1}`), []byte(`[1, 2]`), true, `"key":{"id":1},"value":[1,2]`},
		{"json with a plain key", OnlyJSON, []byte(`user-1`), []byte(`"x"`), true, `"key":"user-1","value":"x"`},
		{"json with nulls", OnlyJSON, nil, nil, true, `"key":null,"value":null`},
		{"no json", OnlyJSON, nil, []byte(`{oops`), false, ""},
		{"an empty value is no json", OnlyJSON, nil, []byte{}, false, ""},
		{"text", PlainText, []byte(`{"id": 1}`), []byte{}, true, `"key":"{\"id\": 1}","value":""`},
		{"text with nulls", PlainText, nil, nil, true, `"key":null,"value":null`},
		{"a value that is no text", PlainText, nil, []byte{0xff}, false, ""},
		{"a key that is no text", PlainText, []byte{0xff}, nil, false, ""},
		{"text always fits where raw bytes are allowed", Text, []byte{0xff}, []byte{0xff}, true, `"key":{"__raw__":"/w=="},"value":{"__raw__":"/w=="}`},
		{"embedding where possible always fits", JSON, []byte("1"), []byte(`{oops`), true, `"key":1,"value":"{oops"`},
		{"base64 always fits", Base64, []byte{0xff}, []byte{0xff}, true, `"key":"/w==","value":"/w=="`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, r := encoder(c.encoding), &segment.Record{Key: c.key, Value: c.value}
			got, fits := e.TryAppendRecord(nil, r)
			if fits != c.fits || !bytes.Contains(got, []byte(c.want)) || !json.Valid(got) || len(got) > e.SizeBound(r) {
				t.Errorf("%v %s, want %v %s", fits, got, c.fits, c.want)
			}
		})
	}
}

// bytesOf gives the bytes that the JSON encoding showed, by the rule of the package's doc and nothing else.
func bytesOf(t *testing.T, shown json.RawMessage) []byte {
	t.Helper()
	switch shown[0] {
	case 'n':
		return nil
	case '"':
		var text string
		if err := json.Unmarshal(shown, &text); err != nil {
			t.Fatal(err)
		}
		return []byte(text)
	case '{':
		var object map[string]json.RawMessage
		if err := json.Unmarshal(shown, &object); err != nil {
			t.Fatal(err)
		}
		if _, is := object["__raw__"]; is {
			var marker rawBytes
			if err := json.Unmarshal(shown, &marker); err != nil || len(object) != 1 {
				t.Fatalf("%s: %v", shown, err)
			}
			return marker.Raw
		}
	}
	return shown
}

type shownRecord struct {
	Key, Value json.RawMessage
	Headers    []struct{ Value json.RawMessage }
}

// show gives a record in the JSON encoding, parsed as far as its fields.
func show(t *testing.T, r *segment.Record) (s shownRecord) {
	t.Helper()
	e := encoder(JSON)
	line := e.AppendRecord(nil, r)
	if len(line) > e.SizeBound(r) || bytes.ContainsAny(line, "\n\r\u0085\u2028\u2029") {
		t.Errorf("%d bytes, bound %d: %q", len(line), e.SizeBound(r), line)
	}
	if err := json.Unmarshal(line, &s); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return s
}

// TestMixedEncodingIsReversible: what an embedding encoder makes ambiguous, or strict parsers refuse, is shown as the
// marker.
func TestMixedEncodingIsReversible(t *testing.T) {
	deep := strings.Repeat("[", 512) + strings.Repeat("]", 512)
	for _, c := range []struct{ bytes, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`[1, 2]`, `[1, 2]`},
		{`true`, `true`},
		{`-1.50e+2`, `-1.50e+2`},
		{`12345678901234567890`, `12345678901234567890`},
		{`{"a":{"__raw__":"AAAA"}}`, `{"a":{"__raw__":"AAAA"}}`},
		{`["__raw__"]`, `["__raw__"]`},
		{`{"a":"__raw__"}`, `{"a":"__raw__"}`},
		{`{"a":"\ud83d\ude00"}`, `{"a":"\ud83d\ude00"}`},
		{deep, deep},
		{`plain text`, `"plain text"`},
		{`{oops`, `"{oops"`},
		{`NaN`, `"NaN"`},
		{``, `""`},
		{`null`, ""},
		{`"text"`, ""},
		{`""`, ""},
		{`{"__raw__":"AAAA"}`, ""},
		{`{"a":1,"__raw__":1}`, ""},
		{`{"\u005f_raw_\u005f" :"AAAA"}`, ""},
		{"{\n\"a\":1}", ""},
		{"{\"a\":1}\n", ""},
		{"{\"a\":\r1}", ""},
		{` {"a":1}`, ""},
		{"1\t", ""},
		{"[\"\u2028\"]", ""},
		{"[\"\u0085\"]", ""},
		{`["\ud800"]`, ""},
		{`["\udc00\ud800"]`, ""},
		{`["\ud800a\udc00"]`, ""},
		{`{"\ud83d":1}`, ""},
		{`1e400`, ""},
		{`[-1E+999]`, ""},
		{strings.Repeat("9", 400), ""},
		{"[" + deep + "]", ""},
		{"\xff", ""},
	} {
		want := c.want
		if want == "" {
			want = `{"__raw__":"` + base64.StdEncoding.EncodeToString([]byte(c.bytes)) + `"}`
		}
		b := []byte(c.bytes)
		s := show(t, &segment.Record{Key: b, Value: b, Headers: []segment.RecordHeader{{Value: b}}})
		for where, got := range map[string]json.RawMessage{"key": s.Key, "value": s.Value, "header": s.Headers[0].Value} {
			if string(got) != want {
				t.Errorf("%s %.60q is shown as %.60s, want %.60s", where, c.bytes, got, want)
			}
			if !bytes.Equal(bytesOf(t, got), b) {
				t.Errorf("%s %.60q cannot be told from %.60s", where, c.bytes, got)
			}
		}
	}
}

// FuzzMixedEncodingIsReversible: whatever the bytes are, they can be told from what is shown.
func FuzzMixedEncodingIsReversible(f *testing.F) {
	for _, seed := range []string{`null`, `"a"`, `{"__raw__":"AA=="}`, `{"a" : [1e5,"\ud800"]}`, "[\"\u2028\"]", "\xff", "", "x"} {
		f.Add([]byte(seed), []byte("h"))
	}
	f.Fuzz(func(t *testing.T, b, header []byte) {
		s := show(t, &segment.Record{Key: header, Value: b, Headers: []segment.RecordHeader{{Value: b}}})
		for _, c := range []struct {
			got   json.RawMessage
			bytes []byte
		}{{s.Key, header}, {s.Value, b}, {s.Headers[0].Value, b}} {
			if back := bytesOf(t, c.got); !bytes.Equal(back, c.bytes) || (back == nil) != (c.bytes == nil) {
				t.Errorf("%q is shown as %s, which reads as %q", c.bytes, c.got, back)
			}
		}
	})
}
