// Package examples_test runs each example against `coldtap demo`, where its tools are installed.
package examples_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// binary builds coldtap once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "coldtap-examples-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "coldtap")
	out, err := exec.Command("go", "build", "-o", path, "coldtap/cmd/coldtap").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// demo starts `coldtap demo` and gives the binary and its URL.
func demo(t *testing.T) (coldtap, base string) {
	t.Helper()
	coldtap, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(coldtap, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	served := regexp.MustCompile(`serves on (http://[0-9.:]+)`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := served.FindStringSubmatch(lines.Text()); m != nil {
			return coldtap, m[1]
		}
	}
	t.Fatal("the demo does not serve")
	return "", ""
}

// run gives what a command writes to standard output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || said.Len() > 0 && !strings.HasSuffix(name, "coldtap") {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, said.String())
	}
	return string(out)
}

// needs skips a test where a tool is not installed. It asks from an empty folder: beside the folder duckdb, Python
// takes that for the module.
func needs(t *testing.T, check ...string) {
	t.Helper()
	cmd := exec.Command(check[0], check[1:]...)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%q: %v %s", check, err, out)
	}
}

func TestShell(t *testing.T) {
	needs(t, "curl", "--version")
	_, base := demo(t)
	pages := json.NewDecoder(strings.NewReader(run(t, "sh", "shell/page.sh", base, "/topics/plain/partitions/0/records?offset=earliest&max_bytes=50000")))
	records, n := 0, 0
	for ; pages.More(); n++ {
		var page struct {
			Data []struct{ Offset int }
		}
		if err := pages.Decode(&page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Data {
			if r.Offset != records {
				t.Fatalf("record %d has offset %d", records, r.Offset)
			}
			records++
		}
	}
	if records != 554 || n < 3 {
		t.Errorf("%d records in %d pages", records, n)
	}
}

func TestGo(t *testing.T) {
	_, base := demo(t)
	lines := strings.Split(strings.TrimSpace(run(t, "go", "run", "./go", base, "codecs", "0", "700", "800")), "\n")
	if len(lines) != 100 || !strings.HasPrefix(lines[0], "700\t") || !strings.HasPrefix(lines[99], "799\t") {
		t.Errorf("%d lines: %s", len(lines), lines)
	}
}

func TestPythonReads(t *testing.T) {
	needs(t, "python3", "-c", "import pandas")
	_, base := demo(t)
	if out := run(t, "python3", "python/read.py", base, "plain", "0", "100", "200"); !strings.HasSuffix(out, "100 records, offsets 100 to 199\n") {
		t.Error(out)
	}
}

// TestPythonGoesOn: with a file that was cut in a line, in the first one, and with one that is complete.
func TestPythonGoesOn(t *testing.T) {
	needs(t, "python3", "--version")
	_, base := demo(t)
	path := filepath.Join(t.TempDir(), "plain.ndjson")
	export := func() []byte {
		run(t, "python3", "python/resumed_export.py", base, "plain", "0", "100", "500", path)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	whole := export()
	if n := bytes.Count(whole, []byte("\n")); n != 400 {
		t.Errorf("%d records", n)
	}
	for _, size := range []int{len(whole), len(whole) / 2, 5, 0} {
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(export(), whole) {
			t.Errorf("cut at %d bytes, it goes on to something else", size)
		}
	}
}

func TestDuckDB(t *testing.T) {
	needs(t, "python3", "-c", "import duckdb")
	coldtap, base := demo(t)
	for _, format := range []string{"parquet", "ndjson"} {
		dir := filepath.Join(t.TempDir(), "export")
		run(t, coldtap, "export", "txn", "--url", base, "--format", format, "--out", dir)
		out := run(t, "python3", "duckdb/query.py", dir)
		for _, row := range []string{"0 │     693 │            0 │         803", "1 │     743 │            0 │         915"} {
			if !strings.Contains(out, row) {
				t.Errorf("%s: no %q in\n%s", format, row, out)
			}
		}
	}
}

// TestParquetIsWhatOthersRead holds every record of the sample, as pyarrow and DuckDB read it from Parquet, against
// ndjson.
func TestParquetIsWhatOthersRead(t *testing.T) {
	needs(t, "python3", "-c", "import duckdb, pyarrow")
	coldtap, base := demo(t)
	for _, topic := range []string{"plain", "txn", "gaps", "codecs"} {
		dir := t.TempDir()
		run(t, coldtap, "export", topic, "--url", base, "--format", "parquet", "--out", filepath.Join(dir, "parquet"))
		run(t, coldtap, "export", topic, "--url", base, "--encoding", "base64", "--out", filepath.Join(dir, "ndjson"))
		t.Log(topic, run(t, "python3", "testdata/same.py", filepath.Join(dir, "parquet"), filepath.Join(dir, "ndjson")))
	}
}
