package rangeio

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxKey is S3's limit in bytes, prefix included; every backend keeps to it so that a store can be moved to another
// kind.
const maxKey = 1024

// checkKey refuses what some store could not hold or list: control characters do not survive the XML of a listing, and
// a part "." or ".." is folded away by proxies and file systems.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("empty key")
	case len(key) > maxKey:
		return fmt.Errorf("key of %d bytes, %d allowed", len(key), maxKey)
	case !utf8.ValidString(key):
		return errors.New("key is not UTF-8")
	}
	for _, r := range key {
		if r < 0x20 || r == 0x7f || r == 0xfffe || r == 0xffff {
			return fmt.Errorf("key has the character %U", r)
		}
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("key has a part %q", part)
		}
	}
	return nil
}
