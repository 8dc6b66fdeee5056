package config

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// key is a key of the configuration as the tags of its field describe it.
type key struct {
	path  string        // store.s3.bucket
	value reflect.Value // in the tree that was walked

	doc      string   // doc: sentences
	oneOf    []string // oneof: the texts that are allowed, with spaces between; none = the empty one
	min, max string   // min and max: as a file would say it; "memory" = what the machine or container has
	example  string   // example: the value in the example file, where the default does not do
	secret   bool     // secret: never printed
}

// none is how oneof writes the empty text.
const none = "''"

// section tells whether the key stands for the keys below it.
func (k *key) section() bool { return k.value.Kind() == reflect.Struct }

func (k *key) name() string { return k.path[strings.LastIndexByte(k.path, '.')+1:] }

func (k *key) depth() int { return strings.Count(k.path, ".") }

// yamlName is the name that files use for a field.
func yamlName(f reflect.StructField) string { return f.Tag.Get("yaml") }

// keys walks a tree: sections before their keys, all in the order of the fields. Entries of lists are not walked.
func keys(tree reflect.Value, path string) iter.Seq[key] {
	return func(yield func(key) bool) { walk(tree, path, yield) }
}

func walk(tree reflect.Value, path string, yield func(key) bool) bool {
	for f, v := range tree.Fields() {
		k := key{
			path: path + yamlName(f), value: v, doc: f.Tag.Get("doc"), oneOf: strings.Fields(f.Tag.Get("oneof")),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), example: f.Tag.Get("example"), secret: f.Tag.Get("secret") != "",
		}
		if !yield(k) || k.section() && !walk(v, k.path+".", yield) {
			return false
		}
	}
	return true
}

// field finds the field of a name in a section, and lists the names that there are.
func field(section reflect.Value, name string) (v reflect.Value, names string) {
	var all []string
	for f, candidate := range section.Fields() {
		if all = append(all, yamlName(f)); yamlName(f) == name {
			v = candidate
		}
	}
	return v, strings.Join(all, ", ")
}

// kind says what values a key takes, its range included.
func (k *key) kind() string {
	if len(k.oneOf) > 0 {
		return strings.Join(k.oneOf, ", ")
	}
	text := kindOf(k.value.Type())
	switch {
	case k.min != "" && k.max != "" && k.max != "memory":
		text += fmt.Sprintf(", %s to %s", k.min, k.max)
	case k.min != "":
		text += ", from " + k.min + " on"
	}
	if k.max == "memory" {
		text += ", at most the memory there is"
	}
	return text
}

func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[Duration]():
		return "duration"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	}
	return "text"
}

// check holds the value against oneof, min and max.
func (k *key) check() error {
	switch v := k.value; v.Kind() {
	case reflect.String:
		if len(k.oneOf) > 0 && !slices.Contains(k.oneOf, cmp.Or(v.String(), none)) {
			return fmt.Errorf("%q is not one of %s", v.String(), strings.Join(k.oneOf, ", "))
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		low, high := k.limit(cmp.Or(k.min, "0")), k.limit(k.max)
		below, above := less(v, low), high.IsValid() && less(high, v)
		switch {
		case v.Interface() == Auto:
			return fmt.Errorf("auto is not possible here")
		case above && k.max == "memory":
			return fmt.Errorf("%v is more than the %v of this machine or container", v, high)
		case (below || above) && high.IsValid() && k.max != "memory":
			return fmt.Errorf("%v is not within %v and %v", v, low, high)
		case below:
			return fmt.Errorf("%v is below %v", v, low)
		}
	}
	return nil
}

// limit is a bound of the key's own type; the zero Value when there is none.
func (k *key) limit(text string) reflect.Value {
	switch text {
	case "":
		return reflect.Value{}
	case "memory":
		if n := memoryLimit(); n > 0 {
			return reflect.ValueOf(Bytes(n) &^ (1<<20 - 1))
		}
		return reflect.Value{}
	case "0":
		return reflect.Zero(k.value.Type())
	}
	v := reflect.New(k.value.Type())
	if err := (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).Decode(v.Interface()); err != nil {
		panic(fmt.Sprintf("config: the tag of %s: %v", k.path, err))
	}
	return v.Elem()
}

func less(a, b reflect.Value) bool {
	if a.Kind() == reflect.Float64 {
		return a.Float() < b.Float()
	}
	return a.Int() < b.Int()
}
