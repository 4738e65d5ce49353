package monitor

import "bytes"

// delimiters are tried in this order; the one that yields the most recognised columns wins.
var delimiters = []byte{',', ';', '\t', '|'}

// split cuts a record at the delimiter. The fields alias text or scratch space and are valid until the next call.
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

// splitQuoted cuts a record with quotes: a quoted field may contain the delimiter, line ends and doubled quotes.
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

// unquote parses a field after its opening quote up to the closing one, or to the end of text without one.
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

// mayBeHeader is a cheap filter: a record that begins like a number or an object is not a header.
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

// headerOf recognises a header: at least one recognised column and no numeric field. The delimiter with the most
// recognised columns is chosen; a line without any delimiter is a header only if it is itself a column name.
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

// findHeader returns the first header in the beginning of a file and its line index; -1 without one.
func findHeader(h *head) (names []string, line int) {
	for i, l := range h.lines {
		if names, _, ok := headerOf(l, h.opts); ok {
			return names, i
		}
	}
	return nil, -1
}
