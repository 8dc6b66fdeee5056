//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// classPath brings Kafka's jars and the compiled stock client into the cache ($E2E_CACHE, else coldtap-e2e in the
// user's cache folder) and gives the class path that runs brokers and client. Folders are named after what they were
// made from and appear whole, by a rename, so that a run that was cut off leaves nothing to trip over.
func classPath() (string, error) {
	cache := os.Getenv("E2E_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "coldtap-e2e")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	pom, err := filepath.Abs("kafka/pom.xml")
	if err != nil {
		return "", err
	}
	jars, err := made(cache, "jars", []string{pom}, func(folder string) *exec.Cmd {
		return exec.Command("mvn", "--batch-mode", "--quiet", "--file", pom, "dependency:copy-dependencies", "-DoutputDirectory="+folder)
	})
	if err != nil {
		return "", err
	}
	libraries := filepath.Join(jars, "*")
	sources, err := filepath.Glob("kafka/*.java")
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("no Java sources: %v", err)
	}
	classes, err := made(cache, "classes", append([]string{pom}, sources...), func(folder string) *exec.Cmd {
		return exec.Command("javac", append([]string{"-d", folder, "-cp", libraries}, sources...)...)
	})
	if err != nil {
		return "", err
	}
	return classes + string(os.PathListSeparator) + libraries, nil
}

// made gives the folder of the cache that a command makes from files, and runs the command if it is not there.
func made(cache, name string, from []string, command func(folder string) *exec.Cmd) (string, error) {
	hash := sha256.New()
	slices.Sort(from)
	for _, file := range from {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n", filepath.Base(file), len(content))
		hash.Write(content)
	}
	folder := filepath.Join(cache, name+"-"+hex.EncodeToString(hash.Sum(nil))[:16])
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	unfinished, err := os.MkdirTemp(cache, name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(unfinished)
	cmd := command(unfinished)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(unfinished, folder); err != nil {
		if _, there := os.Stat(folder); there == nil { // another run was faster
			return folder, nil
		}
		return "", err
	}
	return folder, nil
}
