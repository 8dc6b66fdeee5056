// Package faultstore puts faults between a test and a store: errors of each kind, broken and short bodies, lying sizes,
// operations that block until a channel is closed, and crash points.
//
//	mem := simstore.NewMemory()
//	store := faultstore.New(mem)
//	store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(".log"), Times: 2, Fault: faultstore.Fault{Kind: rangeio.Throttled}})
//	store.CrashAfterPut(3) // the third Put reaches mem; its caller and all later calls get ErrCrashed
//
// Rules are tried in the order in which they were injected; the first that matches and is not used up decides. Nothing
// is random. Everything may be called concurrently.
package faultstore

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"coldtap/rangeio"
)

// Op is an operation of a Backend.
type Op string

const (
	Any    Op = ""
	Get    Op = "get"
	Stat   Op = "stat"
	Put    Op = "put"
	Delete Op = "delete"
	List   Op = "list"
)

// ErrCrashed is the cause of every error after a crash point.
var ErrCrashed = errors.New("the process has crashed here")

// ErrInjected is the cause of injected errors and broken bodies.
var ErrInjected = errors.New("injected fault")

// Prefix, Suffix and Exactly make key predicates.
func Prefix(s string) func(string) bool {
	return func(key string) bool { return strings.HasPrefix(key, s) }
}

func Suffix(s string) func(string) bool {
	return func(key string) bool { return strings.HasSuffix(key, s) }
}

func Exactly(s string) func(string) bool { return func(key string) bool { return key == s } }

// Fault is what happens to an operation. The zero Fault only counts. Fields combine.
type Fault struct {
	Kind  rangeio.Kind // error of this kind instead of an answer
	After bool         // the operation is done first, then the error comes: a lost answer

	Block <-chan struct{} // wait before the operation until it is closed or the context ends
	Do    func()          // called before the operation, after Block

	CutAfter int64 // Get: > 0, the body breaks with an error after so many bytes; < 0, before the first
	EndAfter int64 // Get: the same, but with a clean end: a short body
	Hang     bool  // Get: at CutAfter the body blocks until the context ends, instead of breaking

	SizeOff int64                               // Get, Stat: added to the size that the answer states
	ETag    string                              // Get, Stat: stated instead of the right one
	Content func(off int64, p []byte)           // Get: may damage the bytes p that lie at off in the object
	Reply   func(rangeio.Object) rangeio.Object // List: changes an entry
}

// Rule says which operations meet a Fault.
type Rule struct {
	Op    Op
	Key   func(string) bool // nil = all; for List the prefix
	Skip  int               // so many matching operations pass first
	Times int               // then so many meet the fault; 0 = all
	Fault
}

// Call is one operation that was asked for.
type Call struct {
	Op     Op
	Key    string
	Off, N int64 // of Get
}

// Store decorates a Backend.
type Store struct {
	under rangeio.Backend

	mu struct {
		sync.Mutex
		rules   []*rule
		calls   []Call
		crashAt int // Puts until the crash, < 0 = none
		before  bool
		crashed bool
	}
	open sync.WaitGroup
}

type rule struct {
	Rule
	seen int // matching operations so far
}

// New decorates b; without rules it changes nothing.
func New(b rangeio.Backend) *Store {
	s := &Store{under: b}
	s.mu.crashAt = -1
	return s
}

// Inject adds a rule and gives the function that takes it out again.
func (s *Store) Inject(r Rule) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &rule{Rule: r}
	s.mu.rules = append(s.mu.rules, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.rules = slices.DeleteFunc(s.mu.rules, func(x *rule) bool { return x == added })
	}
}

// Clear takes out all rules and the crash, so that a "new process" can go on with the same store; the log of calls
// stays.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rules, s.mu.crashAt, s.mu.crashed = nil, -1, false
}

// CrashAfterPut makes the k-th Put from now (k ≥ 1) the last operation that has an effect: the object is there, but its
// writer does not learn of it.
func (s *Store) CrashAfterPut(k int) { s.crash(k, false) }

// CrashBeforePut makes the k-th Put from now the first operation without effect.
func (s *Store) CrashBeforePut(k int) { s.crash(k, true) }

func (s *Store) crash(k int, before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.crashAt, s.mu.before, s.mu.crashed = k, before, false
}

// Crashed reports whether the crash point was reached.
func (s *Store) Crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.crashed
}

// Calls is the log of everything asked for, in order.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.calls)
}

// Count says how many operations were asked for; nil counts all keys.
func (s *Store) Count(op Op, key func(string) bool) int {
	n := 0
	for _, c := range s.Calls() {
		if (op == Any || c.Op == op) && (key == nil || key(c.Key)) {
			n++
		}
	}
	return n
}

// Reset empties the log of calls.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calls = nil
}

// outcome is what one call meets.
type outcome struct {
	Fault
	crashAfter bool // this Put is the last act
}

// before logs a call, finds its fault, and waits where it says so. An error means that the operation does not take
// place.
func (s *Store) before(ctx context.Context, c Call) (outcome, error) {
	v := s.decide(c)
	if v.Block != nil {
		select {
		case <-v.Block:
		case <-ctx.Done():
			return v, &rangeio.Error{Kind: rangeio.Canceled, Op: string(c.Op), Key: c.Key, Err: ctx.Err()}
		}
	}
	if v.Do != nil {
		v.Do()
	}
	// The crash may have come while this call waited.
	if s.Crashed() && !v.crashAfter {
		return v, crashed(c)
	}
	if v.Kind != 0 && !v.After {
		return v, fault(v.Kind, c)
	}
	return v, nil
}

