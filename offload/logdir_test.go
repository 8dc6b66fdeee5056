package offload

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func removeFile(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// refused runs and expects an error of a kind.
func refused(t *testing.T, cfg Config, kind Kind, text string) {
	t.Helper()
	_, err := Once(t.Context(), cfg)
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Error(), text) {
		t.Errorf("error %v, want kind %d with %q", err, kind, text)
	}
}

// holdLock is the environment variable that makes the test binary a broker: it locks the file it names.
const holdLock = "OFFLOAD_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdLock); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err == nil {
			// What java.nio.channels.FileChannel.tryLock does on Unix.
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		if err != nil {
			os.Exit(3)
		}
		os.Stdout.WriteString("locked\n")
		bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRunningBrokersDirectoryIsRefused(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	w := newFakeTier()
	broker := exec.Command(os.Args[0])
	broker.Env = append(os.Environ(), holdLock+"="+filepath.Join(l.dir, ".lock"))
	stdin, err := broker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := broker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q %v", line, err)
	}
	refused(t, w.config(l.dir), InUse, "stop it first")
	if len(w.objects) != 0 || w.cluster != "" {
		t.Error("something was written")
	}
	stdin.Close()
	if err := broker.Wait(); err != nil {
		t.Fatal(err)
	}
	// The file stays when the broker has gone; the lock does not.
	if report := w.offload(t, w.config(l.dir)); report.Failed() || report.Partitions[0].Segments != 1 {
		t.Errorf("report %+v", report)
	}
}

func TestDirectoriesThatDoNotBelongTogether(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	same := newLog(t, "a", 0).data(10).roll().data(1).done()
	foreign := newLog(t, "b", 0).data(10).roll().data(1).done()
	foreign.write("meta.properties", "version=1\nnode.id=1\ncluster.id=BBBBBBBBBBBBBBBBBBBBBB\n")
	other := newLog(t, "b", 0).data(10).roll().data(1).done()
	other.write("meta.properties", "version=1\nnode.id=2\ncluster.id="+testCluster+"\n")
	second := newLog(t, "b", 0).data(10).roll().data(1).done()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(l.dir, link); err != nil {
		t.Fatal(err)
	}
	w := newFakeTier()
	refused(t, w.config(l.dir, same.dir), Conflict, "partition a-0 is in "+l.dir)
	refused(t, w.config(l.dir, foreign.dir), NotLogDir, "cluster BBBB")
	refused(t, w.config(l.dir, other.dir), NotLogDir, "broker 2")
	refused(t, w.config(l.dir, link), BadConfig, "the same directory")
	refused(t, w.config(filepath.Join(l.dir, "nowhere")), NotLogDir, "no such file")
	refused(t, w.config(t.TempDir()), NotLogDir, "meta.properties")
	if len(w.objects) != 0 || w.cluster != "" {
		t.Error("something was written")
	}
	report := w.offload(t, w.config(l.dir, second.dir))
	if len(report.Partitions) != 2 || report.Failed() {
		t.Errorf("two directories: %+v", report)
	}
	refused(t, w.config(foreign.dir), WrongCluster, testCluster)
}

func TestIdentityOfABroker(t *testing.T) {
	for text, want := range map[string]string{
		"version=1\nnode.id=3\ncluster.id=x\n":                "",
		"#\n#date\nbroker.id=3\nversion=0\ncluster.id=x\n":    "",
		"version=1\nnode.id=3\n":                              "no cluster.id",
		"version=1\ncluster.id=x\n":                           "no usable node.id",
		"version=1\ncluster.id=x\nnode.id=-1\n":               "no usable node.id",
		"version=1\ncluster.id=x\nnode.id=99999999999999\n":   "no usable node.id",
		"version=1\ncluster.id=x\nnode.id=three\nbroker.id=3": "no usable node.id",
	} {
		l := newLog(t, "a", 0)
		l.write("meta.properties", text)
		d, err := openLogDir(l.dir)
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if want != "" || d.brokerID != 3 || d.clusterID != "x" {
			t.Errorf("%q: broker %d of %s, want error %q", text, d.brokerID, d.clusterID, want)
		}
		d.root.Close()
	}
}

func TestWrongConfigurationIsToldAtOnce(t *testing.T) {
	_, err := Once(t.Context(), Config{Include: []string{"["}, Rate: -1})
	for _, text := range []string{"no log directory", "no catalog", `glob "["`, "rate -1"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v lacks %q", err, text)
		}
	}
}

// A link in a partition directory could lead anywhere on the machine.
func TestLinksAreNotFollowed(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.Rename(l.path("00000000000000000000.log"), outside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, l.path("00000000000000000000.log")); err != nil {
		t.Fatal(err)
	}
	w := newFakeTier()
	r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
	if !r.Failed() || r.Segments != 0 || len(w.objects) != 0 {
		t.Errorf("report %+v", r)
	}
}
