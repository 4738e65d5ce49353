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
// first objective. With two objectives the preferences are equally spaced, and then, as optimistic linear support does
// (Roijers, Whiteson, Oliehoek 2015), those at which neighbouring points tie are asked until nothing new comes up;
// otherwise they are the unit vectors and uniform draws from the simplex.
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
		for i := range n {
			w := float32(i) / float32(n-1)
			f.ask([]float32{w, 1 - w})
		}
		for f.corners() {
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

type fronting struct {
	agent   Agent
	problem Evaluator
	gamma   float64
	asked   [][]float32
	found   []Reached
}

// ask adds what the agent earns for a preference, and reports whether that is a new point of the front.
func (f *fronting) ask(w []float32) bool {
	f.asked = append(f.asked, w)
	value := f.problem.Return(func(state []float32, mask []bool) int {
		return f.agent.Act(Observation{State: state, Mask: mask}, w, false)
	}, f.gamma)
	for _, r := range f.found {
		if slices.Equal(r.Value, value) {
			return false
		}
	}
	all := append(slices.Clone(f.found), Reached{Value: value, Preference: w})
	points := make([][]float64, len(all))
	for i, r := range all {
		points[i] = r.Value
	}
	f.found = f.found[:0]
	kept := false
	for _, i := range pareto.Front(points) {
		f.found = append(f.found, all[i])
		kept = kept || i == len(all)-1
	}
	slices.SortFunc(f.found, func(a, b Reached) int { return slices.Compare(a.Value, b.Value) })
	return kept
}

// corners asks for the preferences at which neighbours on the front tie, and reports whether anything new came up.
func (f *fronting) corners() bool {
	found := slices.Clone(f.found)
	anything := false
	for i := 1; i < len(found); i++ {
		a, b := found[i-1].Value, found[i].Value
		rise, fall := b[0]-a[0], a[1]-b[1]
		w := float32(fall / (rise + fall))
		at := []float32{w, 1 - w}
		if slices.ContainsFunc(f.asked, func(o []float32) bool { return slices.Equal(o, at) }) {
			continue
		}
		anything = f.ask(at) || anything
	}
	return anything
}
