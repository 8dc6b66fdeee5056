package segment

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxPropertiesSize bounds a properties file: meta.properties has some 120 bytes.
const maxPropertiesSize = 1 << 20

// ParseProperties reads Java properties text, such as a log directory's meta.properties: lines "key=value", "key:value"
// or "key value", comments after # or !, lines that a backslash at the end continues, the escapes \t \n \r \f \uXXXX,
// and a backslash before anything else standing for that. Bytes are ISO 8859-1, as java.util.Properties.load has it.
// Of a key that repeats the last value counts.
func ParseProperties(raw []byte) (map[string]string, error) {
	if len(raw) > maxPropertiesSize {
		return nil, fail(TooLarge, "properties", -1, "%d bytes, limit %d", len(raw), maxPropertiesSize)
	}
	properties := make(map[string]string)
	lines := lineReader{rest: raw}
	for {
		at := lines.at
		line, ok := lines.logical()
		if !ok {
			return properties, nil
		}
		if line == "" {
			continue
		}
		end := keyEnd(line)
		value := strings.TrimLeft(line[end:], propertyBlanks)
		if value != "" && (value[0] == '=' || value[0] == ':') {
			value = strings.TrimLeft(value[1:], propertyBlanks)
		}
		key, ok := unescapeProperty(line[:end])
		text, ok2 := unescapeProperty(value)
		if !ok || !ok2 {
			return nil, corrupt("properties", at, "malformed \\u escape")
		}
		properties[key] = text
	}
}

const propertyBlanks = " \t\f"

// logical reads a line and those that continue it; a blank or comment line comes out empty. Comments do not continue.
func (r *lineReader) logical() (string, bool) {
	line, ok := r.next()
	line = strings.TrimLeft(line, propertyBlanks)
	if !ok || line == "" {
		return "", ok
	}
	if line[0] == '#' || line[0] == '!' {
		return "", true
	}
	if !continues(line) {
		return line, true
	}
	var whole strings.Builder
	for continues(line) {
		whole.WriteString(line[:len(line)-1])
		line, _ = r.next()
		line = strings.TrimLeft(line, propertyBlanks)
	}
	whole.WriteString(line)
	return whole.String(), true
}

// continues tells whether line ends in an odd number of backslashes.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// keyEnd finds the first separator without a backslash before it.
func keyEnd(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':', ' ', '\t', '\f':
			return i
		}
	}
	return len(line)
}

// unescapeProperty resolves escapes and turns ISO 8859-1 into UTF-8.
func unescapeProperty(s string) (string, bool) {
	var out strings.Builder
	var units []uint16 // of a run of \u escapes, where two may make one character
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) && s[i+1] == 'u' {
			if len(s)-i < 6 {
				return "", false
			}
			unit, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
			if err != nil {
				return "", false
			}
			units = append(units, uint16(unit))
			i += 5
			continue
		}
		for _, r := range utf16.Decode(units) {
			out.WriteRune(r)
		}
		units = units[:0]
		if c == '\\' {
			if i++; i == len(s) {
				break
			}
			switch c = s[i]; c {
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 'f':
				c = '\f'
			}
		}
		out.WriteRune(rune(c))
	}
	for _, r := range utf16.Decode(units) {
		out.WriteRune(r)
	}
	return out.String(), true
}
