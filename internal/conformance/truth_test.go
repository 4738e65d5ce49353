package conformance

import (
	"bufio"
	"fmt"
	"io"
	"slices"
)

// mark is one record of a training's own counts, written by trainings/truth.py.
type mark struct {
	at      float64 // monotonic seconds
	pid     int
	steps   float64
	epochs  float64 // 0: the training has no epochs
	samples float64 // 0: the training has no samples
}

// truth is the sequence of counts that all processes of a training recorded, in write order.
type truth []mark

// readTruth reads the records of trainings/truth.py; an incomplete last line is ignored.
func readTruth(r io.Reader) (truth, error) {
	var out truth
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var m mark
		if _, err := fmt.Sscan(lines.Text(), &m.at, &m.pid, &m.steps, &m.epochs, &m.samples); err != nil {
			if !lines.Scan() {
				break
			}
			return nil, fmt.Errorf("read truth: line %d: %w", n, err)
		}
		out = append(out, m)
	}
	return out, lines.Err()
}

// last returns the furthest record, or the zero mark if there are no records.
func (t truth) last() mark {
	if len(t) == 0 {
		return mark{}
	}
	return slices.MaxFunc(t, func(a, b mark) int {
		switch {
		case a.steps < b.steps:
			return -1
		case a.steps > b.steps:
			return 1
		}
		return 0
	})
}

// lives splits the records by process, in order of appearance.
func (t truth) lives() []truth {
	var out []truth
	for _, m := range t {
		at := slices.IndexFunc(out, func(life truth) bool { return life[0].pid == m.pid })
		if at < 0 {
			out, at = append(out, nil), len(out)
		}
		out[at] = append(out[at], m)
	}
	return out
}

// lost returns the maximum number of steps repeated between two consecutive processes of the training. A process that
// began at the first step repeated everything. The result is exact to the spacing of the records, one step.
func (t truth) lost() float64 {
	worst, lives := 0.0, t.lives()
	for i := 1; i < len(lives); i++ {
		worst = max(worst, lives[i-1].last().steps-(lives[i][0].steps-1))
	}
	return worst
}

// rate returns the rate of a count: the work between the first and the last record of each process divided by the time
// between them, summed over processes. It includes pauses for evaluation and saving between steps but not the time
// after the last step. ok is false if no process has three records or the training lacks the count.
func (t truth) rate(count func(mark) float64) (rate float64, ok bool) {
	var work, seconds float64
	for _, life := range t.lives() {
		if len(life) >= 3 {
			first, last := life[0], life[len(life)-1]
			work, seconds = work+count(last)-count(first), seconds+last.at-first.at
		}
	}
	if work <= 0 || seconds <= 0 {
		return 0, false
	}
	return work / seconds, true
}

func countSteps(m mark) float64   { return m.steps }
func countEpochs(m mark) float64  { return m.epochs }
func countSamples(m mark) float64 { return m.samples }
