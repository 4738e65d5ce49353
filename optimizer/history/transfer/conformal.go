package transfer

import (
	"math"
	"slices"
)

// Questions about a training on a device on which it was measured are near, all others are far. Both are answered from
// the same points, with hyper-parameters of their own: those that predict an unseen device best do not predict a
// further GPU count or batch size best, because neither set of assumptions holds exactly.
const (
	near = iota
	far
)

// distance returns near or far for a place and the points that an estimate may use.
func distance(p *place, points []*point) int {
	if slices.ContainsFunc(points, p.measuredBy) {
		return near
	}
	return far
}

// measuredBy reports whether a point is of the training and the device of a place.
func (p *place) measuredBy(q *point) bool {
	return q.trait.dataset == p.trait.dataset && p.trait.dataset > 0 && q.device == p.device
}

// calibrate sets the factor on the widths to the conformal one (Lei et al., JASA 2018): nine of ten errors of the
// groups of some kinds, each left out in turn, are inside. Points are predicted as for a user, with everything learned
// from the visible ones alone.
func (f *fitting) calibrate(h *hyper, kinds []string, logf func(string, ...any)) {
	var z []float64 // errors in standard deviations
	for i := range f.hidden {
		g := &f.hidden[i]
		all := slices.DeleteFunc(slices.Clone(f.all), func(q point) bool { return g.hides(&q) })
		if len(all) == 0 || !slices.Contains(kinds, g.kind) {
			continue
		}
		t := newTable(f.quantity, *h, f.index, f.known, all)
		t.learn()
		visible := t.all
		for k, n := range g.points {
			p := &f.points[n]
			if g.scored != nil && !g.scored[k] || missingBasis(&p.place, visible, f.quantity) != "" {
				continue
			}
			r := t.regress(&p.place, visible)
			z = append(z, math.Abs(p.y-r.mean)/math.Sqrt(r.variance))
		}
	}
	n := len(z)
	if at := int(math.Ceil(0.9 * float64(n+1))); at <= n {
		slices.Sort(z)
		h.Width = z[at-1] / intervalSigma
		logf("%d predictions: widths ×%.3g", n, h.Width)
	}
}
