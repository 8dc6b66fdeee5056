package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coldtap/internal/config"
	"coldtap/internal/testing/testkit"

	"github.com/spf13/cobra"
)

// command runs the command line in-process.
func commandLine(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), environment{out: &stdout, err: &stderr}, args)
	return code, stdout.String(), stderr.String()
}

func TestEveryCommandExplainsItself(t *testing.T) {
	var explained int
	var explain func(cmd *cobra.Command)
	explain = func(cmd *cobra.Command) {
		switch path := strings.Fields(cmd.CommandPath())[1:]; {
		case cmd.Name() == "help", cmd.Name() == "completion": // cobra's own
			return
		default:
			explained++
			code, out, _ := commandLine(t, append(path, "--help")...)
			if code != exitOK || !strings.Contains(out, "Examples:\n  "+cmd.CommandPath()) || !strings.Contains(out, "--log-level") {
				t.Errorf("%s --help: exit %d\n%s", cmd.CommandPath(), code, out)
			}
			if _, other, _ := commandLine(t, append([]string{"help"}, path...)...); other != out {
				t.Errorf("help %s differs from --help:\n%s\n%s", cmd.CommandPath(), other, out)
			}
		}
		for _, c := range cmd.Commands() {
			explain(c)
		}
	}
	for _, c := range newRoot(&environment{}).Commands() {
		explain(c)
	}
	if explained < 13 {
		t.Errorf("%d commands found", explained)
	}
	if code, out, _ := commandLine(t, "help"); code != exitOK || !strings.Contains(out, "demo ") {
		t.Errorf("help: exit %d\n%s", code, out)
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"inspect", "me"}, "metadata-topic\t"},
		{[]string{"serve", "--che"}, "--check\t"},
		{[]string{"inspect", "verify", "--log-format", ""}, "json\n"},
	} {
		if code, out, said := commandLine(t, append([]string{"__complete"}, c.words...)...); code != exitOK || !strings.Contains(out, c.want) {
			t.Errorf("%q: exit %d\n%s%s", c.words, code, out, said)
		}
	}
	if code, out, _ := commandLine(t, "completion", "bash"); code != exitOK || !strings.Contains(out, "bash completion V2 for coldtap") {
		t.Errorf("completion bash: exit %d\n%.200s", code, out)
	}
}

func TestWrongUsageIsExitCodeTwo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(file, []byte("store: {kind: file}\nlisten: nowhere\nnonsense: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string // in what is said
	}{
		{nil, nil},
		{[]string{"fetch"}, []string{`unknown command "fetch"`, "coldtap --help"}},
		{[]string{"server"}, []string{`unknown command "server"`, "Did you mean this?\n\tserve\n"}},
		{[]string{"help", "server"}, []string{"Did you mean this?\n\tserve\n"}},
		{[]string{"inspect", "verfy"}, []string{"did you mean verify?"}},
		{[]string{"serve", "-config", file}, []string{"unknown shorthand flag"}},
		{[]string{"serve", "--drain", "soon"}, []string{"--drain", "coldtap serve --help"}},
		{[]string{"serve", "--colour"}, []string{"colour"}},
		{[]string{"serve", "extra"}, []string{`unexpected argument "extra"`}},
		{[]string{"serve", "--config", "/no/such/file"}, []string{"/no/such/file"}},
		{[]string{"serve", "--config", file}, []string{"listen", "nonsense", "line 3"}},
		{[]string{"serve", "--log-level", "loud", "--config", file}, []string{"loud"}},
		{[]string{"offload", "--config", file}, []string{"listen", "nonsense"}},
		{[]string{"demo", "--listen", "nowhere"}, []string{`listen: "nowhere" is not host:port`}},
	} {
		code, _, said := commandLine(t, c.args...)
		if code != exitUsage {
			t.Errorf("%q: exit %d\n%s", c.args, code, said)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%q does not say %q:\n%s", c.args, want, said)
			}
		}
	}
}

