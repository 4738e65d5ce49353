package monitor

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// The contract's own CSV: a header with the contract's column names or aliases, one row per epoch or step.

func detectContract(h *head) int {
	cols, _ := findHeader(h)
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

func newContract(o *parseOptions) parser {
	return newTable(o, dialect{resolve: o.resolve, epochs: fromFirstRow})
}

// dialect is how one kind of CSV names and counts things.
type dialect struct {
	resolve func(name string) target
	epochs  int // fromOne, fromZero or fromFirstRow
	// adjust completes a row; nil when there is nothing to do.
	adjust func(t *table, r *Row, fields [][]byte)
}

// cell is one column of a header: where its values go.
type cell struct {
	target
	name string
	hash uint64 // of the normalised name
}

// maxRecordLines bounds how many lines a quoted field may span before the quote is taken for damage.
const maxRecordLines = 16

// table parses delimited text with a header.
type table struct {
	opts      *parseOptions
	dialect   dialect
	cells     []cell
	gpus      int // gpu_utilization columns
	delim     byte
	base      epochBase
	fresh     bool // no line of this file has been seen
	noteComma bool

	held     [][]byte // lines of a record with an open quote
	heldLine int
	fields   [][]byte // scratch
	quoted   []bool   // scratch

	model, dataset, device string // last values, so that a repeated text costs nothing
}

func newTable(o *parseOptions, d dialect) *table {
	return &table{opts: o, dialect: d, base: epochBase{rule: d.epochs}, fresh: true}
}

func (t *table) pending() bool { return len(t.held) > 0 }

func (t *table) restart() { t.fresh, t.held = true, nil }

func (t *table) save() parserState {
	s := parserState{ZeroBased: t.base.zero}
	if t.cells != nil {
		s.Delimiter = string(t.delim)
		for _, c := range t.cells {
			s.Header = append(s.Header, c.name)
		}
	}
	return s
}

func (t *table) load(s parserState) {
	t.base.zero, t.fresh = s.ZeroBased, len(s.Header) == 0
	if len(s.Header) > 0 && len(s.Delimiter) == 1 {
		t.delim = s.Delimiter[0]
		t.setHeader(s.Header)
	}
}

func (t *table) flush(out sink) {
	held, n := t.held, t.heldLine
	t.held = nil
	for i, text := range held {
		if bytes.Count(text, []byte{'"'})%2 == 1 {
			out.bad(n+i, "quote without end")
			continue
		}
		t.record(text, n+i, out)
	}
}

func (t *table) line(text []byte, n int, out sink) {
	if len(t.held) > 0 {
		t.hold(text, out)
		return
	}
	if t.delim != 0 && bytes.Count(text, []byte{'"'})%2 == 1 {
		t.held, t.heldLine = append(t.held, bytes.Clone(text)), n
		return
	}
	t.record(text, n, out)
}

// hold adds a line to a record with an open quote.
func (t *table) hold(text []byte, out sink) {
	t.held = append(t.held, bytes.Clone(text))
	if bytes.Count(text, []byte{'"'})%2 == 1 {
		joined, n := bytes.Join(t.held, []byte{'\n'}), t.heldLine
		if split := t.split(joined); len(split) == len(t.cells) {
			t.held = nil
			t.record(joined, n, out)
			return
		}
		t.flush(out) // two damaged lines, not one record
		return
	}
	if len(t.held) >= maxRecordLines {
		t.flush(out)
	}
}

// record takes one whole record.
func (t *table) record(text []byte, n int, out sink) {
	if blank(text) || text[0] == '#' {
		return
	}
	var fields [][]byte
	if t.cells != nil {
		fields = t.split(text)
	}
	if !anyNumber(fields) {
		if names, delim, ok := headerOf(text, t.opts); ok {
			t.readHeader(names, delim, n, out)
			return
		}
	}
	if t.cells == nil {
		out.bad(n, "row before the header: "+clip(text))
		return
	}
	t.fresh = false
	for len(fields) > len(t.cells) && blank(fields[len(fields)-1]) {
		fields = fields[:len(fields)-1]
	}
	if len(fields) != len(t.cells) {
		out.bad(n, fmt.Sprintf("%d fields, want %d", len(fields), len(t.cells)))
		return
	}
	t.row(fields, n, out)
}

// anyNumber reports whether a field is a number: then the record is no header.
func anyNumber(fields [][]byte) bool {
	for _, f := range fields {
		if _, how := parseNumber(f, false); how == readNumber {
			return true
		}
	}
	return false
}

func (t *table) readHeader(names []string, delim byte, n int, out sink) {
	if t.cells != nil {
		if !t.fresh {
			out.header()
			if t.sameNames(names) {
				out.note(n, "header repeated")
			} else {
				out.note(n, "header changed to "+clip([]byte(strings.Join(names, string(delim)))))
			}
		}
	}
	t.fresh, t.delim = false, delim
	t.setHeader(names)
}

func (t *table) sameNames(names []string) bool {
	if len(names) != len(t.cells) {
		return false
	}
	for i, name := range names {
		if t.cells[i].name != name {
			return false
		}
	}
	return true
}

// setHeader decides where each column goes. When two columns have the same target, the one with the
// column's own name wins, else the first; the other is taken where that one is empty.
func (t *table) setHeader(names []string) {
	t.cells, t.gpus = make([]cell, len(names)), 0
	for i, name := range names {
		if to := t.dialect.resolve(name); to.kind == toGPUUtil {
			t.gpus = max(t.gpus, to.gpu+1)
		}
		t.cells[i] = cell{target: t.dialect.resolve(name), name: name, hash: hashText([]byte(normalizeName(name)))}
	}
}

func (t *table) row(fields [][]byte, n int, out sink) {
	r := Row{Line: n}
	if t.gpus > 0 {
		r.GPUUtil = make([]float64, 0, t.gpus)
	}
	extra, some := uint64(0), false
	exact := [NumColumns]bool{}
	for i, f := range fields {
		c := &t.cells[i]
		if c.kind == toNowhere {
			if !blank(f) {
				extra += mix(c.hash, hashText(f))
			}
			continue
		}
		ok, fatal := t.value(&r, c, f, t.quoted[i], &exact, out)
		if fatal {
			return
		}
		some = some || ok
	}
	if !some {
		out.bad(n, "no known column has a value: "+clip(bytes.Join(fields, []byte{t.delim})))
		return
	}
	t.base.fix(&r)
	if t.dialect.adjust != nil {
		t.dialect.adjust(t, &r, fields)
	}
	out.row(&r, extra)
}

// value stores one field. fatal means that the row cannot be used: what should be its position is text.
func (t *table) value(r *Row, c *cell, f []byte, quoted bool, exact *[NumColumns]bool, out sink) (ok, fatal bool) {
	switch c.kind {
	case toStamp:
		if r.Stamp.IsZero() || c.exact {
			r.Stamp = parseStamp(f, t.opts.location)
		}
		return !r.Stamp.IsZero(), false
	case toModel:
		return setText(&r.Model, &t.model, f), false
	case toDataset:
		return setText(&r.Dataset, &t.dataset, f), false
	case toDevice:
		return setText(&r.Device, &t.device, f), false
	}
	v, how := parseNumber(f, c.kind != toGPUUtil && c.column.counts())
	if how == readText && (c.column == Epoch || c.column == Step) && c.kind == toColumn {
		out.bad(r.Line, fmt.Sprintf("%s is not a number: %s", c.name, clip(f)))
		return false, true
	}
	if how == readComma && t.noteComma {
		how = readNumber // said once
	}
	if how == readComma {
		t.noteComma = true
	}
	v = checkNumber(v, how, c.target, c.name, f, r.Line, out)
	if c.kind == toGPUUtil {
		setGPUUtil(r, c.gpu, v)
	}
	if math.IsNaN(v) {
		return false, false
	}
	switch {
	case c.kind == toGPUUtil:
	case c.kind == toSum:
		old, _ := r.Value(c.column)
		if math.IsNaN(old) {
			old = 0
		}
		r.Set(c.column, old+v)
	default:
		if _, has := r.Value(c.column); !has || (c.exact && !exact[c.column]) {
			r.Set(c.column, v)
			exact[c.column] = c.exact
		}
	}
	return true, false
}

// checkNumber notes what was odd about a number and gives NaN where it must not be used.
func checkNumber(v float64, how reading, to target, name string, f []byte, line int, out sink) float64 {
	isLoss := to.kind == toColumn && (to.column == TrainLoss || to.column == TestLoss)
	switch {
	case how == readText, how == readInf, how == readNaN && isLoss:
		out.note(line, fmt.Sprintf("%s is %s: no data", name, clip(f)))
	case how == readRange:
		out.note(line, fmt.Sprintf("%s is %s, out of range: no data", name, clip(f)))
	case how == readComma:
		out.note(line, fmt.Sprintf("%s is %s: read as %g", name, clip(f), v))
	}
	if v < 0 && (to.kind == toGPUUtil || !to.column.signed()) {
		out.note(line, fmt.Sprintf("%s is %s, negative: no data", name, clip(f)))
		return math.NaN()
	}
	return v
}

func setGPUUtil(r *Row, gpu int, v float64) {
	for len(r.GPUUtil) <= gpu {
		r.GPUUtil = append(r.GPUUtil, math.NaN())
	}
	r.GPUUtil[gpu] = v
}

// setText stores a text value, reusing the last one when it is the same.
func setText(to, last *string, f []byte) bool {
	f = bytes.TrimSpace(f)
	if len(f) == 0 {
		return false
	}
	if *last != string(f) {
		*last = strings.ToValidUTF8(string(f), "\ufffd")
	}
	*to = *last
	return true
}

func blank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// clip shortens text for a message and makes it printable.
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
