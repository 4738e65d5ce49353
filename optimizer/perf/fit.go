package perf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
)

// errNoData is returned when no usable observation exists.
var errNoData = errors.New("no usable observation")

// FitOptions tunes a fit. The zero value is useful.
type FitOptions struct {
	// Form is the family of curves: "amdahl", "pollux", or empty for pollux when any observation has a GPU and amdahl
	// otherwise.
	Form string
	// GPUsPerNode is the number of GPUs per node when the job may span several nodes; 0 means one node.
	GPUsPerNode int
	// Seed selects the fixed set of posterior draws; 0 is valid.
	Seed uint64
	// Widen multiplies the distance of the posterior draws from their median, in the logarithm of the seconds. Values
	// above 1 correct earlier overconfident predictions. 0 means 1.
	Widen float64
	// Unsettled is true if the measured units may be the slow first ones of the job (compilation, caches being filled):
	// a share of the draws is then faster, up to fastestLater times.
	Unsettled bool
}

// The draws of an unsettled pace: in slowStartShare of them the later units are faster than the measured ones, by a
// log-uniform factor up to fastestLater, so that the 5 % quantile is about fastestLater^(5/6) = 46 times faster.
const (
	slowStartShare = 0.3
	fastestLater   = 100
)

// maxSegments bounds the time of a fit. Beyond it, the oldest recalled observations are dropped first, then the
// oldest of this run.
const maxSegments = 32

// Fit estimates seconds per unit of work as a function of the allocation. Units whose time is not positive and finite
// are dropped; observations of the same allocation are separate evidence. The unit of work is that of the first
// observation of this run (not recalled), the reference; observations with another number of samples per unit are
// converted to it.
//
// Fit returns errNoData (errors.Is) when no unit remains, and an error for an unknown form. O(n³) in the number of
// observations for each of about 3,000 evaluations; milliseconds for a dozen observations.
func Fit(obs []Observation, o FitOptions) (*Model, error) {
	peak := peakMemory(obs)
	obs = slices.DeleteFunc(slices.Clone(obs), func(o Observation) bool { return o.LiveCut })
	stretches, noise := summarise(obs)
	if len(stretches) == 0 {
		return nil, fmt.Errorf("fit performance model: %d observations: %w", len(obs), errNoData)
	}
	stretches = newest(stretches)
	name := o.Form
	if name == "" {
		name = "amdahl"
		for _, s := range stretches {
			if s.at.GPUs > 0 {
				name = "pollux"
			}
		}
	}
	newForm, ok := forms[name]
	if !ok {
		return nil, fmt.Errorf("fit performance model: no form named %q, want %s", name, strings.Join(slices.Sorted(maps.Keys(forms)), " or "))
	}
	ref := stretches[0]
	for _, s := range stretches {
		if !s.recalled {
			ref = s
			break
		}
	}
	normaliseUnits(stretches, &ref)
	m := &Model{
		form: name, options: o, observed: obs, stretches: stretches, noise: noise,
		samples: ref.samples, pointer: newPointer(stretches, ref.at), peak: peak, known: make(map[point]*prediction),
	}
	ctx := formContext{ref: m.pointer.at(ref.at), gpusPerNode: o.GPUsPerNode, gradientRate: takeGradients(stretches)}
	m.curve = newForm(ctx)
	m.fit(newPosterior(m.curve, ctx, stretches, m.pointer, noise))
	return m, nil
}

// newest keeps at most maxSegments segments: the latest of this run first, then the latest recalled ones.
func newest(all []segment) []segment {
	if len(all) <= maxSegments {
		return all
	}
	keep := make(map[int]bool)
	for _, recalled := range []bool{false, true} {
		for i := len(all) - 1; i >= 0 && len(keep) < maxSegments; i-- {
			if all[i].recalled == recalled {
				keep[i] = true
			}
		}
	}
	var out []segment
	for i, s := range all {
		if keep[i] {
			out = append(out, s)
		}
	}
	return out
}

