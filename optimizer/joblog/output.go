package joblog

import (
	"math"
	"os"
	"regexp"
	"time"

	"trainopt/monitor"
)

// output reads progress lines on standard output and standard error. Of each count, epochs and steps, one of the two leads:
// the first that gives it, or the one that knows its total. From the other the count is left out: a bar on standard error
// and a table on standard output may both say "step" and mean different things.
type output struct {
	tails  [2]*monitor.Tail
	seen   [2]reached
	epochs int // stream that leads in epochs; -1 while neither gave any
	steps  int // likewise in steps
}

func openOutput(stdout, stderr string, pattern *regexp.Regexp, states []monitor.TailState) (*output, error) {
	o := &output{epochs: -1, steps: -1}
	t := monitor.TailOptions{Format: "stdout", MaxTime: pollTime}
	if pattern != nil {
		t.Patterns = []*regexp.Regexp{pattern}
	}
	for i, path := range []string{stdout, stderr} {
		t.Resume = nil
		if i < len(states) {
			t.Resume = &states[i]
		}
		tail, err := monitor.Open(path, t)
		if err != nil {
			return nil, err
		}
		o.tails[i] = tail
	}
	return o, nil
}

// poll returns the new rows of both streams.
func (o *output) poll(now time.Time, last bool) (out []monitor.Row, err error) {
	var rows [2][]monitor.Row
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

// leader decides whether a stream takes the lead in a count that it gives.
func leader(now, stream int, gives, total, otherTotal bool) int {
	if gives && (now < 0 || total && !otherTotal) {
		return stream
	}
	return now
}

// leading leaves out of rows the counts in which the other stream leads, and rows in which nothing is left.
func (o *output) leading(stream int, rows []monitor.Row) []monitor.Row {
	var out []monitor.Column
	if o.epochs == 1-stream {
		out = append(out, monitor.Epoch, monitor.TotalEpochs)
	}
	if o.steps == 1-stream {
		out = append(out, monitor.Step, monitor.TotalSteps)
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

// positionColumns are those that tell where a training is.
var positionColumns = []monitor.Column{monitor.Epoch, monitor.TotalEpochs, monitor.Step, monitor.TotalSteps}

// reached is how far the output has come.
func (o *output) reached() (p reached) {
	p.rows = o.seen[0].rows + o.seen[1].rows
	if o.epochs >= 0 {
		p.epoch, p.epochs = o.seen[o.epochs].epoch, o.seen[o.epochs].epochs
	}
	if o.steps >= 0 {
		p.step, p.steps = o.seen[o.steps].step, o.seen[o.steps].steps
	}
	return p
}

// main is the tail of the stream that tells the progress, or of standard output.
func (o *output) main() *monitor.Tail {
	if o.epochs >= 0 {
		return o.tails[o.epochs]
	}
	return o.tails[max(o.steps, 0)]
}

// size is how many bytes the job has printed.
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

// states are how far both streams were read.
func (o *output) states() []monitor.TailState {
	out := make([]monitor.TailState, len(o.tails))
	for i, t := range o.tails {
		out[i] = t.State()
		out[i].Seen = nil // lines of progress may repeat
	}
	return out
}

func (o *output) close() {
	for _, t := range o.tails {
		t.Close()
	}
}

// read polls a tail; last takes a line without an end too. The rows are dated by the last change of their file.
func read(t *monitor.Tail, now time.Time, last bool) (rows []monitor.Row, err error) {
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

// maxLate is the longest delay of a read with which file times are trusted. A longer one is a change of the clock.
const maxLate = time.Minute
