package config

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// variablePrefix begins the variables that are keys: COLDTAP__STORE__S3__BUCKET is store.s3.bucket. With one
// underscore, as Kubernetes makes them for a Service named coldtap (COLDTAP_PORT), they are none.
const variablePrefix = "COLDTAP__"

// environment puts what variables say over what there is. The value of a list or of a section is YAML; every other one
// is taken as it is, without ${NAME}, quotes or comments.
func (r *reader) environment(environ []string, c *Config) {
	r.variables = make(map[string]string)
	environ = slices.Sorted(slices.Values(environ)) // a section before its keys
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		rest, ok := strings.CutPrefix(name, variablePrefix)
		if !ok {
			continue
		}
		r.prefix = func(*yaml.Node) string { return name + ": " }
		path := strings.ToLower(strings.ReplaceAll(rest, "__", "."))
		if target, ok := r.find(reflect.ValueOf(c).Elem(), path); ok {
			r.variables[path] = name
			r.variable(text, target, path)
		}
	}
}

// find gives the value of a key.
func (r *reader) find(v reflect.Value, path string) (reflect.Value, bool) {
	for part := range strings.SplitSeq(path, ".") {
		if v.Kind() != reflect.Struct {
			r.bad(nil, "unknown key %s: it has nothing below it", path)
			return v, false
		}
		next, names := field(v, part)
		if !next.IsValid() {
			r.bad(nil, "unknown key %s (known here: %s)", path, names)
			return v, false
		}
		v = next
	}
	return v, true
}

func (r *reader) variable(text string, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct, reflect.Slice:
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			r.bad(nil, "%s: is not YAML", path) // the error would quote the text
		} else if doc.Kind != 0 {
			r.assign(doc.Content[0], v, path)
		} else if v.Kind() == reflect.Slice {
			v.SetZero()
		}
	default:
		if text == "" {
			r.bad(nil, "%s: is empty", path)
			return
		}
		r.assign(&yaml.Node{Kind: yaml.ScalarNode, Value: text}, v, path)
	}
}
