package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// referenceHead begins the reference.
const referenceHead = `# Configuration

<!-- Generated from internal/config; UPDATE_GOLDEN=1 go test ./internal/config writes it. -->

coldtap reads one YAML file: ` + "`--config FILE`" + `, else ` + "`./coldtap.yaml`" + `, else ` + "`/etc/coldtap/coldtap.yaml`" + `. None of them
needs to be there: every key has a default, and every key can be given by the environment. ` + "`coldtap config example`" + ` writes a
commented file, ` + "`coldtap serve --check`" + ` lists all problems, ` + "`coldtap serve --print-config`" + ` shows what is in force, secrets masked.

- **Strict**: unknown keys, keys given twice and values of the wrong kind are errors, with line and column.
- **Sizes** are a number of bytes, or one with a unit: KiB, MiB, GiB, TiB, or KB, MB, GB, TB for powers of 1000. **Durations**
  are written ` + "`500ms`, `30s`, `1h30m`" + `.
- **` + "`${NAME}`" + `** within a value of the file takes the environment variable of that name, which must be set; ` + "`$${`" + ` stands for
  ` + "`${`" + ` itself.
- **The environment wins over the file.** The variable of a key is ` + "`COLDTAP__`" + ` and the key in capitals with two underscores for
  each dot: ` + "`COLDTAP__STORE__S3__BUCKET=tier`" + `. Lists and whole sections are YAML:
  ` + "`COLDTAP__METADATA__KAFKA__BOOTSTRAP='[\"b1:9092\", \"b2:9092\"]'`, `COLDTAP__AUTH='{allow_anonymous: true}'`" + `. Every other value
  is taken as it is. Variables of that form that are no keys are errors. With one underscore (` + "`COLDTAP_PORT`" + `, which Kubernetes
  sets for a Service named coldtap) they are none of coldtap's.

`

// writeReference writes docs/configuration.md: every key with its default, its values and what it is for.
func writeReference(w io.Writer) error {
	var out bytes.Buffer
	out.WriteString(referenceHead)
	const columns = "| key | default | values | |\n|---|---|---|---|\n"
	out.WriteString(columns)
	c := Default()
	for k := range keys(reflect.ValueOf(&c).Elem(), "") {
		switch {
		case k.section():
			fmt.Fprintf(&out, "\n%s %s\n\n%s\n\n", strings.Repeat("#", k.depth()+2), k.path, k.doc)
			if first := k.value.Type().Field(0); first.Type.Kind() != reflect.Struct {
				out.WriteString(columns)
			}
		default:
			fmt.Fprintf(&out, "| `%s` | `%s` | %s | %s |\n", k.path, inline(k.value), k.kind(), strings.ReplaceAll(k.doc, "|", `\|`))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
