package trainlog

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sink receives the results of a parser. A bad line does not stop a parser: it reports the line and continues.
type sink interface {
	// row accepts one row, which is valid only during the call. extra is a hash of the columns that Row has no field
	// for, so that rows which differ only in those columns are not treated as duplicates.
	row(r *Row, extra uint64)
	// bad reports a line that yielded no row.
	bad(line int, reason string)
	// note reports an oddity in a line that was used or rightly skipped.
	note(line int, reason string)
	// wantsDetail reports whether the next note's text will be kept; otherwise callers may skip formatting it.
	wantsDetail() bool
	// header reports a header after the first one.
	header()
	// batchFull reports that the batch limit is reached. Only document parsers check it.
	batchFull() bool
}

// parser reads the lines of one log in order. It retains lines only while pending returns true.
type parser interface {
	// line parses one complete line, in UTF-8 and without its line end; n counts from 1. It must not retain text.
	line(text []byte, n int, out sink)
	// pending reports whether lines of an incomplete record are held.
	pending() bool
	// flush ends the wait for the rest of a held record and parses the held lines as they are.
	flush(out sink)
	// restart prepares for the first line of a new or rewritten file.
	restart()
	// save and load carry the state of the parser across restarts of the agent.
	save() parserState
	load(parserState)
}

// unbuffered provides the methods of a parser that holds no lines and needs no preparation for a new file.
type unbuffered struct{}

func (unbuffered) pending() bool { return false }
func (unbuffered) flush(sink)    {}
func (unbuffered) restart()      {}

// document parses a log that is one JSON value and is read whole whenever it changes. An incomplete value yields no
// rows, unless salvage is set: then its complete entries are used.
type document interface {
	read(src io.ReadSeeker, out sink, salvage bool) error
}

// parserState is the state of a parser for one file.
type parserState struct {
	Header     []string  `json:"header,omitempty"`
	Delimiter  string    `json:"delimiter,omitempty"`
	ZeroBased  *bool     `json:"zero_based,omitempty"`
	Epoch      float64   `json:"epoch,omitempty"`
	TotalEpoch float64   `json:"total_epochs,omitempty"`
	Ends       epochEnds `json:"epoch_ends,omitzero"`
	// Used by progress output only.
	Part   float64    `json:"part,omitempty"`
	Within bool       `json:"within,omitempty"`
	Bars   *barState  `json:"bars,omitempty"`
	Whole  wholeCount `json:"whole,omitzero"`
}

// Rules by which log formats count epochs.
const (
	fromOne      = iota // as written
	fromZero            // written value plus one
	fromFirstRow        // written value plus one if the first row has epoch 0
)

// epochBase converts the epochs of a log to a count from 1.
type epochBase struct {
	rule int
	zero *bool // nil before the first row with an epoch
	ends epochEnds
}

// save and load carry the state across restarts of the agent.
func (b *epochBase) save() parserState  { return parserState{ZeroBased: b.zero, Ends: b.ends} }
func (b *epochBase) load(s parserState) { b.zero, b.ends = s.ZeroBased, s.Ends }

// restart prepares for the first row of a new or rewritten file, which begins an epoch.
func (b *epochBase) restart() {
	if b.ends.Rows = 0; b.ends.Fraction { // the rows are read as before
		b.zero, b.ends.Fraction = nil, false
	}
}

// fix converts the epoch of a row in place. The first row with an epoch fixes the base for the rest of the file, unless an epoch is
// a fraction: "epoch": 0.0 before 0.25 is the beginning.
func (b *epochBase) fix(r *Row) {
	e, ok := r.Value(Epoch)
	if !ok || b.rule == fromOne {
		return
	}
	if b.zero == nil || b.rule == fromFirstRow && e != math.Trunc(e) {
		zero := b.rule == fromZero || e == 0
		b.zero = &zero
	}
	if *b.zero {
		r.Set(Epoch, e+1)
	}
	if b.rule == fromFirstRow {
		b.ends.mark(r)
	}
}

// format describes one kind of training log.
type format struct {
	// detect returns the confidence that a text with this beginning has the format, from 0 (no) to 100 (certain).
	detect func(h *head) int
	// Exactly one of lines, document and records is set.
	lines    func(o *parseOptions) parser
	document func(o *parseOptions) document
	// records reads a finished binary log; a Tail follows it only if followed is set. read is the number of bytes read, behind the
	// number of bytes at the end that form no complete record. magic recognises such a file by its first recordHeader
	// bytes and replaces detect.
	records  func(path string, o *parseOptions, out sink) (read, behind int64, err error)
	magic    func(first []byte) bool
	followed bool
	// json is true for formats that begin with an object or a list; no other format is tried on such a file.
	json bool
	// repeats is true if identical lines may legitimately occur many times, as in progress output.
	repeats bool
	// sparse is true if the values of one step are spread over several consecutive rows.
	sparse bool
}

