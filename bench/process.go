package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"coldtap/catalog/embedded"
	"coldtap/rangeio"
)

// process is a server in a process of its own, so that its CPU time and memory are measured apart from the clients'.
type process struct {
	cmd  *exec.Cmd
	addr string // of its data plane
}

// bareServer is the argument by which the binary becomes the server of ServeBare.
const bareServer = "--bare"

// start runs the binary and waits until it says where it listens: a JSON log line with msg "serving".
func start(ctx context.Context, path string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	var said []string
	for lines.Scan() {
		var line struct {
			Msg    string `json:"msg"`
			Listen string `json:"listen"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			go io.Copy(io.Discard, stderr)
			return &process{cmd: cmd, addr: line.Listen}, nil
		}
		said = append(said, lines.Text())
	}
	return nil, errors.Join(fmt.Errorf("%s said: %s", path, strings.Join(said, "\n")), cmd.Wait())
}

// stop ends the server and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// ticksPerSecond is the kernel's USER_HZ, 100 on every Linux port that Go runs on.
const ticksPerSecond = 100

// cpu is the CPU time the process has used, user and system, in seconds.
func (p *process) cpu() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// Fields are counted after the command name, which is in parentheses and may hold anything.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("unexpected /proc/PID/stat")
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticksPerSecond, errors.Join(err1, err2)
}

// peakMemory is the process's highest resident set so far, in bytes.
func (p *process) peakMemory() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmHWM in /proc/PID/status")
}

// gatewaySetup is a tier on disk and a gateway's configuration for it.
type gatewaySetup struct {
	dir    string
	config string // file
	data   *Dataset
}

// newGatewaySetup writes a dataset and a configuration into a temporary folder; the caller removes it.
func newGatewaySetup(ctx context.Context, spec Spec, cache string) (*gatewaySetup, error) {
	dir, err := os.MkdirTemp("", "coldtap-bench-")
	if err != nil {
		return nil, err
	}
	s := &gatewaySetup{dir: dir, config: filepath.Join(dir, "coldtap.yaml")}
	if err := s.fill(ctx, spec, cache); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *gatewaySetup) fill(ctx context.Context, spec Spec, cache string) error {
	objects, database := filepath.Join(s.dir, "objects"), filepath.Join(s.dir, "coldtap.db")
	backend, err := rangeio.OpenFile(objects, true)
	if err != nil {
		return err
	}
	defer backend.Close()
	if s.data, err = Generate(ctx, backend, spec); err != nil {
		return err
	}
	db, err := embedded.OpenWriter(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := s.data.Publish(ctx, db); err != nil {
		return err
	}
	return os.WriteFile(s.config, fmt.Appendf(nil, `listen: 127.0.0.1:0
admin: 127.0.0.1:0
store: {kind: file, file: {dir: %q}}
metadata: {embedded: {path: %q}}
cache: %s
`, objects, database, cache), 0o644)
}

// serve starts the gateway.
func (s *gatewaySetup) serve(ctx context.Context, self Self) (*process, error) {
	return start(ctx, self.Path, "serve", "--config", s.config, "--log-format", "json")
}

func (s *gatewaySetup) remove() { os.RemoveAll(s.dir) }
