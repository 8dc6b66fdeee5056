package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bytes is a size: a plain number, or one with a unit (KiB, MiB, GiB, TiB; KB, MB, GB, TB for powers of 1000).
type Bytes int64

// Auto is the size "auto": derived from the machine when the configuration is loaded.
const Auto Bytes = -1

var units = []struct {
	suffix string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// ParseBytes reads a size such as "64MiB". "auto" is Auto.
func ParseBytes(s string) (Bytes, error) {
	number, factor := strings.TrimSpace(s), int64(1)
	if number == "auto" {
		return Auto, nil
	}
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size (write 4194304, 4MiB or 1GiB)", s)
	}
	if n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is too large a size", s)
	}
	return Bytes(n * factor), nil
}

// String writes the size with the largest binary unit that divides it.
func (b Bytes) String() string {
	if b == Auto {
		return "auto"
	}
	for _, u := range units[:4] {
		if b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// UnmarshalYAML reads a size.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseBytes(n.Value)
	if n.Kind != yaml.ScalarNode {
		return errors.New("is not a size")
	}
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// MarshalYAML writes a size.
func (b Bytes) MarshalYAML() (any, error) {
	if b.String() == strconv.FormatInt(int64(b), 10) {
		return int64(b), nil
	}
	return b.String(), nil
}

// Duration is a length of time such as 30s or 1h30m.
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration (write 500ms, 30s or 1h)", n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML writes a duration.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

func (d Duration) String() string { return time.Duration(d).String() }
