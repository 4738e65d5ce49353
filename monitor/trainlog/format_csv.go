package trainlog

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The canonical CSV format: a header of canonical column names or aliases and one row per epoch or step.

// detectCanonicalCSV recognises a header with two recognised columns, and with lower confidence one.
func detectCanonicalCSV(h *head) int {
	cols := findHeader(h)
	known := 0
	for _, name := range cols {
		if h.opts.resolve(name).kind != toNowhere {
			known++
		}
	}
	switch {
	case known >= 2:
		return 50
	case known == 1:
		return 30
	}
	return 0
}

// newCanonicalCSV returns the parser of the canonical CSV format.
func newCanonicalCSV(o *parseOptions) parser {
	return newCSVParser(o, dialect{resolve: o.resolve, epochs: fromFirstRow})
}

// dialect describes how one kind of CSV names its columns and counts epochs.
type dialect struct {
	resolve func(name string) target
	epochs  int // fromOne, fromZero or fromFirstRow
	// adjust completes a row; may be nil.
	adjust func(p *csvParser, r *Row, fields [][]byte)
}

// cell is one column of a header and the target of its values.
type cell struct {
	target
	name string
	hash uint64 // of the normalised name

	raw, text string // last text of the column and its conversion
}

// maxRecordLines bounds the number of lines of a quoted field; beyond it the quote is treated as damage.
const maxRecordLines = 16

// csvParser parses delimited text with a header. A record with an open quote is held until the quote closes, until a
// damaged line shows that it will not, or until it has maxRecordLines lines.
type csvParser struct {
	opts      *parseOptions
	dialect   dialect
	cells     []cell
	delim     byte
	base      epochBase
	fresh     bool // no line of this file has been parsed
	noteComma bool

	held     [][]byte // lines of a record with an open quote
	heldLine int
	fields   [][]byte // scratch
	scratch  Row
	texts    interner
}

func newCSVParser(o *parseOptions, d dialect) *csvParser {
	return &csvParser{opts: o, dialect: d, base: epochBase{rule: d.epochs}, fresh: true}
}

func (p *csvParser) pending() bool { return len(p.held) > 0 }

func (p *csvParser) restart() {
	p.fresh, p.held = true, nil
	p.base.restart()
}

func (p *csvParser) save() parserState {
	s := p.base.save()
	if p.cells != nil {
		s.Delimiter = string(p.delim)
		for _, c := range p.cells {
			s.Header = append(s.Header, c.name)
		}
	}
	return s
}

func (p *csvParser) load(s parserState) {
	p.base.load(s)
	p.fresh = len(s.Header) == 0
	if len(s.Header) > 0 && len(s.Delimiter) == 1 {
		p.delim = s.Delimiter[0]
		p.setHeader(s.Header)
	}
}

func (p *csvParser) flush(out sink) {
	held, n := p.held, p.heldLine
	p.held = nil
	for i, text := range held {
		if bytes.Count(text, []byte{'"'})%2 == 1 {
			out.bad(n+i, "quote without end")
			continue
		}
		p.record(text, n+i, out)
	}
}

func (p *csvParser) line(text []byte, n int, out sink) {
	if len(p.held) > 0 {
		p.hold(text, out)
		return
	}
	if p.simpleRow(text, n, out) {
		return
	}
	if p.delim != 0 && bytes.Count(text, []byte{'"'})%2 == 1 {
		p.held, p.heldLine = append(p.held, bytes.Clone(text)), n
		return
	}
	p.record(text, n, out)
}

// hold appends a line to a record with an open quote and parses the record once the quote is closed.
func (p *csvParser) hold(text []byte, out sink) {
	p.held = append(p.held, bytes.Clone(text))
	if bytes.Count(text, []byte{'"'})%2 == 1 {
		joined, n := bytes.Join(p.held, []byte{'\n'}), p.heldLine
		if split := p.split(joined); len(split) == len(p.cells) {
			p.held = nil
			p.record(joined, n, out)
			return
		}
		p.flush(out) // two damaged lines rather than one record
		return
	}
	if len(p.held) >= maxRecordLines {
		p.flush(out)
	}
}

