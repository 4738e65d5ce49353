package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// presets are the named preferences, in the order of display.
//
// "time" and "cost" weigh one objective only, so that it is really minimised; ties (within 1 %) are broken by the
// lower cost (for cost: the shorter time). The published weights 0.6/0.2/0.2 for time would stop adding resources
// while doubling them still saves a third of the time. "resource" minimises the held resources, with time and cost as
// the rest of the weight. "balanced" weighs all three alike and so finds the knee of the front.
var presets = []struct {
	Name       string
	Preference Preference
}{
	{"time", Preference{Time: 1}},
	{"cost", Preference{Cost: 1}},
	{"resource", Preference{Time: 0.1, Cost: 0.1, Resource: 0.8}},
	{"balanced", Preference{Time: 1. / 3, Cost: 1. / 3, Resource: 1. / 3}},
}

// ParsePreference parses "balanced", "time", "cost", "resource" or weights such as "time=0.6,cost=0.3,resource=0.1".
// Weights are ≥ 0 and normalised to a sum of 1; an omitted weight is 0.
func ParsePreference(text string) (Preference, error) {
	fail := func(format string, args ...any) (Preference, error) {
		return Preference{}, fmt.Errorf("preference %q: %s", text, fmt.Sprintf(format, args...))
	}
	trimmed := strings.ToLower(strings.TrimSpace(text))
	for _, p := range presets {
		if trimmed == p.Name {
			return p.Preference, nil
		}
	}
	if !strings.Contains(trimmed, "=") {
		return fail("want time, cost, resource, balanced or weights such as time=0.6,cost=0.3,resource=0.1")
	}
	var p Preference
	seen := make(map[string]bool)
	for _, part := range strings.Split(trimmed, ",") {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok {
			return fail("%q is not name=weight", strings.TrimSpace(part))
		}
		w, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(w) || math.IsInf(w, 0) || w < 0 {
			return fail("weight of %s is %q, want a number ≥ 0", name, value)
		}
		if seen[name] {
			return fail("%s is given twice", name)
		}
		seen[name] = true
		switch name {
		case "time":
			p.Time = w
		case "cost":
			p.Cost = w
		case "resource":
			p.Resource = w
		default:
			return fail("no objective named %q, want time, cost or resource", name)
		}
	}
	if p.Time+p.Cost+p.Resource <= 0 || math.IsInf(p.Time+p.Cost+p.Resource, 0) {
		return fail("the weights sum to %g", p.Time+p.Cost+p.Resource)
	}
	return p.normalised(), nil
}

// normalised returns the preference scaled to a sum of 1, or balanced when the weights are invalid or all zero.
func (p Preference) normalised() Preference {
	sum := p.Time + p.Cost + p.Resource
	if !(sum > 0) || math.IsInf(sum, 0) || p.Time < 0 || p.Cost < 0 || p.Resource < 0 {
		return presets[len(presets)-1].Preference
	}
	return Preference{p.Time / sum, p.Cost / sum, p.Resource / sum}
}

func (p Preference) weights() [3]float64 { return [3]float64{p.Time, p.Cost, p.Resource} }

// String returns the name of the preset, or the weights.
func (p Preference) String() string {
	for _, q := range presets {
		if max(math.Abs(p.Time-q.Preference.Time), math.Abs(p.Cost-q.Preference.Cost), math.Abs(p.Resource-q.Preference.Resource)) < 5e-4 { // they print alike
			return q.Name
		}
	}
	return fmt.Sprintf("time=%.3g,cost=%.3g,resource=%.3g", p.Time, p.Cost, p.Resource)
}

// leading returns the preset of the largest weight; "balanced" when no weight exceeds the others by 10 %.
func (p Preference) leading() string {
	w := p.normalised()
	switch {
	case w.Time > 1.1*max(w.Cost, w.Resource):
		return "time"
	case w.Cost > 1.1*max(w.Time, w.Resource):
		return "cost"
	case w.Resource > 1.1*max(w.Time, w.Cost):
		return "resource"
	}
	return "balanced"
}

// Preferring returns, for each candidate that some preference selects, such a preference, by position: a preset if one
// does, otherwise the mean of those weights, in steps of a twentieth, that select it. The candidates are those of a Plan;
// a running job may still stay where it is, see Worth. As for Options, candidates that only the present preference excludes
// (Slower) count. O(candidates).
func Preferring(cs []Candidate) map[int]Preference {
	edge := where(cs, func(c Candidate) bool { return c.OnFront && len(c.Breaks) == 0 && finite(c) })
	if len(edge) == 0 {
		edge = where(cs, func(c Candidate) bool { return c.OnFront && finite(c) })
	}
	points, out := pointsOf(cs), map[int]Preference{}
	for i := len(presets) - 1; i >= 0; i-- { // the first preset wins
		if at := Select(points, edge, presets[i].Preference); at >= 0 {
			out[at] = presets[i].Preference
		}
	}
	const steps = 20
	sums, first, n := map[int]Preference{}, map[int]Preference{}, map[int]float64{}
	for t := range steps + 1 {
		for c := range steps + 1 - t {
			w := Preference{float64(t) / steps, float64(c) / steps, float64(steps-t-c) / steps}
			at := Select(points, edge, w)
			if _, preset := out[at]; at < 0 || preset {
				continue
			}
			if n[at] == 0 {
				first[at] = w
			}
			sum := sums[at]
			sums[at] = Preference{sum.Time + w.Time, sum.Cost + w.Cost, sum.Resource + w.Resource}
			n[at]++
		}
	}
	for at, sum := range sums {
		w, err := ParsePreference(sum.normalised().String()) // as a user writes it
		if err != nil || Select(points, edge, w) != at {
			w = first[at]
		}
		out[at] = w
	}
	return out
}
