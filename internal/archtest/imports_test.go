// Package archtest holds the picture of docs/design.md against the code: which room may import which.
package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "coldtap"

// allowed lists, for each room, the rooms of ours that its production code may import. Packages under internal/ that are
// no rooms of the picture may be imported by everyone, except where forbidden says otherwise; what they import
// themselves is listed here like a room's.
var allowed = map[string][]string{
	"segment":         {},
	"tier":            {"segment"},
	"rangeio":         {},
	"readerpool":      {},
	"cache":           {},
	"readahead":       {"cache"},
	"indexcache":      {"segment", "tier"},
	"layout":          {"segment", "tier", "rangeio"},
	"layout/native":   {"segment", "tier", "rangeio", "layout"},
	"layout/local":    {"segment", "tier", "rangeio", "layout"},
	"layout/aiven":    {"segment", "tier", "rangeio", "layout"},
	"catalog":         {"segment", "tier"},
	"catalog/sqlite":  {"segment", "tier", "catalog"},
	"catalog/archive": {"segment", "tier", "catalog", "layout", "rangeio"},
	"catalog/topic":   {"segment", "tier", "catalog", "cluster"},
	"cluster":         {"segment"},
	"fetch":           {"segment", "tier", "cache", "readahead", "indexcache"},
	"gateway":         {"segment", "tier", "fetch"},
	"offload":         {"segment", "tier", "catalog", "layout", "layout/native", "rangeio"},
	"offload/rebuild": {"segment", "tier", "catalog", "layout/native", "rangeio"},
	"export":          {"segment"},
	"inspect":         {"segment", "tier", "catalog/topic", "layout", "layout/native", "rangeio"},
	"bench":           {"segment", "tier", "cache", "fetch", "gateway", "catalog", "catalog/sqlite", "layout", "layout/native", "rangeio", "readerpool", "offload"},
	"cmd/coldtap":     {"segment", "tier", "fetch", "gateway", "cluster", "catalog", "catalog/sqlite", "catalog/topic", "catalog/archive", "layout", "layout/native", "layout/local", "layout/aiven", "rangeio", "offload", "offload/rebuild", "inspect", "export", "bench"},

	// What users start from: nothing of ours, since they have nothing of it either.
	"examples":    {},
	"examples/go": {},

	"internal/assembly":   {"segment", "tier", "cache", "readahead", "readerpool", "indexcache", "layout", "rangeio", "fetch"},
	"internal/config":     {},
	"internal/budget":     {},
	"internal/episode":    {},
	"internal/sample":     {},
	"internal/jsonenc":    {"segment"},
	"internal/invariants": {},
	"internal/readlimit":  {},
	"internal/rfc3339":    {},
	"internal/filelock":   {},
	// Test equipment: only tests and bench may import it (forbidden, below).
	"internal/testkit":    {},
	"internal/fakes3":     {"rangeio"},
	"internal/faultstore": {"rangeio"},
	"rangeio/rangeiotest": {"rangeio"},
	"internal/archtest":   {},

	"internal/clusterfixture": {"segment"},
	"internal/revive":         {"segment", "catalog/topic"},
}

// forbidden are packages that production code of rooms must not import.
var forbidden = []string{"internal/testkit", "internal/fakes3", "internal/faultstore", "internal/clusterfixture", "internal/revive", "rangeio/rangeiotest"}

// assemblers are the only ones that may import internal/assembly and internal/config: who wires, knows everybody.
var assemblers = []string{"cmd/coldtap", "bench"}

func TestImportsPointDownwards(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], module+"/")
		rooms, known := allowed[from]
		if !known {
			t.Errorf("%s is not in the picture: add it to the table, and to docs/design.md", from)
			continue
		}
		packages++
		for _, imported := range fields[1:] {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours || slices.Contains(rooms, to) {
				continue
			}
			switch {
			case slices.Contains(forbidden, to) && from != "bench" && !slices.Contains(forbidden, from):
				t.Errorf("%s imports %s, which is for tests", from, to)
			case to == "internal/assembly" || to == "internal/config":
				if !slices.Contains(assemblers, from) {
					t.Errorf("%s imports %s: only %v wire", from, to, assemblers)
				}
			case strings.HasPrefix(to, "internal/"):
			default:
				t.Errorf("%s must not import %s", from, to)
			}
		}
	}
	if packages < 10 {
		t.Fatalf("saw only %d packages", packages)
	}
}
