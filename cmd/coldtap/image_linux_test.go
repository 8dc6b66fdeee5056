package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"coldtap/internal/sample"
)

// image is what the Dockerfile makes, in a folder.
type image struct {
	root       string
	env        []string
	workdir    string
	volumes    []string
	uid, gid   uint32
	entrypoint []string
	cmd        []string
}

// buildImage does what the Dockerfile says, as far as this machine can: the binary is built here, and what the build
// stage makes under /image is made elsewhere.
func buildImage(t *testing.T) *image {
	t.Helper()
	im := &image{root: filepath.Join(t.TempDir(), "root"), workdir: "/"}
	stage := t.TempDir()
	if err := os.Mkdir(im.root, 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(command string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", command)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	sh("go build -o " + stage + "/coldtap .")
	raw, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	last := false // stage
	list := func(text string) (l []string) {
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return l
	}
	for line := range strings.Lines(string(raw)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch {
		case instruction == "FROM":
			last = rest == "scratch"
		case !last && instruction == "RUN" && strings.Contains(rest, "/image/"):
			sh(strings.ReplaceAll(rest, "/image/", stage+"/image/"))
		case !last:
		case instruction == "COPY":
			owner := "0:0"
			for strings.HasPrefix(words[0], "--") {
				if o, ok := strings.CutPrefix(words[0], "--chown="); ok {
					owner = o
				}
				words = words[1:]
			}
			from, to := words[0], im.root+words[1]
			switch {
			case !strings.HasPrefix(from, "/etc/"):
				from = stage + from
			case exec.Command("test", "-e", from).Run() != nil:
				continue // no certificates on this machine
			}
			if strings.HasSuffix(from, "/") {
				sh(fmt.Sprintf("cp -a %[1]s. %[2]s && chown %[3]s %[2]s*", from, to, owner))
			} else {
				sh(fmt.Sprintf("mkdir -p $(dirname %[2]sx) && cp %[1]s %[2]s", from, to))
			}
		case instruction == "ENV":
			im.env = append(im.env, words...)
		case instruction == "WORKDIR":
			im.workdir = rest
		case instruction == "VOLUME":
			im.volumes = append(im.volumes, words...)
		case instruction == "USER":
			user, group, _ := strings.Cut(rest, ":")
			u, err := strconv.ParseUint(user, 10, 32)
			g, err2 := strconv.ParseUint(group, 10, 32)
			if err != nil || err2 != nil {
				t.Fatalf("USER %s is not numeric, and an empty image has no names", rest)
			}
			im.uid, im.gid = uint32(u), uint32(g)
		case instruction == "ENTRYPOINT":
			im.entrypoint = list(rest)
		case instruction == "CMD":
			im.cmd = list(rest)
		}
	}
	return im
}

// command is a run of the image: args replace CMD, env comes on top.
func (im *image) command(env []string, args ...string) *exec.Cmd {
	if args == nil {
		args = im.cmd
	}
	return &exec.Cmd{
		Path: im.entrypoint[0], Args: append(append([]string{}, im.entrypoint...), args...),
		Env: append(append([]string{}, im.env...), env...), Dir: im.workdir,
		SysProcAttr: &syscall.SysProcAttr{
			Chroot: im.root, Credential: &syscall.Credential{Uid: im.uid, Gid: im.gid}, Pdeathsig: syscall.SIGKILL,
		},
	}
}

// The image runs as it is shipped: as an unprivileged user, in a root folder that holds nothing but what the Dockerfile
// puts there, configured by the environment alone.
func TestImageRunsAsShipped(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	im := buildImage(t)
	if im.uid == 0 || len(im.volumes) != 1 || !strings.Contains(strings.Join(im.env, " "), "COLDTAP__LISTEN=0.0.0.0:") {
		t.Fatalf("the Dockerfile makes %+v", im)
	}
	// Free ports in place of the image's, which this machine may be using.
	env := []string{"COLDTAP__STORE__KIND=file", "COLDTAP__LISTEN=0.0.0.0:0", "COLDTAP__ADMIN=0.0.0.0:0"}

	out, err := im.command(env).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitUsage || !strings.Contains(string(out), "auth.allow_anonymous") {
		t.Fatalf("without a word about authentication: %v\n%s", err, out)
	}
	env = append(env, "COLDTAP__AUTH__ALLOW_ANONYMOUS=true")

	if err := sample.Extract(filepath.Join(im.root, "logs")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"version"},
		{"serve", "--check"},
		{"offload", "--standalone", "--once", "--log-dir", "/logs"},
		{"inspect", "verify", "--deep"}, // makes a temporary file
	} {
		more := env
		if args[0] == "inspect" {
			more = append(more, "COLDTAP__METADATA__KIND=archive")
		}
		if out, err := im.command(more, args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	for _, made := range []string{"coldtap.db", "objects"} {
		if _, err := os.Stat(filepath.Join(im.root, im.volumes[0], made)); err != nil {
			t.Errorf("not in the volume: %v", err)
		}
	}

	serve := im.command(env)
	stderr, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	said := ""
	for lines.Scan() {
		said += lines.Text() + "\n"
		found := regexp.MustCompile(`msg=serving listen=(\S+) admin=(\S+)`).FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		for i, path := range []string{"/topics", "/healthy"} {
			_, port, err := net.SplitHostPort(strings.Trim(found[i+1], `"`))
			if err != nil {
				t.Errorf("%s: %v", found[i+1], err)
				continue
			}
			resp, err := http.Get("http://127.0.0.1:" + port + path)
			if err != nil {
				t.Error(err)
				continue
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || path == "/topics" && !strings.Contains(string(body), "plain") {
				t.Errorf("%s: %s %s %v", path, resp.Status, body, err)
			}
		}
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	if err := serve.Wait(); err != nil || !strings.Contains(said, "msg=serving") {
		t.Errorf("%v\n%s", err, said)
	}
}