// formats is the registry of log formats. To add one, write its file, add its line here and add a recording to
// testdata/formats.
var formats = map[string]format{
	"csv":         {detect: detectCanonicalCSV, lines: newCanonicalCSV},
	"keras":       {detect: detectKeras, lines: newKeras},
	"lightning":   {detect: detectLightning, lines: newLightning, sparse: true},
	"ultralytics": {detect: detectUltralytics, lines: newUltralytics},
	"huggingface": {detect: detectHuggingFace, document: newHuggingFace, json: true, sparse: true},
	"jsonl":       {detect: detectJSONLines, lines: newJSONLines, json: true},
	"observer":    {detect: detectObserver, lines: newObserver, json: true},
	"tensorboard": {magic: isEvents, records: readEvents, followed: true},
	"wandb":       {magic: isWandb, records: readWandb},
	"mlflow":      {records: readMLflow},
	"stdout":      {detect: detectStdout, lines: newStdout, repeats: true},
}

// Formats returns the sorted names of the log formats that TailOptions.Format accepts. Scan and ReadLog read all of
// them; Open rejects "mlflow" and "wandb", because a Tail does not follow them.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// parseOptions is the subset of TailOptions that parsers require.
type parseOptions struct {
	aliases  map[string]target
	patterns []*regexp.Regexp
	location *time.Location
}

// resolve returns the target of a column. Aliases of the user take precedence.
func (o *parseOptions) resolve(name string) target {
	n := normalizeName(name)
	if t, ok := o.aliases[n]; ok {
		return t
	}
	return resolveName(n)
}

// setText stores a field in the timestamp or the text column that to names; it returns false if the field is blank or
// no timestamp. A canonical name takes precedence over an earlier timestamp.
func (o *parseOptions) setText(r *Row, to target, f []byte, texts *interner) bool {
	if to.kind == toStamp {
		if r.Stamp.IsZero() || to.exact {
			r.Stamp = parseStamp(f, o.location)
		}
		return !r.Stamp.IsZero()
	}
	if f = bytes.TrimSpace(f); len(f) == 0 {
		return false
	}
	*r.text(to.kind) = texts.get(f, func(s string) string { return strings.ToValidUTF8(s, "\ufffd") })
	return true
}

// interner holds the converted texts of a log, so that a repeated text is not allocated again.
type interner map[string]string

// maxInterned bounds the number of texts, because a column may have a different value in every row.
const maxInterned = 1024

// get returns the conversion of b.
func (in *interner) get(b []byte, convert func(string) string) string {
	text, known := (*in)[string(b)]
	if !known {
		text = convert(string(b))
		if len(*in) >= maxInterned || *in == nil {
			*in = interner{}
		}
		(*in)[string(b)] = text
	}
	return text
}

// Limits of the beginning of a file that is used to detect its format: lines and bytes.
const (
	headLines = 200
	headBytes = 64 << 10
)

// head is the beginning of a file: its complete lines and the bytes after them.
type head struct {
	path  string // base name
	lines [][]byte
	rest  []byte // the beginning of an unfinished line
	opts  *parseOptions
}

// first returns the first line that is not blank, or the unfinished line.
func (h *head) first() []byte {
	for _, l := range h.lines {
		if l := bytes.TrimSpace(l); len(l) > 0 {
			return l
		}
	}
	return bytes.TrimSpace(h.rest)
}

// json reports whether the file begins like a JSON object or like a JSON list of objects, lists or strings. Progress
// output such as "[3/20]" and "{'loss': 1}" does not.
func (h *head) json() bool {
	f := h.first()
	return len(f) > 0 && (f[0] == '{' || f[0] == '[') && (len(f) == 1 || bytes.IndexByte([]byte("\"{[ \t"), f[1]) >= 0)
}

// detectFormat returns the name of the format with the highest confidence; empty if no format recognises the
// beginning.
func detectFormat(h *head) string {
	best, name := 0, ""
	for _, n := range Formats() {
		if formats[n].detect == nil || h.json() && !formats[n].json {
			continue
		}
		if score := formats[n].detect(h); score > best {
			best, name = score, n
		}
	}
	return name
}

// recordFormat returns the name of the binary format that begins with these bytes; empty if none exists.
func recordFormat(first []byte) string {
	for _, n := range Formats() {
		if magic := formats[n].magic; magic != nil && magic(first) {
			return n
		}
	}
	return ""
}

// fallbackFormat returns the format of a file that no format recognises: csv by its file extension, otherwise stdout.
func fallbackFormat(path string) string {
	if strings.HasSuffix(strings.ToLower(path), ".csv") {
		return "csv"
	}
	return "stdout"
}

// checkFormat returns an error if name is neither empty nor a registered format.
func checkFormat(name string) error {
	if _, ok := formats[name]; name != "" && !ok {
		return fmt.Errorf("log format %q is not known; there are %s", name, strings.Join(Formats(), ", "))
	}
	return nil
}
