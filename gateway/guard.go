package gateway

import (
	"bytes"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// siteGuard keeps web pages of other sites from reading through the browser of a user who reaches a listener that they
// cannot reach. Such a page either has its own name point to the listener's address (DNS rebinding), which shows in the
// Host field, or asks for the listener by its address, which shows in Origin and Sec-Fetch-Site.
type siteGuard struct {
	names []string // lower-case
}

func newSiteGuard(hosts []string) siteGuard {
	g := siteGuard{[]string{"localhost"}}
	for _, name := range hosts {
		g.names = append(g.names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return g
}

// siteRequest is what a request says of where it comes from and goes to; empty fields were not sent.
type siteRequest struct {
	loopback bool      // the listener is on a loopback address
	http10   bool      // HTTP/1.0 has no Host field
	hosts    [2][]byte // the Host field, and the host of the request's target
	origin   []byte
	// Sec-Fetch-Site, -Mode and -Dest, which browsers send to loopback addresses and over TLS.
	site, mode, dest []byte
}

// refuse gives the reason to refuse a request, nil when there is none.
func (g siteGuard) refuse(r siteRequest) *problem {
	if r.loopback {
		for i, host := range r.hosts {
			if i > 0 && bytes.Equal(host, r.hosts[0]) {
				continue
			}
			if !g.answersTo(host, r.http10) {
				return newProblem(codeMisdirected, "this listener does not answer to host %q, only to localhost, IP addresses and the names in the configuration's hosts", printable(host))
			}
		}
	}
	// What a page embeds or fetches is refused. A link to here that a person follows is not: the page cannot read it.
	followed := string(r.mode) == "navigate" && string(r.dest) == "document"
	if string(r.site) == "cross-site" && !followed {
		return newProblem(codeNotAllowed, "requests of other sites' pages are not answered")
	}
	if len(r.origin) > 0 && !sameHost(r.origin, r.hosts[0]) {
		return newProblem(codeNotAllowed, "requests of other sites' pages are not answered, and %q is another site than %q", printable(r.origin), printable(r.hosts[0]))
	}
	return nil
}

// answersTo says whether a loopback listener answers to a Host, with or without a port. No browser leaves the field
// out.
func (g siteGuard) answersTo(authority []byte, http10 bool) bool {
	if len(authority) == 0 {
		return http10
	}
	host, literal := hostOf(authority)
	if literal {
		return true
	}
	return len(host) > 0 && slices.ContainsFunc(g.names, func(name string) bool { return equalFold(host, name) })
}

// hostOf gives the host of host[:port], without the root's dot behind a name, and whether it is an IP literal; nothing
// when it is malformed.
func hostOf(authority []byte) (host []byte, literal bool) {
	host, port := authority, []byte(nil)
	if authority[0] == '[' {
		end := bytes.IndexByte(authority, ']')
		if end < 0 {
			return nil, false
		}
		host, port = authority[1:end], authority[end+1:]
		if bytes.IndexByte(host, ':') < 0 || !isAddress(host) {
			return nil, false
		}
		literal = true
	} else if colon := bytes.IndexByte(authority, ':'); colon >= 0 {
		host, port = authority[:colon], authority[colon:]
	}
	if len(port) > 0 {
		if port[0] != ':' || len(bytes.TrimLeft(port[1:], "0123456789")) > 0 {
			return nil, false
		}
	}
	if !literal {
		if literal = isAddress(host); !literal {
			host = bytes.TrimSuffix(host, []byte{'.'})
		}
	}
	return host, literal
}

// isAddress says whether b is an IP address. It does not keep b.
func isAddress(b []byte) bool {
	// An error of ParseAddr is an allocation, which every request by name would cost.
	if len(b) == 0 || (b[0] < '0' || b[0] > '9') && bytes.IndexByte(b, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	return err == nil
}

// sameHost says whether the origin of a page is the host that the page asks, on any port.
func sameHost(origin, authority []byte) bool {
	u, err := url.Parse(string(origin))
	if err != nil || u.Host == "" || len(authority) == 0 {
		return false // "null" among others: a page without an origin of its own
	}
	a, _ := hostOf([]byte(u.Host))
	b, _ := hostOf(authority)
	return len(a) > 0 && bytes.EqualFold(a, b)
}

// siteOf is the siteRequest of a request on the data plane.
func siteOf(ctx *fasthttp.RequestCtx, loopback bool) siteRequest {
	h := &ctx.Request.Header
	return siteRequest{
		loopback: loopback, http10: !h.IsHTTP11(), hosts: [2][]byte{h.Host(), ctx.URI().Host()}, origin: h.Peek("Origin"),
		site: h.Peek("Sec-Fetch-Site"), mode: h.Peek("Sec-Fetch-Mode"), dest: h.Peek("Sec-Fetch-Dest"),
	}
}

// ambiguous refuses requests that a proxy in front may read differently than fasthttp does: fasthttp prefers chunks to
// a length where a request has both, unfolds folded fields, and ends a line at a line feed alone.
func ambiguous(h *fasthttp.RequestHeader) *problem {
	if version := string(h.Protocol()); version != "HTTP/1.1" && version != "HTTP/1.0" {
		return newProblem(codeVersion, "this is HTTP/1.1; %s is not spoken here", printable(h.Protocol()))
	}
	raw := h.RawHeaders()
	hosts, lengths, encodings := 0, 0, 0
	for len(raw) > 0 {
		var line []byte
		line, raw, _ = bytes.Cut(raw, []byte{'\n'})
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return newProblem(codeBadParameter, "a header line ends without a carriage return")
		}
		if line[0] == ' ' || line[0] == '\t' {
			return newProblem(codeBadParameter, "folded header field")
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch {
		case equalFold(name, "host"):
			hosts++
		case equalFold(name, "content-length"):
			lengths++
		case equalFold(name, "transfer-encoding"):
			encodings++
			if !equalFold(bytes.TrimSpace(value), "chunked") {
				return newProblem(codeBadParameter, "no transfer coding but chunked is understood")
			}
		}
	}
	switch {
	case hosts > 1:
		return newProblem(codeBadParameter, "more than one Host field")
	case hosts == 0 && h.IsHTTP11():
		return newProblem(codeBadParameter, "no Host field")
	case lengths > 1, encodings > 1, lengths > 0 && encodings > 0, encodings > 0 && !h.IsHTTP11():
		return newProblem(codeBadParameter, "ambiguous length of the request's body")
	}
	return nil
}