// writeConfig writes a configuration to a file of its own.
func writeConfig(t *testing.T, cfg config.Config) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "coldtap.yaml")
	var text bytes.Buffer
	if err := cfg.Print(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// loadText loads a configuration as a user writes it, without the environment.
func loadText(t *testing.T, text string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Loader{File: file}.Load()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestCheckAndPrintConfig(t *testing.T) {
	file := writeConfig(t, testConfig(t))
	for _, name := range []string{"serve", "offload"} {
		if code, out, said := commandLine(t, name, "--check", "--config", file); code != exitOK || !strings.Contains(out, "valid") {
			t.Errorf("%s --check: exit %d %s %s", name, code, out, said)
		}
		if code, out, _ := commandLine(t, name, "--print-config", "--config", file); code != exitOK || !strings.Contains(out, "queue_timeout: 10s") {
			t.Errorf("%s --print-config: exit %d\n%s", name, code, out)
		}
	}
	t.Chdir(t.TempDir()) // no file there
	if code, out, said := commandLine(t, "serve", "--print-config"); code != exitOK || !strings.Contains(out, "bucket: \"\"") {
		t.Errorf("--print-config without a file: exit %d\n%s%s", code, out, said)
	}
	if code, _, said := commandLine(t, "serve", "--check"); code != exitUsage || !strings.Contains(said, "store.s3.bucket: is required") {
		t.Errorf("--check without a file: exit %d\n%s", code, said)
	}
	t.Setenv("COLDTAP__STORE__S3__BUCKET", "tier")
	t.Setenv("COLDTAP_PORT", "tcp://10.0.0.1:80")
	if code, out, said := commandLine(t, "serve", "--check"); code != exitOK || out != "valid: defaults, COLDTAP__STORE__S3__BUCKET\n" {
		t.Errorf("--check of the environment: exit %d\n%s%s", code, out, said)
	}
	code, example, _ := commandLine(t, "config", "example")
	if err := os.WriteFile("coldtap.yaml", []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	if code2, out, said := commandLine(t, "serve", "--check"); code+code2 != exitOK || out != "valid: coldtap.yaml, COLDTAP__STORE__S3__BUCKET\n" {
		t.Errorf("--check of the example: exit %d, %d\n%s%s", code, code2, out, said)
	}
}

// What cannot start is refused by --check, with the key or the part that is wrong.
func TestCheckFindsWhatStartRefuses(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	const file, kafka = "store: {kind: file}\n", "store: {kind: file}\nlayout: {kind: local}\nmetadata: {kind: kafka, kafka: {bootstrap: [\"b:1\"], "
	for _, c := range []struct {
		command, yaml, want string
		environ             string
	}{
		{"serve", "store: {kind: azure, azure: {account: abc, container: c}}", `container "c" is not set or not a container's name`, ""},
		{"serve", "store: {kind: azure, azure: {account: A, container: tier}}", `account "A"`, ""},
		{"serve", "store: {kind: azure, azure: {account: abc, container: tier, account_key: \"!\"}}", "not base64", ""},
		{"serve", "store: {kind: azure, azure: {account: abc, container: tier, sas: x}}", "no signature", ""},
		{"serve", "store: {kind: azure, azure: {endpoint: \"http://h/x\", container: tier}}", "https only", ""},
		{"serve", "store: {kind: azure, azure: {connection_string: x, container: tier}}", "store: azure", ""},
		{"serve", "store: {kind: s3, s3: {bucket: b, endpoint: \"nowhere\"}}", `endpoint "nowhere"`, ""},
		{"serve", "store: {kind: s3, s3: {bucket: b}}", "nosuch", "AWS_PROFILE=nosuch"},
		{"serve", "store: {kind: s3, s3: {bucket: b}}", "nosuch.pem", "AWS_CA_BUNDLE=/nosuch.pem"},
		{"serve", "store: {kind: gcs, gcs: {bucket: b, endpoint: \"http://h/path\"}}", "endpoint has a path", ""},
		{"serve", "store: {kind: gcs, gcs: {bucket: b, credentials_file: /nosuch.json}}", "/nosuch.json", ""},
		{"serve", file + "cache: {memory: 900TiB}", "cache.memory: 900TiB", ""},
		{"serve", kafka + "tls: {ca_file: /nosuch.pem}}}", "/nosuch.pem", ""},
		{"serve", kafka + "sasl: {mechanism: PLAIN, username: u, password_file: /nosuch}}}", "/nosuch", ""},
		{"offload", kafka + "}}", "offload writes the native layout", ""},
		{"offload", file + "offload: {log_dirs: []}", "offload.log_dirs: is required", ""},
		{"offload", file + "offload: {log_dirs: [/nosuch]}", "offload.log_dirs: stat /nosuch", ""},
	} {
		t.Run(c.want, func(t *testing.T) {
			if name, value, ok := strings.Cut(c.environ, "="); ok {
				t.Setenv(name, value)
			}
			path := filepath.Join(t.TempDir(), "coldtap.yaml")
			if err := os.WriteFile(path, []byte(c.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, _, said := commandLine(t, c.command, "--check", "--config", path); code != exitUsage || !strings.Contains(said, c.want) {
				t.Errorf("exit %d: %s", code, said)
			}
		})
	}
}

// The other way round: what --check lets pass at the ends of its ranges can start.
func TestWhatCheckAcceptsStarts(t *testing.T) {
	for _, text := range []string{
		"cache: {memory: 16KiB, chunk: 4KiB, index_memory: 64KiB}\nlimits: {decode_memory: 1MiB, max_response_bytes: 1, stall_timeout: 1s}\nreader: {threads: 1, max_pending: 1, read_ahead: 0, queue_timeout: 1ms}\n",
		"cache: {memory: 1GiB, chunk: 256MiB}\nreader: {threads: 4096, max_pending: 1000000000, read_ahead: 1000TiB, queue_timeout: 1000h}\nlimits: {max_response_bytes: 1000000TiB}\n",
		"cache: {memory: auto}\nhosts: [coldtap.example]\n",
	} {
		cfg := loadText(t, "store: {kind: file}\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"+text)
		cfg.Store.File.Dir, cfg.Metadata.Embedded.Path = t.TempDir(), filepath.Join(t.TempDir(), "coldtap.db")
		if err := checkParts(cfg); err != nil {
			t.Errorf("%s%v", text, err)
		}
		s, err := newServer(t.Context(), cfg, nil, quiet())
		if err != nil {
			t.Fatalf("%s%v", text, err)
		}
		if err := s.close(time.Minute); err != nil {
			t.Errorf("%s%v", text, err)
		}
	}
}

func TestOffloadTwiceCopiesNothingTheSecondTime(t *testing.T) {
	file := writeConfig(t, testConfig(t))
	args := []string{"offload", "--standalone", "--once", "--config", file}
	code, out, said := commandLine(t, args...)
	if code != exitOK || !strings.Contains(out, "copied 46 segments") || !strings.Contains(out, "active segment") {
		t.Fatalf("exit %d\n%s%s", code, out, said)
	}
	if code, out, _ = commandLine(t, args...); code != exitOK || !strings.Contains(out, "copied 0 segments") {
		t.Errorf("again: exit %d\n%s", code, out)
	}
	if code, _, said := commandLine(t, "offload", "--config", file); code != exitUsage || !strings.Contains(said, "--standalone") {
		t.Errorf("without --standalone: exit %d %s", code, said)
	}
}

// TestALostDatabaseIsSaidAndRebuilt: the store of a lost database is not filled with the same segments again; what the
// message names brings the database back.
func TestALostDatabaseIsSaidAndRebuilt(t *testing.T) {
	cfg := testConfig(t)
	args := []string{"offload", "--standalone", "--once", "--config", writeConfig(t, cfg)}
	if code, out, said := commandLine(t, args...); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, out, said)
	}
	objects := func() (n int) {
		filepath.WalkDir(cfg.Store.File.Dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Ext(path) != "" {
				n++
			}
			return err
		})
		return n
	}
	before := objects()
	cfg.Metadata.Embedded.Path = filepath.Join(t.TempDir(), "elsewhere.db")
	args[len(args)-1] = writeConfig(t, cfg)
	code, out, said := commandLine(t, args...)
	if code != exitUsage || !strings.Contains(said, "coldtap offload rebuild") || !strings.Contains(said, cfg.Metadata.Embedded.Path) || objects() != before {
		t.Errorf("exit %d, %d objects, before %d\n%s%s", code, objects(), before, out, said)
	}
	if code, out, said := commandLine(t, "offload", "rebuild", "--config", args[len(args)-1]); code != exitOK {
		t.Errorf("rebuild: exit %d\n%s%s", code, out, said)
	}
	if code, out, said := commandLine(t, args...); code != exitOK || !strings.Contains(out, "copied 0 segments") || objects() != before {
		t.Errorf("afterwards: exit %d, %d objects\n%s%s", code, objects(), out, said)
	}
}

// TestNamesOfALogDirectoryForgeNoLine: whatever a directory is called, a report's line is one line.
func TestNamesOfALogDirectoryForgeNoLine(t *testing.T) {
	cfg := testConfig(t)
	forged := "x-0\ntxn-0  copied 99  \x1b[2J"
	if err := os.Mkdir(filepath.Join(cfg.Offload.LogDirs[0], forged), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Offload.LogDirs[0], "plain-0", "a\nb"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, out, said := commandLine(t, "offload", "--standalone", "--once", "--config", writeConfig(t, cfg))
	for name, text := range map[string]string{"report": out, "progress": said} {
		if strings.Contains(text, "\x1b") || matches("^txn-0 +copied 99", text) || matches("^b$", text) {
			t.Errorf("%s: %q", name, text)
		}
	}
	if !strings.Contains(out, `\ntxn-0`) || !strings.Contains(out, `a\nb`) {
		t.Errorf("the names are not shown:\n%s", out)
	}
}

func TestOffloadOfDamageIsExitCodeOneAndOthersGoOn(t *testing.T) {
	cfg := testConfig(t)
	file := writeConfig(t, cfg)
	log := filepath.Join(cfg.Offload.LogDirs[0], "plain-0", "00000000000000000191.log")
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(log, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, _ := commandLine(t, "offload", "--standalone", "--once", "--config", file)
	if code != exitFailed || !strings.Contains(out, "damaged: 00000000000000000191.log") {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, line := range []string{"plain-0 +copied 2 .*tiered end 191", "txn-0 +copied 9", "codecs-0 +copied 10"} {
		if !matches(line, out) {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}

func TestHolesAreShownUntilTheyAreFilled(t *testing.T) {
	cfg := testConfig(t)
	file := writeConfig(t, cfg)
	log := filepath.Join(cfg.Offload.LogDirs[0], "plain-0", "00000000000000000191.log")
	sound, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	raw := bytes.Clone(sound)
	raw[len(raw)/2] ^= 1
	for _, run := range []struct {
		log  []byte
		code int
		args []string
		want []string // lines
		hole bool
	}{
		{raw, exitFailed, []string{"--skip-damaged"}, []string{"plain-0 +copied 5 .*tiered end 554", "copied 45 segments .*; 1 partitions failed; 1 holes"}, true},
		{raw, exitOK, nil, []string{"plain-0 +copied 0 .*tiered end 554", "left 1 from offset 191 .*in a recorded hole: damaged", "copied 0 segments .*; 1 holes"}, true},
		{sound, exitOK, nil, []string{"plain-0 +copied 1 .*tiered end 554", "copied 1 segments .* of 5 partitions$"}, false},
		{sound, exitOK, nil, []string{"plain-0 +copied 0 .*tiered end 554"}, false},
	} {
		if err := os.WriteFile(log, run.log, 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, said := commandLine(t, append([]string{"offload", "--standalone", "--once", "--config", file}, run.args...)...)
		if code != run.code || matches("hole +191 to 286 +damaged: 00000000000000000191.log", out) != run.hole {
			t.Errorf("exit %d, want %d and a hole %v\n%s%s", code, run.code, run.hole, out, said)
		}
		for _, line := range run.want {
			if !matches(line, strings.TrimSpace(out)) {
				t.Errorf("no line %q in\n%s", line, out)
			}
		}
	}
}

// TestSealedTierReadsLikeTheBroker seals the sample in two steps, as if its logs had grown in between, so that the tier
// holds two copies of the active segments' beginnings, of different lengths.
func TestSealedTierReadsLikeTheBroker(t *testing.T) {
	cfg := testConfig(t)
	checkpoint := filepath.Join(cfg.Offload.LogDirs[0], "replication-offset-checkpoint")
	full, err := os.ReadFile(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int64{"plain-0": 558, "txn-0": 853, "txn-1": 974, "gaps-0": 2330, "codecs-0": 1547}
	lower := string(full)
	for partition, end := range ends {
		topic, number, _ := cutLast(partition, "-")
		line := fmt.Sprintf("\n%s %s %d\n", topic, number, end)
		if !strings.Contains(lower, line) {
			t.Fatalf("no line %q in the checkpoint", line)
		}
		half := (closedEnds[partition] + end) / 2
		lower = strings.Replace(lower, line, fmt.Sprintf("\n%s %s %d\n", topic, number, half), 1)
	}
	segments := 0
	for _, text := range []string{lower, string(full), string(full)} {
		if err := os.WriteFile(checkpoint, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		report, err := offloadOnce(t.Context(), cfg, offloadOptions{sealActive: true}, quiet())
		if err != nil || report.Failed() {
			t.Fatalf("%v, report %+v", err, report)
		}
		copied, _ := report.Copied()
		segments += copied
	}
	// 46 closed ones; of each of the five active ones a part and the whole, nothing in the third run.
	if segments < 46+5+1 || segments > 46+2*5 {
		t.Errorf("%d segments copied in all", segments)
	}
	base, _ := startServer(t, cfg)
	for partition, end := range ends {
		for _, isolation := range isolations {
			want := testkit.Expected(t, partition, isolation)
			got, last := readAll(t, base, partition, isolation, "earliest", -1, 64<<10)
			compare(t, partition+" "+isolation, got, want)
			if last.end != "tier" || last.next != end {
				t.Errorf("%s %s ended with %s at %d, want tier at %d", partition, isolation, last.end, last.next, end)
			}
		}
	}
}

func TestVersionNamesTheToolchain(t *testing.T) {
	code, out, _ := commandLine(t, "version")
	if code != exitOK || !strings.Contains(out, "go1.") || !strings.Contains(out, "commit") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, same, _ := commandLine(t, "--version"); code != exitOK || same != out {
		t.Errorf("--version: exit %d\n%s", code, same)
	}
}

// The lines that the demo prints must work when pasted.
func TestDemosTourWorks(t *testing.T) {
	base, _ := startTier(t, testConfig(t))
	host := strings.TrimPrefix(base, "http://")
	for _, stop := range tour {
		line := fmt.Sprintf(stop.curl, host)
		req, err := requestOf(t.Context(), line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		resp.Body.Close()
		if want := map[bool]int{true: http.StatusPartialContent, false: http.StatusOK}[req.Header.Get("Range") != ""]; resp.StatusCode != want {
			t.Errorf("%s: %s", line, resp.Status)
		}
	}
}

// requestOf understands as much of curl as the tour uses.
func requestOf(ctx context.Context, line string) (*http.Request, error) {
	line, _, _ = strings.Cut(line, " | ")
	parts := strings.Split(line, "'")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, parts[len(parts)-2], nil)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(line, "curl -H ") {
		name, value, _ := strings.Cut(parts[1], ": ")
		req.Header.Set(name, value)
	}
	return req, nil
}
