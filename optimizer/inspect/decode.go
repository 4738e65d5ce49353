package inspect

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// codingLine matches the declaration of PEP 263: a comment in line 1 or 2 that names the encoding.
var codingLine = regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)`)

// decode converts the bytes of a script to text and returns warnings about irregularities. It never fails: bytes
// invalid in the script's encoding are read as Latin-1, NUL as a space.
func decode(data []byte) (src string, warnings []string) {
	declared := ""
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		data = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return decodeUTF16(data), []string{"the script is UTF-16, which Python does not read"}
	default:
		declared = declaredEncoding(data)
	}
	if n := bytes.IndexByte(data, 0); n >= 0 {
		warnings = append(warnings, fmt.Sprintf("NUL byte in line %d, which Python does not read", lineOf(data, n)))
		data = bytes.ReplaceAll(data, []byte{0}, []byte{' '})
	}
	if utf8.Valid(data) {
		return string(data), warnings
	}
	switch declared {
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1", "iso-8859-15", "cp1252", "windows-1252":
	case "", "utf-8", "utf8":
		warnings = append(warnings, fmt.Sprintf("not UTF-8 in line %d", lineOf(data, invalidAt(data))))
	default:
		warnings = append(warnings, fmt.Sprintf("the encoding %s is not known here; read as Latin-1", declared))
	}
	var b strings.Builder
	b.Grow(len(data) + len(data)/8)
	for _, c := range data {
		b.WriteRune(rune(c))
	}
	return b.String(), warnings
}

func declaredEncoding(data []byte) string {
	for range 2 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		if m := codingLine.FindSubmatch(line); m != nil {
			return strings.ReplaceAll(strings.ToLower(string(m[1])), "_", "-")
		}
		data = rest
	}
	return ""
}

func decodeUTF16(data []byte) string {
	low, high := 0, 1
	if data[0] == 0xfe {
		low, high = 1, 0
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, uint16(data[i+low])|uint16(data[i+high])<<8)
	}
	return string(utf16.Decode(units))
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(data)
}

func lineOf(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte{'\n'}) }
