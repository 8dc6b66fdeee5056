package gateway

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coldtap/fetch"
)

type contractParameter struct {
	Ref      string `json:"$ref"`
	Name     string
	In       string
	Required bool
	Schema   map[string]any
}

type contractOperation struct {
	OperationID string
	Parameters  []contractParameter
	Responses   map[string]struct {
		Ref         string `json:"$ref"`
		Description string
		Headers     map[string]any
		Content     map[string]struct{ Schema map[string]any }
	}
}

type contractDocument struct {
	OpenAPI    string
	Info       struct{ Title, Version string }
	Paths      map[string]map[string]*contractOperation
	Components struct {
		Parameters map[string]contractParameter
		Schemas    map[string]map[string]any
		Headers    map[string]any
		Responses  map[string]any
	}
}

func readContract(t *testing.T) *contractDocument {
	t.Helper()
	doc := new(contractDocument)
	if err := json.Unmarshal(contract, doc); err != nil {
		t.Fatal(err)
	}
	for _, operations := range doc.Paths {
		for _, op := range operations {
			for i, p := range op.Parameters {
				if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
					op.Parameters[i] = doc.Components.Parameters[name]
				}
			}
		}
	}
	return doc
}

// TestContractIsSound checks what readers of OpenAPI 3.1 insist on.
func TestContractIsSound(t *testing.T) {
	doc := readContract(t)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") || doc.Info.Title == "" || doc.Info.Version == "" || len(doc.Paths) == 0 {
		t.Errorf("%s %+v", doc.OpenAPI, doc.Info)
	}
	var raw map[string]any
	if err := json.Unmarshal(contract, &raw); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				var target any = raw
				for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := target.(map[string]any)
					target = m[name]
				}
				if target == nil {
					t.Errorf("%s refers to %s, which is not there", at, ref)
				}
			}
			types, _ := v["type"].([]any)
			if one, ok := v["type"].(string); ok {
				types = []any{one}
			}
			for _, name := range types {
				if !slices.Contains([]any{"string", "integer", "number", "boolean", "object", "array", "null"}, name) {
					t.Errorf("%s: type %v", at, name)
				}
			}
			for k, child := range v {
				walk(at+"/"+k, child)
			}
		case []any:
			for i, child := range v {
				walk(at+"/"+strconv.Itoa(i), child)
			}
		}
	}
	walk("", raw)
	for kind, names := range map[string][]string{"parameters": slices.Collect(maps.Keys(doc.Components.Parameters)),
		"schemas": slices.Collect(maps.Keys(doc.Components.Schemas)), "headers": slices.Collect(maps.Keys(doc.Components.Headers))} {
		for _, name := range names {
			if !used["#/components/"+kind+"/"+name] {
				t.Errorf("%s %s is used nowhere", kind, name)
			}
		}
	}
	ids := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			if op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s: operation id %q", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			templated, seen := strings.Count(path, "{"), map[string]bool{}
			for _, p := range op.Parameters {
				if p.Name == "" || p.Schema == nil || seen[p.In+p.Name] || p.In == "path" && (!p.Required || !strings.Contains(path, "{"+p.Name+"}")) {
					t.Errorf("%s %s: %+v", method, path, p)
				}
				seen[p.In+p.Name] = true
				if p.In == "path" {
					templated--
				}
			}
			if templated != 0 || len(op.Responses) == 0 {
				t.Errorf("%s %s: parameters of the path, or responses", method, path)
			}
			for code, r := range op.Responses {
				if r.Ref == "" && r.Description == "" || code != "default" && len(code) != 3 {
					t.Errorf("%s %s: response %s", method, path, code)
				}
			}
		}
		if operations["get"] == nil || operations["head"] == nil || len(operations) != 2 {
			t.Errorf("%s: %d methods", path, len(operations))
		}
	}
}

// example fills in a path of the contract.
var example = strings.NewReplacer("{cluster_id}", "kraft-1", "{topic}", "orders", "{partition}", "3", "{segment}", "0", "{file}", "log")

