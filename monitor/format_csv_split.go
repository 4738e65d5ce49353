package monitor

import "bytes"

// delimiters are tried in this order; the one that makes most known columns wins.
var delimiters = []byte{',', ';', '\t', '|'}

// split cuts a record at the delimiter. Fields are slices of text or of scratch space and hold until the
// next call.
func (t *table) split(text []byte) [][]byte {
	t.fields = t.fields[:0]
	start := 0
	for i, c := range text {
		switch c {
		case t.delim:
			t.fields = append(t.fields, text[start:i])
			start = i + 1
		case '"':
			t.fields = splitQuoted(text, t.delim, t.fields[:0])
			return t.fields
		}
	}
	t.fields = append(t.fields, text[start:])
	return t.fields
}

// splitQuoted cuts a record with quotes: a field in quotes may hold the delimiter, line ends and doubled quotes.
func splitQuoted(text []byte, delim byte, fields [][]byte) [][]byte {
	for {
		trimmed := bytes.TrimLeft(text, " ")
		if len(trimmed) > 0 && trimmed[0] == '"' {
			field, rest := unquote(trimmed[1:])
			fields = append(fields, field)
			i := bytes.IndexByte(rest, delim)
			if i < 0 {
				return fields
			}
			text = rest[i+1:]
			continue
		}
		i := bytes.IndexByte(text, delim)
		if i < 0 {
			return append(fields, text)
		}
		fields = append(fields, text[:i])
		text = text[i+1:]
	}
}

// unquote reads a field behind its first quote up to the last; without one, everything.
func unquote(text []byte) (field, rest []byte) {
	for {
		i := bytes.IndexByte(text, '"')
		if i < 0 {
			return append(field, text...), nil
		}
		field, text = append(field, text[:i]...), text[i+1:]
		if len(text) == 0 || text[0] != '"' {
			return field, text
		}
		field, text = append(field, '"'), text[1:]
	}
}

// mayBeHeader is a quick look: a record that begins like a number is a row.
func mayBeHeader(text []byte) bool {
	for _, c := range text {
		switch {
		case c == ' ' || c == '\t' || c == '"' || c == '\'':
		default:
			return !(c >= '0' && c <= '9' || c == '-' || c == '{')
		}
	}
	return false
}

// headerOf recognises a header: at least one known column, no field that is a number, and either a
// second name or nothing else in the line.
func headerOf(text []byte, o *parseOptions) (names []string, delim byte, ok bool) {
	if len(text) == 0 || len(text) > headBytes {
		return nil, 0, false
	}
	if !mayBeHeader(bytes.TrimLeft(text, "\ufeff")) {
		return nil, 0, false
	}
	best := 0
	for _, d := range delimiters {
		known := 0
		var cut []string
		fields := splitQuoted(text, d, nil)
		for _, f := range fields {
			if _, how := parseNumber(f, false); how == readNumber || how == readInf || how == readNaN {
				known = 0
				break
			}
			name := string(bytes.TrimSpace(bytes.Trim(bytes.TrimSpace(f), "\ufeff\"'")))
			cut = append(cut, name)
			if o.resolve(name).kind != toNowhere {
				known++
			}
		}
		if known > best && len(cut) == len(fields) {
			best, names, delim = known, cut, d
		}
	}
	return names, delim, best > 0
}

// findHeader looks for a header in the first lines of a file.
func findHeader(h *head) (names []string, line int) {
	for i, l := range h.lines {
		if names, _, ok := headerOf(l, h.opts); ok {
			return names, i
		}
	}
	return nil, -1
}
