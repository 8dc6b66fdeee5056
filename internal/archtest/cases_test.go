package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// caseNumbers are the numbers that were given in each series of docs/cases.md.
var caseNumbers = map[byte][]int{
	'A': {2, 3, 4, 5, 6, 7},
	'B': {4, 5, 6, 7, 8, 9, 10, 11, 12},
	'C': {4, 5, 6, 7, 8, 9, 10, 11},
	'D': {2, 4, 5, 6, 7},
	'E': {1, 3, 4, 5, 6, 7, 8, 9, 10},
	'F': {1, 2, 3, 4, 5, 6, 7, 8},
	'G': {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
	'H': {2, 3, 4, 5, 6, 7},
	'I': {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
	'J': {1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22},
	'L': {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
	'M': {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	'N': {1, 2, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22},
}

var (
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	idOfTest  = regexp.MustCompile(`^(?:Test|Fuzz)([A-N][0-9]+)[a-z]?[A-Z]`)
	// without says of a case that has no test why.
	without = regexp.MustCompile(`^(?:with the Kafka listener|with the SSD tier|with hedging|with retention|with the live offloader|does not apply: )`)
)

// testsOfTree lists the tests of all rooms as room.Name.
func testsOfTree(t *testing.T, root string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		room, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			tests[filepath.ToSlash(room)+"."+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func TestCasesAreListedAndTested(t *testing.T) {
	const root = "../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTree(t, root)
	if len(tests) < 300 {
		t.Fatalf("saw only %d tests", len(tests))
	}
	var want, got []string
	for series, numbers := range caseNumbers {
		for _, n := range numbers {
			want = append(want, string(series)+strconv.Itoa(n))
		}
	}
	listed := map[string][]string{} // tests by case
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 2 || !regexp.MustCompile(`^ [A-Z][0-9]+ $`).MatchString(cells[1]) {
			continue
		}
		id := strings.TrimSpace(cells[1])
		if len(cells) != 5 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s: not a line of id, title and tests", id)
			continue
		}
		got = append(got, id)
		where := strings.TrimSpace(cells[3])
		for _, m := range namedTest.FindAllStringSubmatch(where, -1) {
			name := m[1] + "." + m[2]
			if !tests[name] {
				t.Errorf("%s: there is no %s", id, name)
			}
			listed[id] = append(listed[id], name)
		}
		if strings.Count(where, "`") != 2*len(listed[id]) {
			t.Errorf("%s: something in %q is not written as a test", id, where)
		}
		if len(listed[id]) == 0 && !without.MatchString(where) {
			t.Errorf("%s: neither a test nor what will bring it", id)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the list has %d cases, want each of %d once: %v", len(got), len(want), got)
	}
	for name := range tests {
		m := idOfTest.FindStringSubmatch(name[strings.LastIndexByte(name, '.')+1:])
		if m != nil && !slices.Contains(listed[m[1]], name) {
			t.Errorf("%s is named after case %s, whose line does not name it", name, m[1])
		}
	}
}
