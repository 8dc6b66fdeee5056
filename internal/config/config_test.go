package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// valid is the least that a file must say.
const valid = "store: {kind: file, file: {dir: /tmp/objects}}\n"

func TestPrintedConfigurationParsesToItself(t *testing.T) {
	c, err := Parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	again, err := Parse(out.Bytes())
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

// The golden file is what an operator sees with --print-config: a changed default must show up in review.
func TestDefaultsGolden(t *testing.T) {
	c, err := Parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "defaults.yaml")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
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
			[]string{"nonsense", "-5MiB", "3furlongs", `"5" is not a duration`, "many", "listen: \"nowhere\""}},
		{"two documents", valid + "---\nlisten: 127.0.0.1:1\n", []string{"a second document"}},
		{"no bucket", "store: {kind: s3}\n", []string{"store.s3.bucket: is required"}},
		{"no GCS bucket", "store: {kind: gcs}\n", []string{"store.gcs.bucket: is required for store.kind gcs"}},
		{"no Azure container", "store: {kind: azure}\n", []string{"store.azure.container: is required", "store.azure.account: is required"}},
		{"two Azure secrets", "store: {kind: azure, azure: {account: a, container: c, sas: x, account_key_file: k}}\n", []string{"store.azure: give one of"}},
		{"an account twice", "store: {kind: azure, azure: {account: a, container: c, connection_string: x}}\n", []string{"is part of the connection string"}},
		{"arena too small", valid + "cache: {memory: 8MiB}\n", []string{"cache.memory: 8MiB holds fewer than 4 chunks of 4MiB"}},
		{"unbuilt kind", valid + "metadata: {kind: shared}\n", []string{"metadata.kind: shared is not in this version"}},
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
		{"a value in place of keys", valid + "metadata: {kafka: {sasl: hunter2}}\n", []string{"line 2: a value (!!str) where the keys of SASL should be"}},
		{"unknown mechanism", valid + "metadata: {kind: kafka, kafka: {bootstrap: [b:1], sasl: {mechanism: GSSAPI}}}\nlayout: {kind: local}\n", []string{`"GSSAPI" is not one of PLAIN`}},
		{"key without a file", valid + "layout: {kind: aiven, aiven: {encryption_keys: [{id: k1}]}}\nmetadata: {kind: archive}\n", []string{"entry 1 needs id and private_key_file"}},
		{"two ways to name a prefix", valid + "layout: {kind: aiven, aiven: {key_prefix: a/, key_prefixes: [b/]}}\nmetadata: {kind: archive}\n", []string{"layout.aiven.key_prefix: goes without key_prefixes"}},
		{"too many prefixes", valid + "layout: {kind: aiven, aiven: {key_prefixes: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]}}\nmetadata: {kind: archive}\n", []string{"layout.aiven.key_prefixes: 17 prefixes"}},
		{"brokers asked without a pause", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\"b:1\"], refresh: 10ms}}\nlayout: {kind: local}\n", []string{"metadata.kafka.refresh: 10ms is not within 100ms and 1m0s"}},
		{"brokers asked too seldom", valid + "metadata: {kind: kafka, kafka: {bootstrap: [\"b:1\"], refresh: 1h}}\nlayout: {kind: local}\n", []string{"metadata.kafka.refresh: 1h0m0s is not within"}},
		{"unbuilt feature", valid + "cache: {disk: {path: /ssd, size: 1GiB}}\n", []string{"cache.disk.path: is not in this version"}},
		{"retention that would not happen", valid + "offload: {retention: [{topics: \"*\", time: 1h}]}\n", []string{"offload.retention"}},
		{"unknown key in a list", valid + "offload: {retention: [{topic: \"*\"}]}\n", []string{"unknown key offload.retention.topic"}},
		{"same address", valid + "listen: 127.0.0.1:1\nadmin: 127.0.0.1:1\n", []string{"admin: must differ"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.yaml))
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
	c, err := Parse([]byte(valid + "layout: {kind: local}\nmetadata: {kind: kafka, kafka: {bootstrap: [b:9092], sasl: {mechanism: PLAIN, username: u, password: \"${COLDTAP_TEST_PASSWORD}\"}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Kafka.SASL.Password != "hunter2" {
		t.Errorf("password is %q", c.Metadata.Kafka.SASL.Password)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), masked) {
		t.Errorf("printed:\n%s", out.String())
	}
	if c.Metadata.Kafka.SASL.Password != "hunter2" {
		t.Error("printing changed the configuration")
	}
}

func TestEnvironmentExpands(t *testing.T) {
	t.Setenv("COLDTAP_TEST_DIR", "/srv/objects")
	t.Setenv("COLDTAP_TEST_THREADS", "7")
	c, err := Parse([]byte("store: {kind: file, file: {dir: \"${COLDTAP_TEST_DIR}/a\"}}\nreader:\n  threads: ${COLDTAP_TEST_THREADS}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.File.Dir != "/srv/objects/a" || c.Reader.Threads != 7 {
		t.Errorf("dir %q, threads %d", c.Store.File.Dir, c.Reader.Threads)
	}
}

func TestWholeContractIsAccepted(t *testing.T) {
	// Every key of the published configuration, at values that turn nothing unbuilt on.
	_, err := Parse([]byte(`
listen: 127.0.0.1:8080
admin: 127.0.0.1:9090
kafka: {listen: "", advertised_host: "", first_broker_port: 0}
store:
  kind: s3
  s3: {bucket: tier, region: us-east-1, endpoint: "", path_style: false, prefix: ""}
  file: {dir: ./data/objects}
layout:
  kind: native
  aiven: {key_prefix: "", key_prefixes: [], prefix_masking: false, encryption_keys: [{id: key1, private_key_file: key1.pem}]}
metadata:
  kind: embedded
  embedded: {path: ./data/coldtap.db}
  kafka: {bootstrap: ["broker:9092"], topic: __remote_log_metadata, snapshot: ./data/metadata.snapshot, refresh: 1s, tls: {}, sasl: {}}
  archive: {snapshot: ./data/archive.snapshot, refresh: 0s}
cache:
  memory: 1GiB
  chunk: 4MiB
  index_memory: 128MiB
  disk: {path: "", size: 0}
reader: {threads: 32, max_pending: 256, read_ahead: 128MiB, queue_timeout: 10s}
limits: {max_response_bytes: 256MiB, decode_memory: 256MiB, store_gets_per_second: 0, bytes_per_second: 0, stall_timeout: 30s}
offload:
  log_dirs: [/var/lib/kafka]
  topics: {include: ["*"], exclude: ["__*"]}
  retention: [{topics: "*", time: 0s, bytes: 0}]
  rate: 0
  interval: 30s
`))
	if err != nil {
		t.Fatal(err)
	}
}

func TestAutoMemory(t *testing.T) {
	c, err := Parse([]byte(valid + "cache: {memory: auto}\n"))
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
		c, err := Parse(raw)
		if err == nil && reflect.DeepEqual(c, Config{}) {
			t.Error("an accepted file gave the zero configuration")
		}
	})
}
