package gateway

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A connection above the bound gets 503 and is closed; those that are there are served on.
func TestConnectionsAreBounded(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Concurrency = 2 })
	r.fake.topics = []string{"t"}
	const request = "GET /topics HTTP/1.1\r\nHost: x\r\n\r\n"
	ask := func(conn io.ReadWriter, in *bufio.Reader) int {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode
	}
	first, second := r.dial(t), r.dial(t)
	inFirst, inSecond := bufio.NewReader(first), bufio.NewReader(second)
	if a, b := ask(first, inFirst), ask(second, inSecond); a != 200 || b != 200 {
		t.Fatalf("%d and %d", a, b)
	}
	for _, said := range []string{"", request, "HEAD /topics HTTP/1.1\r\nHost: x\r\n\r\n"} {
		third := r.dial(t)
		io.WriteString(third, said)
		answer, err := http.ReadResponse(bufio.NewReader(third), &http.Request{Method: strings.SplitN(said, " ", 2)[0]})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if answer.StatusCode != 503 || !answer.Close || answer.Header.Get("Retry-After") != "1" || answer.Header.Get("X-Request-Id") == "" || err != nil ||
			(said == request || said == "") && !strings.HasPrefix(string(body), `{"error_code":50301,"message":"all 2 connections are in use`) {
			t.Errorf("a third one: %d %v %s, %v", answer.StatusCode, answer.Header, body, err)
		}
	}
	if n := testutil.ToFloat64(r.metrics.requests[routeOther][statusIndex(503)]); n != 3 {
		t.Errorf("counted %v", n)
	}
	if a, b := ask(first, inFirst), ask(second, inSecond); a != 200 || b != 200 {
		t.Errorf("afterwards %d and %d", a, b)
	}
}
