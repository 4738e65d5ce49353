package morl

import (
	"slices"

	"trainopt/morl/pareto"
)

// Evaluator tells exactly what a policy earns: problems whose model is known implement it.
type Evaluator interface {
	// Return is the expected discounted return of a deterministic stationary policy, one number an objective.
	Return(policy func(state []float32, mask []bool) int, gamma float64) []float64
}

// Reached is a point that an agent's policy earns, with the preference for which it does.
type Reached struct {
	Value      []float64
	Preference []float32
}

// FrontOptions say for which preferences an agent is asked.
type FrontOptions struct {
	Gamma float64 // 0: 0.99
	// Preferences is how many are asked in the first round, default 101 for two objectives, else 200 an objective.
	Preferences int
	Seed        uint64 // of the preferences, with more than two objectives
}

// Front is what an agent's greedy policies earn over preferences, the non-dominated points only, in ascending order of the
// first objective. With two objectives the preferences are equally spaced, and then every interval at whose ends the
// agent earns different returns is halved down to 1e-5, so that a policy that is chosen in a narrow interval only is
// found; otherwise they are the unit vectors and uniform draws from the simplex.
func Front(a Agent, e Evaluator, o FrontOptions) []Reached {
	if o.Gamma == 0 {
		o.Gamma = 0.99
	}
	m := len(a.Shape().Objectives)
	f := &fronting{agent: a, problem: e, gamma: o.Gamma}
	n := o.Preferences
	if m == 2 {
		if n == 0 {
			n = 101
		}
		last := f.ask([]float32{0, 1})
		for i := 1; i < n; i++ {
			w := float32(i) / float32(n-1)
			next := f.ask([]float32{w, 1 - w})
			f.halve(last, next)
			last = next
		}
		return f.found
	}
	if n == 0 {
		n = 200 * m
	}
	rng := stream(o.Seed, 0xf407)
	for i := range m + n {
		w := make([]float32, m)
		if i < m {
			w[i] = 1
		} else {
			UniformPreference(w, rng)
		}
		f.ask(w)
	}
	return f.found
}

// Corners are the preferences that matter most for learning a front: for which its points are reached and, with two
// objectives, at which neighbours on it tie. If a point between them is missing, it is best there (the corner weights
// of optimistic linear support, Roijers, Whiteson, Oliehoek 2015).
func Corners(front []Reached) [][]float32 {
	var out [][]float32
	for i, r := range front {
		out = append(out, r.Preference)
		if i == 0 || len(r.Value) != 2 {
			continue
		}
		a, b := front[i-1].Value, r.Value
		rise, fall := b[0]-a[0], a[1]-b[1]
		w := float32(fall / (rise + fall))
		out = append(out, []float32{w, 1 - w})
	}
	return out
}

type fronting struct {
	agent   Agent
	problem Evaluator
	gamma   float64
	found   []Reached
}

// ask adds what the agent earns for a preference to the front.
func (f *fronting) ask(w []float32) Reached {
	r := Reached{Preference: w, Value: f.problem.Return(func(state []float32, mask []bool) int {
		return f.agent.Act(Observation{State: state, Mask: mask}, w, false)
	}, f.gamma)}
	for _, known := range f.found {
		if slices.Equal(known.Value, r.Value) {
			return r
		}
	}
	all := append(slices.Clone(f.found), r)
	points := make([][]float64, len(all))
	for i, p := range all {
		points[i] = p.Value
	}
	f.found = f.found[:0]
	for _, i := range pareto.Front(points) {
		f.found = append(f.found, all[i])
	}
	slices.SortFunc(f.found, func(a, b Reached) int { return slices.Compare(a.Value, b.Value) })
	return r
}

// halve looks for what the agent earns between two preferences, with two objectives.
func (f *fronting) halve(a, b Reached) {
	if slices.Equal(a.Value, b.Value) || b.Preference[0]-a.Preference[0] < 1e-5 {
		return
	}
	w := (a.Preference[0] + b.Preference[0]) / 2
	middle := f.ask([]float32{w, 1 - w})
	f.halve(a, middle)
	f.halve(middle, b)
}
