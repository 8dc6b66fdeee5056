// Package archtest holds the picture of docs/design.md against the code: which room may import which.
package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "coldtap"

// allowed lists, for each room, the rooms of ours that its production code imports: one more is an error, and so is one
// that it does not import. Packages under internal/ that are no rooms of the picture may be imported by everyone; what
// they import themselves is listed here like a room's.
var allowed = map[string][]string{
	"segment":          {},
	"tier":             {"segment"},
	"rangeio":          {},
	"readerpool":       {},
	"cache":            {"tier", "readerpool"},
	"readahead":        {"cache"},
	"indexcache":       {"segment", "tier"},
	"layout":           {"segment", "tier", "rangeio"},
	"layout/native":    {"segment", "tier", "rangeio", "layout"},
	"layout/local":     {"segment", "tier", "rangeio", "layout"},
	"layout/aiven":     {"segment", "tier", "rangeio", "layout"},
	"catalog":          {"segment", "tier"},
	"catalog/embedded": {"segment", "tier", "catalog"},
	"catalog/archive":  {"segment", "tier", "catalog", "layout", "rangeio"},
	"catalog/observe":  {"segment", "tier", "catalog", "cluster"},
	"catalog/kafka":    {"segment", "tier", "catalog", "catalog/observe", "cluster"},
	"cluster":          {"segment"},
	"fetch":            {"segment", "tier", "cache", "readahead", "indexcache", "readerpool", "fetch/scan"},
	"fetch/scan":       {"segment", "cache"},
	"gateway":          {"gateway/engine", "segment", "tier", "fetch", "readerpool"},
	"gateway/engine":   {},
	"offload":          {"segment", "tier", "catalog", "layout", "layout/native", "rangeio"},
	"offload/rebuild":  {"segment", "tier", "catalog", "layout", "layout/native", "rangeio"},
	"export":           {"segment"},
	"inspect":          {"segment", "tier", "catalog/kafka", "layout", "layout/native", "rangeio"},
	"bench":            {"bench/simstore", "segment", "tier", "fetch", "catalog", "catalog/embedded", "layout/native", "rangeio"},
	"cmd/coldtap":      {"tier", "fetch", "gateway", "cluster", "catalog", "catalog/embedded", "catalog/kafka", "catalog/archive", "layout", "layout/native", "layout/local", "layout/aiven", "rangeio", "offload", "offload/rebuild", "inspect", "export", "bench"},

	// What users start from: nothing of ours, since they have nothing of it either.
	"examples":    {},
	"examples/go": {},

	"internal/assembly":   {"segment", "tier", "cache", "readahead", "readerpool", "indexcache", "layout", "rangeio", "fetch"},
	"internal/config":     {},
	"internal/budget":     {},
	"internal/episode":    {},
	"internal/errkind":    {},
	"internal/sample":     {},
	"internal/jsonenc":    {"segment"},
	"internal/metric":     {},
	"internal/invariants": {},
	"internal/readcost":   {},
	"internal/readlimit":  {},
	"internal/refresh":    {},
	"internal/rfc3339":    {},
	"internal/filelock":   {},
	"internal/atomicfile": {},
	"internal/flight":     {},
	"internal/archtest":   {},
	"bench/simstore":      {"rangeio"},

	// Test equipment.
	"internal/testing/testkit":         {},
	"internal/testing/fakes3":          {"rangeio"},
	"internal/testing/faultstore":      {"rangeio"},
	"internal/testing/clusterfixture":  {"segment"},
	"internal/testing/replaycluster":   {"segment", "tier", "catalog/kafka"},
	"internal/testing/scriptedcluster": {"cluster", "segment"},
	"rangeio/rangeiotest":              {"rangeio"},
}

// equipment says that a package is for tests: it must not get into a binary.
func equipment(room string) bool {
	return strings.HasPrefix(room, "internal/testing/") || room == "rangeio/rangeiotest"
}

// assemblers are the only ones that may import internal/assembly and internal/config: who wires, knows everybody.
var assemblers = []string{"cmd/coldtap", "bench"}

// imports lists what each package of ours imports of ours: directly, or with deps all that it is built from.
func imports(t *testing.T, pattern string, deps bool) map[string][]string {
	t.Helper()
	field := "Imports"
	if deps {
		field = "Deps"
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .`+field+`}} {{.}}{{end}}`, pattern).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], module+"/")
		all[from] = []string{}
		for _, imported := range fields[1:] {
			if to, ours := strings.CutPrefix(imported, module+"/"); ours {
				all[from] = append(all[from], to)
			}
		}
	}
	return all
}

func TestImportsPointDownwards(t *testing.T) {
	all := imports(t, module+"/...", false)
	if len(all) < 40 {
		t.Fatalf("saw only %d packages", len(all))
	}
	for from, imported := range all {
		rooms, known := allowed[from]
		if !known {
			t.Errorf("%s is not in the picture: add it to the table, and to docs/design.md", from)
			continue
		}
		for _, to := range imported {
			switch {
			case slices.Contains(rooms, to):
			case equipment(to) && !equipment(from):
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
		for _, to := range rooms {
			if !slices.Contains(imported, to) {
				t.Errorf("%s may import %s and does not: take it out of the table", from, to)
			}
		}
	}
	for from := range allowed {
		if _, ok := all[from]; !ok {
			t.Errorf("%s is in the table and not in the tree", from)
		}
	}
}

// TestNoTestEquipmentInTheBinary looks at all that the binary is built from, however it gets there.
func TestNoTestEquipmentInTheBinary(t *testing.T) {
	deps := imports(t, module+"/cmd/coldtap", true)["cmd/coldtap"]
	if len(deps) < 20 {
		t.Fatalf("it is built from %v only", deps)
	}
	for _, dep := range deps {
		if equipment(dep) {
			t.Errorf("%s is in the binary", dep)
		}
	}
}
