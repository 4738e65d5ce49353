package monitor

import (
	"fmt"
	"path/filepath"
	"time"
)

// ingest makes rows of the lines of one log: it finds out the format, parses, counts, and leaves out what was given out
// before. Where the bytes come from, and where the rows go, is the business of a Tail or of Scan.
type ingest struct {
	path  string
	opts  TailOptions
	parse parseOptions
	stats TailStats
	lines splitter

	// The format, empty until detected, and its parser or its document.
	name string
	kind format
	lp   parser
	doc  document
	// The beginning of a file whose format is not yet known.
	head  head
	headN []int // line numbers of head.lines
	headB int   // bytes in head.lines

	seen      memory
	badSeen   map[uint64]bool
	furthest  position
	replaying bool
	waiting   []BadRow // notes of a line that may be a replay
	// Hashes of the first row of this file and of the one before it; rows of this file so far.
	first, before uint64
	fileRows      int

	now  time.Time
	give func(r *Row) // takes each row; it holds during the call
	full func() bool  // no more rows are wanted for now
}

var _ sink = (*ingest)(nil)

// begin checks the options and makes everything ready for the first line.
func (in *ingest) begin(path string, o TailOptions) error {
	if err := checkFormat(o.Format); err != nil {
		return err
	}
	names, err := userAliases(o.Aliases)
	if err != nil {
		return err
	}
	if err := checkPatterns(o.Patterns); err != nil {
		return err
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	setDefault(&o.MaxLine, 1<<20)
	o.Resume = nil
	in.path, in.opts, in.stats = path, o, TailStats{Path: path}
	in.parse = parseOptions{aliases: names, patterns: o.Patterns, location: o.Location}
	in.badSeen = map[uint64]bool{}
	in.lines.maxLine = o.MaxLine
	in.furthest.clear()
	in.forgetHead()
	if o.Format != "" {
		in.use(o.Format)
	}
	return nil
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// report is the account so far.
func (in *ingest) report() TailStats {
	s := in.stats
	s.Format = in.name
	return s
}

// line takes one complete line.
func (in *ingest) line(text []byte, n int) {
	if in.doc != nil {
		return // the rest of what was read when it was recognised
	}
	if text == nil {
		in.bad(n, fmt.Sprintf("longer than %d bytes", in.opts.MaxLine))
		return
	}
	if in.lp != nil {
		in.lp.line(text, n, in)
		if !in.lp.pending() {
			in.lines.commit()
		}
		return
	}
	in.head.lines = append(in.head.lines, append([]byte(nil), text...))
	in.headN = append(in.headN, n)
	in.headB += len(text) + 1
	if len(in.head.lines) == 1 || len(in.head.lines)%8 == 0 || in.headB > headBytes {
		in.detect(false)
	}
}

// detect finds out the format from what was read so far. With final, or when enough was read, it decides.
func (in *ingest) detect(final bool) {
	if in.name != "" {
		return
	}
	in.head.rest = in.lines.partial()
	seen := in.head
	if final {
		seen.lines = append(seen.lines[:len(seen.lines):len(seen.lines)], seen.rest)
	}
	name := detectFormat(&seen)
	if name == "" && (final && len(in.head.lines)+len(in.head.rest) > 0 || len(in.head.lines) >= headLines || in.headB+len(in.head.rest) >= headBytes) {
		name = fallbackFormat(in.head.path)
	}
	if name == "" {
		return
	}
	in.use(name)
	lines, numbers := in.head.lines, in.headN
	in.forgetHead()
	if in.doc != nil { // it is read whole
		return
	}
	for i, text := range lines {
		in.lp.line(text, numbers[i], in)
	}
	if !in.lp.pending() {
		in.lines.commit()
	}
}

// use fixes the format.
func (in *ingest) use(name string) {
	in.name, in.kind = name, formats[name]
	switch {
	case in.kind.document != nil:
		in.doc = in.kind.document(&in.parse)
	case in.kind.lines != nil:
		in.lp = in.kind.lines(&in.parse)
	}
}

func (in *ingest) forgetHead() {
	in.head = head{path: filepath.Base(in.path), opts: &in.parse}
	in.headN, in.headB = nil, 0
}

func (in *ingest) bad(line int, reason string) {
	h := badHash(line, reason)
	if in.replaying && in.badSeen[h] {
		return // counted when it was read for the first time
	}
	if len(in.badSeen) < remembered {
		in.badSeen[h] = true
	}
	in.stats.Bad++
	if len(in.stats.FirstBad) < keptReports {
		in.stats.FirstBad = append(in.stats.FirstBad, BadRow{Line: line, Reason: reason})
	}
}

func badHash(line int, reason string) uint64 { return mix(uint64(line), hashText(reason)) }

// note counts an oddity. In a replay, those of a line wait until it is known whether the line is new.
func (in *ingest) note(line int, reason string) {
	if in.replaying && line > 0 {
		in.waiting = append(in.waiting, BadRow{Line: line, Reason: reason})
		if len(in.waiting) > keptReports {
			in.waiting = in.waiting[:0]
		}
		return
	}
	in.stats.Noted++
	if len(in.stats.FirstNoted) < keptReports {
		in.stats.FirstNoted = append(in.stats.FirstNoted, BadRow{Line: line, Reason: reason})
	}
}

func (in *ingest) wordy() bool { return in.replaying || len(in.stats.FirstNoted) < keptReports }

func (in *ingest) header() { in.stats.Headers++ }

func (in *ingest) enough() bool { return in.full() }

// beginReplay says that rows which come now may have been given out already.
func (in *ingest) beginReplay() {
	if in.fileRows > 0 || !in.replaying {
		in.before = in.first
	}
	in.replaying, in.seen.met = true, false
	in.first, in.fileRows = 0, 0
}

func (in *ingest) row(r *Row, extra uint64) {
	if c, wrong := in.furthest.implausible(r); wrong {
		in.bad(r.Line, fmt.Sprintf("%s %.10g is not plausible", c, r.values[c]))
		return
	}
	h := rowHash(r, extra)
	if in.fileRows++; in.fileRows == 1 {
		in.first = h
	}
	if in.isRepeat(r, h) {
		in.waiting = in.waiting[:0]
		return
	}
	if in.replaying {
		in.replaying = false
		for _, b := range in.waiting {
			in.note(b.Line, b.Reason)
		}
		in.waiting = in.waiting[:0]
	}
	in.seen.add(h)
	before := in.furthest
	if in.furthest.advance(r) && !in.kind.repeats {
		r.Again = true
		in.stats.Again++
		in.noteAgain(r, &before)
	}
	if at, ok := r.Value(TimeSoFar); ok {
		if at < in.furthest.Time {
			in.note(r.Line, fmt.Sprintf("time_so_far goes back from %g to %g", in.furthest.Time, at))
		}
		in.furthest.Time = at
	}
	r.At = in.now
	in.stats.Rows++
	in.stats.LastRow = in.now
	in.give(r)
}

func (in *ingest) noteAgain(r *Row, furthest *position) {
	reason := ""
	if in.wordy() {
		reason = furthest.again(r)
	}
	in.note(r.Line, reason)
}

// isRepeat decides whether the row has been given out before, and counts it.
func (in *ingest) isRepeat(r *Row, h uint64) bool {
	if in.kind.repeats { // progress output may say the same again; only at once it is no news
		return in.seen.count > 0 && in.seen.last() == h
	}
	if !hasPosition(r) {
		return false // rows without epoch, step or time may well be equal
	}
	// A rewritten file begins with the row it began with before; of a long one, only the last rows are
	// remembered, and those before them are known by their position.
	older := in.replaying && in.first == in.before && in.seen.overflowed() && !in.seen.met
	if !in.seen.has(h) && !(older && in.furthest.compare(r) <= 0) {
		return false
	}
	if in.replaying {
		in.stats.Replayed++
	} else {
		in.stats.Duplicates++
		in.note(r.Line, "duplicate row")
	}
	return true
}
