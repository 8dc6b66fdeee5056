//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A gateway is `coldtap serve` on the cluster's tier.
type gateway struct {
	binary, config, output string
	snapshot               string
	data, admin            string // addresses
	process                *process
	client                 *http.Client
}

// newGateway builds coldtap and writes its configuration; run starts it.
func newGateway(ctx context.Context, c *cluster) (*gateway, error) {
	ports, err := freePorts([]int{0, 1})
	if err != nil {
		return nil, err
	}
	g := &gateway{
		binary: filepath.Join(c.dir, "coldtap"), config: filepath.Join(c.dir, "coldtap.yaml"), output: filepath.Join(c.dir, "coldtap.output"),
		snapshot: filepath.Join(c.dir, "metadata.snapshot"),
		data:     fmt.Sprintf("127.0.0.1:%d", ports[0]), admin: fmt.Sprintf("127.0.0.1:%d", ports[1]),
		// A hung answer is an error that says so, not the end of the whole run's time.
		client: &http.Client{Timeout: 60 * time.Second},
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", g.binary, "coldtap/cmd/coldtap")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	// Chunks of two or three segments' size: most reads cross both borders.
	config := fmt.Sprintf(`
listen: %s
admin: %s
store: {kind: file, file: {dir: %q}}
layout: {kind: local}
metadata: {kind: kafka, kafka: {bootstrap: ["%s"], topic: %s, snapshot: %q}}
cache: {memory: 64MiB, chunk: 64KiB, index_memory: 8MiB}
`, g.data, g.admin, c.store(), strings.Join(c.bootstrap(), `", "`), metadataTopic, g.snapshot)
	return g, os.WriteFile(g.config, []byte(config), 0o644)
}

// run starts the process. It does not wait until it is ready.
func (g *gateway) run(ctx context.Context) error {
	var err error
	g.process, err = start(exec.CommandContext(ctx, g.binary, "serve", "--config", g.config, "--log-level", "debug"), g.output)
	return err
}

// kill ends it without a chance to write its snapshot. It may have ended, or never been run.
func (g *gateway) kill() {
	if g.process != nil {
		g.process.kill()
	}
}

// ready gives the body of /ready, and an error while the answer is not 200.
func (g *gateway) ready() (string, error) {
	if g.process.ended() {
		return "", fmt.Errorf("coldtap ended: see %s", g.output)
	}
	response, err := g.client.Get("http://" + g.admin + "/ready")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("/ready: %s: %s", response.Status, body)
	}
	return strings.TrimSpace(string(body)), err
}

// fetch gives a 200's whole body, and what its headers and trailers tell.
func (g *gateway) fetch(path, accept string) (body []byte, told http.Header, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+g.data+path, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := g.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, problemOf(path, response.StatusCode, body)
	}
	told = response.Header.Clone()
	for name, values := range response.Trailer {
		told[name] = values
	}
	return body, told, nil
}

// get decodes a 200's JSON body into result, or gives it as it is for a *[]byte; anything else is a *problem.
func (g *gateway) get(path string, result any) error {
	body, _, err := g.fetch(path, "*/*")
	if err != nil {
		return err
	}
	if raw, ok := result.(*[]byte); ok {
		*raw = body
		return nil
	}
	return json.Unmarshal(body, result)
}

// A problem is an error answer, or the error line that ends a broken one.
type problem struct {
	path       string
	Code       int    `json:"error_code"`
	Message    string `json:"message"`
	LogStart   *int64 `json:"log_start_offset"`
	LocalStart *int64 `json:"local_log_start_offset"`
	TieredEnd  *int64 `json:"tiered_end_offset"`
}

func (p *problem) Error() string { return fmt.Sprintf("%s: %d: %s", p.path, p.Code, p.Message) }

func problemOf(path string, status int, body []byte) error {
	p := &problem{path: path}
	if err := json.Unmarshal(body, p); err != nil || p.Code/100 != status {
		return fmt.Errorf("%s: status %d with the body %q", path, status, body)
	}
	return p
}

// codeOf gives the five digits of a *problem, and 0 for any other error.
func codeOf(err error) int {
	var p *problem
	if errors.As(err, &p) {
		return p.Code
	}
	return 0
}

// An answer is what a read gave. One that broke on the way has records and an error.
type answer struct {
	from     int64
	records  []record
	end      string // limit | range | tier | undecided
	next     int64
	decided  int64 // -1: not told
	atBroker bool  // it says that the brokers have what follows
}

func partitionPath(topic string, partition int) string {
	return fmt.Sprintf("/topics/%s/partitions/%d", url.PathEscape(topic), partition)
}

