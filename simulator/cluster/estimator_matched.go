package cluster

import (
	"math"

	"trainopt/simulator/workload"
)

const (
	gavelRank    = 10
	gavelPenalty = 0.01
)

// matched identifies the job with a single reference, like the original. A measurement is read from the column given
// by its position in the list of references instead of that in the list of all kinds, which is correct only if all
// kinds are references.
func (e *estimator) matched(kind int, where []bool) *pairProfile {
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
				row[i] = min(max(filled.row(refs)[i], 0), 1)
			}
		}
	}
	if dot(row, row) == 0 {
		return e.reference(workload.Choice(e.draw, below(refs)))
	}
	return e.reference(e.nearest(row))
}

// nearest returns the reference with the smallest cosine distance. A reference without any throughput beside others
// has no distance; if none has one, the first is returned.
func (e *estimator) nearest(row []float64) int {
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

// reference returns the profile of a job that is identified with a reference.
func (e *estimator) reference(i int) *pairProfile {
	refs := len(e.references)
	p := &pairProfile{likeness: make([]float64, refs), beside: e.known.row(i), others: make([]float64, e.known.columns)}
	p.likeness[i] = 1
	for d := range e.devices {
		for j := range refs {
			p.others[d*refs+j] = e.known.row(j)[d*refs+i]
		}
	}
	return p
}

// leastSpread is the minimum standard deviation of a measurement, as a relative throughput.
const leastSpread = 1e-3

// resembling represents the job as a mixture of the references. The weights follow from the mean squared distance
// between its measurements and those of each reference: a normal likelihood with the variance of the nearest
// reference, so that a job that equals a reference is identified with it, and a job that resembles none is assigned
// to several. Each measurement counts in both directions: the throughput of the job beside the reference and that of
// the reference. Values that were not measured are those of the mixture. O(references² · device types).
func (e *estimator) resembling(kind int, where []bool) *pairProfile {
	refs := len(e.references)
	measured := func(i int) (mine, others float64) {
		d, other := i/refs, e.references[i%refs]
		return e.true(kind, d, other), e.true(other, d, kind)
	}
	distance := make([]float64, refs) // mean of squares
	least, count := math.Inf(1), 0
	for _, w := range where {
		if w {
			count++
		}
	}
	for j := range refs {
		for i, w := range where {
			if w {
				mine, others := measured(i)
				x := mine - e.known.row(j)[i]
				y := others - e.known.row(i % refs)[i/refs*refs+j]
				distance[j] += (x*x + y*y) / float64(2*count)
			}
		}
		least = min(least, distance[j])
	}
	p := &pairProfile{likeness: make([]float64, refs), beside: make([]float64, len(where)), others: make([]float64, len(where))}
	total := 0.0
	for j := range refs {
		p.likeness[j] = math.Exp(-float64(count) * (distance[j] - least) / (2 * (least + leastSpread*leastSpread)))
		total += p.likeness[j]
	}
	for j := range refs {
		p.likeness[j] /= total
	}
	for i, w := range where {
		if w {
			p.beside[i], p.others[i] = measured(i)
			continue
		}
		for j, l := range p.likeness {
			p.beside[i] += l * e.known.row(j)[i]
			p.others[i] += l * e.known.row(i % refs)[i/refs*refs+j]
		}
	}
	return p
}
