package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"coldtap/internal/readlimit"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file; a larger one is not a configuration.
const maxFile = 1 << 20

// Loader reads a configuration from a file and the environment. What the environment says wins over the file.
type Loader struct {
	File    string   // "" = none
	Environ []string // NAME=VALUE as os.Environ gives them
}

// String names the file and the variables that take part, for people.
func (l Loader) String() string {
	names := []string{l.File}
	for _, variable := range l.Environ {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, variablePrefix) {
			names = append(names, name)
		}
	}
	if l.File == "" {
		names[0] = "defaults"
	}
	slices.Sort(names[1:])
	return strings.Join(names, ", ")
}

// Load reads and validates. The error joins every problem found, one a line.
func (l Loader) Load() (Config, error) {
	c, r := l.read()
	if r.unread {
		return c, r.err() // what its keys lack would be said of the defaults
	}
	for _, p := range c.Validate() {
		r.problems = append(r.problems, fmt.Sprintf("%s%v", l.origin(r, p.Key), p))
	}
	return c, r.err()
}

// Read reads without validating: what the configuration is, be it usable or not.
func (l Loader) Read() (Config, error) {
	c, r := l.read()
	return c, r.err()
}

func (l Loader) read() (Config, *reader) {
	c, r := Default(), &reader{}
	if l.File != "" {
		raw, err := readFile(l.File)
		if err != nil {
			r.problems, r.unread = append(r.problems, err.Error()), true
		}
		r.file(raw, l.File+": ", &c)
	}
	r.environment(l.Environ, &c)
	c.resolve()
	return c, r
}

// origin is what stands before a problem with a key: the variable or the file that a user has to look into.
func (l Loader) origin(r *reader, key string) string {
	for path := key; path != ""; path, _, _ = cutLast(path) {
		if name, ok := r.variables[path]; ok {
			return name + ": "
		}
	}
	if l.File == "" {
		return ""
	}
	return l.File + ": "
}

func cutLast(path string) (before, after string, found bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

func readFile(path string) ([]byte, error) {
	raw, err := readlimit.File(path, maxFile)
	if errors.Is(err, readlimit.ErrTooLarge) {
		return nil, fmt.Errorf("%s: more than %s", path, Bytes(maxFile))
	}
	return raw, err
}

// reader puts values into a tree and collects what is wrong with them.
type reader struct {
	problems  []string
	unread    bool                    // the file is not there, or no YAML
	prefix    func(*yaml.Node) string // of problems with a node: where it is
	variables map[string]string       // which variable gave the value of a key
}

func (r *reader) err() error {
	var problems []error
	for _, p := range r.problems {
		problems = append(problems, errors.New(Redact(p)))
	}
	return errors.Join(problems...)
}

func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, r.prefix(n)+fmt.Sprintf(format, args...))
}

// file reads a YAML document.
func (r *reader) file(raw []byte, prefix string, c *Config) {
	r.prefix = func(n *yaml.Node) string { return fmt.Sprintf("%sline %d, column %d: ", prefix, n.Line, n.Column) }
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	if err := documents.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		r.problems, r.unread = append(r.problems, prefix+err.Error()), true
	}
	if doc.Kind == 0 {
		return
	}
	root := doc.Content[0]
	r.expand(root)
	r.assign(root, reflect.ValueOf(c).Elem(), "")
	if err := documents.Decode(&more); !errors.Is(err, io.EOF) {
		r.bad(&more, "a second document: the configuration is one")
	}
}

// reference is ${NAME}, its escaped form $${, or the beginning of something that is neither.
var reference = regexp.MustCompile(`\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?`)

// expand replaces ${NAME} in every value. A name that is not set is a problem: an empty bucket or password is worse
// than a refusal to start.
func (r *reader) expand(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Value = reference.ReplaceAllStringFunc(n.Value, func(ref string) string {
			switch ref {
			case "$${":
				return "${"
			case "${":
				r.bad(n, "${ does not begin a reference like ${NAME}; write $${ for the characters themselves")
				return ref
			}
			name := ref[2 : len(ref)-1]
			v, ok := os.LookupEnv(name)
			if !ok {
				r.bad(n, "environment variable %s is not set", name)
			}
			if n.Style == 0 {
				n.Tag = "" // a plain ${PORT} may stand for a number
			}
			return v
		})
	}
	for _, child := range n.Content {
		r.expand(child)
	}
}

// assign puts a node into the value of a key, key by key for a section. A null changes nothing.
func (r *reader) assign(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.ShortTag() == "!!null" {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.section(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.bad(n, "%s: is not a list", path)
			return
		}
		items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			r.assign(item, items.Index(i), path)
		}
		v.Set(items)
	default:
		err := n.Decode(v.Addr().Interface())
		if _, wrongType := errors.AsType[*yaml.TypeError](err); wrongType || err != nil && n.Kind != yaml.ScalarNode {
			// The decoder quotes what it finds, and a mapping may hold secrets.
			found := "this"
			if n.Kind == yaml.ScalarNode {
				found = fmt.Sprintf("%q", n.Value)
			}
			err = fmt.Errorf("%s is not allowed; expected: %s", found, kindOf(v.Type()))
		}
		if err != nil {
			r.bad(n, "%s: %v", path, err)
		}
	}
}

func (r *reader) section(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		// Not quoted: it may be a password's first letters.
		if path == "" {
			path = "the configuration"
		}
		r.bad(n, "%s: a value where keys should be", path)
		return
	}
	if path != "" {
		path += "."
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		target, names := field(v, name.Value)
		switch {
		case !target.IsValid():
			r.bad(name, "unknown key %s%s (known here: %s)", path, name.Value, names)
		case seen[name.Value]:
			r.bad(name, "%s%s is given twice", path, name.Value)
		default:
			r.assign(value, target, path+name.Value)
		}
		seen[name.Value] = true
	}
}
