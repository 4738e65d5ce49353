package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/morl/pareto"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// errNoPoint is returned when a source contains no point with time, cost and resources.
var errNoPoint = errors.New("no point with time, cost and resources")

// point is one way to do the work. Lower is better in every objective.
type point struct {
	// Label is "A", "B", … along the front from the fastest; empty off the front.
	Label string `json:"label,omitempty"`
	// Name is the allocation, or the log or run of the measurement.
	Name       string               `json:"name"`
	Allocation resources.Allocation `json:"allocation"`
	// Seconds and CostUSD are of the whole job; the three quantiles of a measured point are equal.
	Seconds sla.Interval `json:"seconds"`
	CostUSD sla.Interval `json:"cost_usd"`
	// Resource is the share of the limits held, 0…1 (for measured points: of the maximum over all points).
	Resource float64 `json:"resource"`
	// Feasible reports that the point meets the SLA with at least 95 % probability; true without an SLA.
	Feasible bool `json:"feasible"`
	OnFront  bool `json:"on_front"`
	Chosen   bool `json:"chosen"` // by the preference
	Taken    bool `json:"taken"`  // the plan of the recorded run
}

// objectives returns the three coordinates, negated since morl/pareto maximises.
func (p point) objectives() []float64 { return []float64{-p.Seconds.P50, -p.CostUSD.P50, -p.Resource} }