// record parses one complete record: a comment, a header or a row. Trailing empty fields are dropped before the
// number of fields is compared with the header.
func (p *csvParser) record(text []byte, n int, out sink) {
	if blank(text) || text[0] == '#' {
		return
	}
	var fields [][]byte
	if p.cells != nil {
		fields = p.split(text)
	}
	if mayBeHeader(text) && !anyNumber(fields) {
		if names, delim, ok := headerOf(text, p.opts); ok {
			p.readHeader(names, delim, n, out)
			return
		}
	}
	if p.cells == nil {
		out.bad(n, "row before the header: "+clip(text))
		return
	}
	p.fresh = false
	for len(fields) > len(p.cells) && blank(fields[len(fields)-1]) {
		fields = fields[:len(fields)-1]
	}
	if len(fields) != len(p.cells) {
		out.bad(n, fmt.Sprintf("%d fields, want %d", len(fields), len(p.cells)))
		return
	}
	p.row(fields, n, out)
}

// simpleRow is record in one pass for most rows: one that begins with a digit, has as many fields as the header, no quotes,
// and nothing to report. It returns false, without effects outside of the scratch row, for all other records.
func (p *csvParser) simpleRow(text []byte, n int, out sink) bool {
	if len(p.cells) == 0 || len(text) == 0 || text[0]-'0' > 9 || p.dialect.adjust != nil {
		return false
	}
	r, at := &p.scratch, -1
	r.begin(n)
	extra, some, exact := uint64(0), false, uint32(0)
	for i := range p.cells {
		if at++; at > len(text) {
			return false
		}
		c := &p.cells[i]
		if c.kind == toColumn || c.kind == toGPUUtil || c.kind == toSum {
			v, end := leadingFloat(text, at)
			if end < 0 || end < len(text) && text[end] != p.delim {
				end = p.fieldEnd(text, at)
				var how reading
				if v, how = parseNumber(text[at:end], false); how > readEmpty || v < 0 {
					return false
				}
			}
			some = c.store(r, v, &exact) || some
			at = end
			continue
		}
		if n := at + len(c.raw); n > at && n < len(text) && text[n] == p.delim && string(text[at:n]) == c.raw {
			*r.text(c.kind), some, at = c.text, true, n
			continue
		}
		f := text[at:p.fieldEnd(text, at)]
		at += len(f)
		switch {
		case bytes.IndexByte(f, '"') >= 0:
			return false
		case c.kind != toNowhere:
			if p.opts.setText(r, c.target, f, &p.texts) {
				some = true
				if c.kind != toStamp {
					c.raw, c.text = string(f), *r.text(c.kind)
				}
			}
		case !blank(f):
			extra += mix(c.hash, hashText(f))
		}
	}
	if at != len(text) || !some {
		return false
	}
	p.fresh = false
	p.base.fix(r)
	out.row(r, extra)
	return true
}

// fieldEnd returns the end of the field without quotes at an index.
func (p *csvParser) fieldEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], p.delim); n >= 0 {
		return at + n
	}
	return len(text)
}

// anyNumber reports whether a field is a number; such a record is not a header.
func anyNumber(fields [][]byte) bool {
	return slices.ContainsFunc(fields, func(f []byte) bool {
		_, how := parseNumber(f, false)
		return how == readNumber
	})
}

// readHeader replaces the current header and reports a repeated or changed one.
func (p *csvParser) readHeader(names []string, delim byte, n int, out sink) {
	if p.cells != nil && !p.fresh {
		out.header()
		if slices.EqualFunc(names, p.cells, func(name string, c cell) bool { return c.name == name }) {
			out.note(n, "header repeated")
		} else {
			out.note(n, "header changed to "+clip([]byte(strings.Join(names, string(delim)))))
		}
	}
	p.fresh, p.delim = false, delim
	p.setHeader(names)
}

// setHeader resolves the target of each column. If two columns have the same target, a canonical name takes
// precedence over an alias and otherwise the first column; the other column is used where that one is empty.
func (p *csvParser) setHeader(names []string) {
	p.cells = make([]cell, len(names))
	for i, name := range names {
		p.cells[i] = cell{target: p.dialect.resolve(name), name: name, hash: hashText([]byte(normalizeName(name)))}
	}
}

// row stores the fields of a record and passes the row to out. Unrecognised columns contribute to the hash of extra
// columns; a record without any recognised value is bad.
func (p *csvParser) row(fields [][]byte, n int, out sink) {
	r := &p.scratch
	r.begin(n)
	extra, some := uint64(0), false
	exact := uint32(0)
	for i, f := range fields {
		c := &p.cells[i]
		if c.kind == toNowhere {
			if !blank(f) {
				extra += mix(c.hash, hashText(f))
			}
			continue
		}
		ok, fatal := p.value(r, c, f, &exact, out)
		if fatal {
			return
		}
		some = some || ok
	}
	if !some {
		out.bad(n, "no known column has a value: "+clip(bytes.Join(fields, []byte{p.delim})))
		return
	}
	p.base.fix(r)
	if p.dialect.adjust != nil {
		p.dialect.adjust(p, r, fields)
	}
	out.row(r, extra)
}

