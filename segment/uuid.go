package segment

import "encoding/base64"

// UUID is a topic, cluster or segment id. Kafka's text form is URL-safe base64 without padding, 22 characters, so it
// may hold '-' and '_': never split names on those.
type UUID [16]byte

// uuidText is strict, so that each id has exactly one text: the last character carries 4 bits that must be zero.
var uuidText = base64.RawURLEncoding.Strict()

// ParseUUID reads the 22 characters that String writes; anything else is Corrupt. The zero id is accepted.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	err := u.UnmarshalText([]byte(s))
	return u, err
}

// String gives the 22-character text.
func (u UUID) String() string { return uuidText.EncodeToString(u[:]) }

// IsZero tells whether u is the zero id, which Kafka uses for "none".
func (u UUID) IsZero() bool { return u == UUID{} }

// MarshalText gives the text of String, for JSON and YAML.
func (u UUID) MarshalText() ([]byte, error) {
	return uuidText.AppendEncode(nil, u[:]), nil
}

// UnmarshalText reads what MarshalText wrote. On error u is unchanged.
func (u *UUID) UnmarshalText(text []byte) error {
	if len(text) != 22 {
		return corrupt("uuid", 0, "%d characters, want 22", len(text))
	}
	var b [18]byte
	// The decoder skips line breaks, hence the count is checked too.
	n, err := uuidText.Decode(b[:], text)
	if err != nil || n != len(u) {
		return &Error{Kind: Corrupt, Op: "uuid", Position: 0, Detail: "not URL-safe base64 of 16 bytes", Err: err}
	}
	copy(u[:], b[:n])
	return nil
}