// normaliseUnits converts every segment to the reference's samples per unit where both are known.
func normaliseUnits(stretches []segment, ref *segment) {
	if ref.samples == 0 {
		for _, s := range stretches {
			if s.samples > 0 && s.recalled == ref.recalled {
				ref.samples = s.samples
				break
			}
		}
	}
	for i, s := range stretches {
		if s.samples > 0 && ref.samples > 0 {
			stretches[i].logMean -= math.Log(s.samples / ref.samples)
		}
	}
}

// peakMemory returns the largest measured peak in GiB, NaN without a measurement.
func peakMemory(obs []Observation) float64 {
	peak := math.NaN()
	for _, o := range obs {
		if o.PeakMemoryGiB > 0 && !math.IsInf(o.PeakMemoryGiB, 0) && !(o.PeakMemoryGiB <= peak) {
			peak = o.PeakMemoryGiB
		}
	}
	return peak
}

// draw is one sample of all unknowns.
type draw struct {
	level float64 // log seconds per unit at the reference, less the shape of the form there
	nat   []float64
	drift float64 // of the long remainder, standard normal, common to all allocations
	delta float64
	own   []float64 // offsets of the measured allocations, in the order of Model.places
	pools float64   // offset of unmeasured thread or worker settings
}

// fit finds the posterior modes, down-weights outliers in up to outlierRounds rounds, samples the parameters and
// completes each sample to a draw. The search starts at the prior mean and at the second component of each mixed
// prior.
func (m *Model) fit(p *posterior) {
	d := p.dim()
	starts := [][]float64{make([]float64, d)}
	for i, q := range p.params { // and one start per second prior component
		if q.other.weight > 0 {
			z := make([]float64, d)
			z[i] = (q.other.mean - q.mean) / q.sd
			starts = append(starts, z)
		}
	}
	modes, values := make([][]float64, len(starts)), make([]float64, len(starts))
	climb := func() {
		for i := range starts {
			modes[i], values[i] = p.mode(starts[i])
		}
	}
	climb()
	best := modes[floats.MaxIdx(values)]
	for round := range outlierRounds {
		if !p.reweigh(best) {
			break
		}
		if round == outlierRounds-1 {
			climb()
		} else {
			best, _ = p.mode(best)
		}
	}
	zs := p.sample(modes, values, m.options.Seed)
	rng := rand.New(rand.NewPCG(m.options.Seed, 0xd1b54a32d192ed03))
	m.places = p.places
	m.draws = make([]draw, len(zs))
	drift := stratifiedNormals(len(zs), rng)
	for i := range m.waves {
		m.waves[i] = make([]float64, len(zs))
	}
	for k, z := range zs {
		d, waves := p.complete(z, drift[k], rng)
		m.draws[k] = d
		for i, x := range waves {
			m.waves[i][k] = x
		}
	}
	if m.options.Unsettled {
		fast := slowStartShare * float64(len(zs))
		for i, k := range rng.Perm(len(zs))[:int(fast)] {
			m.draws[k].level -= math.Log(fastestLater) * (float64(i) + 0.5) / fast
		}
	}
}

// reweigh updates the trust of each segment from its leave-one-out residual at z, as in the expectation step for
// Student errors with outlierFreedom degrees of freedom. The scales are kept near their priors, since an outlier
// would otherwise be hidden by the large scatter that it causes. Fewer than four segments cannot identify an outlier.
// reweigh reports whether any trust or offset variance changed by more than 5 %.
func (p *posterior) reweigh(z []float64) bool {
	n := len(p.stretches)
	tau, delta := p.unpack(z)
	tau, delta = min(tau, math.Exp(scalePriors[0].mean)), min(delta, math.Exp(scalePriors[1].mean))
	changed := p.updateOffsetVariances(tau, delta)
	if n < 4 || !p.covariance(tau, delta) {
		return changed
	}
	forward(p.cov, p.resid, p.half)
	trust, e := make([]float64, n), make([]float64, n)
	for i := range n {
		clear(e)
		e[i] = 1
		forward(p.cov, e, e)
		var precision, weighted float64
		for k := range n {
			precision += e[k] * e[k]
			weighted += e[k] * p.half[k]
		}
		loo := weighted / precision                      // residual given the others
		spare := 1/precision - p.errorVariance(i, delta) // variance of the leave-one-out prediction
		s := &p.stretches[i]
		r2 := loo * loo / (max(spare, 0) + p.noise*p.noise/s.n + s.doubt*s.doubt + delta*delta)
		trust[i] = min(1, (outlierFreedom+1)/(outlierFreedom+r2))
	}
	for i := range n {
		if math.Abs(trust[i]-p.stretches[i].trust) > 0.05*p.stretches[i].trust {
			changed = true
		}
		p.set(&p.stretches[i].trust, trust[i])
	}
	return changed
}

