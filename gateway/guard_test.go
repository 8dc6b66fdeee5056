package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// planes serves both planes on addresses of the given network interface and gives the addresses.
func planes(t *testing.T, ip string) (data, admin string) {
	t.Helper()
	r := newHarness(t, func(c *Config) { c.Hosts = []string{"Tier.Example"} })
	r.fake.topics = []string{"t"}
	serve := func(serve func(net.Listener) error, end func(context.Context) error) string {
		ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- serve(ln) }()
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := end(ctx); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		return fmt.Sprintf("127.0.0.1:%d", ln.Addr().(*net.TCPAddr).Port)
	}
	a := NewAdmin(AdminConfig{Metrics: prometheus.NewRegistry(), Ready: r.Ready, Hosts: []string{"Tier.Example"}})
	return serve(r.Serve, r.Shutdown), serve(a.Serve, a.Shutdown)
}

// raw sends a request's head as it is and gives the answer.
func raw(t *testing.T, addr, head string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, head+"Connection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%q: %v", head, err)
	}
	return string(answer)
}

// A page that lets its own name point to 127.0.0.1 reads whatever a listener there answers.
func TestLoopbackAnswersOnlyToItsOwnHosts(t *testing.T) {
	data, admin := planes(t, "127.0.0.1")
	openData, openAdmin := planes(t, "0.0.0.0")
	for _, c := range []struct {
		host  string
		knows bool
	}{
		{"localhost", true}, {"LocalHost:8080", true}, {"localhost.", true}, {"localhost.:80", true}, {"localhost:", true},
		{"127.0.0.1", true}, {"127.0.0.1:8080", true}, {"127.9.9.9", true}, {"192.168.0.7:80", true}, {"[::1]", true}, {"[::1]:8080", true}, {"[::ffff:127.0.0.1]:1", true},
		{"tier.example", true}, {"TIER.example:443", true}, {"tier.example.", true},
		{"evil.example", false}, {"evil.example:8080", false}, {"localhost.evil.example", false}, {"evil.localhost", false}, {"a.tier.example", false},
		{"127.0.0.1.evil.example", false}, {"127.1", false}, {"2130706433", false}, {"0x7f.0.0.1", false},
		{"localhost..", false}, {".", false}, {":8080", false}, {"localhost:80x", false}, {"localhost:80:90", false},
		{"[::1", false}, {"[localhost]", false}, {"[127.0.0.1]", false}, {"[::1]x", false}, {"::1", false}, {"xn--localhost", false},
		{strings.Repeat("a", 300), false},
	} {
		for _, plane := range []struct {
			addr, path string
			any        bool
		}{{data, "/topics", false}, {admin, "/healthy", false}, {admin, "/debug/pprof/heap?debug=1", false}, {openData, "/topics", true}, {openAdmin, "/healthy", true}} {
			answer := raw(t, plane.addr, "GET "+plane.path+" HTTP/1.1\r\nHost: "+c.host+"\r\n")
			if strings.HasPrefix(answer, "HTTP/1.1 400 ") && !c.knows {
				continue // no host at all, as the server sees it
			}
			if want := c.knows || plane.any; strings.HasPrefix(answer, "HTTP/1.1 200 ") != want {
				t.Errorf("host %.40q of %s: %.200q", c.host, plane.path, answer)
			} else if !want && (!strings.HasPrefix(answer, "HTTP/1.1 421 ") || !strings.Contains(answer, `{"error_code":42101,`)) {
				t.Errorf("host %.40q of %s: %.300q", c.host, plane.path, answer)
			}
		}
	}
}

func TestHostsOfOddRequests(t *testing.T) {
	data, admin := planes(t, "127.0.0.1")
	for _, c := range []struct{ head, status string }{
		{"GET http://evil.example%s HTTP/1.1\r\nHost: localhost\r\n", "421"},
		{"GET http://localhost:1%s HTTP/1.1\r\nHost: localhost:1\r\n", "200"},
		{"GET %s HTTP/1.0\r\n", "200"},
		{"GET %s HTTP/1.0\r\nHost: evil.example\r\n", "421"},
		{"HEAD %s HTTP/1.1\r\nHost: evil.example\r\n", "421"},
		{"POST %s HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n", "421"},
		{"GET %s HTTP/1.1\r\n", "400"},
		{"GET %s HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", "400"},
	} {
		for addr, path := range map[string]string{data: "/topics", admin: "/healthy"} {
			answer := raw(t, addr, fmt.Sprintf(c.head, path))
			if len(answer) < 12 || answer[9:12] != c.status {
				t.Errorf("%q: %.200q", fmt.Sprintf(c.head, path), answer)
			}
		}
	}
	// The data plane looks at both names of a request, net/http only at the one that counts.
	if answer := raw(t, data, "GET http://localhost/topics HTTP/1.1\r\nHost: evil.example\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 421 ") {
		t.Errorf("%.200q", answer)
	}
}

