package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// masked stands for a secret in printed output.
const masked = "********"

// userinfo is what stands before the host in a URL, and name:password@ before a host alone.
var userinfo = regexp.MustCompile(`(://)[^\s/?#"]*@|[^\s/?#"'@:\\\[]+:[^\s/?#"'@\\]+@`)

// signature is what a query or a connection string grants access with: a signed URL's, Azure's SAS and keys.
var signature = regexp.MustCompile(`(?i)\b((?:[a-z-]*signature|sig|x-(?:amz|goog)-security-token|accountkey|sharedaccesskey)=)[^&;\s"']+`)

// Redact masks credentials that stand in front of a host or are part of a query, wherever they are in a text.
func Redact(text string) string {
	if strings.Contains(text, "@") {
		text = userinfo.ReplaceAllString(text, "${1}"+masked+"@")
	}
	if strings.Contains(text, "=") {
		text = signature.ReplaceAllString(text, "${1}"+masked)
	}
	return text
}

// Print writes the whole configuration as YAML, defaults filled in and secrets masked.
func (c Config) Print(w io.Writer) error {
	var tree yaml.Node
	if err := tree.Encode(c); err != nil {
		return err
	}
	secret := make(map[string]bool)
	for k := range keys(reflect.ValueOf(&c).Elem(), "") {
		secret[k.path] = k.secret
	}
	mask(&tree, "", secret)
	return encode(w, &tree)
}

func mask(n *yaml.Node, path string, secret map[string]bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			mask(n.Content[i+1], strings.TrimPrefix(path+"."+n.Content[i].Value, "."), secret)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			mask(item, path, secret)
		}
	case yaml.ScalarNode:
		if secret[path] && n.Value != "" {
			n.Value = masked
		}
		n.Value = Redact(n.Value)
	}
}

func encode(w io.Writer, v any) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return enc.Close()
}

// inline writes a value in one line.
func inline(v reflect.Value) string {
	var n yaml.Node
	if err := n.Encode(v.Interface()); err != nil {
		panic(err) // the types of keys all have a text
	}
	n.Style |= yaml.FlowStyle
	var out bytes.Buffer
	if err := encode(&out, &n); err != nil {
		panic(err)
	}
	return strings.TrimSpace(out.String())
}

// exampleHead begins the example file.
const exampleHead = `# The configuration of coldtap: every key with its default. Take the # away in front of what is to change.
#
# Sizes are written 64MiB, durations 30s. ${NAME} takes a value from the environment. Unknown keys are errors;
# coldtap serve --check lists all problems. Every key can also be given by the environment, which wins over this file:
# ` + variablePrefix + `STORE__S3__BUCKET is store.s3.bucket; lists are YAML.
`

// Example writes a commented file with every key, which is a valid configuration.
func Example(w io.Writer) error {
	var out bytes.Buffer
	out.WriteString(exampleHead)
	c := Default()
	for k := range keys(reflect.ValueOf(&c).Elem(), "") {
		indent := strings.Repeat("  ", k.depth())
		if k.depth() == 0 {
			out.WriteByte('\n')
		}
		text := k.doc
		if len(k.oneOf) > 0 || k.min != "" {
			text += " (" + k.kind() + ")"
		}
		for _, line := range wrap(text, 118-len(indent)) {
			fmt.Fprintf(&out, "%s# %s\n", indent, line)
		}
		switch {
		case k.section():
			fmt.Fprintf(&out, "%s%s:\n", indent, k.name())
		case k.example != "":
			fmt.Fprintf(&out, "%s%s: %s\n", indent, k.name(), k.example)
		default:
			fmt.Fprintf(&out, "%s#%s: %s\n", indent, k.name(), inline(k.value))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// wrap breaks a text into lines of at most so many characters.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
