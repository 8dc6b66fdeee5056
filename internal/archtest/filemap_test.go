package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mapEntry = regexp.MustCompile(`(?m)^- \*\*([a-z/]+)\*\*`)
	mapFile  = regexp.MustCompile("`([a-z0-9_]+)`")
	oneOS    = regexp.MustCompile(`_(unix|windows|other|heap|mmap)\.go$`)
)

// TestFileMap holds the file map of docs/design.md against the tree: each room's files, no more and no fewer.
func TestFileMap(t *testing.T) {
	const root = "../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "\n## File map\n")
	text, _, _ = strings.Cut(text, "\n## ")
	listed := map[string][]string{}
	entries := mapEntry.FindAllStringSubmatchIndex(text, -1)
	for i, e := range entries {
		end := len(text)
		if i+1 < len(entries) {
			end = entries[i+1][0]
		}
		room := text[e[2]:e[3]]
		for _, m := range mapFile.FindAllStringSubmatch(text[e[1]:end], -1) {
			listed[room] = append(listed[room], m[1])
		}
	}
	there := map[string][]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			name == "doc.go" || oneOS.MatchString(name) {
			return err
		}
		room, err := filepath.Rel(root, filepath.Dir(path))
		room = filepath.ToSlash(room)
		there[room] = append(there[room], strings.TrimSuffix(name, ".go"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for room, files := range there {
		if strings.HasPrefix(room, "internal/") || strings.HasPrefix(room, ".") || strings.HasPrefix(room, "examples") ||
			strings.HasPrefix(room, "e2e") || room == "rangeio/rangeiotest" {
			continue
		}
		for _, file := range files {
			if !slices.Contains(listed[room], file) {
				t.Errorf("%s/%s.go is not in the file map", room, file)
			}
		}
		for _, file := range listed[room] {
			if !slices.Contains(files, file) {
				t.Errorf("the file map has %s/%s.go, which is not there", room, file)
			}
		}
	}
	if len(there) < 40 || len(entries) < 25 {
		t.Errorf("saw only %d rooms, %d of them in the map", len(there), len(entries))
	}
}
