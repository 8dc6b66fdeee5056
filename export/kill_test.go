package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childVariable makes the test binary an export in a process of its own, which can be killed.
const childVariable = "COLDTAP_EXPORT_CHILD"

// childOptions are what a child is told.
type childOptions struct {
	URL, Topic, Dir string
	Format          Format
}

// runChild exports with a checkpoint after each batch, and writes a byte at its start and at each progress.
func runChild() int {
	var c childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o := small(Options{URL: c.URL, Topic: c.Topic, To: Latest, Format: c.Format, Encoding: encodingFor(c.Format), Dir: c.Dir,
		Progress: func(Progress) { os.Stdout.Write([]byte{'.'}) }})
	o.tuning.checkpointBytes, o.tuning.checkpointEvery, o.tuning.partBytes = 1, 1, 1
	o.tuning.rowGroupBytes = 1
	os.Stdout.Write([]byte{'.'})
	m, err := Run(context.Background(), o)
	if err != nil || !m.Complete {
		fmt.Fprintln(os.Stderr, err, m)
		return 1
	}
	return 0
}

// TestKillsLeaveNeitherGapNorDuplicate kills exports with SIGKILL at random moments, many times for each format, and
// lets the next run go on: what there is in the end is what the gateway shows.
func TestKillsLeaveNeitherGapNorDuplicate(t *testing.T) {
	const kills = 30 // at least, for each format
	base := startGateway(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for format, lines := range lineReaders {
		t.Run(string(format), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(len(format))))
			killed, resumed, exports := 0, 0, 0
			for killed < kills {
				topic := sampleTopics[exports%len(sampleTopics)]
				exports++
				c := childOptions{URL: base, Topic: topic, Format: format, Dir: t.TempDir()}
				told, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				for {
					if readFrom(t, c.Dir) {
						resumed++
					}
					child := exec.CommandContext(t.Context(), self)
					child.Env = append(os.Environ(), childVariable+"="+string(told))
					var said strings.Builder
					child.Stderr = &said
					out, err := child.StdoutPipe()
					if err != nil {
						t.Fatal(err)
					}
					if err := child.Start(); err != nil {
						t.Fatal(err)
					}
					_, early := io.ReadFull(out, make([]byte, 1+random.IntN(40)))
					child.Process.Kill()
					io.Copy(io.Discard, out)
					if err := child.Wait(); err == nil {
						break
					} else if said.Len() > 0 || early != nil {
						t.Fatalf("%v: %s", err, said.String())
					}
					if killed++; killed > 20*kills {
						t.Fatal("no export ever ends")
					}
				}
				m, err := Run(t.Context(), small(Options{URL: base, Topic: topic, To: Latest, Format: format, Encoding: encodingFor(format), Dir: c.Dir}))
				if err != nil || !m.Complete {
					t.Fatal(m, err)
				}
				forEachPartition(m, func(name string, p *Partition) {
					equal(t, name, lines(t, c.Dir, name, m, p), fetchLines(t, base, name, "offset=earliest&encoding=base64"))
				})
				if format != Parquet {
					continue
				}
				known := map[string]bool{manifestName: true, lockName: true}
				for _, p := range m.Partitions {
					for _, f := range p.Files {
						known[f.Name] = true
					}
				}
				entries, err := os.ReadDir(c.Dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if !known[e.Name()] {
						t.Errorf("%s is left and not in the manifest", e.Name())
					}
				}
			}
			if resumed < kills/3 {
				t.Errorf("only %d of %d runs went on with something", resumed, killed)
			}
			t.Logf("%d exports, %d kills, %d runs that went on with something", exports, killed, resumed)
		})
	}
}

// readFrom says whether a folder's export has come further than its start.
func readFrom(t *testing.T, dir string) bool {
	t.Helper()
	raw, err := os.ReadFile(dir + "/" + manifestName)
	if err != nil {
		return false
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		t.Fatalf("a torn manifest: %v", err)
	}
	for _, p := range m.Partitions {
		if p.NextOffset > p.StartOffset {
			return true
		}
	}
	return false
}
