package config

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// valid is the least that a file must say.
const valid = "store: {kind: file, file: {dir: /tmp/objects}}\n"

// parse reads the text of a file over the defaults and validates it.
func parse(raw []byte) (Config, error) {
	c, r := Default(), &reader{}
	r.file(raw, "", &c)
	c.resolve()
	if r.unread {
		return c, r.err()
	}
	for _, p := range c.Validate() {
		r.problems = append(r.problems, p.Error())
	}
	return c, r.err()
}

func TestPrintedConfigurationParsesToItself(t *testing.T) {
	c, err := parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	again, err := parse(out.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var second bytes.Buffer
	if err := again.Print(&second); err != nil {
		t.Fatal(err)
	}
	if out.String() != second.String() {
		t.Errorf("printing is not stable:\n%s\n%s", out.String(), second.String())
	}
}

// The golden files are what operators see: a changed default must show up in review.
func TestGolden(t *testing.T) {
	c, err := parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	for file, write := range map[string]func(io.Writer) error{
		"testdata/defaults.yaml":      c.Print,
		"testdata/example.yaml":       Example,
		"../../docs/configuration.md": writeReference,
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || out.String() != string(want) {
			t.Errorf("%s is not up to date (%v); UPDATE_GOLDEN=1 go test ./internal/config writes it", file, err)
		}
	}
}

// Taken as it is, the example must pass; with every # taken away it must say the defaults.
func TestExampleIsAConfiguration(t *testing.T) {
	var text bytes.Buffer
	if err := Example(&text); err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Store.S3.Bucket = "tier"
	everything := regexp.MustCompile(`(?m)^( *)#([a-z_0-9]+:)`).ReplaceAllString(text.String(), "$1$2")
	if everything == text.String() {
		t.Error("nothing is commented out")
	}
	for _, text := range []string{text.String(), everything} {
		c, err := parse([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got, want := printed(t, c), printed(t, want); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func printed(t *testing.T, c Config) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A key says what it is for, has a default that it allows, and stands before the sections beside it.
func TestEveryKeyIsDescribed(t *testing.T) {
	c := Default()
	sections := make(map[string]bool) // those that have sections
	for k := range keys(reflect.ValueOf(&c).Elem(), "") {
		parent, _, _ := cutLast(k.path)
		switch {
		case k.doc == "" || !strings.HasSuffix(k.doc, "."):
			t.Errorf("%s: doc %q is no sentence", k.path, k.doc)
		case k.section():
			sections[parent] = true
		case sections[parent]:
			t.Errorf("%s stands behind a section", k.path)
		}
		k.limit(k.min)
		k.limit(k.max)
		if err := k.check(); err != nil {
			t.Errorf("%s: its default: %v", k.path, err)
		}
	}
}

func TestProblemsAreAllReported(t *testing.T) {
	t.Setenv("PORT", "9999")
	for _, c := range []struct {
		name, yaml string
		want       []string // each must be in the error
	}{
		{"unknown key with its place", "store:\n  kind: file\n  filee: {dir: x}\n", []string{"line 3, column 3", "unknown key store.filee", "known here: kind, s3, gcs, azure, file"}},
		{"key twice", valid + "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", []string{"listen is given twice"}},
		{"unset variable", valid + "listen: \"${COLDTAP_NO_SUCH}:1\"\n", []string{"line 2", "COLDTAP_NO_SUCH is not set"}},
		{"hosts with more than a name", valid + "hosts: [\"http://a\", \"a:80\", \"\", \"a..b\", ok.example]\n", []string{`hosts: "http://a" is not a host name`, `hosts: "a:80"`, `hosts: "" `, `hosts: "a..b"`}},
		{"bad size", valid + "cache: {memory: lots}\n", []string{"line 2", `"lots" is not a size`}},
		{"bad duration", valid + "reader: {queue_timeout: 3}\n", []string{`"3" is not a duration`}},
		{"several at once", "store: {kind: ftp}\nlisten: nowhere\nreader: {threads: 0}\n", []string{"store.kind", "listen", "reader.threads"}},
		{"unknown keys, values and sense in one go", "nonsense: 1\nstore: {kind: file}\ncache: {memory: -5MiB, chunk: 3furlongs}\nreader: {queue_timeout: 5, threads: many}\nlisten: nowhere\n",
			[]string{"nonsense", "-5MiB", "3furlongs", `reader.queue_timeout: "5" is not a duration`, "many", "listen: \"nowhere\""}},
		{"two documents", valid + "---\nlisten: 127.0.0.1:1\n", []string{"a second document"}},
		{"no bucket", "store: {kind: s3}\n", []string{"store.s3.bucket: is required"}},
		{"no GCS bucket", "store: {kind: gcs}\n", []string{"store.gcs.bucket: is required for store.kind gcs"}},
		{"no Azure container", "store: {kind: azure}\n", []string{"store.azure.container: is required", "store.azure.account: is required"}},
		{"two Azure secrets", "store: {kind: azure, azure: {account: a, container: c, sas: x, account_key_file: k}}\n", []string{"store.azure: give one of"}},
		{"an account twice", "store: {kind: azure, azure: {account: a, container: c, connection_string: x}}\n", []string{"is part of the connection string"}},
		{"arena too small", valid + "cache: {memory: 8MiB}\n", []string{"cache.memory: 8MiB holds fewer than 4 chunks of 4MiB"}},
		{"unknown kinds", valid + "metadata: {kind: zookeeper}\nlayout: {kind: iceberg}\n", []string{`metadata.kind: "zookeeper"`, `layout.kind: "iceberg"`}},
		{"brokers write no native layout", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:9092]}}\n", []string{"layout.kind: native does not go with metadata.kind kafka, only aiven or local"}},
		{"no manifests to read", valid + "metadata: {kind: archive}\nlayout: {kind: local}\n", []string{"layout.kind: local does not go with metadata.kind archive"}},
		{"no brokers", valid + "metadata: {kind: kafka, kafka: {topic: \"\"}}\nlayout: {kind: local}\n", []string{"metadata.kafka.bootstrap: is required", "metadata.kafka.topic: is required"}},
		{"broker without a port", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b]}}\nlayout: {kind: local}\n", []string{`"b" is not host:port`}},
		{"half a certificate", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], tls: {cert_file: c.pem}}}\nlayout: {kind: local}\n", []string{"cert_file and key_file go together"}},
		{"password without a mechanism", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], sasl: {password: x}}}\nlayout: {kind: local}\n", []string{"metadata.kafka.sasl.mechanism: is required"}},
		{"mechanism without a name and a password", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], sasl: {mechanism: PLAIN}}}\nlayout: {kind: local}\n", []string{"username: is required for PLAIN", "either password or password_file"}},
		{"no token", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], sasl: {mechanism: OAUTHBEARER}}}\nlayout: {kind: local}\n", []string{"either token or token_file"}},
		{"a token beside a password", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\":\"], sasl: {mechanism: PLAIN, username: u, password: p, token: t}}}\nlayout: {kind: local}\n", []string{`":" is not host:port`, "is for OAUTHBEARER, not for PLAIN"}},
		{"a name beside a token", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], sasl: {mechanism: OAUTHBEARER, username: u, token: t}}}\nlayout: {kind: local}\n", []string{"username: is not for OAUTHBEARER"}},
		{"a value in place of keys", valid + "metadata: {kafka: {sasl: hunter2}}\n", []string{"line 2, column 26: metadata.kafka.sasl: a value where keys should be"}},
		{"unknown mechanism", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], sasl: {mechanism: GSSAPI}}}\nlayout: {kind: local}\n", []string{`"GSSAPI" is not one of '', PLAIN`}},
		{"key without a file", valid + "layout: {kind: aiven, aiven: {encryption_keys: [{id: k1}]}}\nmetadata: {kind: archive}\n", []string{"entry 1 needs id and private_key_file"}},
		{"two ways to name a prefix", valid + "layout: {kind: aiven, aiven: {key_prefix: a/, key_prefixes: [b/]}}\nmetadata: {kind: archive}\n", []string{"layout.aiven.key_prefix: goes without key_prefixes"}},
		{"too many prefixes", valid + "layout: {kind: aiven, aiven: {key_prefixes: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]}}\nmetadata: {kind: archive}\n", []string{"layout.aiven.key_prefixes: 17 prefixes"}},
		{"brokers asked without a pause", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\"b:1\"], refresh: 10ms}}\nlayout: {kind: local}\n", []string{"metadata.kafka.refresh: 10ms is not within 100ms and 1m0s"}},
		{"brokers asked too seldom", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\"b:1\"], refresh: 1h}}\nlayout: {kind: local}\n", []string{"metadata.kafka.refresh: 1h0m0s is not within"}},
		{"what is not built", valid + "kafka: {listen: \"\"}\ncache: {disk: {path: /ssd}}\nlimits: {store_gets_per_second: 0, bytes_per_second: 0}\noffload: {retention: [], interval: 30s}\n",
			[]string{"unknown key kafka", "unknown key cache.disk", "unknown key limits.store_gets_per_second", "unknown key limits.bytes_per_second", "unknown key offload.retention", "unknown key offload.interval"}},
		{"unknown key in a list", valid + "layout: {aiven: {encryption_keys: [{key: \"*\"}]}}\n", []string{"unknown key layout.aiven.encryption_keys.key"}},
		{"beyond loopback", valid + "listen: 0.0.0.0:8080\nadmin: \":9090\"\n", []string{`listen: "0.0.0.0:8080" can be reached from other machines`, `admin: ":9090" can be`, "auth.allow_anonymous"}},
		{"beyond loopback by name", valid + "listen: coldtap.example:8080\nadmin: \"[::]:9090\"\n", []string{"listen: ", "admin: "}},
		{"more than there is", valid + "cache: {memory: 900TiB, index_memory: 900TiB}\nlimits: {decode_memory: 900TiB}\n",
			[]string{"cache.memory: 900TiB is more than the ", "of this machine or container", "cache.index_memory: 900TiB", "limits.decode_memory: 900TiB"}},
		{"too little for anything", valid + "cache: {index_memory: 1KiB, chunk: 1KiB}\nlimits: {stall_timeout: 1ns, decode_memory: 5}\nreader: {queue_timeout: 1ns, threads: 5000}\n",
			[]string{"cache.index_memory: 1KiB is below 64KiB", "cache.chunk: 1KiB is not within 4KiB and 256MiB", "limits.stall_timeout: 1ns is below 1s", "limits.decode_memory: 5 is below 1MiB", "reader.queue_timeout: 1ns is below 1ms", "reader.threads: 5000 is not within 1 and 4096"}},
		{"auto where it means nothing", valid + "reader: {read_ahead: auto}\n", []string{"reader.read_ahead: auto is not possible here"}},
		{"unterminated reference", valid + "admin: \"${HOME\"\n", []string{"line 2, column 8", "${ does not begin a reference"}},
		{"types", valid + "listen: [a]\nhosts: localhost\nreader: {threads: many, read_ahead: {a: hunter2}}\nstore2: {}\nmetadata: {kafka: {tls: {enabled: perhaps}, refresh: [1s]}, archive: {refresh: soon}}\n",
			[]string{"listen: this is not allowed; expected: text", "hosts: is not a list", `reader.threads: "many" is not allowed; expected: whole number`, "reader.read_ahead: this is not allowed; expected: size", `metadata.kafka.tls.enabled: "perhaps" is not allowed; expected: true or false`,
				"metadata.kafka.refresh: this is not allowed; expected: duration", `metadata.archive.refresh: "soon" is not a duration`}},
		{"credentials before a host", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\"u:hunter2@b:1\"]}}\nlayout: {kind: local}\n", []string{`"********@b:1" is not host:port`}},
		{"broker with no port's number", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\"b:kafka\", \"b:99999\"]}}\nlayout: {kind: local}\n", []string{`"b:kafka" is not host:port`, `"b:99999" is not host:port`}},
		{"same address", valid + "listen: 127.0.0.1:1\nadmin: 127.0.0.1:1\n", []string{"admin: must differ"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse([]byte(c.yaml))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret shows: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in:\n%v", want, err)
				}
			}
		})
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Setenv("COLDTAP_TEST_PASSWORD", "hunter2")
	const text = `
store: {kind: file, s3: {endpoint: "https://user:hunter2@s3.example/"}, gcs: {endpoint: "http://hunter2@gcs.example"},
  azure: {account_key: hunter2, connection_string: "AccountKey=hunter2", sas: "sig=hunter2"}}
layout: {kind: local}
metadata: {kind: kafka, kafka: {bootstrap: ["b:9092"], sasl: {mechanism: PLAIN, username: u, password: "${COLDTAP_TEST_PASSWORD}", token: ""}}}
`
	c, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Kafka.SASL.Password != "hunter2" {
		t.Errorf("password is %q", c.Metadata.Kafka.SASL.Password)
	}
	c.Metadata.Kafka.Bootstrap = []string{"u:hunter2@b:9092", "SASL_SSL://u:hunter2@b:9092"}
	before := c.Metadata.Kafka.Bootstrap[0]
	out := printed(t, c)
	if strings.Contains(out, "hunter2") || !strings.Contains(out, "https://"+masked+"@s3.example/") || !strings.Contains(out, "- '"+masked+"@b:9092'") {
		t.Errorf("printed:\n%s", out)
	}
	if !strings.Contains(out, `token: ""`) {
		t.Error("an empty secret is masked")
	}
	if c.Metadata.Kafka.SASL.Password != "hunter2" || c.Metadata.Kafka.Bootstrap[0] != before {
		t.Error("printing changed the configuration")
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"https://u:p@h/x":                  "https://********@h/x",
		"Get \"http://u@h:1\": refused":    "Get \"http://********@h:1\": refused",
		"two http://a:b@c http://d@e":      "two http://********@c http://********@e",
		"u:p:q@h:9092":                     "********@h:9092",
		"https://h/a@b":                    "https://h/a@b",
		`C:\data\a@b`:                      `C:\data\a@b`,
		"mail a@b: c":                      "mail a@b: c",
		"[::1]:9092":                       "[::1]:9092",
		"https://a.b/?sv=1&sig=c%3D&se=2":  "https://a.b/?sv=1&sig=********&se=2",
		"https://h/?X-Amz-Signature=c":     "https://h/?X-Amz-Signature=********",
		"AccountName=a;AccountKey=c==;B=1": "AccountName=a;AccountKey=********;B=1",
		"design=c signature mismatch":      "design=c signature mismatch",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestEnvironmentExpands(t *testing.T) {
	t.Setenv("COLDTAP_TEST_DIR", "/srv/objects")
	t.Setenv("COLDTAP_TEST_THREADS", "7")
	c, err := parse([]byte("store: {kind: file, file: {dir: \"${COLDTAP_TEST_DIR}/a\"}, s3: {prefix: \"$${HOME}$\"}}\nreader:\n  threads: ${COLDTAP_TEST_THREADS}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.File.Dir != "/srv/objects/a" || c.Reader.Threads != 7 || c.Store.S3.Prefix != "${HOME}$" {
		t.Errorf("dir %q, threads %d, prefix %q", c.Store.File.Dir, c.Reader.Threads, c.Store.S3.Prefix)
	}
}

func TestAutoMemory(t *testing.T) {
	c, err := parse([]byte(valid + "cache: {memory: auto}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Cache.Memory < 64<<20 {
		t.Errorf("auto gave %s", c.Cache.Memory)
	}
}

func TestBytes(t *testing.T) {
	for in, want := range map[string]Bytes{"0": 0, "4096": 4096, "4KiB": 4096, "1 GiB": 1 << 30, "1GB": 1e9, "12B": 12} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "1.5GiB", "9999999999TiB", "GiB"} {
		if got, err := ParseBytes(in); err == nil {
			t.Errorf("%q: accepted as %d", in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte("store: [1, {a: b}]\ncache: {chunk: &a 1MiB, memory: *a}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parse(raw)
		if err == nil && reflect.DeepEqual(c, Config{}) {
			t.Error("an accepted file gave the zero configuration")
		}
	})
}