func (p point) finite() bool {
	sum := p.Seconds.P50 + p.CostUSD.P50 + p.Resource
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// FrontPoints contains the points of one source.
type FrontPoints struct {
	Subject   string // a run id, "3 finished runs"
	Source    string // run, model, measured
	Basis     string // origin of the values, one sentence
	Predicted bool
	Share     string // description of the maximum that Resource refers to
	Points    []point
	// Preference is that of the run; nil without one.
	Preference *plan.Preference
	Notes      []string // omissions and assumptions
}

// front is a set with its front marked and a point chosen.
type front struct {
	FrontPoints                 // Points sorted by time, cost, resources, allocation, name
	Preferred   plan.Preference // the preference behind Chosen
	Chosen      int             // position in Points
	Dominated   int             // points off the front that meet the SLA
	Infeasible  int             // points off the front because they may miss the SLA
	Trades      []trade         // from the chosen point, at most one per objective
	Steps       []step          // along the front of time and cost, from the slowest
}

// trade is a move from the chosen point to another point of the front that gains in one objective, the one with the
// least loss in the preference.
type trade struct {
	Objective string         `json:"objective"` // time, cost, resource
	From      string         `json:"from"`
	To        string         `json:"to"` // labels
	Gained    journal.Number `json:"gained"`
	Given     pointAmounts   `json:"given"` // negative: a gain too
	PerUnit   pointAmounts   `json:"given_per_unit"`
	Words     string         `json:"words"`
}

// pointAmounts contains seconds, USD and a share of the resources; as rates, per unit of the objective gained.
type pointAmounts struct {
	Seconds  journal.Number `json:"seconds"`
	CostUSD  journal.Number `json:"cost_usd"`
	Resource journal.Number `json:"resource"`
}

// step is the rate between adjacent points, in order of time, of the front in time and cost.
type step struct {
	From         string         `json:"from"` // the slower and cheaper point
	To           string         `json:"to"`
	SecondsLess  journal.Number `json:"seconds_less"`
	USDMore      journal.Number `json:"usd_more"`
	USDPerHour   journal.Number `json:"usd_per_hour_less"`
	ResourceMore journal.Number `json:"resource_more"`
}

var objectiveNames = [3]string{"time", "cost", "resource"}

// ChooseFront marks the front of a set and selects a point by the preference. Points that may miss the SLA are excluded
// from the front if another point meets it. Among points with equal objectives, only the one with the fewest
// resources is on the front. The error wraps errNoPoint when no point has all three values. O(n log n).
func ChooseFront(set FrontPoints, preference plan.Preference) (*front, error) {
	f := &front{FrontPoints: set, Preferred: preference, Chosen: -1}
	f.Points = nil
	for _, p := range set.Points {
		if p.finite() {
			p.Label, p.OnFront, p.Chosen = "", false, false
			f.Points = append(f.Points, p)
		}
	}
	if len(f.Points) == 0 {
		return nil, fmt.Errorf("front of %s: %w", set.Subject, errNoPoint)
	}
	slices.SortStableFunc(f.Points, order)
	among := f.candidates()
	onFront := f.mark(among)
	at, trades, err := choose(onFront, preference)
	if err != nil {
		return nil, fmt.Errorf("front of %s: %w", set.Subject, err)
	}
	labelled := f.labelled()
	f.Chosen = labelled[at]
	f.Points[f.Chosen].Chosen = true
	for _, t := range trades {
		f.Trades = append(f.Trades, f.trade(t, labelled))
	}
	f.steps()
	f.remark(among)
	return f, nil
}

// choose selects one of the points and returns the trades from it.
func choose(points [][]float64, preference plan.Preference) (at int, trades []pareto.Trade, err error) {
	amounts, all := make([][3]float64, len(points)), make([]int, len(points))
	for i, p := range points {
		amounts[i], all[i] = [3]float64{-p[0], -p[1], -p[2]}, i
	}
	at = max(0, plan.Select(amounts, all, preference))
	trades, err = pareto.Trades(points, at, []float64{preference.Time, preference.Cost, preference.Resource}, pareto.Normalisation{Relative: true})
	return at, trades, err
}

// order compares points by time, cost, resources, allocation and name.
func order(a, b point) int {
	return cmp.Or(slices.Compare(b.objectives(), a.objectives()), cmp.Compare(a.Allocation.GPUs, b.Allocation.GPUs),
		cmp.Compare(a.Allocation.CPUs, b.Allocation.CPUs), cmp.Compare(a.Allocation.Memory, b.Allocation.Memory),
		cmp.Compare(a.Allocation.BatchSize, b.Allocation.BatchSize), strings.Compare(a.Name, b.Name))
}

// candidates returns the positions of the points that may be on the front.
func (f *front) candidates() []int {
	var kept, all []int
	for i, p := range f.Points {
		all = append(all, i)
		if p.Feasible {
			kept = append(kept, i)
		}
	}
	if len(kept) == 0 {
		f.Notes = append(slices.Clone(f.Notes), "no point is sure to meet the SLA: the front is of all points")
		return all
	}
	f.Infeasible = len(all) - len(kept)
	return kept
}

// mark labels the front and returns its objectives in the order of the labels.
func (f *front) mark(among []int) [][]float64 {
	points := make([][]float64, len(among))
	for k, i := range among {
		points[k] = f.Points[i].objectives()
	}
	var out [][]float64
	for n, k := range pareto.Front(points) {
		p := &f.Points[among[k]]
		p.OnFront, p.Label = true, page.Letter(n)
		out = append(out, points[k])
	}
	f.Dominated = len(among) - len(out)
	return out
}

// labelled returns the positions of the points on the front.
func (f *front) labelled() []int {
	var out []int
	for i, p := range f.Points {
		if p.OnFront {
			out = append(out, i)
		}
	}
	return out
}

func amounts(v []float64) pointAmounts {
	return pointAmounts{Seconds: journal.Number(v[0]), CostUSD: journal.Number(v[1]), Resource: journal.Number(v[2])}
}

func (f *front) trade(t pareto.Trade, labelled []int) trade {
	from, to := f.Points[f.Chosen], f.Points[labelled[t.To]]
	out := trade{Objective: objectiveNames[t.Objective], From: from.Label, To: to.Label, Gained: journal.Number(t.Gained), Given: amounts(t.Given), PerUnit: amounts(t.Rates)}
	out.Words = tradeWords(out, to)
	return out
}

// edge returns the front in time and cost alone, fastest first.
func (f *front) edge() []point {
	var edge []point
	least := math.Inf(1)
	for _, i := range f.labelled() { // ascending in time
		if p := f.Points[i]; p.CostUSD.P50 < least {
			edge, least = append(edge, p), p.CostUSD.P50
		}
	}
	return edge
}

// steps sets Steps along the edge.
func (f *front) steps() {
	edge := f.edge()
	for i := len(edge) - 1; i > 0; i-- {
		slow, fast := edge[i], edge[i-1]
		s := step{From: slow.Label, To: fast.Label, SecondsLess: journal.Number(slow.Seconds.P50 - fast.Seconds.P50), USDMore: journal.Number(fast.CostUSD.P50 - slow.CostUSD.P50),
			ResourceMore: journal.Number(fast.Resource - slow.Resource)}
		s.USDPerHour = s.USDMore / s.SecondsLess * 3600
		f.Steps = append(f.Steps, s)
	}
}

// remark appends notes about duplicates and degenerate fronts.
func (f *front) remark(among []int) {
	notes := slices.Clone(f.Notes)
	for k := 1; k < len(among); k++ {
		p, q := f.Points[among[k]], f.Points[among[k-1]]
		if slices.Equal(p.objectives(), q.objectives()) {
			notes = append(notes, fmt.Sprintf("%s and %s are the same in time, cost and resources: one of them is shown on the front", q.Name, p.Name))
		}
	}
	switch onFront := len(among) - f.Dominated; {
	case len(f.Points) == 1:
		notes = append(notes, "there is only one point: nothing to choose between")
	case onFront == 1:
		notes = append(notes, "one point is best in time, cost and resources: every preference selects it")
	}
	f.Notes = notes
}