// contradictionSigmas is the number of standard errors by which the measurements at an allocation must differ from the
// prediction of the form and the other measurements to take precedence over the form.
const contradictionSigmas = 2

// updateOffsetVariances estimates the variance of each allocation's own offset by empirical Bayes: the excess, beyond chance,
// of its deviation from the prediction of the form at the current parameters and the other measurements. It reports
// whether any variance changed by more than 5 %. A single allocation never contradicts. O(allocations × n³).
func (p *posterior) updateOffsetVariances(tau, delta float64) bool {
	if len(p.places) < 2 {
		return false
	}
	changed, found := false, make([]float64, len(p.places))
	member := make([]float64, len(p.stretches))
	for g := range p.places {
		before := p.own[g]
		p.set(&p.own[g], 0)
		ok := p.covariance(tau, delta)
		found[g] = before
		if !ok {
			p.set(&p.own[g], before)
			continue
		}
		clear(member)
		for i, at := range p.place {
			if at == g {
				member[i] = 1
			}
		}
		forward(p.cov, member, member)
		forward(p.cov, p.resid, p.half)
		p.set(&p.own[g], before)
		var precision, weighted float64
		for i, x := range member {
			precision += x * x
			weighted += x * p.half[i]
		}
		offset := weighted / precision
		found[g] = max(p.prior[g], offset*offset-contradictionSigmas*contradictionSigmas/precision)
		changed = changed || math.Abs(found[g]-before) > 0.05*before
	}
	for g, variance := range found {
		p.set(&p.own[g], variance)
	}
	return changed
}

// stratifiedNormals returns n standard normal numbers, one from each n-quantile, in random order.
func stratifiedNormals(n int, rng *rand.Rand) []float64 {
	out := make([]float64, n)
	for i, k := range rng.Perm(n) {
		out[i] = normalQuantile((float64(k) + 0.5) / float64(n))
	}
	return out
}

// complete draws the discrepancy given the parameters by Matheron's rule (pathwise conditioning, Wilson et al. 2020):
// a draw of the prior, corrected by its residuals at the segments. The correction is the prior covariance with the
// segments times the inverse covariance of the residuals, by two triangular solves.
func (p *posterior) complete(z []float64, drift float64, rng *rand.Rand) (d draw, waves [features]float64) {
	tau, delta := p.unpack(z)
	d = draw{nat: slices.Clone(p.nat), own: make([]float64, len(p.places)), drift: drift, delta: delta}
	level := levelPrior * rng.NormFloat64()
	for i := range waves {
		waves[i] = tau * rng.NormFloat64()
	}
	offset := recalledOffset * rng.NormFloat64()
	ok := p.covariance(tau, delta)
	for g := range d.own {
		d.own[g] = math.Sqrt(p.own[g]) * rng.NormFloat64()
	}
	d.pools = math.Sqrt(knobOffsetVariance) * rng.NormFloat64()
	effects := p.drawEffects(rng)
	prior, miss := make([]float64, len(p.places)), p.half
	for g := range prior {
		prior[g] = dot(&waves, &p.phi[g])
	}
	for i, g := range p.place {
		miss[i] = p.resid[i] - effects[i] - level - prior[g] - d.own[g] - math.Sqrt(p.errorVariance(i, delta))*rng.NormFloat64()
		if p.stretches[i].recalled {
			miss[i] -= offset
		}
	}
	d.level = p.level + level - p.shapes[p.ref]
	if !ok {
		return d, waves
	}
	forward(p.cov, miss, miss)
	backward(p.cov, miss)
	for i, g := range p.place {
		d.level += levelPrior * levelPrior * miss[i]
		d.own[g] += p.own[g] * miss[i]
		for j, x := range p.phi[g] {
			waves[j] += tau * tau * x * miss[i]
		}
	}
	return d, waves
}
