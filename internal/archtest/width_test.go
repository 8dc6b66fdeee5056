package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// commentWidth is the one width at which comments wrap, in characters; a tab counts as one.
const commentWidth = 120

// prose is a comment line that is neither code (indented by a tab) nor a directive.
var prose = regexp.MustCompile(`^\s*// `)

func TestCommentsAreWrapped(t *testing.T) {
	const root = "../.."
	lines := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(source)) {
			n++
			if line = strings.TrimSuffix(line, "\n"); !prose.MatchString(line) {
				continue
			}
			lines++
			if width := utf8.RuneCountInString(line); width > commentWidth {
				t.Errorf("%s:%d: a comment of %d characters", filepath.ToSlash(path), n, width)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 5000 {
		t.Errorf("saw only %d lines of comments", lines)
	}
}
