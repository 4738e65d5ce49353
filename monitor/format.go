package monitor

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"time"
)

// sink takes what a parser finds. A parser never stops at a bad line: it says so here and goes on.
type sink interface {
	// row takes one row, which holds during the call. extra is a hash of its columns that are not in Row, so that
	// rows which differ only there are not taken for the same.
	row(r *Row, extra uint64)
	// bad says that the line gave no row.
	bad(line int, reason string)
	// note says that the line was used, or rightly left out, but was odd.
	note(line int, reason string)
	// wordy reports whether the words of a note are still of use: only the first ones are kept, and the others need no making.
	wordy() bool
	// header says that a header was read again.
	header()
	// enough reports that no more rows are wanted for now; only a document asks.
	enough() bool
}

// parser reads the lines of one log, in order. It keeps no lines back except where pending says so.
type parser interface {
	// line takes one complete line, in UTF-8, without its end; n counts from 1. It must not keep text.
	line(text []byte, n int, out sink)
	// pending reports whether lines are held that belong to a record that is not complete.
	pending() bool
	// flush gives up waiting for the rest of a held record.
	flush(out sink)
	// restart says that the next line is the first one of a new or rewritten file.
	restart()
	// save and load carry what the parser has learnt over a restart of the agent.
	save() parserState
	load(parserState)
}

// document is a log that is one JSON value and is read whole whenever it changes. Of one that is not complete
// nothing is taken, unless salvage is set: then what is whole.
type document interface {
	read(src io.ReadSeeker, out sink, salvage bool) error
}

// parserState is what a parser remembers of a file.
type parserState struct {
	Header     []string `json:"header,omitempty"`
	Delimiter  string   `json:"delimiter,omitempty"`
	ZeroBased  *bool    `json:"zero_based,omitempty"`
	Epoch      float64  `json:"epoch,omitempty"`
	TotalEpoch float64  `json:"total_epochs,omitempty"`
	// Of progress output only.
	Part    float64   `json:"part,omitempty"`
	Bars    *barState `json:"bars,omitempty"`
	Columns bool      `json:"columns,omitempty"`
}

// How a kind of log counts epochs.
const (
	fromOne      = iota // as written
	fromZero            // always one more than written
	fromFirstRow        // one more than written when the first row says 0
)

// epochBase makes epochs count from 1.
type epochBase struct {
	rule int
	zero *bool // known after the first row with an epoch
}

func (b *epochBase) fix(r *Row) {
	e, ok := r.Value(Epoch)
	if !ok || b.rule == fromOne {
		return
	}
	if b.zero == nil {
		zero := b.rule == fromZero || e == 0
		b.zero = &zero
	}
	if *b.zero {
		r.Set(Epoch, e+1)
	}
}

// format is one kind of training log.
type format struct {
	// detect says how sure it is that a text which begins like this is of this kind: 0 no, 100 certainly.
	detect func(h *head) int
	// One of lines, document and records is set.
	lines    func(o *parseOptions) parser
	document func(o *parseOptions) document
	// records reads a log that is no text, and which is over: no Tail follows it. It says how many bytes it read, and how
	// many at the end make no whole record. magic recognises such a file by its first recordHeader bytes, instead of detect.
	records func(path string, o *parseOptions, out sink) (read, behind int64, err error)
	magic   func(first []byte) bool
	// json is true for formats that begin with an object or a list; no other is tried on such a file.
	json bool
	// repeats is true when the same line may rightly come many times, as in progress output.
	repeats bool
	// sparse is true when what belongs to one step is written in several rows, one after the other.
	sparse bool
}

// formats is the register of log formats. To add one: write its file, add its line here and its recording in testdata/formats.
var formats = map[string]format{
	"csv":         {detect: detectContract, lines: newContract},
	"keras":       {detect: detectKeras, lines: newKeras},
	"lightning":   {detect: detectLightning, lines: newLightning, sparse: true},
	"ultralytics": {detect: detectUltralytics, lines: newUltralytics},
	"huggingface": {detect: detectHuggingFace, document: newHuggingFace, json: true, sparse: true},
	"jsonl":       {detect: detectJSONLines, lines: newJSONLines, json: true},
	"observer":    {detect: detectObserver, lines: newObserver, json: true},
	"tensorboard": {magic: isEvents, records: readEvents},
	"stdout":      {detect: detectStdout, lines: newStdout, repeats: true},
}

// Formats lists the names of the log formats that can be forced with TailOptions.Format, sorted. All are read by Scan and
// ReadLog; "tensorboard" is not followed by a Tail: Open refuses it.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for name := range formats {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// parseOptions is what parsers need of TailOptions.
type parseOptions struct {
	aliases  map[string]target
	patterns []*regexp.Regexp
	location *time.Location
}

// resolve finds the target of a column, the user's aliases first.
func (o *parseOptions) resolve(name string) target {
	n := normalizeName(name)
	if t, ok := o.aliases[n]; ok {
		return t
	}
	return resolveName(n)
}

// Limits of what is looked at to find out a format.
const (
	headLines = 200
	headBytes = 64 << 10
)

// head is the beginning of a file: complete lines and what follows them.
type head struct {
	path  string // base name
	lines [][]byte
	rest  []byte // the beginning of an unfinished line
	opts  *parseOptions
}

// first is the first line with something in it, or the unfinished one.
func (h *head) first() []byte {
	for _, l := range h.lines {
		if l := bytes.TrimSpace(l); len(l) > 0 {
			return l
		}
	}
	return bytes.TrimSpace(h.rest)
}

// json reports whether the file begins like a JSON document that is not written line by line, or like an object.
// Progress such as "[3/20]" and "{'loss': 1}" does not.
func (h *head) json() bool {
	f := h.first()
	return len(f) > 0 && (f[0] == '{' || f[0] == '[') && (len(f) == 1 || bytes.IndexByte([]byte("\"{[ \t"), f[1]) >= 0)
}

// all is everything that was read so far.
func (h *head) all() []byte {
	return append(bytes.Join(h.lines, []byte("\n")), h.rest...)
}

// detectFormat names the format that is surest; empty when none recognises the beginning.
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

// recordFormat names the format of a file that is no text by its first bytes; empty when there is none.
func recordFormat(first []byte) string {
	for _, n := range Formats() {
		if magic := formats[n].magic; magic != nil && magic(first) {
			return n
		}
	}
	return ""
}

// fallbackFormat is for a file that nothing recognises: a table when it is called one, else text.
func fallbackFormat(path string) string {
	if strings.HasSuffix(strings.ToLower(path), ".csv") {
		return "csv"
	}
	return "stdout"
}

func checkFormat(name string) error {
	if _, ok := formats[name]; name != "" && !ok {
		return fmt.Errorf("log format %q is not known; there are %s", name, strings.Join(Formats(), ", "))
	}
	return nil
}

// hashText is FNV-1a: stable over processes and machines, unlike hash/maphash.
func hashText[T []byte | string](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix makes one well-spread hash of a key and a value (splitmix64): sums of them may be compared.
func mix(key, v uint64) uint64 {
	h := key*0x9e3779b97f4a7c15 ^ v
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
