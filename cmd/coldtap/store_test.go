package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coldtap/internal/config"
)

// Whatever keeps a store from being opened, every command says it and ends with an exit code; --check says it
// beforehand.
func TestStoresThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s3 := func(c *config.Store) {
		c.Kind = "s3"
		c.S3.Bucket, c.S3.Region, c.S3.Endpoint = "tier", "us-east-1", "http://127.0.0.1:1"
	}
	azure := func(c *config.Store) {
		c.Kind = "azure"
		c.Azure.Account, c.Azure.Container, c.Azure.AccountKey = "account", "tier", "a2V5"
	}
	for _, c := range []struct {
		name string
		env  [2]string
		make func(*config.Store)
		want string
	}{
		{"profile", [2]string{"AWS_PROFILE", "nosuch"}, s3, "nosuch"},
		{"certificates", [2]string{"AWS_CA_BUNDLE", filepath.Join(dir, "none.pem")}, s3, "none.pem"},
		{"malformed certificates", [2]string{"AWS_CA_BUNDLE", file("bad.pem", "no certificate")}, s3, "PEM"},
		{"wrong setting", [2]string{"AWS_CONFIG_FILE", file("config", "[default]\nretry_mode = sometimes\n")}, s3, "sometimes"},
		{"attempts", [2]string{"AWS_MAX_ATTEMPTS", "x"}, s3, "AWS_MAX_ATTEMPTS"},
		{"s3 endpoint", [2]string{}, func(c *config.Store) { s3(c); c.S3.Endpoint = "127.0.0.1:9000" }, "127.0.0.1:9000"},
		{"gcs credentials", [2]string{}, func(c *config.Store) {
			c.Kind, c.GCS.Bucket, c.GCS.CredentialsFile = "gcs", "tier", filepath.Join(dir, "none.json")
		}, "none.json"},
		{"gcs endpoint", [2]string{}, func(c *config.Store) {
			c.Kind, c.GCS.Bucket, c.GCS.Endpoint, c.GCS.Anonymous = "gcs", "tier", "nowhere", true
		}, "endpoint"},
		{"azure container", [2]string{}, func(c *config.Store) { azure(c); c.Azure.Container = "c" }, `container "c"`},
		{"azure key", [2]string{}, func(c *config.Store) { azure(c); c.Azure.AccountKey = "!" }, "account key"},
		{"azure key file", [2]string{}, func(c *config.Store) {
			azure(c)
			c.Azure.AccountKey, c.Azure.AccountKeyFile = "", filepath.Join(dir, "none.key")
		}, "none.key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_MAX_ATTEMPTS"} {
				t.Setenv(name, "")
			}
			t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "no-config"))
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "no-credentials"))
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			cfg := testConfig(t)
			c.make(&cfg.Store)
			path := writeConfig(t, cfg)
			for _, args := range []string{"serve --check", "offload --check", "offload rebuild --check"} {
				code, _, said := commandLine(t, append(strings.Fields(args), "--config", path)...)
				if code != exitUsage || !strings.Contains(said, c.want) || !strings.Contains(said, "store") {
					t.Fatalf("%s: exit %d, want %q in\n%s", args, code, c.want, said)
				}
			}
			for _, args := range []string{
				"serve", "offload --standalone --once", "offload rebuild", "offload rebuild --dry-run", "inspect verify", "inspect segments plain",
				"inspect segment kPBl8ErGTLyGEYFGJ5zFmQ", "inspect log plain/00000000000000000000.log", "inspect index plain/00000000000000000000.index",
			} {
				code, _, said := commandLine(t, append(strings.Fields(args), "--config", path)...)
				if code != exitFailed || !strings.Contains(said, c.want) || !strings.Contains(said, "store") {
					t.Errorf("%s: exit %d, want %q in\n%s", args, code, c.want, said)
				}
			}
		})
	}
}

// A file in the folder's place is seen by --check; a folder that is not there yet is none of its business.
func TestCheckOfAFolder(t *testing.T) {
	cfg := testConfig(t)
	parent := filepath.Dir(cfg.Store.File.Dir)
	if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{
		"objects": exitOK, "a/b/objects": exitOK, ".": exitOK, "file": exitUsage, "file/objects": exitUsage,
	} {
		cfg.Store.File.Dir = filepath.Join(parent, dir)
		if code, _, said := commandLine(t, "serve", "--check", "--config", writeConfig(t, cfg)); code != want || want != exitOK && !strings.Contains(said, "store.file.dir") {
			t.Errorf("%s: exit %d, want %d\n%s", dir, code, want, said)
		}
	}
}
