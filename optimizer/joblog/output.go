package joblog

import (
	"math"
	"os"
	"regexp"
	"time"

	"trainopt/monitor"
)

// output reads progress lines on standard output and standard error. One of the two leads: the first that gives progress,
// or the one that knows the total. The other adds results, but no position: a bar on standard error and a table on standard
// output count different things.
type output struct {
	tails [2]*monitor.Tail
	seen  [2]reached
	lead  int // -1 while neither gave progress
}

func openOutput(stdout, stderr string, pattern *regexp.Regexp) (*output, error) {
	o := &output{lead: -1}
	t := monitor.TailOptions{Format: "stdout", MaxTime: pollTime}
	if pattern != nil {
		t.Patterns = []*regexp.Regexp{pattern}
	}
	for i, path := range []string{stdout, stderr} {
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
	o.choose()
	for i := range rows {
		if i != o.lead {
			rows[i] = withoutPosition(rows[i])
		}
		out = append(out, rows[i]...)
	}
	return out, err
}

// choose decides which stream leads.
func (o *output) choose() {
	total := func(i int) bool { return o.seen[i].epochs > 0 || o.seen[i].steps > 0 }
	for i := range o.tails {
		switch {
		case !o.seen[i].advances():
		case o.lead < 0, !total(o.lead) && total(i):
			o.lead = i
		}
	}
}

// reached is how far the leading stream has come.
func (o *output) reached() reached {
	if o.lead < 0 {
		return reached{}
	}
	return o.seen[o.lead]
}

// withoutPosition leaves only results in rows, and none without one.
func withoutPosition(rows []monitor.Row) []monitor.Row {
	kept := rows[:0]
	for _, r := range rows {
		for _, c := range []monitor.Column{monitor.Epoch, monitor.TotalEpochs, monitor.Step, monitor.TotalSteps} {
			r.Set(c, math.NaN())
		}
		if hasAny(&r, resultColumns) {
			kept = append(kept, r)
		}
	}
	return kept
}

// leading is the tail of the stream that leads, or of standard output.
func (o *output) leading() *monitor.Tail { return o.tails[max(o.lead, 0)] }

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

func (o *output) close() {
	for _, t := range o.tails {
		t.Close()
	}
}

// read polls a tail; last takes a line without an end too.
func read(t *monitor.Tail, now time.Time, last bool) ([]monitor.Row, error) {
	if last {
		return t.Finish(now)
	}
	return t.Poll(now)
}
