package observe

import (
	"math"
	"os"
	"regexp"
	"time"

	"trainopt/monitor/trainlog"
)

// output reads progress lines on standard output and standard error. For each count, epochs and steps, one of the two
// streams is the leader: the first that contains it, or the one that contains its total. The count of the other
// stream is ignored: a progress bar on standard error and a table on standard output may both contain "step" with
// different meanings.
type output struct {
	tails  [2]*trainlog.Tail
	seen   [2]extent
	epochs int // stream that leads in epochs; -1 while neither contains any
	steps  int // the same for steps
}

// openOutput opens both streams, at the positions of states if it has any. A pattern replaces the built-in ones. States of other
// files are those of a run that has since moved to another engine: what the files contain was read before.
func openOutput(stdout, stderr string, pattern *regexp.Regexp, states []trainlog.TailState) (*output, error) {
	o := &output{epochs: -1, steps: -1}
	t := trainlog.TailOptions{Format: "stdout", MaxTime: pollTime}
	if pattern != nil {
		t.Patterns = []*regexp.Regexp{pattern}
	}
	for i, path := range []string{stdout, stderr} {
		t.Resume = nil
		moved := i < len(states) && states[i].Path != path
		if i < len(states) && !moved {
			t.Resume = &states[i]
		}
		tail, err := trainlog.Open(path, t)
		if err != nil {
			return nil, err
		}
		o.tails[i] = tail
		for rows := 1; moved && (rows > 0 || tail.Stats().Behind > 0); {
			earlier, err := tail.Finish(time.Now())
			if rows = len(earlier); err != nil {
				break
			}
		}
	}
	return o, nil
}

// poll returns the new rows of both streams.
func (o *output) poll(now time.Time, last bool) (out []trainlog.Row, err error) {
	var rows [2][]trainlog.Row
	for i, t := range o.tails {
		more, e := read(t, now, last)
		if rows[i] = more; err == nil {
			err = e
		}
		o.seen[i].add(more)
	}
	for i := range rows {
		e, s := &o.seen[i], &o.seen[1-i]
		o.epochs = leader(o.epochs, i, e.epoch > 0 || e.epochs > 0, e.epochs > 0, s.epochs > 0)
		o.steps = leader(o.steps, i, e.step > 0 || e.steps > 0, e.steps > 0, s.steps > 0)
	}
	for i := range rows {
		out = append(out, o.leading(i, rows[i])...)
	}
	return out, err
}

// leader returns the leading stream of a count, given the current leader and whether stream contains the count, its
// total, and the other stream a total.
func leader(now, stream int, gives, total, otherTotal bool) int {
	if gives && (now < 0 || total && !otherTotal) {
		return stream
	}
	return now
}

// leading removes from rows the counts in which the other stream leads, and rows that are then empty.
func (o *output) leading(stream int, rows []trainlog.Row) []trainlog.Row {
	var out []trainlog.Column
	if o.epochs == 1-stream {
		out = append(out, trainlog.Epoch, trainlog.TotalEpochs)
	}
	if o.steps == 1-stream {
		out = append(out, trainlog.Step, trainlog.TotalSteps)
	}
	if len(out) == 0 {
		return rows
	}
	kept := rows[:0]
	for _, r := range rows {
		for _, c := range out {
			r.Set(c, math.NaN())
		}
		if hasAny(&r, positionColumns) || hasAny(&r, resultColumns) {
			kept = append(kept, r)
		}
	}
	return kept
}

// positionColumns are the columns that contain the position of a training.
var positionColumns = []trainlog.Column{trainlog.Epoch, trainlog.TotalEpochs, trainlog.Step, trainlog.TotalSteps}

// reached returns the progress contained in the output.
func (o *output) reached() (p extent) {
	p.rows = o.seen[0].rows + o.seen[1].rows
	if o.epochs >= 0 {
		p.epoch, p.epochs = o.seen[o.epochs].epoch, o.seen[o.epochs].epochs
	}
	if o.steps >= 0 {
		p.step, p.steps = o.seen[o.steps].step, o.seen[o.steps].steps
	}
	return p
}

// main returns the tail of the stream that leads, or of standard output.
func (o *output) main() *trainlog.Tail {
	if o.epochs >= 0 {
		return o.tails[o.epochs]
	}
	return o.tails[max(o.steps, 0)]
}

// size returns the number of bytes that the job has printed.
func (o *output) size() (n int64) {
	for _, t := range o.tails {
		if info, err := os.Stat(t.Stats().Path); err == nil {
			n += info.Size()
		}
	}
	return n
}

func (o *output) behind() (n int64) {
	for _, t := range o.tails {
		n += t.Stats().Behind
	}
	return n
}

// states returns the reading positions of both streams.
func (o *output) states() []trainlog.TailState {
	out := make([]trainlog.TailState, len(o.tails))
	for i, t := range o.tails {
		out[i] = t.State()
		out[i].Seen = nil // progress lines may repeat
	}
	return out
}

func (o *output) close() {
	for _, t := range o.tails {
		t.Close()
	}
}

// read polls a tail; last includes an unterminated last line. The rows are dated by the last change of their file.
func read(t *trainlog.Tail, now time.Time, last bool) (rows []trainlog.Row, err error) {
	poll := t.Poll
	if last {
		poll = t.Finish
	}
	if rows, err = poll(now); len(rows) == 0 {
		return rows, err
	}
	info, e := os.Stat(t.Stats().Path)
	if e != nil {
		return rows, err
	}
	if late := now.Sub(info.ModTime()); late.Abs() < maxLate {
		for i := range rows {
			rows[i].At = info.ModTime()
		}
	}
	return rows, err
}

// maxLate is the longest delay of a read for which file times are trusted. A longer one indicates a clock change.
const maxLate = time.Minute
