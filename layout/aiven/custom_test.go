package aiven

import (
	"encoding/hex"
	"testing"
)

// The bytes that the plugin makes for the segment of TestMainPath, prefix "pre/", 100 bytes in all.
func TestCustomMetadataOfThePlugin(t *testing.T) {
	const path = "my-topic.a-lZ6vvmajTWKDBUTV6SQAtQ/42/00000000000000001234-adh9f8BMS4anaUnD8KWfWg"
	text := hex.EncodeToString([]byte(path))
	for vector, want := range map[string]customMetadata{
		"":                                      {remoteSize: -1},
		"010002c801":                            {remoteSize: 100},
		"020002c801025151" + text:               {remoteSize: 100, path: path, hasPath: true},
		"030002c8010105057072652f025151" + text: {remoteSize: 100, prefix: "pre/", path: path, hasPrefix: true, hasPath: true},
		"020002c801020404666f6f":                {remoteSize: 100, path: "foo", hasPath: true},
		"01010101":                              {remoteSize: -1, hasPrefix: true},
		"020002c8010703aabbcc":                  {remoteSize: 100}, // a tag of the future
	} {
		raw, err := hex.DecodeString(vector)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseCustom(raw); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", vector, got, err, want)
		}
	}
}

func TestDamagedCustomMetadata(t *testing.T) {
	for name, vector := range map[string]string{
		"cut in a tag":        "01",
		"cut in a payload":    "010005c801",
		"bytes behind":        "010002c80100",
		"tags out of order":   "020103036162" + "0002c801",
		"same tag twice":      "020002c8010002c801",
		"size of three bytes": "010003c80100",
		"negative size":       "01000101",
		"string too short":    "01010405616263",
		"null string":         "01010100",
		"not UTF-8":           "01010303fffe",
		"huge count":          "ffffffff0f",
		"endless number":      "ffffffffffffffffffffff",
	} {
		raw, err := hex.DecodeString(vector)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseCustom(raw); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
