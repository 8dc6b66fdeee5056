package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/metrics.md is what people build dashboards from: it must list exactly the metrics that a gateway exposes.
func TestMetricsAreDocumented(t *testing.T) {
	_, admin := startTier(t, testConfig(t))
	_, body := get(t, admin+"/metrics", "")
	exposed := names(`(?m)^# TYPE (coldtap_[a-z_]+) `, string(body))
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
