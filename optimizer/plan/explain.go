package plan

import (
	"fmt"
	"math"
	"slices"

	"trainopt/sla"
)

// binding describes the limit, or the held baseline, that excluded the preferred candidate; "none" when none did.
func (b *evaluation) binding(chosen int) string {
	free := choose(b.cs, where(b.cs, finite), b.preference, -1)
	if free >= 0 && free != chosen && b.cs[free].Slower {
		return fmt.Sprintf("baseline kept: %d of %d allocations are predicted more than %.0f %% slower, with them the one that the preference alone would choose (%s)",
			len(where(b.cs, func(c Candidate) bool { return c.Slower })), len(b.cs), 100*slack, b.cs[free].Allocation)
	}
	if free < 0 || free == chosen || len(b.cs[free].Breaks) == 0 {
		return "none"
	}
	limit := b.cs[free].Breaks[0]
	broken := 0
	for _, c := range b.cs {
		for _, o := range c.Breaks {
			if o == limit {
				broken++
			}
		}
	}
	text := fmt.Sprintf("%s: %d of %d allocations would miss it, with them the one that the preference alone would choose (%s)",
		limitWords(limit, b.forecast.s.Spec), broken, len(b.cs), b.cs[free].Allocation)
	if i := cheapest(b.cs); i >= 0 {
		text += fmt.Sprintf("; the cheapest that keeps all limits is %s (%s)", b.cs[i].Allocation, usd(b.cs[i].CostUSD.P50))
	}
	return text
}

// cheapest returns the position of the feasible candidate with the lowest median cost, -1 when none is feasible.
func cheapest(cs []Candidate) int {
	best := -1
	for _, i := range where(cs, feasible) {
		if best < 0 || cs[i].CostUSD.P50 < cs[best].CostUSD.P50 {
			best = i
		}
	}
	return best
}

// reason returns one sentence with the preference, the choice, its prediction and that of the baseline.
func (b *evaluation) reason(chosen int) string {
	c, s := b.cs[chosen], b.forecast.s
	goal := map[string]string{
		"time": "the shortest time", "cost": "the lowest cost", "resource": "the least resources", "balanced": "the best balance of time, cost and resources",
	}[b.preference.leading()]
	met := "meet the SLA"
	if len(s.Spec.Agreed()) == 0 {
		met = "are not slower than the baseline"
	}
	text := fmt.Sprintf("%s of %d allowed allocations: ", goal, len(b.cs))
	if n := len(where(b.cs, feasible)); n < len(b.cs) || met == "meet the SLA" {
		text = fmt.Sprintf("%s of %d allowed allocations (%d %s): ", goal, len(b.cs), n, met)
	}
	switch {
	case chosen == b.current && s.Current != nil && !s.Resumable:
		text = s.stays() + ", so it stays where it runs: "
	case chosen == b.current:
		text = "nothing allowed is clearly better than where it runs: "
	case b.forecast.perUnit:
		text = fmt.Sprintf("%s per measured unit, because the total amount of work is unknown: ", goal)
	case chosen == b.baseline:
		text = "no allowed allocation is clearly better than the baseline: "
	}
	text += b.predicted(c)
	if b.baseline >= 0 && b.baseline != chosen && finite(b.cs[b.baseline]) {
		own := b.cs[b.baseline]
		text += fmt.Sprintf(", against %s and %s at the baseline", b.length(own.Seconds.P50), usd(own.CostUSD.P50))
	}
	if s.Model.Extrapolates(c.Allocation) {
		text += " (outside what was measured)"
	}
	return text
}

func (b *evaluation) predicted(c Candidate) string {
	return fmt.Sprintf("%s (90 %%: %s–%s) for %s", b.length(c.Seconds.P50), duration(c.Seconds.P5), duration(c.Seconds.P95), usd(c.CostUSD.P50))
}

// nearer reports whether a is nearer to the SLA than b: by the chance of meeting it, or by the excess when both
// chances are negligible.
func nearer(a, b *outcome) bool {
	x, y := a.odds(), b.odds()
	if max(x, y) > negligibleChance {
		return x > y || x == y && a.excess < b.excess
	}
	return a.excess < b.excess
}

// preferBaseline replaces the nearest candidate by the baseline when the baseline is likely to meet the SLA and less
// likely by at most baselineChanceMargin; or by the choice among candidates at least as likely as the baseline and better in the preference.
func (b *evaluation) preferBaseline(nearest int) int {
	i, s := b.baseline, b.forecast.s
	if i < 0 || !finite(b.cs[i]) || !b.reachable(b.cs[i].Allocation) || len(b.cs[i].Breaks) == 0 {
		return nearest
	}
	own := b.outcomes[i].odds()
	if own < likelyChance || own < b.outcomes[nearest].odds()-baselineChanceMargin {
		return nearest
	}
	all := b.segments()
	sc := scaleOf(pointsOf(b.cs), frontAmong(b.cs, where(b.cs, finite)))
	among := []int{i}
	for j, c := range b.cs {
		if j != i && finite(c) && !c.Slower && len(c.Breaks) > 0 && b.outcomes[j].odds() >= own && b.reachable(c.Allocation) && !measuredWorse(s, all, c.Allocation) &&
			b.beats(sc, j, i) {
			among = append(among, j)
		}
	}
	return choose(b.cs, among, b.preference, b.current)
}

