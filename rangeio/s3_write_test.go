package rangeio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"coldtap/internal/testing/fakes3"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// muteUploadLog keeps the transfer manager, which writes to the standard logger when joining fails, out of the test's
// output.
func muteUploadLog(t *testing.T) {
	before := log.Writer()
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(before) })
}

func holds(t *testing.T, s *fakes3.Server, key string, content []byte) {
	t.Helper()
	o := s.Object(key)
	if o == nil {
		t.Fatal("there is no object")
	}
	if !bytes.Equal(o.Content, content) {
		t.Fatalf("the object of %d bytes is not what was put (%d bytes)", len(o.Content), len(content))
	}
}

// TestS3PutRewindsParts: parts that fail halfway are sent again from their own start.
func TestS3PutRewindsParts(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	part := func(n string) fakes3.Match {
		return fakes3.All(fakes3.Op(fakes3.Part), func(r fakes3.Request) bool { return r.Part == n })
	}
	s.Inject(fakes3.Rule{Match: part("2"), Times: 1, Fault: fakes3.Fault{Eat: 3 << 20, Status: 500}})
	s.Inject(fakes3.Rule{Match: part("3"), Times: 1, Fault: fakes3.Fault{Eat: 4 << 20, Drop: true, Reset: true}})
	content := rangeiotest.Bytes(1, 20<<20)
	info := put(t, b, "o", content)
	holds(t, s, "o", content)
	if s.Count(part("2")) != 2 || s.Count(part("3")) != 2 {
		t.Error("no part was sent twice")
	}
	if now, err := b.Stat(t.Context(), "o"); err != nil || now != info {
		t.Errorf("put says %+v, stat %+v, %v", info, now, err)
	}
}

func TestS3PutInOnePieceIsRepeated(t *testing.T) {
	s := fakes3.New(t)
	content := rangeiotest.Bytes(1, 3<<20)
	hits, _ := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Put), Times: 1, Fault: fakes3.Fault{Eat: 1 << 20, Drop: true}})
	put(t, s.Backend(t), "o", content)
	holds(t, s, "o", content)
	if hits() != 1 {
		t.Error("nothing failed")
	}
}

// TestS3JoinThatFailsInside: a 200 answer to the last step of an upload can carry an error, break off, or be empty,
// without an object being there.
func TestS3JoinThatFailsInside(t *testing.T) {
	muteUploadLog(t)
	content := rangeiotest.Bytes(1, 9<<20)
	for name, answer := range map[string]string{
		"error":     "      \n <?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>try again</Message></Error>",
		"slow down": "   <?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>less</Message></Error>",
		"cut":       "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>&quot;x",
		"empty":     "",
	} {
		t.Run(name, func(t *testing.T) {
			s := fakes3.New(t)
			c := quick(s.Backend(t))
			fault := fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) }}
			// The SDK repeats the step itself when it sees the error, so let it see that as often as it asks, and then the
			// client once more.
			_, remove := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Complete), Times: 4, Fault: fault})
			info, err := c.Put(t.Context(), "o", bytes.NewReader(content))
			if err != nil {
				if s.Object("o") != nil {
					t.Errorf("failed with %v, but the object is there", err)
				}
			} else if info.Size != int64(len(content)) {
				t.Errorf("%+v", info)
			} else {
				holds(t, s, "o", content)
			}
			remove()
			if _, err := c.Put(t.Context(), "o", bytes.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			holds(t, s, "o", content)
		})
	}
}

// TestS3JoinWithoutAnObjectIsNoSuccess: even a well-formed answer is believed only when the object is seen.
func TestS3JoinWithoutAnObjectIsNoSuccess(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Complete), Fault: fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>&quot;x-2&quot;</ETag></CompleteMultipartUploadResult>")
	}}})
	content := rangeiotest.Bytes(1, 9<<20)
	_, err := b.Put(t.Context(), "o", bytes.NewReader(content))
	rangeiotest.IsKind(t, err, rangeio.Unavailable)
	put(t, b, "o", content[:1<<20])
	_, err = b.Put(t.Context(), "o", bytes.NewReader(content))
	rangeiotest.IsKind(t, err, rangeio.Unavailable) // the version before is not taken for this one
}

