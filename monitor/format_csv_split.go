package monitor

import "bytes"

// delimiters are tried in this order; the one that makes most known columns wins.
var delimiters = []byte{',', ';', '\t', '|'}

// split cuts a record at the delimiter. Fields are slices of text or of scratch space and hold until the
// next call. quoted tells which fields were in quotes.
func (t *table) split(text []byte) [][]byte {
	t.fields, t.quoted = t.fields[:0], t.quoted[:0]
	if bytes.IndexByte(text, '"') < 0 {
		for {
			i := bytes.IndexByte(text, t.delim)
			if i < 0 {
				t.fields, t.quoted = append(t.fields, text), append(t.quoted, false)
				return t.fields
			}
			t.fields, t.quoted = append(t.fields, text[:i]), append(t.quoted, false)
			text = text[i+1:]
		}
	}
	t.fields, t.quoted = splitQuoted(text, t.delim, t.fields, t.quoted)
	return t.fields
}

// splitQuoted cuts a record with quotes: a field in quotes may hold the delimiter, line ends and doubled quotes.
func splitQuoted(text []byte, delim byte, fields [][]byte, quoted []bool) ([][]byte, []bool) {
	for {
		trimmed := bytes.TrimLeft(text, " ")
		if len(trimmed) > 0 && trimmed[0] == '"' {
			var field []byte
			rest := trimmed[1:]
			for {
				i := bytes.IndexByte(rest, '"')
				if i < 0 { // no end: everything
					field, rest = append(field, rest...), nil
					break
				}
				field, rest = append(field, rest[:i]...), rest[i+1:]
				if len(rest) == 0 || rest[0] != '"' {
					break
				}
				field, rest = append(field, '"'), rest[1:]
			}
			fields, quoted = append(fields, field), append(quoted, true)
			i := bytes.IndexByte(rest, delim)
			if i < 0 {
				return fields, quoted
			}
			text = rest[i+1:]
			continue
		}
		i := bytes.IndexByte(text, delim)
		if i < 0 {
			return append(fields, text), append(quoted, false)
		}
		fields, quoted = append(fields, text[:i]), append(quoted, false)
		text = text[i+1:]
	}
}

// headerOf recognises a header: at least one known column, no field that is a number, and either a
// second name or nothing else in the line.
func headerOf(text []byte, o *parseOptions) (names []string, delim byte, ok bool) {
	if len(text) == 0 || len(text) > headBytes {
		return nil, 0, false
	}
	if c := bytes.TrimLeft(text, " \t\"'\ufeff"); len(c) == 0 || c[0] >= '0' && c[0] <= '9' || c[0] == '-' || c[0] == '{' {
		return nil, 0, false // quickly: a row
	}
	best := 0
	for _, d := range delimiters {
		known := 0
		var cut []string
		fields, _ := splitQuoted(text, d, nil, nil)
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
