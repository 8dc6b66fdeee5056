package main

import (
	_ "embed"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/fakes3"
	"coldtap/internal/testing/replaycluster"
)

// clusterExample is the configuration beside a cluster with tiered storage that the README shows.
//
//go:embed testdata/cluster.yaml
var clusterExample string

// The README's example runs as it is pasted: with the bucket's and the brokers' addresses in it, and the store's
// credentials in the environment.
func TestTheClusterExampleRunsWhenPasted(t *testing.T) {
	sets := clusterfixture.LoadAiven(t)
	set := sets[slices.IndexFunc(sets, func(s *clusterfixture.AivenSet) bool { return s.Prefix != "" && len(s.Keys) == 0 })]
	c := replaycluster.Start(t, set.Fixture, set.Cluster.MetadataTopic.PartitionCount)
	s3 := fakes3.Start(fakes3.Options{})
	t.Cleanup(s3.Close)
	for key, b := range set.Objects {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s3.URL()+"/"+fakes3.Bucket+"/"+key, strings.NewReader(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	text := strings.NewReplacer("bucket: tier", "bucket: "+fakes3.Bucket, "http://127.0.0.1:9000", s3.URL(), "127.0.0.1:9092", c.Addrs()[0],
		`key_prefix: ""`, `key_prefix: "`+set.Prefix+`"`, "127.0.0.1:8080", "127.0.0.1:0").Replace(clusterExample)
	cfg := loadText(t, text)
	cfg.Admin, cfg.Metadata.Kafka.Snapshot = "127.0.0.1:0", filepath.Join(t.TempDir(), "snapshot")
	base, admin := startServer(t, cfg)
	waitReady(t, admin)
	p := set.Partitions()[0]
	got, last := readAll(t, base, p.Name(), "read_committed", "earliest", -1, 100_000)
	compare(t, p.Name(), got, set.Expected(t, p.Name(), "read_committed"))
	if last.end != "tier" {
		t.Errorf("ends with %s", last.end)
	}
}
