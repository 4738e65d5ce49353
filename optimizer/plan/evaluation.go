package plan

// evaluation contains the predictions for one decision.
type evaluation struct {
	forecast   *forecast
	preference Preference
	outcomes   []outcome
	cs         []Candidate     // the candidates of outcomes, front marked
	current    int             // position of Current, -1 without one
	baseline   int             // position of Baseline, -1 when not allowed
	rated      []mergedSegment // see segments
}

// newEvaluation predicts all allowed allocations, excludes those slower than a held baseline and marks the front.
// O(candidates × draws).
func newEvaluation(s Snapshot) *evaluation {
	b := evaluateCandidates(s)
	b.excludeSlower()
	b.mark()
	return b
}

// evaluateCandidates returns the evaluation before excludeSlower and mark.
func evaluateCandidates(s Snapshot) *evaluation {
	b := &evaluation{forecast: newForecast(s), preference: s.Preference.normalised(), current: -1, baseline: -1}
	for _, a := range Allocations(s) {
		b.add(b.forecast.outcome(a))
	}
	return b
}

// add appends an outcome and returns its position. It records the positions of Current and Baseline.
func (b *evaluation) add(o outcome) int {
	s, i := b.forecast.s, len(b.cs)
	if c := s.Current; c != nil && c.SameShape(o.Allocation) {
		o.Allocation.GPUIDs = c.GPUIDs
		b.current = i
	}
	if s.Baseline.SameShape(o.Allocation) {
		b.baseline = i
	}
	b.outcomes, b.cs = append(b.outcomes, o), append(b.cs, o.Candidate)
	return i
}

// comparable returns the positions of the candidates that define the scale of a comparison: the feasible ones, or all that are
// predicted if none is feasible.
func (b *evaluation) comparable() []int {
	if safe := where(b.cs, feasible); len(safe) > 0 {
		return safe
	}
	return where(b.cs, finite)
}

func (b *evaluation) mark() {
	for i := range b.cs {
		b.cs[i].OnFront = false
	}
	for _, i := range front(b.cs) {
		b.cs[i].OnFront = true
	}
}

// plan returns the plan for a choice.
func (b *evaluation) plan(planner string, chosen int, reason string) Plan {
	if b.forecast.perUnit {
		return b.paces(planner, chosen, reason)
	}
	return Plan{
		Allocation: b.cs[chosen].Allocation, Planner: planner, Reason: reason, Binding: b.binding(chosen),
		Chosen: b.cs[chosen], Predicted: true, Candidates: b.cs, Options: b.options(chosen),
	}
}

// paces returns the plan for a choice when the total work is unknown.
func (b *evaluation) paces(planner string, chosen int, reason string) Plan {
	c := b.cs[chosen]
	p := Plan{Allocation: c.Allocation, Planner: planner, Reason: reason, Binding: b.binding(chosen),
		Chosen: Candidate{Allocation: c.Allocation, Throughput: c.Throughput, Resource: c.Resource}}
	for _, c := range b.cs {
		p.Paces = append(p.Paces, pace{c.Allocation, c.Seconds, c.CostUSD, c.Throughput})
	}
	return p
}

// options returns the choices of the four presets among the candidates that break no limit, or among all when every
// one does.
func (b *evaluation) options(chosen int) []Option {
	among := where(b.cs, func(c Candidate) bool { return len(c.Breaks) == 0 && finite(c) }) // Slower ones included
	if len(among) == 0 {
		among = where(b.cs, finite)
	}
	var out []Option
	for _, preset := range presets {
		i := choose(b.cs, among, preset.Preference, -1)
		if i < 0 {
			i = chosen
		}
		out = append(out, b.option(preset.Name, i, chosen))
	}
	return out
}

func (b *evaluation) option(prefer string, i, chosen int) Option {
	mine, its := objectives(b.cs[chosen]), objectives(b.cs[i])
	c := b.cs[i]
	c.Feasible = len(c.Breaks) == 0
	return Option{Prefer: prefer, Candidate: c,
		SecondsPct: percent(its[0], mine[0]), CostPct: percent(its[1], mine[1]), ResourcePct: percent(its[2], mine[2])}
}

// percent returns by how much a exceeds b, in percent; nil when b is not positive.
func percent(a, b float64) *float64 {
	if !(b > 0) {
		return nil
	}
	v := 100 * (a/b - 1)
	return &v
}