func TestPagesOfOtherSitesGetNoAnswer(t *testing.T) {
	data, admin := planes(t, "127.0.0.1")
	openData, openAdmin := planes(t, "0.0.0.0")
	for _, c := range []struct {
		host, fields string
		answered     bool
	}{
		{"localhost:8080", "Origin: http://localhost:8080\r\n", true},
		{"localhost:8080", "Origin: http://LOCALHOST:3000\r\n", true}, // another port is the same site
		{"[::1]:8080", "Origin: http://[::1]:8080\r\n", true},
		{"localhost:8080", "Origin: http://evil.example\r\n", false},
		{"localhost:8080", "Origin: https://localhost.evil.example\r\n", false},
		{"localhost:8080", "Origin: http://127.0.0.1:8080\r\n", false},
		{"localhost:8080", "Origin: null\r\n", false},
		{"localhost:8080", "Origin: localhost:8080\r\n", false},
		{"localhost:8080", "Origin: http://%zz\r\n", false},
		{"localhost:8080", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script\r\n", false},
		{"localhost:8080", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n", false},
		{"localhost:8080", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n", true}, // a link, followed
		{"localhost:8080", "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n", true},
		{"localhost:8080", "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", true},
	} {
		for _, at := range []struct{ addr, path string }{{data, "/topics"}, {admin, "/healthy"}, {admin, "/debug/pprof/heap"}, {openData, "/topics"}, {openAdmin, "/healthy"}} {
			answer := raw(t, at.addr, "GET "+at.path+" HTTP/1.1\r\nHost: "+c.host+"\r\n"+c.fields)
			if strings.HasPrefix(answer, "HTTP/1.1 200 ") != c.answered {
				t.Errorf("%s with %q: %.200q", at.path, c.fields, answer)
			} else if !c.answered && (!strings.HasPrefix(answer, "HTTP/1.1 403 ") || !strings.Contains(answer, `{"error_code":40301,`)) {
				t.Errorf("%s with %q: %.300q", at.path, c.fields, answer)
			}
		}
	}
}

// A connection of the admin plane ends when nothing comes: header, body or next request.
func TestIdleAdminConnectionsAreClosed(t *testing.T) {
	a := NewAdmin(AdminConfig{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }})
	if a.http.IdleTimeout <= 0 || a.http.ReadHeaderTimeout <= 0 || a.http.ErrorLog == nil {
		t.Errorf("%+v", &a.http)
	}
	a.http.IdleTimeout, a.http.ReadHeaderTimeout = 100*time.Millisecond, 100*time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	for _, sent := range []string{"", "GET /hea", "GET /healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, sent)
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("after %q: %v", sent, err)
		}
	}
	if err := a.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The admin plane takes no more connections than it has descriptors set aside for, and lets others in again.
func TestAdminConnectionsAreBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	bounded := &adminListener{Listener: ln}
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		for {
			conn, err := bounded.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	var open []net.Conn
	for range maxAdminConnections {
		dial()
		open = append(open, <-accepted)
	}
	if n, err := dial().Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("one more: %d bytes, %v", n, err)
	}
	open[0].Close()
	open[0].Close() // once counted
	dial()
	open[0] = <-accepted
	for _, conn := range open {
		conn.Close()
	}
	if n := bounded.open.Load(); n != 0 {
		t.Errorf("%d open", n)
	}
	ln.Close()
	<-accepted
}

// An answer of the admin plane that takes minutes is cut at the end, and that is no failure.
func TestAdminShutdownDoesNotWaitForALongAnswer(t *testing.T) {
	began := make(chan struct{})
	a := NewAdmin(AdminConfig{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }})
	a.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /debug/pprof/trace?seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := a.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func FuzzHostOf(f *testing.F) {
	f.Add("localhost.:80")
	f.Add("[::1]:80")
	f.Add("[fe80::1%eth0]")
	g := newSiteGuard(nil)
	f.Fuzz(func(t *testing.T, authority string) {
		if authority == "" || !g.answersTo([]byte(authority), false) {
			return
		}
		host, literal := hostOf([]byte(authority))
		if !literal && !strings.EqualFold(string(host), "localhost") {
			t.Errorf("answers to %q", authority)
		}
	})
}
