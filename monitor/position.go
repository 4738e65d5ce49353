package monitor

import "fmt"

// position is the furthest point that a log has reached; -1 where unknown.
type position struct {
	Epoch float64 `json:"epoch"`
	Step  float64 `json:"step"`
	Time  float64 `json:"time"` // time_so_far of the last row
	// Said has a bit for each column with a value at this point.
	Said uint32 `json:"said"`
}

func (p *position) clear() { *p = position{Epoch: -1, Step: -1, Time: -1} }

// compare reports whether the row is before (-1), at (0) or beyond (1) the furthest point. A row without epoch and
// step is never before it.
func (p *position) compare(r *Row) int {
	e, hasEpoch := r.Value(Epoch)
	s, hasStep := r.Value(Step)
	switch {
	case hasEpoch && e < p.Epoch:
		return -1
	case hasEpoch && e > p.Epoch:
		return 1
	case hasStep && s < p.Step:
		return -1
	case hasStep && s > p.Step, !hasEpoch && !hasStep:
		return 1
	}
	return 0
}

// results are the columns in which a row can add information about a point already reached.
const results uint32 = 1<<TrainLoss | 1<<TrainAccuracy | 1<<TestLoss | 1<<TestAccuracy | 1<<EpochTime

// advance moves the furthest point. again is true if the row adds nothing: it lies before that point, or at that
// point either with a result already present (the validation row of a step has other results than its training row)
// or without any result or other new column.
func (p *position) advance(r *Row) (again bool) {
	switch p.compare(r) {
	case -1:
		return true
	case 0:
		again = r.has&p.Said&results != 0 || r.has&(results|^p.Said) == 0
		p.Said |= r.has
		return again
	}
	if e, ok := r.Value(Epoch); ok {
		p.Epoch = e
	}
	if s, ok := r.Value(Step); ok {
		p.Step = s
	}
	p.Said = r.has
	return false
}

// Plausibility limits of a training.
const (
	maxEpochs = 1e8
	maxSteps  = 1e15
	maxLeap   = 1000 // factor over the previous epoch or the total
)

// implausible returns a column whose value no training reaches: a clock or an identifier in the wrong column, or
// damage.
func (p *position) implausible(r *Row) (c Column, wrong bool) {
	for _, c := range []Column{Step, TotalSteps} {
		if v, ok := r.Value(c); ok && v > maxSteps {
			return c, true
		}
	}
	for _, c := range []Column{Epoch, TotalEpochs} {
		if v, ok := r.Value(c); ok && v > maxEpochs {
			return c, true
		}
	}
	e, _ := r.Value(Epoch)
	if total, ok := r.Value(TotalEpochs); ok && e > maxLeap*(total+1) || p.Epoch >= 0 && e > maxLeap*maxLeap && e > maxLeap*(p.Epoch+1) {
		return Epoch, true
	}
	return 0, false
}

// again describes how a row repeats the furthest point p.
func (p *position) again(r *Row) string {
	back := p.compare(r) < 0
	name, at, to := "step", p.Step, r.values[Step]
	if e, ok := r.Value(Epoch); ok && !(back && e == p.Epoch) {
		name, at, to = "epoch", p.Epoch, e
	}
	if back {
		return fmt.Sprintf("%s goes back from %g to %g", name, at, to)
	}
	return fmt.Sprintf("%s %g again", name, to)
}
