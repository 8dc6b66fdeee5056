// Package fakes3 is an S3 server inside the process that logs its requests and misbehaves where a rule says so.
//
//	s := fakes3.New(t)
//	backend := s.Backend(t)
//	s.Inject(fakes3.Rule{Match: fakes3.All(fakes3.Op(fakes3.Get), fakes3.Suffix(".log")), Times: 2, Fault: fakes3.Fault{CutAfter: 64 << 10, Reset: true}})
//	…
//	if n := s.Count(fakes3.Op(fakes3.Get), fakes3.Prefix("topic/")); n != 3 { … }
//
// The objects are kept by gofakes3. This package stands before it as a handler and corrects what differs from S3: a
// ranged answer carries no checksum of the whole object, and If-Match is obeyed on GET and HEAD. On top come the log of
// requests and the rules. Rules are tried in the order of their injection; the first that matches and is not used up
// decides. What is random (Rule.Share) comes from the seed.
//
// It listens on 127.0.0.1 only, speaks plain HTTP, and verifies no signatures. Not a model of S3's permissions,
// versions or consistency.
package fakes3