func (s *Store) decide(c Call) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calls = append(s.mu.calls, c)
	var v outcome
	if c.Op == Put && !s.mu.crashed && s.mu.crashAt > 0 {
		if s.mu.crashAt--; s.mu.crashAt == 0 {
			s.mu.crashed, v.crashAfter = true, !s.mu.before
		}
	}
	for _, r := range s.mu.rules {
		if (r.Op != Any && r.Op != c.Op) || (r.Key != nil && !r.Key(c.Key)) {
			continue
		}
		r.seen++
		if r.seen <= r.Skip || (r.Times > 0 && r.seen > r.Skip+r.Times) {
			continue
		}
		v.Fault = r.Fault
		break
	}
	return v
}

// after turns a finished operation's result into what its caller gets.
func (v outcome) after(c Call, err error) error {
	switch {
	case v.crashAfter:
		return crashed(c)
	case err == nil && v.Kind != 0:
		return fault(v.Kind, c)
	}
	return err
}

func crashed(c Call) error {
	return &rangeio.Error{Kind: rangeio.Unavailable, Op: string(c.Op), Key: c.Key, Err: ErrCrashed}
}

func fault(kind rangeio.Kind, c Call) error {
	return &rangeio.Error{Kind: kind, Op: string(c.Op), Key: c.Key, Err: ErrInjected}
}

func (v outcome) info(i rangeio.Info) rangeio.Info {
	i.Size += v.SizeOff
	if v.ETag != "" {
		i.ETag = v.ETag
	}
	return i
}

func (s *Store) String() string { return s.under.String() }

func (s *Store) Close() error { return s.under.Close() }

func (s *Store) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	c := Call{Op: Get, Key: key, Off: off, N: n}
	v, err := s.before(ctx, c)
	if err != nil {
		return nil, rangeio.Info{}, err
	}
	body, info, err := s.under.Open(ctx, key, off, n, etag)
	if err != nil {
		return nil, rangeio.Info{}, err
	}
	if err := v.after(c, nil); err != nil {
		body.Close()
		return nil, rangeio.Info{}, err
	}
	s.open.Add(1)
	return &faultyBody{ReadCloser: body, v: v, ctx: ctx, at: max(off, 0), closed: sync.OnceFunc(s.open.Done)}, v.info(info), nil
}

// WaitClosed waits until every body that was handed out has been closed: a test that hangs here has found a leak.
func (s *Store) WaitClosed() { s.open.Wait() }

func (s *Store) Stat(ctx context.Context, key string) (rangeio.Info, error) {
	c := Call{Op: Stat, Key: key}
	v, err := s.before(ctx, c)
	if err != nil {
		return rangeio.Info{}, err
	}
	info, err := s.under.Stat(ctx, key)
	if err = v.after(c, err); err != nil {
		return rangeio.Info{}, err
	}
	return v.info(info), nil
}

func (s *Store) Put(ctx context.Context, key string, content rangeio.Content) (rangeio.Info, error) {
	c := Call{Op: Put, Key: key, N: content.Size()}
	v, err := s.before(ctx, c)
	if err != nil {
		return rangeio.Info{}, err
	}
	info, err := s.under.Put(ctx, key, content)
	if err = v.after(c, err); err != nil {
		return rangeio.Info{}, err
	}
	return info, nil
}

func (s *Store) Delete(ctx context.Context, key string) error {
	c := Call{Op: Delete, Key: key}
	v, err := s.before(ctx, c)
	if err != nil {
		return err
	}
	return v.after(c, s.under.Delete(ctx, key))
}

func (s *Store) List(ctx context.Context, prefix string, fn func(rangeio.Object) error) error {
	c := Call{Op: List, Key: prefix}
	v, err := s.before(ctx, c)
	if err != nil {
		return err
	}
	return v.after(c, s.under.List(ctx, prefix, func(o rangeio.Object) error {
		if v.Reply != nil {
			o = v.Reply(o)
		}
		return fn(o)
	}))
}

// faultyBody breaks, ends or hangs where its fault says.
type faultyBody struct {
	io.ReadCloser
	v      outcome
	ctx    context.Context
	at     int64 // of the next byte in the object
	read   int64
	closed func()
}

func (b *faultyBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	limit, end := b.v.CutAfter, error(ErrInjected)
	if b.v.EndAfter != 0 {
		limit, end = b.v.EndAfter, io.EOF
	}
	if limit != 0 {
		rest := max(limit, 0) - b.read
		if rest <= 0 {
			if b.v.Hang {
				<-b.ctx.Done()
				return 0, b.ctx.Err()
			}
			return 0, end
		}
		p = p[:min(int64(len(p)), rest)]
	}
	n, err := b.ReadCloser.Read(p)
	if b.v.Content != nil && n > 0 {
		b.v.Content(b.at, p[:n])
	}
	b.at += int64(n)
	b.read += int64(n)
	return n, err
}

func (b *faultyBody) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}
