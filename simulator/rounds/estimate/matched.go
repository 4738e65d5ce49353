package estimate

import (
	"math"

	"trainopt/simulator/workload"
)

const (
	gavelRank    = 10
	gavelPenalty = 0.01
)

// matched takes the job for one reference, as the original does. A measurement is read from the column that its place in the
// list of references has in the list of all kinds, which is the right one only when all kinds are references.
func (e *Estimator) matched(kind int, where []bool) *Profile {
	refs := len(e.references)
	m := newMatrix(refs+1, e.known.columns)
	copy(m.at, e.known.at)
	row, missing := m.row(refs), false
	for i := range row {
		row[i] = math.NaN()
		if where[i] {
			row[i] = e.part[kind*len(e.devices)*len(e.kinds)+i]
		} else {
			missing = true
		}
	}
	if missing {
		filled := complete(m, gavelRank, gavelPenalty, e.start.draw)
		for i := range row {
			if !where[i] {
				row[i] = clip(filled.row(refs)[i])
			}
		}
	}
	if dot(row, row) == 0 {
		return e.reference(workload.Choice(e.draw, below(refs)))
	}
	return e.reference(e.nearest(row))
}

// nearest is the reference with the smallest cosine distance. One that gets nothing done beside any other has none; it is the nearest
// only when no reference has a distance, and then the first is.
func (e *Estimator) nearest(row []float64) int {
	best, least := 0, math.Inf(1)
	for i := range e.references {
		r := e.known.row(i)
		distance := 1 - dot(r, row)/(math.Sqrt(dot(r, r))*math.Sqrt(dot(row, row)))
		if distance < least {
			best, least = i, distance
		}
	}
	return best
}

// reference is the profile of a job that is taken for a reference.
func (e *Estimator) reference(i int) *Profile {
	refs := len(e.references)
	p := &Profile{likeness: make([]float64, refs), beside: e.known.row(i), others: make([]float64, e.known.columns)}
	p.likeness[i] = 1
	for d := range e.devices {
		for j := range refs {
			p.others[d*refs+j] = e.known.row(j)[d*refs+i]
		}
	}
	return p
}