// read is one request for records as ndjson.
func (g *gateway) read(topic string, partition int, isolation string, from int64, maxBytes int) (answer, error) {
	a := answer{from: from, decided: -1}
	path := fmt.Sprintf("%s/records?offset=%d&isolation_level=%s&max_bytes=%d&encoding=base64&summary=true", partitionPath(topic, partition), from, isolation, maxBytes)
	body, told, err := g.fetch(path, "application/x-ndjson")
	if err != nil {
		return a, err
	}
	if err := a.lines(path, topic, partition, bytes.NewReader(body)); err != nil {
		return a, err
	}
	if next := told.Get("X-Kafka-Next-Offset"); next != strconv.FormatInt(a.next, 10) {
		return a, fmt.Errorf("%s: the last line says %d, the trailer %q", path, a.next, next)
	}
	return a, nil
}

// lines takes the lines of an answer. The last one must be the end or an error.
func (a *answer) lines(path, topic string, partition int, body io.Reader) error {
	lines := bufio.NewReader(body)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: no end after %d records: %w", path, len(a.records), err)
		}
		var line struct {
			record
			Topic      string  `json:"topic"`
			Partition  int     `json:"partition"`
			End        *string `json:"end"`
			ErrorCode  int     `json:"error_code"`
			Next       int64   `json:"next_offset"`
			Decided    *int64  `json:"decided_end_offset"`
			ContinueAt string  `json:"continue_at"`
			Count      int     `json:"records"`
		}
		line.Partition = -1
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("%s: %w in %q", path, err, text)
		}
		switch {
		case line.ErrorCode != 0:
			p := &problem{path: path}
			return errors.Join(json.Unmarshal(text, p), p)
		case line.End != nil:
			a.end, a.next, a.atBroker = *line.End, line.Next, line.ContinueAt == "broker"
			if line.Decided != nil {
				a.decided = *line.Decided
			}
			if line.Count != len(a.records) {
				return fmt.Errorf("%s: %d records, but the last line says %d", path, len(a.records), line.Count)
			}
			if rest, _ := io.ReadAll(lines); len(rest) > 0 {
				return fmt.Errorf("%s: %q behind the last line", path, rest)
			}
			return nil
		case line.Topic != topic || line.Partition != partition:
			return fmt.Errorf("%s: a record of %s-%d", path, line.Topic, line.Partition)
		}
		a.records = append(a.records, line.record)
	}
}

// A reader is one way to ask for records.
type reader func(topic string, partition int, isolation string, from int64, maxBytes int) (answer, error)

// follow reads on from next_offset until the answer ends for another reason than a limit.
func (read reader) follow(topic string, partition int, isolation string, from int64, maxBytes int) (answer, error) {
	whole := answer{from: from, next: from}
	for {
		a, err := read(topic, partition, isolation, whole.next, maxBytes)
		whole.records = append(whole.records, a.records...)
		if err != nil {
			return whole, err
		}
		stuck := a.end == "limit" && a.next <= whole.next
		whole.end, whole.next, whole.decided, whole.atBroker = a.end, a.next, a.decided, a.atBroker
		if stuck {
			return whole, fmt.Errorf("%s-%d: a limit without progress at %d", topic, partition, a.next)
		}
		if a.end != "limit" {
			return whole, nil
		}
	}
}

// foundAt asks for the first record at or after a time.
func (g *gateway) foundAt(topic string, partition int, isolation string, timestamp int64) (f found, err error) {
	err = g.get(partitionPath(topic, partition)+"/offsets?isolation_level="+isolation+"&timestamp="+strconv.FormatInt(timestamp, 10), &f)
	return f, err
}

// differ tells the first place where two lists of records part; empty when they are the same.
func differ(got, want []record) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			return fmt.Sprintf("%d records too many, the first at offset %d", len(got)-i, got[i].Offset)
		case i >= len(got):
			return fmt.Sprintf("%d records too few, the first at offset %d", len(want)-i, want[i].Offset)
		case !same(got[i], want[i]):
			return fmt.Sprintf("record %d is\n%s\nnot\n%s", i, shown(got[i]), shown(want[i]))
		}
	}
	return ""
}

// same tells whether all that a client can see is the same; null differs from empty.
func same(a, b record) bool {
	bytesEqual := func(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && a.TimestampType == b.TimestampType && a.LeaderEpoch == b.LeaderEpoch &&
		bytesEqual(a.Key, b.Key) && bytesEqual(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b header) bool { return a.Key == b.Key && bytesEqual(a.Value, b.Value) })
}

func shown(r record) string {
	text, _ := json.Marshal(r)
	return string(text[:min(len(text), 500)])
}

// between gives the records with offsets in [from, to).
func between(records []record, from, to int64) []record {
	at := func(offset int64) int {
		i, _ := slices.BinarySearchFunc(records, offset, func(r record, offset int64) int { return int(r.Offset - offset) })
		return i
	}
	return records[at(from):max(at(from), at(to))]
}
