package trainlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// JSON lines: one object per line. The keys of nested objects are joined by "_": {"train": {"loss": 1}} is
// train_loss.

func detectJSONLines(h *head) int {
	for _, l := range h.lines {
		l = bytes.TrimSpace(l)
		if len(l) == 0 {
			continue
		}
		if l[0] == '{' && json.Valid(l) && !bytes.Contains(l, []byte(`"log_history"`)) {
			return 60
		}
		return 0
	}
	return 0
}

func newJSONLines(o *parseOptions) parser {
	return &jsonLines{fields: jsonFields{opts: o}, base: epochBase{rule: fromFirstRow}}
}

// jsonLines parses JSON lines.
type jsonLines struct {
	unbuffered
	fields jsonFields
	base   epochBase
	keep   func(object map[string]any) bool // selects the objects that are rows; nil selects all
}

func (p *jsonLines) restart()           { p.base.restart() }
func (p *jsonLines) save() parserState  { return p.base.save() }
func (p *jsonLines) load(s parserState) { p.base.load(s) }

// line parses one object; a line that is not one JSON object is bad.
func (p *jsonLines) line(text []byte, n int, out sink) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return
	}
	object, ok := decodeObject(text)
	if !ok {
		out.bad(n, "not a JSON object: "+clip(text))
		return
	}
	if p.keep != nil && !p.keep(object) {
		return
	}
	if r, extra, ok := p.fields.row(object, n, out); ok {
		p.base.fix(&r)
		out.row(&r, extra)
	}
}

// decodeObject decodes text that consists of one JSON object. It accepts NaN and Infinity, which Python writes.
func decodeObject(text []byte) (map[string]any, bool) {
	if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Infinity")) {
		var f nanFilter
		text = f.apply(nil, text)
	}
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&object) != nil || object == nil {
		return nil, false
	}
	_, err := dec.Token()
	return object, err == io.EOF
}

// jsonFields converts JSON objects to rows.
type jsonFields struct {
	opts  *parseOptions
	texts interner
	// fixed contains values of the document that apply to every row.
	fixed map[Column]float64
}

// row returns the row of an object and the hash of its unrecognised fields. ok is false, and the object is reported
// as bad, if no recognised column has a value.
func (p *jsonFields) row(object map[string]any, n int, out sink) (r Row, extra uint64, ok bool) {
	w := jsonWalk{fields: p, row: Row{Line: n}, out: out}
	w.object("", object, 0)
	if !w.some {
		out.bad(n, "no known column has a value")
		return Row{}, 0, false
	}
	for c, v := range p.fixed {
		if _, has := w.row.Value(c); !has {
			w.row.Set(c, v)
		}
	}
	return w.row, w.extra, true
}

// maxDepth bounds the depth of nested objects.
const maxDepth = 4

// jsonWalk builds one row from an object.
type jsonWalk struct {
	fields *jsonFields
	row    Row
	extra  uint64
	some   bool
	exact  [NumColumns]bool
	out    sink
}

// object visits the fields in lexical order, so that equal objects yield equal rows.
func (w *jsonWalk) object(prefix string, object map[string]any, depth int) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		name := prefix + key
		if nested, ok := object[key].(map[string]any); ok {
			if depth < maxDepth {
				w.object(name+"_", nested, depth+1)
			}
			continue
		}
		text := jsonText(object[key])
		if t := w.fields.opts.resolve(name); t.kind != toNowhere {
			w.some = w.field(t, name, []byte(text)) || w.some
		} else if text != "" {
			w.extra += mix(hashText([]byte(normalizeName(name))), hashText([]byte(text)))
		}
	}
}

// field stores one scalar and reports whether it has a value. A canonical name takes precedence over an alias.
func (w *jsonWalk) field(t target, name string, text []byte) bool {
	r, p := &w.row, w.fields
	if t.kind.text() {
		return p.opts.setText(r, t, text, &p.texts)
	}
	v, how := parseNumber(text, t.kind != toGPUUtil && t.column.counts())
	v = checkNumber(v, how, t, name, text, r.Line, w.out)
	if math.IsNaN(v) {
		return false
	}
	if t.kind == toGPUUtil {
		setGPUUtil(r, t.gpu, v)
		return true
	}
	if _, has := r.Value(t.column); !has || (t.exact && !w.exact[t.column]) {
		r.Set(t.column, v)
		w.exact[t.column] = t.exact
	}
	return true
}

// jsonText returns a scalar as text; empty for null, lists and objects.
func jsonText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case float64:
		return fmt.Sprint(v)
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}

// nanFilter replaces NaN and Infinity outside of strings in a JSON text by the strings "nan" and "inf". It operates
// on a stream in chunks of any size.
type nanFilter struct {
	inString, escaped bool
	minus             bool // a '-' is held back because it may belong to -Infinity
	inWord            bool
}

