package estimate

import "math"

// leastSpread is how far apart, at least, two measurements of the same may be, as parts of what a job does alone.
const leastSpread = 1e-3

// resembling takes the job for a mixture of the references. How much of each follows from how far its measurements are from those of the
// reference, in the mean over what was measured: a normal likelihood whose variance is that of the nearest reference, so that a job that is
// one of the references is taken for that one, and a job that is like none for several. A measurement counts in both directions: what
// the job gets done beside the reference and what the reference gets done. What was not measured is the mixture's.
// O(references² · device types).
func (e *Estimator) resembling(kind int, where []bool) *Profile {
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
	p := &Profile{likeness: make([]float64, refs), beside: make([]float64, len(where)), others: make([]float64, len(where))}
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
