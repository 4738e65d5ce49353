package transfer

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// ratio is a predicted factor between two configurations of a training, as a logarithm.
type ratio struct {
	Mean, SD float64 // natural logarithm of the factor, and its standard deviation
}

// Ratio predicts the factor between the throughputs of a training at two queries. Their common part cancels, so the ratio
// is more certain than either prediction. The errors are those of Predict.
func (m *Model) Ratio(from, to Query) (ratio, error) {
	t, ok := m.tables[Throughput]
	if !ok || len(t.points) == 0 {
		return ratio{}, fmt.Errorf("compare %s of %s: never measured: %w", Throughput, jobName(to.Job), ErrNoBasis)
	}
	var places [2]place
	for i, q := range []Query{from, to} {
		if places[i], ok = t.index.place(t.index.trait(q.Job), q.Config, site{}); !ok {
			return ratio{}, fmt.Errorf("compare %s of %s: no number of GPUs or CPUs: %w", Throughput, jobName(q.Job), ErrNoBasis)
		}
	}
	points := t.candidates(&places[1])
	if why := missingBasis(&places[1], points, Throughput); why != "" {
		return ratio{}, fmt.Errorf("compare %s of %s: %s: %w", Throughput, jobName(to.Job), why, ErrNoBasis)
	}
	t = t.learnedFor(&places[1], points)
	t.settle(&places[0], points[0].unit, from.Config.Machine)
	t.settle(&places[1], points[0].unit, to.Config.Machine)
	return t.ratio(&places[0], &places[1], points), nil
}

// ratio conditions the difference of two places on the points nearest to the second one.
func (t *table) ratio(from, to *place, points []*point) ratio {
	h, s := &t.hyper, t.rough.of(to)
	sys := t.systemOf(t.nearest(to, points))
	cross, _ := t.crossing(sys, to, s)
	other, _ := t.crossing(sys, from, s)
	floats.Sub(cross, other)
	w := sys.solve(cross)
	prior := h.between(t, to, to).total(s) + h.between(t, from, from).total(s) - 2*h.between(t, to, from).total(s)
	known := min(floats.Dot(w, cross), prior)
	out := ratio{Mean: h.mean(to, t.device(to.gpu)) - h.mean(from, t.device(from.gpu)) + floats.Dot(w, sys.residual),
		SD: math.Sqrt(max(0, prior-known)+1e-6) * h.Width}
	if t.quantity.rate() {
		out.Mean += (to.width - from.width) * math.Ln2
	}
	return out
}

// between returns the prior covariance of two places.
func (h *hyper) between(t *table, a, b *place) parts {
	return h.covariance(a, b, h.jobs(a.trait, b.trait), h.devices(t.device(a.gpu), t.device(b.gpu), a.device == b.device))
}
