package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(file, []byte("store: {kind: gcs, s3: {bucket: theirs, region: eu-central-1}}\nhosts: [a, b]\nreader: {threads: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Loader{File: file, Environ: []string{
		"COLDTAP__STORE__KIND=s3",
		"COLDTAP__STORE__S3__BUCKET=ours # ${HOME}: \"x\"",
		"COLDTAP__STORE__S3={prefix: p/, bucket: other}", // a section, before its keys
		"COLDTAP__HOSTS=[c]",
		"COLDTAP__READER__THREADS=7",
		"COLDTAP__CACHE__MEMORY=64MiB",
		"COLDTAP__AUTH__ALLOW_ANONYMOUS=true",
		"COLDTAP__LISTEN=0.0.0.0:8080",
		"COLDTAP__OFFLOAD__LOG_DIRS=",
		"COLDTAP__LAYOUT__AIVEN__ENCRYPTION_KEYS=[{id: k, private_key_file: k.pem}]",
		"COLDTAP__STORE__PRICE__PER_1000_GETS=0.5",
		// What Kubernetes sets for a Service named coldtap, and others' variables.
		"COLDTAP_PORT=tcp://10.0.0.1:8080", "COLDTAP_SERVICE_HOST=10.0.0.1", "COLDTAP_PORT_8080_TCP_PORT=8080", "COLDTAP=1", "HOME=/",
	}}.Load()
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Store.S3.Bucket, want.Store.S3.Region, want.Store.S3.Prefix = "ours # ${HOME}: \"x\"", "eu-central-1", "p/"
	want.Hosts, want.Reader.Threads, want.Cache.Memory = []string{"c"}, 7, 64<<20
	want.Auth.AllowAnonymous, want.Listen, want.Offload.LogDirs = true, "0.0.0.0:8080", nil
	want.Layout.Aiven.EncryptionKeys = []EncryptionKey{{"k", "k.pem"}}
	want.Store.Price.Per1000Gets = 0.5
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%s\nwant\n%s", printed(t, c), printed(t, want))
	}
}

func TestWrongVariablesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(file, []byte("admin: nowhere\nlisten: nowhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Loader{File: file, Environ: []string{
		"COLDTAP__STORE__S3__BUCKTE=x",
		"COLDTAP__LISTEN__PORT=1",
		"COLDTAP__=x",
		"COLDTAP__READER__THREADS=",
		"COLDTAP__CACHE__CHUNK=lots",
		"COLDTAP__METADATA__KAFKA__SASL=hunter2",
		"COLDTAP__METADATA__KAFKA__TLS={hunter2",
		"COLDTAP__HOSTS=a,b",
		"COLDTAP__STORE__KIND=file",
		"COLDTAP__STORE__FILE__DIR=",
		"COLDTAP__LISTEN=somewhere",
		"COLDTAP__LIMITS={stall_timeout: 1ns}",
	}}.Load()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"COLDTAP__STORE__S3__BUCKTE: unknown key store.s3.buckte (known here: bucket, region",
		"COLDTAP__LISTEN__PORT: unknown key listen.port: it has nothing below it",
		"COLDTAP__: unknown key",
		"COLDTAP__READER__THREADS: reader.threads: is empty",
		`COLDTAP__CACHE__CHUNK: cache.chunk: "lots" is not a size`,
		"COLDTAP__METADATA__KAFKA__SASL: metadata.kafka.sasl: a value where keys should be",
		"COLDTAP__METADATA__KAFKA__TLS: metadata.kafka.tls: is not YAML",
		"COLDTAP__HOSTS: hosts: is not a list",
		"COLDTAP__STORE__FILE__DIR: store.file.dir: is required",
		`COLDTAP__LISTEN: listen: "somewhere" is not host:port`,
		"COLDTAP__LIMITS: limits.stall_timeout: 1ns is below 1s",
		file + ": admin: \"nowhere\" is not host:port",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret shows: %v", err)
	}
}

// Each key has a variable, and each variable is its key's.
func TestEveryKeyHasAVariable(t *testing.T) {
	c := Default()
	for k := range keys(reflect.ValueOf(&c).Elem(), "") {
		value := inline(k.value)
		if k.value.Kind() == reflect.String {
			value = k.value.String()
		}
		variable := variablePrefix + strings.ToUpper(strings.ReplaceAll(k.path, ".", "__"))
		r := &reader{}
		r.environment([]string{variable + "=" + value}, &c)
		if err := r.err(); err != nil {
			t.Errorf("%s=%s: %v", variable, value, err)
		}
	}
	if got, want := printed(t, c), printed(t, Default()); got != want {
		t.Errorf("the defaults by the environment are\n%s\nnot\n%s", got, want)
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("COLDTAP__STORE__S3__BUCKET=x")
	f.Add("COLDTAP__STORE={s3: {bucket: &a x, prefix: *a}}")
	f.Fuzz(func(t *testing.T, variable string) {
		c, r := Default(), &reader{}
		r.environment([]string{variable}, &c)
		c.Validate()
	})
}
