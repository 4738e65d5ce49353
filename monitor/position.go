package monitor

import "fmt"

// position is the furthest point that a log has reached; -1 where it has not said.
type position struct {
	Epoch float64 `json:"epoch"`
	Step  float64 `json:"step"`
	Time  float64 `json:"time"` // time_so_far of the last row
	// Said has a bit for each result column that was given at this point.
	Said uint32 `json:"said"`
}

func (p *position) clear() { *p = position{Epoch: -1, Step: -1, Time: -1} }

// compare tells whether the row is before (-1), at (0) or beyond (1) the furthest point. A row that says
// neither epoch nor step is never before.
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

// advance moves the furthest point. again is true when the row says what had been said: it lies before that
// point, or at it with a result that was given there already (the validation row of a step has others than its
// training row); from says so in words.
func (p *position) advance(r *Row) (again bool, from string) {
	said := uint32(0)
	for _, c := range []Column{TrainLoss, TrainAccuracy, TestLoss, TestAccuracy, EpochTime} {
		if _, ok := r.Value(c); ok {
			said |= 1 << c
		}
	}
	e, hasEpoch := r.Value(Epoch)
	s, hasStep := r.Value(Step)
	switch p.compare(r) {
	case -1:
		if hasEpoch {
			return true, fmt.Sprintf("epoch goes back from %g to %g", p.Epoch, e)
		}
		return true, fmt.Sprintf("step goes back from %g to %g", p.Step, s)
	case 0:
		again = said&p.Said != 0 || said == 0
		p.Said |= said
		if hasEpoch {
			return again, fmt.Sprintf("epoch %g again", e)
		}
		return again, fmt.Sprintf("step %g again", s)
	}
	if hasEpoch {
		p.Epoch = e
	}
	if hasStep {
		p.Step = s
	}
	p.Said = said
	return false, ""
}