// baselineChanceMargin is the chance of meeting the SLA that the baseline may lack against another candidate and still
// be chosen, when no candidate is feasible.
const baselineChanceMargin = 0.2

// negligibleChance is the chance below which candidates are compared by their excess.
const negligibleChance = 0.01

// odds returns the chance that all limits hold: time and cost jointly, times each of the others.
func (o *outcome) odds() float64 {
	p := o.Chance
	for _, objective := range []sla.Objective{sla.Throughput, sla.Memory, sla.GPUUtil, sla.CPUUtil} {
		if c, ok := o.chances[objective]; ok {
			p *= c
		}
	}
	return p
}

// infeasible returns the plan and the *Infeasible error for the nearest candidate. The plan is for position own if
// that is not -1, the choice of a planner with its own rule.
func (b *evaluation) infeasible(planner string, own int) (Plan, error) {
	nearest := -1
	if i := b.current; i >= 0 && len(b.cs[i].Breaks) == 0 && finite(b.cs[i]) { // excluded for a reason other than a limit
		return b.plan(planner, i, b.reason(i)), nil
	}
	open := where(b.cs, func(c Candidate) bool { return finite(c) && b.reachable(c.Allocation) })
	for _, i := range open {
		if nearest < 0 || nearer(&b.outcomes[i], &b.outcomes[nearest]) {
			nearest = i
		}
	}
	if nearest >= 0 && b.outcomes[nearest].odds() >= likelyChance { // the preference decides among those about as likely
		least := b.outcomes[nearest].odds() - chanceGain
		open = slices.DeleteFunc(open, func(i int) bool { return b.outcomes[i].odds() < least || b.cs[i].Slower })
		if i := choose(b.cs, open, b.preference, b.current); i >= 0 {
			nearest = i
		}
	}
	if nearest >= 0 {
		nearest = b.preferBaseline(nearest)
	}
	if nearest < 0 {
		return Plan{}, fmt.Errorf("plan over %d allocations: %w", len(b.cs), errNothingPredicted)
	}
	if own < 0 {
		own = nearest
	}
	why := b.whyNot(nearest)
	p := b.plan(planner, own, "no allowed allocation meets the SLA; nearest: "+b.predicted(b.cs[own]))
	p.Binding = limitWords(b.cs[nearest].Breaks[0], b.forecast.s.Spec) + ": no allowed allocation meets it"
	return p, &Infeasible{Nearest: b.cs[nearest], Why: why, Plan: p}
}

// whyNot describes the missed limits and the limits that would be feasible.
func (b *evaluation) whyNot(nearest int) string {
	spec, c := b.forecast.s.Spec, b.cs[nearest]
	text := "no allowed allocation meets "
	if s := b.forecast.s; s.Current != nil && !s.Resumable {
		text = s.stays() + ", and where it runs it does not meet "
	}
	for i, o := range c.Breaks {
		if i > 0 {
			text += " and "
		}
		text += limitWords(o, spec)
	}
	text += fmt.Sprintf(" with %.0f %% probability", 100*feasibleProbability)
	if need := b.needs(); need != "" {
		text += ", which requires at least " + need
	}
	return text + fmt.Sprintf("; nearest: %s, %s", c.Allocation, b.predicted(c))
}

// needs returns the smallest budget that meets the other limits, or the shortest deadline that does, as text. Only
// candidates that meet all other limits are considered.
func (b *evaluation) needs() string {
	spec := b.forecast.s.Spec
	if b.forecast.perUnit {
		return ""
	}
	money, time := math.Inf(1), math.Inf(1)
	for i, o := range b.outcomes {
		if !finite(b.cs[i]) {
			continue
		}
		others := true // every limit but time and cost holds
		for _, x := range o.Breaks {
			others = others && (x == sla.Time || x == sla.Cost)
		}
		if others {
			money = min(money, enough(o.usd, o.seconds, spec.TimeMax.Seconds()))
			time = min(time, enough(o.seconds, o.usd, spec.CostMaxUSD))
		}
	}
	text := ""
	if spec.CostMaxUSD > 0 && !math.IsInf(money, 1) && money > spec.CostMaxUSD {
		text = usdUp(money)
	}
	if spec.TimeMax > 0 && !math.IsInf(time, 1) && time > spec.TimeMax.Seconds() {
		if text != "" {
			text += " or "
		}
		text += durationUp(time)
	}
	return text
}

// enough returns the smallest limit on used that holds together with the limit on other (0: none) in a share sure of
// the draws; +Inf when the other limit fails too often.
func enough(used, other []float64, limit float64) float64 {
	var within []float64
	for k := range used {
		if limit <= 0 || other[k] <= limit {
			within = append(within, used[k])
		}
	}
	need := int(math.Ceil(feasibleProbability * float64(len(used))))
	if len(within) < need {
		return math.Inf(1)
	}
	slices.Sort(within)
	return within[need-1]
}