// apply appends the filtered src to dst. It is a byte-wise state machine over strings, escapes and the letters of NaN
// and Infinity; the state is kept between calls. O(len(src)).
func (f *nanFilter) apply(dst, src []byte) []byte {
	for _, c := range src {
		switch {
		case f.inString:
			dst = append(dst, c)
			switch {
			case f.escaped:
				f.escaped = false
			case c == '\\':
				f.escaped = true
			case c == '"':
				f.inString = false
			}
			continue
		case f.inWord && (c|0x20 >= 'a' && c|0x20 <= 'z'):
			continue // the rest of NaN or Infinity
		}
		f.inWord = false
		if f.minus {
			f.minus = false
			if c != 'I' {
				dst = append(dst, '-')
			}
		}
		switch c {
		case '-':
			f.minus = true
		case 'N':
			dst, f.inWord = append(dst, `"nan"`...), true
		case 'I':
			dst, f.inWord = append(dst, `"inf"`...), true
		default:
			f.inString = c == '"'
			dst = append(dst, c)
		}
	}
	return dst
}

// maxValue bounds the size of one value of a JSON document, and thus the buffer of its decoder, in bytes.
const maxValue = 4 << 20

// nanReader applies a nanFilter to a reader. It returns errLongValue after more than maxValue bytes without a call of
// taken.
type nanReader struct {
	src    io.Reader
	filter nanFilter
	given  int // bytes since the last value
	raw    [4096]byte
	buf    []byte // backing of ready
	ready  []byte
}

// taken reports that a complete value has been decoded.
func (r *nanReader) taken() { r.given = 0 }

var errLongValue = fmt.Errorf("one value has more than %d bytes", maxValue)

// Read reads filtered bytes; it returns errLongValue once a single value exceeds maxValue.
func (r *nanReader) Read(p []byte) (int, error) {
	if r.given > maxValue {
		return 0, errLongValue
	}
	for len(r.ready) == 0 {
		n, err := r.src.Read(r.raw[:])
		r.buf = r.filter.apply(r.buf[:0], r.raw[:n])
		r.ready = r.buf
		if err != nil && len(r.ready) == 0 {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	r.given += n
	return n, nil
}

// The observer's report of one process (docs/observer.md): JSON lines, of which the progress events yield rows. In
// distributed training, only rank 0 reports for the job.

func detectObserver(h *head) int {
	f := h.first()
	if bytes.HasPrefix(f, []byte(`{"event":"start"`)) && bytes.Contains(f, []byte(`"observer":1`)) {
		return 90
	}
	return 0
}

func newObserver(o *parseOptions) parser {
	return &jsonLines{fields: jsonFields{opts: o}, base: epochBase{rule: fromOne}, keep: func(object map[string]any) bool {
		return object["event"] == "progress" && jsonText(object["rank"]) == "0"
	}}
}

// tracker converts what an experiment tracker stored about one training to rows: values logged at a step, and the
// configuration, which applies to every row.
type tracker struct {
	fields jsonFields
	base   epochBase
	config Row
}

func newTracker(o *parseOptions) *tracker {
	return &tracker{fields: jsonFields{opts: o}, base: epochBase{rule: fromFirstRow}}
}

// configColumns are the columns that a configuration may contain; other names there, such as "epoch", are settings of
// something else.
var configColumns = []Column{TotalEpochs, TotalSteps, ModelParams, ModelLayers, DataCount, DataSizeMB, BatchSize, CPUCount, GPUCount}

// configure adds entries of the configuration; known ones are kept.
func (t *tracker) configure(config map[string]any) {
	w := jsonWalk{fields: &t.fields, out: ignored{}}
	w.object("", config, 0)
	for _, c := range configColumns {
		if _, has := t.config.Value(c); !has {
			if v, ok := w.row.Value(c); ok {
				t.config.Set(c, v)
			}
		}
	}
	if t.config.Model == "" {
		t.config.Model = w.row.Model
	}
	if t.config.Dataset == "" {
		t.config.Dataset = w.row.Dataset
	}
	if t.config.Device == "" {
		t.config.Device = w.row.Device
	}
}

// row passes on the row of the values logged at one time. n is its number, from 1.
func (t *tracker) row(values map[string]any, n int, at time.Time, out sink) {
	r, extra, ok := t.fields.row(values, n, out)
	if !ok {
		return
	}
	if !at.IsZero() {
		r.Stamp = at
	}
	t.base.fix(&r)
	r.fill(&t.config)
	for _, text := range []struct{ into, from *string }{{&r.Model, &t.config.Model}, {&r.Dataset, &t.config.Dataset}, {&r.Device, &t.config.Device}} {
		if *text.into == "" {
			*text.into = *text.from
		}
	}
	out.row(&r, extra)
}

// numberText returns a number as the text of a JSON number.
func numberText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// ignored is a sink without effect.
type ignored struct{}

func (ignored) row(*Row, uint64)  {}
func (ignored) bad(int, string)   {}
func (ignored) note(int, string)  {}
func (ignored) wantsDetail() bool { return false }
func (ignored) header()           {}
func (ignored) batchFull() bool   { return false }
