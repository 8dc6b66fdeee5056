package export

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"coldtap/internal/readlimit"
)

const (
	mediaBatches = "application/vnd.kafka.recordbatch"
	mediaJSON    = "application/json"

	maxAnswerHeaders = 64 << 10
	maxListing       = 64 << 20 // a topic's partitions, some 200 bytes each
	maxProblem       = 64 << 10
	maxTokenFile     = 64 << 10
	maxCAFile        = 4 << 20

	oneRead = 16 << 10 // bytes that are waited for at a time
)

// client asks one gateway. For concurrent use.
type client struct {
	base      *url.URL
	http      *http.Client
	token     string
	tokenFile string
	patience  time.Duration // of one wait for a header or for more of a body
}

func newClient(o *Options) (*client, error) {
	if strings.Contains(o.URL, "@") { // not shown: it may be malformed, and then be masked nowhere
		return nil, badOption("a URL with a user in it: give a token instead")
	}
	base, err := url.Parse(strings.TrimRight(o.URL, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, badOption("the gateway's URL must look like http://127.0.0.1:8080, not %q", o.URL)
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := readlimit.File(o.CAFile, maxCAFile)
		if err != nil {
			return nil, badOption("the CA file: %v", err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(pem) {
			return nil, badOption("the CA file %s holds no certificate", o.CAFile)
		}
	}
	c := &client{base: base, token: o.Token, tokenFile: o.TokenFile, patience: o.Timeout + o.tuning.grace}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:        security,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: maxAnswerHeaders,
			MaxIdleConnsPerHost:    o.Parallel,
			IdleConnTimeout:        90 * time.Second,
			DisableCompression:     true,
		},
		// A gateway sends no redirects, and a token must not go to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.transport != nil {
		c.http.Transport = o.transport
	}
	if _, err := c.bearer(); err != nil {
		return nil, badOption("%v", err)
	}
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) bearer() (string, error) {
	if c.tokenFile == "" {
		return c.token, nil
	}
	raw, err := readlimit.File(c.tokenFile, maxTokenFile)
	if err != nil {
		return "", fmt.Errorf("the token file: %w", err)
	}
	return string(bytes.TrimSpace(raw)), nil
}

// problem is an answer that is no data, as the gateway's contract describes it.
type problem struct {
	Status     int    `json:"-"`
	Code       int    `json:"error_code"`
	Message    string `json:"message"`
	NextOffset *int64 `json:"next_offset"`
	LogStart   *int64 `json:"log_start_offset"`
	TieredEnd  *int64 `json:"tiered_end_offset"`
	retryAfter time.Duration
}

func (p *problem) Error() string {
	if p.Code == 0 {
		return fmt.Sprintf("the gateway answered with status %d", p.Status)
	}
	return fmt.Sprintf("%d: %s", p.Code, p.Message)
}

// passes says that the same request may succeed later.
func (p *problem) passes() bool {
	return p.Status == http.StatusTooManyRequests || p.Status >= 500 && !p.damaged()
}

// damaged says that what is stored cannot be read, now or later.
func (p *problem) damaged() bool { return p.Code == codeDamaged || p.Code == codeTooLarge }

// Codes of the gateway's contract.
const (
	codeOutOfRange = 41601
	codeDamaged    = 50002
	codeTooLarge   = 50003
)

// maxRetryAfter bounds what a gateway may make us wait.
const maxRetryAfter = time.Minute

// open asks for a path below the base and gives the answer, whose body must be closed. A status other than 200 is a
// *problem.
func (c *client) open(ctx context.Context, accept, path string, query url.Values) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	guard := &guard{cancel: cancel, timer: time.AfterFunc(c.patience, func() { cancel(errStalled) }), patience: c.patience}
	resp, err := c.send(ctx, accept, path, query)
	guard.timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		cancel(nil)
		return nil, err
	}
	guard.ctx, guard.body = ctx, resp.Body
	resp.Body = guard
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	p := &problem{}
	if body, err := readlimit.All(resp.Body, maxProblem); err == nil {
		if json.Unmarshal(body, p) != nil {
			*p = problem{}
		}
	}
	p.Status = resp.StatusCode
	p.Message = printable(p.Message)
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		p.retryAfter = min(time.Duration(s)*time.Second, maxRetryAfter)
	}
	return nil, p
}

func (c *client) send(ctx context.Context, accept, path string, query url.Values) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	token, err := c.bearer()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", accept)
	return c.http.Do(req)
}

// final says that no asking again helps: the gateway refused, or cannot be trusted.
func final(err error) bool {
	if p, ok := errors.AsType[*problem](err); ok {
		return !p.passes()
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted
}

var errStalled = errors.New("nothing came for too long")

// guard is a body whose reads may each take only so long. A reader that is busy with something else costs nothing. A
// chunked body fills what it is asked to fill, as long as the chunk lasts, so that one read asks for little: on a slow
// line it is progress too.
type guard struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	patience time.Duration
	body     io.ReadCloser
}

func (g *guard) Read(p []byte) (int, error) {
	g.timer.Reset(g.patience)
	n, err := g.body.Read(p[:min(len(p), oneRead)])
	g.timer.Stop()
	if err != nil && err != io.EOF && errors.Is(context.Cause(g.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (g *guard) Close() error {
	err := g.body.Close()
	g.timer.Stop()
	g.cancel(nil)
	return err
}

// getJSON reads a listing into v.
func (c *client) getJSON(ctx context.Context, path string, query url.Values, v any) error {
	resp, err := c.open(ctx, mediaJSON, path, query)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := readlimit.All(resp.Body, maxListing)
	if err != nil {
		return fmt.Errorf("the answer to %s: %w", path, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("the answer to %s is not what a gateway says: %w", path, err)
	}
	return nil
}

// printable makes a message of the gateway fit for a terminal: one line, bounded.
func printable(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	s = strings.ToValidUTF8(s, "?")
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