// value stores one field. exact has a bit for each column already stored under its canonical name. fatal means that
// the row is unusable because its position is not a number.
func (p *csvParser) value(r *Row, c *cell, f []byte, exact *uint32, out sink) (ok, fatal bool) {
	if c.kind.text() {
		return p.opts.setText(r, c.target, f, &p.texts), false
	}
	v, fatal := p.number(r.Line, c, f, out)
	return !fatal && c.store(r, v, exact), fatal
}

// store stores a number, NaN for none, and reports whether it was one.
func (c *cell) store(r *Row, v float64, exact *uint32) bool {
	if c.kind == toGPUUtil {
		setGPUUtil(r, c.gpu, v)
	}
	if v != v {
		return false
	}
	bit := uint32(1) << c.column
	switch {
	case c.kind == toGPUUtil:
	case c.kind == toSum && r.has&bit != 0:
		r.values[c.column] += v
	case r.has&bit == 0 || (c.exact && *exact&bit == 0):
		r.values[c.column], r.has = v, r.has|bit
		if c.exact {
			*exact |= bit
		}
	}
	return true
}

// number parses a numeric field and reports its oddity.
func (p *csvParser) number(line int, c *cell, f []byte, out sink) (v float64, fatal bool) {
	v, how := parseNumber(f, c.kind != toGPUUtil && c.column.counts())
	if how == readText && (c.column == Epoch || c.column == Step) && c.kind == toColumn {
		out.bad(line, fmt.Sprintf("%s is not a number: %s", c.name, clip(f)))
		return v, true
	}
	if how == readComma && p.noteComma {
		how = readNumber // reported once per log
	}
	if how == readComma {
		p.noteComma = true
	}
	return checkNumber(v, how, c.target, c.name, f, line, out), false
}

// checkNumber reports an oddity of a number and returns NaN if the number must not be used.
func checkNumber(v float64, how reading, to target, name string, f []byte, line int, out sink) float64 {
	isLoss := to.kind == toColumn && (to.column == TrainLoss || to.column == TestLoss)
	switch {
	case how == readText, how == readInf, how == readNaN && isLoss:
		noteValue(out, line, name, f, ": no data")
	case how == readRange:
		noteValue(out, line, name, f, ", out of range: no data")
	case how == readComma:
		noteValue(out, line, name, f, fmt.Sprintf(": read as %g", v))
	}
	if v < 0 && (to.kind == toGPUUtil || !to.column.signed()) {
		noteValue(out, line, name, f, ", negative: no data")
		return math.NaN()
	}
	return v
}

// noteValue reports the treatment of a field, and formats the text only if it will be kept.
func noteValue(out sink, line int, name string, f []byte, what string) {
	if !out.wantsDetail() {
		out.note(line, "")
		return
	}
	out.note(line, name+" is "+clip(f)+what)
}

// setGPUUtil stores the utilization of one GPU in % and pads lower indices with NaN.
func setGPUUtil(r *Row, gpu int, v float64) {
	for len(r.GPUUtil) <= gpu {
		r.GPUUtil = append(r.GPUUtil, math.NaN())
	}
	r.GPUUtil[gpu] = v
}

func blank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// clip shortens text to 60 bytes for a message, quotes it and replaces control characters.
func clip(b []byte) string {
	const most = 60
	b = bytes.TrimSpace(b)
	cut := len(b) > most
	if cut {
		b = b[:most]
	}
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b), "?"))
	if cut {
		s += "…"
	}
	return `"` + s + `"`
}

// delimiters are tried in this order; the one that yields the most recognised columns wins.
var delimiters = []byte{',', ';', '\t', '|'}

// split cuts a record at the delimiter. The fields alias text or scratch space and are valid until the next call.
func (p *csvParser) split(text []byte) [][]byte {
	p.fields = p.fields[:0]
	start := 0
	for i, c := range text {
		switch c {
		case p.delim:
			p.fields = append(p.fields, text[start:i])
			start = i + 1
		case '"':
			p.fields = splitQuoted(text, p.delim, p.fields[:0])
			return p.fields
		}
	}
	p.fields = append(p.fields, text[start:])
	return p.fields
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
	if len(text) == 0 || len(text) > headBytes || !mayBeHeader(bytes.TrimLeft(text, "\ufeff")) {
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

// findHeader returns the first header in the beginning of a file; nil without one.
func findHeader(h *head) []string {
	for _, l := range h.lines {
		if names, _, ok := headerOf(l, h.opts); ok {
			return names
		}
	}
	return nil
}
