// Command mutants reports what go-gremlins found in a room: mutants ROOM REPORT.json. Those named in .ci/equivalents
// are left out of the share.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

const leastShare = 95 // percent

// replacements are gremlins' mutations by kind.
var replacements = map[string]map[string]string{
	"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", ">": "<=", "<=": ">", "<": ">="},
	"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
	"INVERT_NEGATIVES":      {"-": "+"},
}

// mutant names a change as .ci/equivalents does: by function and changed line, since line numbers do not survive edits.
type mutant struct{ file, function, line string }

func main() {
	room := os.Args[1]
	equivalents, err := readEquivalents(".ci/equivalents", room)
	check(err)
	raw, err := os.ReadFile(os.Args[2])
	check(err)
	var report struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type, Status string
				Line, Column int
			}
		}
	}
	check(json.Unmarshal(raw, &report))
	count := map[string]int{}
	failed := false
	for _, f := range report.Files {
		path := filepath.Join(room, f.Name)
		text, err := os.ReadFile(path)
		check(err)
		lines := strings.Split(string(text), "\n")
		functions := functionsOf(path, text)
		for _, m := range f.Mutations {
			if m.Status == "NOT COVERED" || m.Status == "NOT VIABLE" {
				count[m.Status]++
				continue
			}
			id := mutant{path, functions[m.Line], change(lines[m.Line-1], m.Column-1, m.Type)}
			status := m.Status
			if _, named := equivalents[id]; named {
				equivalents[id] = true
				status = "EQUIVALENT"
				if m.Status == "KILLED" {
					fmt.Printf("%s:%d: a test notices what .ci/equivalents says no test can: %s\n", path, m.Line, id.line)
					failed = true
				}
			}
			count[status]++
			if status == "LIVED" || status == "TIMED OUT" {
				fmt.Printf("%s %s:%d:%d %s: %s\n", status, path, m.Line, m.Column, id.function, id.line)
			}
		}
	}
	for id, found := range equivalents {
		if !found {
			fmt.Printf(".ci/equivalents: no such mutant: %s %s: %s\n", id.file, id.function, id.line)
			failed = true
		}
	}
	share := 100.0
	if tested := count["KILLED"] + count["LIVED"]; tested > 0 {
		share = 100 * float64(count["KILLED"]) / float64(tested)
	}
	fmt.Printf("%s: killed %d, lived %d, equivalent %d, not covered %d, timed out %d, share %.1f %%\n", room,
		count["KILLED"], count["LIVED"], count["EQUIVALENT"], count["NOT COVERED"], count["TIMED OUT"], share)
	if failed || share < leastShare {
		os.Exit(1)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// readEquivalents gives the entries of a room. An entry is a line "file function", then, indented, the changed line and
// the reason.
func readEquivalents(name, room string) (map[mutant]bool, error) {
	text, err := os.ReadFile(name)
	entries := map[mutant]bool{}
	var at mutant
	for line := range strings.Lines(string(text)) {
		indented := strings.HasPrefix(line, "\t")
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !indented:
			at = mutant{}
			at.file, at.function, _ = strings.Cut(line, " ")
		case at.line == "":
			at.line = line
			if strings.HasPrefix(at.file, room+"/") {
				entries[at] = false
			}
		}
	}
	return entries, err
}

// change gives a line as a mutation leaves it, without the space around it.
func change(line string, at int, kind string) string {
	for _, length := range []int{2, 1} {
		if at+length <= len(line) {
			if to, ok := replacements[kind][line[at:at+length]]; ok {
				return strings.TrimSpace(line[:at] + to + line[at+length:])
			}
		}
	}
	return "unknown mutation " + kind + " of " + line
}

// functionsOf names the function of each line: "Type.method", "function", "-" outside.
func functionsOf(path string, text []byte) map[int]string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	check(err)
	names := map[int]string{}
	for line := range strings.Count(string(text), "\n") + 2 {
		names[line] = "-"
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			name = receiver(f.Recv.List[0].Type) + "." + name
		}
		for line := set.Position(f.Pos()).Line; line <= set.Position(f.End()).Line; line++ {
			names[line] = name
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
