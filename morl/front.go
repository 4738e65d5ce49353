package morl

import (
	"slices"

	"trainopt/morl/pareto"
)

// Evaluator is implemented by problems with a known model; it evaluates policies exactly.
type Evaluator interface {
	// Return computes the expected discounted return of a deterministic stationary policy, one value per objective.
	Return(policy func(state []float32, mask []bool) int, gamma float64) []float64
}

// FrontPoint is the return of an agent's policy.
type FrontPoint struct {
	Value      []float64
	Preference []float32 // that selects it; nil if no preference does
}

// FrontOptions control the preferences for which Front evaluates an agent.
type FrontOptions struct {
	Gamma float64 // discount; 0 means 0.99
	// Preferences is the number of preferences in the first round; default 101 for two objectives, else 200 per
	// objective.
	Preferences int
	Seed        uint64 // seed of the preferences, used with more than two objectives
}

// Front returns the non-dominated returns of an agent's policies, in ascending order of the first objective: those of
// its method Policies, or its greedy policies over preferences. With two objectives the preferences are equally spaced, and every interval with different returns
// at its ends is bisected down to 1e-5, which finds policies that are optimal in a narrow interval only. Otherwise
// the preferences are the unit vectors and uniform draws from the simplex.
func Front(a Agent, e Evaluator, o FrontOptions) []FrontPoint {
	if o.Gamma == 0 {
		o.Gamma = 0.99
	}
	m := len(a.Shape().Objectives)
	f := &frontSearch{agent: a, problem: e, gamma: o.Gamma}
	if p, ok := a.(interface {
		Policies() []func(state []float32, mask []bool) int
	}); ok {
		for _, policy := range p.Policies() {
			f.add(FrontPoint{Value: e.Return(policy, o.Gamma)})
		}
		return f.found
	}
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

// Corners returns the most informative preferences for learning a front: those of its points and, with two
// objectives, those at which neighbouring points tie. If a point between two neighbours is missing, it is optimal
// there (the corner weights of optimistic linear support, Roijers, Whiteson, Oliehoek 2015).
func Corners(front []FrontPoint) [][]float32 {
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

// frontSearch is the state of Front.
type frontSearch struct {
	agent   Agent
	problem Evaluator
	gamma   float64
	found   []FrontPoint
}

// ask evaluates the agent for a preference and adds the result to the front.
func (f *frontSearch) ask(w []float32) FrontPoint {
	r := FrontPoint{Preference: w, Value: f.problem.Return(func(state []float32, mask []bool) int {
		return f.agent.Act(Observation{State: state, Mask: mask}, w, false)
	}, f.gamma)}
	f.add(r)
	return r
}

// add adds a return to the front.
func (f *frontSearch) add(r FrontPoint) {
	for _, known := range f.found {
		if slices.Equal(known.Value, r.Value) {
			return
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
	slices.SortFunc(f.found, func(a, b FrontPoint) int { return slices.Compare(a.Value, b.Value) })
}

// halve evaluates the agent between two preferences, with two objectives.
func (f *frontSearch) halve(a, b FrontPoint) {
	if slices.Equal(a.Value, b.Value) || b.Preference[0]-a.Preference[0] < 1e-5 {
		return
	}
	w := (a.Preference[0] + b.Preference[0]) / 2
	middle := f.ask([]float32{w, 1 - w})
	f.halve(a, middle)
	f.halve(middle, b)
}
