package fakes3

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Fault is what a request meets. The zero Fault changes nothing; fields combine.
type Fault struct {
	Delay time.Duration   // before anything is answered
	Block <-chan struct{} // wait until it is closed before anything is answered

	Status int    // error answer with this status,
	Code   string // and this S3 code, "" = the usual one of the status; the operation does not take place
	After  bool   // the operation takes place first, then the error is answered: a lost answer
	Eat    int64  // so many bytes of the request's body are read before the error
	Drop   bool   // the connection is broken without an answer (After, Eat and Reset apply)

	Header func(http.Header) // changes the headers of the true answer: a lying Content-Range, a missing ETag

	CutAfter int64         // > 0: the body ends after so many bytes and the connection breaks; < 0: right after the headers
	Reset    bool          // a break is a TCP reset, which may overtake bytes already sent, instead of an orderly end
	Hang     bool          // at CutAfter the connection stays open and silent until the client goes or the server ends
	Piece    int           // the body comes in pieces of so many bytes, each flushed,
	Pause    time.Duration // with this pause between pieces
	Rate     int64         // body bytes per second

	Serve *Object // answered instead of the object under the key: a stale or foreign version. It has its own ETag, Range works on it
	Deaf  bool    // If-Match is not looked at, as some stores do

	RefuseChecksums bool // 400 when the request carries x-amz-checksum-*, a trailer or aws-chunked: a store from before upload checksums

	Handler http.HandlerFunc // answers in place of everything above but Delay, Block and After
}

// Object is content that a Fault serves.
type Object struct {
	Content []byte
	ETag    string // quoted
}

// Rule says which requests meet a Fault.
type Rule struct {
	Match Match
	Skip  int     // so many matching requests pass first
	Times int     // then so many meet the fault; 0 = all
	Share float64 // of those, this share, drawn from the seed; 0 = all
	Fault
}

// rule is a Rule and what became of it.
type rule struct {
	Rule
	seen, hits int
}

// codes are S3's usual words for a status.
var codes = map[int]string{
	400: "InvalidRequest", 403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed", 416: "InvalidRange", 429: "TooManyRequests",
	500: "InternalError", 501: "NotImplemented", 503: "SlowDown", 507: "StorageFull",
}

// refuse writes an S3 error.
func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	if code == "" {
		code = codes[status]
	}
	h := w.Header()
	clear(h)
	if r.Method == http.MethodHead {
		w.WriteHeader(status)
		return
	}
	body := fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>told to</Message></Error>", code)
	h.Set("Content-Type", "application/xml")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// carriesChecksum reports what an old store would choke on.
func carriesChecksum(h http.Header) bool {
	for name := range h {
		if len(name) > 15 && name[:15] == "X-Amz-Checksum-" {
			return true
		}
	}
	return h.Get("X-Amz-Trailer") != "" || h.Get("X-Amz-Sdk-Checksum-Algorithm") != "" || h.Get("Content-Encoding") == "aws-chunked"
}

// serveObject answers a GET or HEAD with o.
func serveObject(w http.ResponseWriter, r *http.Request, o *Object) {
	w.Header().Set("ETag", o.ETag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.Content))
}

// breakConnection ends the connection without a further byte.
func breakConnection(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// bodyWriter carries a true answer to the client, corrected and spoilt as told.
type bodyWriter struct {
	http.ResponseWriter
	r      *http.Request
	fault  Fault
	gone   <-chan struct{} // the server ends
	status int
	sent   int64
	began  time.Time
	mute   bool // the rest of the answer is discarded
}

func (w *bodyWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.Header()
	if status == http.StatusPartialContent {
		for name := range h {
			if len(name) > 15 && name[:15] == "X-Amz-Checksum-" {
				delete(h, name)
			}
		}
	}
	read := w.r.Method == http.MethodGet || w.r.Method == http.MethodHead
	if want := w.r.Header.Get("If-Match"); want != "" && read && status < 300 && !w.fault.Deaf && h.Get("ETag") != want {
		w.status, w.mute = http.StatusPreconditionFailed, true
		refuse(w.ResponseWriter, w.r, w.status, "")
		return
	}
	if w.fault.Header != nil {
		w.fault.Header(h)
	}
	w.began = time.Now()
	w.ResponseWriter.WriteHeader(status)
	if w.fault.CutAfter < 0 {
		w.cut()
	}
}

func (w *bodyWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	asked := len(p)
	for len(p) > 0 && !w.mute {
		piece := p
		if w.fault.Piece > 0 {
			piece = piece[:min(len(piece), w.fault.Piece)]
		} else if w.fault.Rate > 0 {
			piece = piece[:min(len(piece), 64<<10)]
		}
		if w.fault.CutAfter > 0 {
			piece = piece[:min(int64(len(piece)), w.fault.CutAfter-w.sent)]
		}
		n, err := w.ResponseWriter.Write(piece)
		w.sent += int64(n)
		if err != nil {
			return asked - len(p) + n, err
		}
		p = p[n:]
		if w.fault.CutAfter > 0 && w.sent == w.fault.CutAfter {
			w.cut()
			break
		}
		if w.fault.Piece > 0 {
			http.NewResponseController(w.ResponseWriter).Flush()
			wait(w.r, w.gone, w.fault.Pause)
		}
		if w.fault.Rate > 0 {
			due := time.Duration(float64(w.sent) / float64(w.fault.Rate) * float64(time.Second))
			wait(w.r, w.gone, due-time.Since(w.began))
		}
	}
	return asked, nil
}

// cut sends what is buffered and breaks the connection, or leaves it hanging first.
func (w *bodyWriter) cut() {
	w.mute = true
	http.NewResponseController(w.ResponseWriter).Flush()
	if w.fault.Hang {
		select {
		case <-w.r.Context().Done():
		case <-w.gone:
		}
	}
	breakConnection(w.ResponseWriter, w.fault.Reset)
}

// wait pauses for d or until client or server leave.
func wait(r *http.Request, gone <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	case <-gone:
	}
}

// Unwrap lets http.ResponseController, and handlers that hijack, reach the connection.
func (w *bodyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
