package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/replaycluster"
)

// docs/metrics.md is what people build dashboards from: it must list exactly the metrics that gateways expose, one over
// each kind of metadata.
func TestMetricsAreDocumented(t *testing.T) {
	f := clusterfixture.Load(t)
	var all strings.Builder
	for _, start := range []func() (string, string){
		func() (string, string) { return startTier(t, testConfig(t)) },
		func() (string, string) { return startServer(t, archiveConfig(t, clusterfixture.LoadAiven(t)[0])) },
		func() (string, string) {
			return startServer(t, liveConfig(t, f, replaycluster.Start(t, f, f.Cluster.MetadataTopic.PartitionCount)))
		},
	} {
		_, admin := start()
		_, body := get(t, admin+"/metrics", "")
		all.Write(body)
	}
	exposed := names(`(?m)^# TYPE (coldtap_[a-z_]+) `, all.String())
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := names("(?m)^\\| `(coldtap_[a-z_]+)` ", string(page))
	if len(exposed) < 30 {
		t.Fatalf("only %d metrics are exposed", len(exposed))
	}
	for _, name := range exposed {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(exposed, name) && !strings.HasPrefix(name, "coldtap_offload_") {
			t.Errorf("%s is documented but not exposed", name)
		}
	}
}

func names(pattern, text string) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}
