package gateway

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A connection above the bound is told so and closed; those that are there are served on.
func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Concurrency = 2 })
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
	third := r.dial(t)
	answer, err := io.ReadAll(third) // to its end: it is closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("a third one: %.100q, %v", answer, err)
	}
	if a, b := ask(first, inFirst), ask(second, inSecond); a != 200 || b != 200 {
		t.Errorf("afterwards %d and %d", a, b)
	}
}