func contractHarness(t *testing.T) *harness {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, `"a"`)})
	r.fake.plan = &fetch.Plan{}
	r.fake.openFile = func(string, string) (file, error) {
		return &fakeFile{data: batch(100, 'f'), step: 30, pinned: &r.pinned}, nil
	}
	return r
}

// TestContractMatchesTheRoutes: each route is there with just the parameters it takes.
func TestContractMatchesTheRoutes(t *testing.T) {
	doc, r := readContract(t), contractHarness(t)
	routes, names := map[route]string{}, map[string]bool{}
	for path, operations := range doc.Paths {
		var parts [][]byte
		for _, s := range strings.Split(strings.TrimPrefix(example.Replace(path), "/"), "/") {
			parts = append(parts, []byte(s))
		}
		at, _ := routeOf(parts)
		if at == routeOther || routes[at] != "" {
			t.Errorf("%s is no route, or that of %s", path, routes[at])
		}
		routes[at] = path
		for _, p := range operations["get"].Parameters {
			if p.In == "query" {
				names[p.Name] = true
			}
		}
	}
	if len(routes) != int(routeCount)-1 {
		t.Errorf("%d routes of %d", len(routes), routeCount-1)
	}
	for path, operations := range doc.Paths {
		known := map[string]bool{}
		for _, p := range operations["get"].Parameters {
			known[p.Name] = p.In == "query"
		}
		for name := range names {
			got := r.get(t, example.Replace(path)+"?"+name+"=bogus", "Accept", "application/json")
			// The value is broken for each parameter that the route accepts.
			if unknown := strings.Contains(got.body, "parameter "+name+": unknown here"); unknown == known[name] || got.StatusCode != 400 {
				t.Errorf("%s?%s: documented %v, got %d %s", path, name, known[name], got.StatusCode, got.body)
			}
		}
	}
}

// TestContractMatchesTheAnswers: media types, status codes and our own header fields are those of the contract.
func TestContractMatchesTheAnswers(t *testing.T) {
	doc, r := readContract(t), contractHarness(t)
	for path, operations := range doc.Paths {
		query := ""
		if strings.HasSuffix(path, "/records") || strings.HasSuffix(path, "/messages") {
			query = "?offset=10"
		}
		ok := operations["get"].Responses["200"]
		for mediaType := range ok.Content {
			for _, method := range []string{"GET", "HEAD"} {
				got := r.do(t, method, example.Replace(path)+query, "Accept", mediaType)
				if got.StatusCode != 200 || got.Header.Get("Content-Type") != mediaType {
					t.Errorf("%s %s as %s: %d %v", method, path, mediaType, got.StatusCode, got.Header)
				}
				for name := range got.Header {
					if strings.HasPrefix(name, "X-") && ok.Headers[name] == nil {
						t.Errorf("%s as %s: header %s is not documented", path, mediaType, name)
					}
				}
			}
		}
	}
	records := doc.Paths["/topics/{topic}/partitions/{partition}/records"]["get"].Responses["200"].Content
	for _, f := range recordFormats {
		if _, ok := records[f.mediaType]; !ok {
			t.Errorf("%s is not documented", f.mediaType)
		}
	}
	if len(records) != len(recordFormats) {
		t.Errorf("%d media types, want %d", len(records), len(recordFormats))
	}
}

// TestContractListsEveryErrorCode compares with the constants in the source.
func TestContractListsEveryErrorCode(t *testing.T) {
	var documented []string
	codes := readContract(t).Components.Schemas["Error"]["properties"].(map[string]any)["error_code"].(map[string]any)
	for _, code := range codes["enum"].([]any) {
		documented = append(documented, fmt.Sprint(code))
	}
	source, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	ast.Inspect(source, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "code") && len(v.Values) == 1 {
			written = append(written, v.Values[0].(*ast.BasicLit).Value)
		}
		return true
	})
	slices.Sort(documented)
	slices.Sort(written)
	if len(written) < 20 || !slices.Equal(documented, written) {
		t.Errorf("documented %v\nin the source %v", documented, written)
	}
}
