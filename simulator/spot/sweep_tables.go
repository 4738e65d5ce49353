package spot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
)

// tables returns the cost by deadline, and the share of the gap from the reference to the optimum that each policy closes.
func (s *Sweep) tables(each []*experiment.Comparison, all [][]ran) []experiment.Table {
	head := []string{"policy"}
	for _, slack := range s.Slacks[:len(each)] {
		head = append(head, fmt.Sprintf("%.4g", slack))
	}
	var out []experiment.Table
	if len(each) > 1 {
		cost := experiment.Table{Title: "cost relative to on demand alone, by deadline (× work), means and 95 % intervals", Head: head}
		for _, p := range s.Policies {
			line := []string{p}
			for _, c := range each {
				r, _ := c.Row(p, "cost_share")
				line = append(line, percents(float64(r.Mean), float64(r.Lo), float64(r.Hi)))
			}
			cost.Lines = append(cost.Lines, line)
		}
		missed := experiment.Table{Title: "deadlines missed, by deadline (× work)", Head: head}
		for _, p := range s.Policies {
			line := []string{p}
			for _, c := range each {
				r, _ := c.Row(p, "missed")
				line = append(line, fmt.Sprintf("%.4g %%", 100*float64(r.Mean)))
			}
			missed.Lines = append(missed.Lines, line)
		}
		out = append(out, cost, missed)
	}
	from := s.against()[0]
	if m, err := Find(from); err != nil || m.Misses || from == "optimum" {
		return out
	}
	closed := experiment.Table{Title: "share of the gap from " + from + " to the optimum that is closed, by deadline (× work): of mean costs, with 95 % intervals", Head: head}
	for i, p := range s.Policies {
		if m, err := Find(p); err != nil || m.Misses || p == from || p == "optimum" || p == "on-demand" {
			continue
		}
		line := []string{p}
		for k := range each {
			line = append(line, s.closed(all[k], i))
		}
		closed.Lines = append(closed.Lines, line)
	}
	if len(closed.Lines) > 0 {
		out = append(out, closed)
	}
	return out
}

// against returns the policies of reference.
func (s *Sweep) against() []string {
	switch {
	case len(s.Against) > 0:
		return s.Against
	case slices.Contains(s.Policies, "greedy"):
		return []string{"greedy"}
	}
	return s.Policies[:1]
}

// closed returns (reference − policy) / (reference − optimum) of the mean costs, with an interval.
func (s *Sweep) closed(ran []ran, policy int) string {
	from := slices.Index(s.Policies, s.against()[0])
	at := map[uint64]int{}
	var above, gap []float64 // sums by group
	for k := range len(ran) / len(s.Policies) {
		r := ran[k*len(s.Policies):][:len(s.Policies)]
		g, ok := at[r[0].Group]
		if !ok {
			g = len(above)
			at[r[0].Group], above, gap = g, append(above, 0), append(gap, 0)
		}
		above[g] += r[from].Outcome.USD - r[policy].Outcome.USD
		gap[g] += r[from].Outcome.USD - r[from].Optimum
	}
	share, lo, hi := ratio(above, gap)
	if math.IsNaN(share) {
		return "no gap"
	}
	return percents(share, lo, hi)
}

// ratio returns the ratio of the sums of a and b, with the 95 % interval of the percentile bootstrap over indices
// (4000 resamples, always the same). NaN if the sum of b is not positive; the interval is NaN with fewer than two
// indices. O(resamples × len(a)).
func ratio(a, b []float64) (ratio, lo, hi float64) {
	of := func(pick func(i int) int) float64 {
		var x, y float64
		for i := range a {
			k := pick(i)
			x, y = x+a[k], y+b[k]
		}
		if !(y > 1e-12) {
			return math.NaN()
		}
		return x / y
	}
	ratio = of(func(i int) int { return i })
	if len(a) < 2 || math.IsNaN(ratio) {
		return ratio, math.NaN(), math.NaN()
	}
	const draws = 4000
	rng := rand.New(rand.NewPCG(0, 0xb007))
	var all []float64
	for range draws {
		if v := of(func(int) int { return rng.IntN(len(a)) }); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return ratio, all[len(all)*25/1000], all[len(all)*975/1000]
}

// percents formats a ratio and its interval in percent.
func percents(mean, lo, hi float64) string {
	text := page.Fixed(100*mean, 1) + " %"
	if !math.IsNaN(lo) && !math.IsNaN(hi) {
		text += fmt.Sprintf(" (%s…%s)", page.Fixed(100*lo, 1), page.Fixed(100*hi, 1))
	}
	return strings.ReplaceAll(text, "-", "−")
}

// charts returns the chart of the cost over deadlines.
func (s *Sweep) charts(each []*experiment.Comparison) []page.Chart {
	if len(each) < 2 {
		return nil
	}
	c := page.Chart{Title: "Cost by deadline", X: page.Axis{Name: "deadline, × work"}, Y: page.Axis{Name: "of on demand alone", Zero: true, Share: true}}
	for _, p := range s.Policies {
		line := page.Series{Name: p, Dashed: p == "optimum" || p == "on-demand"}
		for k, one := range each {
			if r, ok := one.Row(p, "cost_share"); ok {
				line.Points = append(line.Points, page.Point{X: s.Slacks[k], Y: float64(r.Mean)})
			}
		}
		c.Series = append(c.Series, line)
	}
	return []page.Chart{c}
}
