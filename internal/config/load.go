package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	"coldtap/internal/readlimit"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file; a larger one is not a configuration.
const maxFile = 1 << 20

// Load reads and validates a file. The error joins every problem found, one a line.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, err
	}
	defer f.Close()
	raw, err := readlimit.All(f, maxFile)
	if errors.Is(err, readlimit.ErrTooLarge) {
		return Config{}, fmt.Errorf("%s: more than %s", path, Bytes(maxFile))
	}
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(raw)
	if err != nil {
		return c, prefixed(path, err)
	}
	return c, nil
}

// Parse reads a configuration over the defaults and validates it.
func Parse(raw []byte) (Config, error) {
	c := Default()
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	if err := documents.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return c, err
	}
	var problems []error
	if doc.Kind != 0 {
		root := doc.Content[0]
		problems = append(problems, expand(root)...)
		problems = append(problems, unknown(root, reflect.TypeFor[Config](), "")...)
		problems = append(problems, decode(root, &c)...)
		if err := documents.Decode(&more); !errors.Is(err, io.EOF) {
			problems = append(problems, at(&more, "a second document: the configuration is one"))
		}
	}
	c.resolve()
	problems = append(problems, c.Validate()...)
	for i, err := range problems {
		problems[i] = errors.New(text(err))
	}
	return c, errors.Join(problems...)
}

// at makes an error that points into the file. It is of the kind after which the decoder goes on, so that all are found.
func at(n *yaml.Node, format string, args ...any) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, args...))}}
}

// text is an error's own words, without what the decoder puts in front of a list.
func text(err error) string {
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		return strings.Join(typed.Errors, "\n")
	}
	return err.Error()
}

func prefixed(path string, err error) error {
	lines := strings.Split(err.Error(), "\n")
	return errors.New(path + ": " + strings.Join(lines, "\n"+path+": "))
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand replaces ${NAME} in every value. A name that is not set is a problem: an empty bucket or password is worse
// than a refusal to start.
func expand(n *yaml.Node) (problems []error) {
	if n.Kind == yaml.ScalarNode {
		n.Value = reference.ReplaceAllStringFunc(n.Value, func(ref string) string {
			name := ref[2 : len(ref)-1]
			v, ok := os.LookupEnv(name)
			if !ok {
				problems = append(problems, at(n, "environment variable %s is not set", name))
			}
			if n.Style == 0 {
				n.Tag = "" // a plain ${PORT} may stand for a number
			}
			return v
		})
		return problems
	}
	for _, child := range n.Content {
		problems = append(problems, expand(child)...)
	}
	return problems
}

// unknown finds keys that no field has, and keys given twice.
func unknown(n *yaml.Node, t reflect.Type, path string) (problems []error) {
	if t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			problems = append(problems, unknown(item, t.Elem(), path)...)
		}
		return problems
	}
	if t.Kind() != reflect.Struct || n.Kind != yaml.MappingNode {
		return nil
	}
	fields := make(map[string]reflect.Type)
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		fields[name] = f.Type
		names = append(names, name)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := path + key.Value
		ft, ok := fields[key.Value]
		switch {
		case !ok:
			problems = append(problems, at(key, "unknown key %s (known here: %s)", full, strings.Join(names, ", ")))
		case seen[key.Value]:
			problems = append(problems, at(key, "%s is given twice", full))
		default:
			problems = append(problems, unknown(value, ft, full+".")...)
		}
		seen[key.Value] = true
	}
	return problems
}

// misplaced is how the decoder quotes a value that stands where keys should: it may be a password's first letters.
var misplaced = regexp.MustCompile("cannot unmarshal (!![a-z]+) `[^`]*` into config\\.([A-Za-z0-9]+)")

func decode(root *yaml.Node, c *Config) []error {
	if err := root.Decode(c); err != nil {
		return []error{errors.New(misplaced.ReplaceAllString(text(err), "a value ($1) where the keys of $2 should be"))}
	}
	return nil
}

// masked stands for a secret in printed output.
const masked = "********"

// Print writes the whole configuration as YAML, defaults filled in and secrets masked.
func (c Config) Print(w io.Writer) error {
	for _, secret := range []*string{
		&c.Metadata.Kafka.SASL.Password, &c.Metadata.Kafka.SASL.Token,
		&c.Store.Azure.AccountKey, &c.Store.Azure.ConnectionString, &c.Store.Azure.SAS,
	} {
		if *secret != "" {
			*secret = masked
		}
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return err
	}
	return enc.Close()
}
