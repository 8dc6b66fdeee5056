package fakes3

import (
	"net/http"
	"strings"
)

// Operation is what a request asks for.
type Operation string

const (
	Get        Operation = "get"
	Head       Operation = "head"
	Put        Operation = "put"
	Delete     Operation = "delete"
	List       Operation = "list"
	Create     Operation = "create" // begin of an upload in parts
	Part       Operation = "part"
	Complete   Operation = "complete"
	Abort      Operation = "abort"
	HeadBucket Operation = "head bucket"
	Other      Operation = "other"
)

// Request is one line of the log.
type Request struct {
	Op      Operation
	Method  string
	Bucket  string
	Key     string // whole, as S3 sees it; the prefix for a list
	Range   string // header, "" = none
	IfMatch string
	Part    string // part number of an upload
	Header  http.Header
	Status  int   // answered; 0 when the connection was broken before, or the answer is still to come
	Bytes   int64 // of body sent
}

// parse reads a request in path style.
func parse(r *http.Request) Request {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	req := Request{
		Op: Other, Method: r.Method, Bucket: bucket, Key: key, Range: r.Header.Get("Range"), IfMatch: r.Header.Get("If-Match"), Part: q.Get("partNumber"),
		Header: r.Header.Clone(),
	}
	upload := q.Has("uploadId")
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		req.Op = Create
	case r.Method == http.MethodPost && upload:
		req.Op = Complete
	case r.Method == http.MethodPut && upload:
		req.Op = Part
	case r.Method == http.MethodDelete && upload:
		req.Op = Abort
	case key == "" && r.Method == http.MethodGet:
		req.Op, req.Key = List, q.Get("prefix")
	case key == "" && r.Method == http.MethodHead:
		req.Op = HeadBucket
	case key == "":
	case r.Method == http.MethodGet:
		req.Op = Get
	case r.Method == http.MethodHead:
		req.Op = Head
	case r.Method == http.MethodPut:
		req.Op = Put
	case r.Method == http.MethodDelete:
		req.Op = Delete
	}
	return req
}

// Match chooses requests. nil matches all.
type Match func(Request) bool

// Op matches any of the operations.
func Op(ops ...Operation) Match {
	return func(r Request) bool {
		for _, op := range ops {
			if r.Op == op {
				return true
			}
		}
		return false
	}
}

// Key, Prefix and Suffix look at the key, store prefix included.
func Key(key string) Match { return func(r Request) bool { return r.Key == key } }

func Prefix(s string) Match { return func(r Request) bool { return strings.HasPrefix(r.Key, s) } }

func Suffix(s string) Match { return func(r Request) bool { return strings.HasSuffix(r.Key, s) } }

// All matches what every one of ms matches.
func All(ms ...Match) Match {
	return func(r Request) bool {
		for _, m := range ms {
			if m != nil && !m(r) {
				return false
			}
		}
		return true
	}
}
