package trainlog

import (
	"fmt"
	"path/filepath"
	"time"
)

// ingest converts the lines of one log to rows: it detects the format, parses, keeps the statistics, and skips rows
// that were returned before. Tail and Scan provide the bytes and receive the rows.
type ingest struct {
	path  string
	opts  TailOptions
	parse parseOptions
	stats TailStats
	lines splitter

	// Format, empty until detected, and its line parser or document parser.
	name string
	kind format
	lp   parser
	doc  document
	// Beginning of a file whose format is not yet known.
	head  head
	headN []int // line numbers of head.lines
	headB int   // bytes in head.lines

	seen      recentRows
	texts     textHashes
	badSeen   map[uint64]bool
	furthest  position
	replaying bool
	again     bool     // the job started again: until a row beyond all earlier ones, equal rows are work done again
	waiting   []BadRow // notes of a line that may be a replay
	// Hashes of the first row of this file and of the previous one; number of rows of this file.
	first, before uint64
	fileRows      int

	now     time.Time
	deliver func(r *Row) // receives each row, which is valid during the call
	full    func() bool  // reports whether the batch limit is reached
}

var _ sink = (*ingest)(nil)

// begin validates the options and initialises the state for the first line.
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

// setDefault sets *v to def unless it is positive.
func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// report returns the statistics so far.
func (in *ingest) report() TailStats {
	s := in.stats
	s.Format = in.name
	return s
}

// feed passes bytes to the splitter, as splitter.feed does, and notes the first NUL bytes of the log.
func (in *ingest) feed(chunk []byte, emit func(text []byte, n int)) int {
	before := in.lines.nuls
	used := in.lines.feed(chunk, emit)
	if before == 0 && in.lines.nuls > 0 {
		in.note(in.lines.n, "NUL bytes left out")
	}
	return used
}

// line processes one complete line. Until the format is known, lines are collected and detection is retried after the
// first and every eighth line.
func (in *ingest) line(text []byte, n int) {
	if in.doc != nil {
		return // the rest of the chunk in which the document was recognised
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

// detect determines the format from the lines so far. With final, or once the limits of the head are reached, it
// falls back to a default format. The collected lines are then parsed.
func (in *ingest) detect(final bool) {
	if in.name != "" {
		return
	}
	in.head.rest = in.lines.buf
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
	if in.doc != nil { // a document is read whole
		return
	}
	for i, text := range lines {
		in.lp.line(text, numbers[i], in)
	}
	if !in.lp.pending() {
		in.lines.commit()
	}
}

// use sets the format and creates its parser.
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

// bad counts a bad line and keeps the first ones; a line counted before a reset is not counted again.
func (in *ingest) bad(line int, reason string) {
	h := badHash(line, reason)
	if in.replaying && in.badSeen[h] {
		return // counted when first read
	}
	if len(in.badSeen) < maxRecentRows {
		in.badSeen[h] = true
	}
	in.stats.Bad++
	if len(in.stats.FirstBad) < maxKeptReports {
		in.stats.FirstBad = append(in.stats.FirstBad, BadRow{Line: line, Reason: reason})
	}
}

func badHash(line int, reason string) uint64 { return mix(uint64(line), hashText(reason)) }

// note counts an oddity. During a replay, notes of a line are held until it is known whether the line is new.
func (in *ingest) note(line int, reason string) {
	if in.replaying && line > 0 {
		in.waiting = append(in.waiting, BadRow{Line: line, Reason: reason})
		if len(in.waiting) > maxKeptReports {
			in.waiting = in.waiting[:0]
		}
		return
	}
	in.stats.Noted++
	if len(in.stats.FirstNoted) < maxKeptReports {
		in.stats.FirstNoted = append(in.stats.FirstNoted, BadRow{Line: line, Reason: reason})
	}
}

func (in *ingest) wantsDetail() bool {
	return in.replaying || len(in.stats.FirstNoted) < maxKeptReports
}

func (in *ingest) header() { in.stats.Headers++ }

func (in *ingest) batchFull() bool { return in.full() }

// beginReplay marks the following rows as possible repetitions of rows already returned.
func (in *ingest) beginReplay() {
	if in.fileRows > 0 || !in.replaying {
		in.before = in.first
	}
	in.replaying, in.seen.recurred = true, false
	in.first, in.fileRows = 0, 0
}

// row filters and completes one row: it rejects implausible values, skips repetitions, ends a replay at the first new
// row, updates the furthest position and passes the row on.
func (in *ingest) row(r *Row, extra uint64) {
	if c, wrong := in.furthest.implausible(r); wrong {
		in.bad(r.Line, fmt.Sprintf("%s %.10g is not plausible", c, r.values[c]))
		return
	}
	h := rowHash(r, extra) + in.texts.of(r)
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
		r.Repeated = true
		in.stats.Repeated++
		in.noteRepeat(r, &before)
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
	in.deliver(r)
}

func (in *ingest) noteRepeat(r *Row, furthest *position) {
	reason := ""
	if in.wantsDetail() {
		reason = furthest.describeRepeat(r)
	}
	in.note(r.Line, reason)
}

// isRepeat reports whether the row has been returned before, and counts it as replayed or duplicate.
func (in *ingest) isRepeat(r *Row, h uint64) bool {
	if in.kind.repeats { // progress output may repeat a row; only consecutive equal rows are repetitions
		return in.seen.count > 0 && in.seen.last() == h
	}
	if !hasPosition(r) {
		return false // rows without epoch, step or time may be equal by chance
	}
	if in.again && !in.replaying {
		in.again = in.furthest.compare(r) <= 0
		return false
	}
	// A rewritten file begins with the same row as before. If it has more rows than are remembered, the earlier ones
	// are recognised by their position.
	older := in.replaying && in.first == in.before && in.seen.overflowed() && !in.seen.recurred
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