func TestS3UploadVanishes(t *testing.T) {
	muteUploadLog(t)
	content := rangeiotest.Bytes(1, 17<<20)
	gone := fakes3.Fault{Status: 404, Code: "NoSuchUpload"}

	t.Run("a part is refused for ever", func(t *testing.T) {
		s := fakes3.New(t)
		s.Inject(fakes3.Rule{Match: fakes3.All(fakes3.Op(fakes3.Part), func(r fakes3.Request) bool { return r.Part == "3" }), Fault: gone})
		_, err := quick(s.Backend(t)).Put(t.Context(), "o", bytes.NewReader(content))
		rangeiotest.IsKind(t, err, rangeio.Unavailable)
		if n := s.Count(fakes3.Op(fakes3.Create)); n != 3 {
			t.Errorf("%d uploads were begun", n)
		}
	})
	t.Run("once", func(t *testing.T) {
		s := fakes3.New(t)
		s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Part), Skip: 1, Times: 1, Fault: gone})
		if _, err := quick(s.Backend(t)).Put(t.Context(), "o", bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		holds(t, s, "o", content)
	})
	t.Run("joined, but the answer was lost", func(t *testing.T) {
		s := fakes3.New(t)
		gone := gone
		gone.After = true
		s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Complete), Fault: gone})
		info, err := s.Backend(t).Put(t.Context(), "o", bytes.NewReader(content))
		if err != nil || info.Size != int64(len(content)) {
			t.Fatalf("%+v, %v", info, err)
		}
		if n := s.Count(fakes3.Op(fakes3.Create)); n != 1 {
			t.Errorf("%d uploads for an object that was there after the first", n)
		}
	})
	t.Run("not joined, and an older version of the same size is there", func(t *testing.T) {
		s := fakes3.New(t)
		b := s.Backend(t)
		put(t, b, "o", rangeiotest.Bytes(2, len(content)))
		s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Complete), Fault: gone})
		_, err := b.Put(t.Context(), "o", bytes.NewReader(content))
		rangeiotest.IsKind(t, err, rangeio.Unavailable)
	})
}

// TestS3FailedUploadsAreCleared: parts that nobody joins cost money unseen.
func TestS3FailedUploadsAreCleared(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Inject(fakes3.Rule{Match: fakes3.All(fakes3.Op(fakes3.Part), func(r fakes3.Request) bool { cancel(); return false })})
	_, err := b.Put(ctx, "o", bytes.NewReader(rangeiotest.Bytes(1, 30<<20)))
	rangeiotest.IsKind(t, err, rangeio.Canceled)
	if s.Count(fakes3.Op(fakes3.Abort)) == 0 {
		t.Error("an upload whose caller left was not aborted")
	}
	if s.Object("o") != nil {
		t.Error("there is an object")
	}
}

func TestS3StoreThatRefusesChecksums(t *testing.T) {
	s := fakes3.New(t)
	hits, _ := s.Inject(fakes3.Rule{Fault: fakes3.Fault{RefuseChecksums: true}})
	for _, size := range []int{100, 20 << 20} {
		content, key := rangeiotest.Bytes(1, size), fmt.Sprint(size)
		_, err := s.Backend(t).Put(t.Context(), key, bytes.NewReader(content))
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
		if !strings.Contains(err.Error(), "when_required") {
			t.Errorf("the setting that helps is not named: %v", err)
		}
		b := s.Backend(t, func(c *rangeio.S3Config) { c.Checksums = "when_required" })
		put(t, b, key, content)
		holds(t, s, key, content)
		if err := b.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if hits() == 0 {
		t.Error("nothing was refused")
	}
}

func TestS3PutsCarryChecksums(t *testing.T) {
	s := fakes3.New(t)
	carried := map[fakes3.Operation]bool{}
	s.Inject(fakes3.Rule{Match: func(r fakes3.Request) bool {
		carried[r.Op] = carried[r.Op] || r.Header.Get("X-Amz-Checksum-Crc32") != ""
		return false
	}})
	b := s.Backend(t)
	put(t, b, "small", rangeiotest.Bytes(1, 1000))
	put(t, b, "large", rangeiotest.Bytes(1, 9<<20))
	if !carried[fakes3.Put] || !carried[fakes3.Part] {
		t.Errorf("checksums were carried by %v", carried)
	}
}
