package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/queue"
)

// shownSteps is the approximate number of points of a line over time.
const shownSteps = 240

// change is a step of a piecewise constant function: its time, s, and its height.
type change struct{ at, by float64 }

// level integrates changes and returns the mean value, times scale, over each of shownSteps equal parts from first to
// last. X is the middle of a part, in hours from first. It sorts changes, and returns nil for an empty interval.
func level(changes []change, first, last, scale float64) []page.Point {
	if !(last > first) {
		return nil
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	// Each point is the exact mean over its part: the area under the piecewise constant function, by the width.
	width := (last - first) / shownSteps
	out := make([]page.Point, shownSteps)
	value, k := 0.0, 0
	for i := range out {
		from, to := first+float64(i)*width, first+float64(i+1)*width
		area, at := 0.0, from
		for ; k < len(changes) && changes[k].at < to; k++ {
			if t := math.Max(changes[k].at, from); t > at {
				area += value * (t - at)
				at = t
			}
			value += changes[k].by
		}
		area += value * (to - at)
		out[i] = page.Point{X: (from + to - 2*first) / 2 / 3600, Y: area / width * scale}
	}
	return out
}

// extent returns the time of the first submission and of the last known event.
func extent(r *queue.Result) (first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for i := range r.Jobs {
		o := &r.Jobs[i]
		first = min(first, o.Job.Submit)
		for _, v := range []float64{o.Job.Submit, o.Start, o.End} {
			if page.Known(v) {
				last = max(last, v)
			}
		}
	}
	return first, last
}

// queueLine returns the number of waiting jobs over hours from the first submission.
func queueLine(name string, r *queue.Result) page.Series {
	first, last := extent(r)
	var c []change
	for i := range r.Jobs {
		o := &r.Jobs[i]
		if o.State == queue.Rejected {
			continue
		}
		c = append(c, change{o.Job.Submit, 1})
		if page.Known(o.Start) {
			c = append(c, change{o.Start, -1})
		}
	}
	return page.Series{Name: name, Dense: true, Points: level(c, first, last, 1)}
}

// utilizationLine returns the share of busy processors over hours from the first submission.
func utilizationLine(name string, r *queue.Result) page.Series {
	first, last := extent(r)
	var c []change
	for i := range r.Jobs {
		if o := &r.Jobs[i]; page.Known(o.Start) {
			c = append(c, change{o.Start, float64(o.Job.Procs)})
			if page.Known(o.End) {
				c = append(c, change{o.End, -float64(o.Job.Procs)})
			}
		}
	}
	return page.Series{Name: name, Dense: true, Points: level(c, first, last, 1/float64(r.Procs))}
}

// slowdownLine returns the distribution of bounded slowdowns.
func slowdownLine(name string, r *queue.Result) page.Series {
	var v []float64
	for i := range r.Jobs {
		if o := &r.Jobs[i]; o.Ran() {
			v = append(v, o.BoundedSlowdown())
		}
	}
	return page.Distribution(name, v)
}

// Charts used by both runs and comparisons.
func queueChart(lines ...page.Series) page.Chart {
	return page.Chart{Title: "Waiting jobs", Note: "mean over each of 240 parts of the time, from the first submission on",
		X: page.Axis{Name: "hours", Zero: true}, Y: page.Axis{Name: "jobs", Zero: true}, Series: lines}
}

func utilizationChart(lines ...page.Series) page.Chart {
	return page.Chart{Title: "Utilization over time", Note: "share of the processors that run something",
		X: page.Axis{Name: "hours", Zero: true}, Y: page.Axis{Name: "share of processors", Zero: true, Share: true}, Series: lines}
}

func slowdownChart(lines ...page.Series) page.Chart {
	return page.Chart{Title: "Slowdown", Note: "cumulative share of the jobs by bounded slowdown",
		X: page.Axis{Name: "bounded slowdown", Log: true}, Y: page.Axis{Name: "share of jobs", Zero: true, Share: true}, Series: lines}
}

// charts returns the charts of a run.
func charts(r *RunView) []page.Chart {
	name := r.Method.Policy
	out := []page.Chart{queueChart(queueLine(name, r.Result)), utilizationChart(utilizationLine(name, r.Result)), slowdownChart(slowdownLine(name, r.Result))}
	if c, ok := bandwidthChart(r); ok {
		out = append(out, c)
	}
	if c, ok := blockedChart(r); ok {
		out = append(out, c)
	}
	if len(r.Learned) > 1 {
		out = append(out, learningCharts(r)...)
	}
	return out
}

// busiest is the maximum number of processors in the chart of bandwidth.
const busiest = 6

// bandwidthChart shows the oversubscription of bandwidth for the most affected processors; ok is false without a
// platform or without oversubscription.
func bandwidthChart(r *RunView) (c page.Chart, ok bool) {
	if r.Tree == nil {
		return c, false
	}
	over := overuse(r)
	var order []int
	for p := range over {
		if over[p].excess > 0 {
			order = append(order, p)
		}
	}
	if len(order) == 0 {
		return c, false
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(over[b].excess, over[a].excess) })
	first, last := extent(r.Result)
	var lines []page.Series
	for _, p := range order[:min(busiest, len(order))] {
		t := &r.Tree.Processors[p]
		lines = append(lines, page.Series{Name: fmt.Sprintf("processor %d (%s)", p, t.Type), Dense: true, Points: level(over[p].changes, first, last, 1)})
	}
	return page.Chart{Title: "Bandwidth demand above capacity",
		Note: fmt.Sprintf("%d of %d processors were oversubscribed at some time, which slows their jobs to 75 %%; the %d most oversubscribed are shown", len(order), len(over), len(lines)),
		X:    page.Axis{Name: "hours", Zero: true}, Y: page.Axis{Name: "GB/s above capacity", Zero: true}, Series: lines}, true
}

// excess is the oversubscription of a processor's bandwidth: changes over time, GB/s, and their integral, GB.
type excess struct {
	changes []change
	excess  float64
}

// overuse returns the excess of each processor. It collects the bandwidth requested by the jobs on each processor as
// changes over time, and integrates the part above the processor's bandwidth; differences below 1e-9 GB/s are
// rounding errors. O(cores of all jobs), apart from sorting.
func overuse(r *RunView) []excess {
	asked := make([][]change, len(r.Tree.Processors))
	for i := range r.Jobs {
		o := &r.Jobs[i]
		if !page.Known(o.Start) || !page.Known(o.End) {
			continue
		}
		for k := 0; k < len(o.Cores); {
			p := r.Tree.ProcessorOf[o.Cores[k]]
			n := k + 1
			for n < len(o.Cores) && r.Tree.ProcessorOf[o.Cores[n]] == p {
				n++
			}
			by := o.Job.Bandwidth * float64(n-k)
			asked[p] = append(asked[p], change{o.Start, by}, change{o.End, -by})
			k = n
		}
	}
	out := make([]excess, len(asked))
	for p, all := range asked {
		slices.SortStableFunc(all, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
		sum, over := 0.0, 0.0
		for i, c := range all {
			if i > 0 {
				out[p].excess += over * (c.at - all[i-1].at)
			}
			sum += c.by
			now := math.Max(0, sum-r.Tree.Processors[p].Bandwidth)
			if now < 1e-9 {
				now = 0
			}
			if now != over {
				out[p].changes = append(out[p].changes, change{c.at, now - over})
				over = now
			}
		}
	}
	return out
}

// blockedChart shows the cumulative number of decisions that ended for lack of cores or memory; ok is false if there
// were none.
func blockedChart(r *RunView) (c page.Chart, ok bool) {
	if len(r.Blocked) == 0 {
		return c, false
	}
	first, _ := extent(r.Result)
	line := page.Series{Name: "decisions that left jobs waiting", Dense: true}
	step := max(1, len(r.Blocked)/shownSteps)
	for i := 0; i < len(r.Blocked); i += step {
		line.Points = append(line.Points, page.Point{X: (r.Blocked[i] - first) / 3600, Y: float64(i + 1)})
	}
	return page.Chart{Title: "Decisions that ended for lack of cores or memory", Note: "how many until then: HDeepRM passes over no job",
		X: page.Axis{Name: "hours", Zero: true}, Y: page.Axis{Name: "decisions", Zero: true}, Series: []page.Series{line}}, true
}

// learningCharts shows rewards, makespans and losses by run.
func learningCharts(r *RunView) []page.Chart {
	reward, loss, makespan := page.Series{Name: "reward"}, page.Series{Name: "loss"}, page.Series{Name: "makespan"}
	losses := false
	for k, l := range r.Learned {
		x := float64(k + 1)
		reward.Points = append(reward.Points, page.Point{X: x, Y: l.Reward})
		loss.Points = append(loss.Points, page.Point{X: x, Y: l.Loss})
		makespan.Points = append(makespan.Points, page.Point{X: x, Y: l.Makespan / 3600})
		losses = losses || page.Known(l.Loss)
	}
	runs := page.Axis{Name: "run"}
	out := []page.Chart{
		{Title: "Rewards", Note: "sum over each run; higher is better", X: runs, Y: page.Axis{Name: "reward"}, Series: []page.Series{reward}},
		{Title: "Makespan of each run", X: runs, Y: page.Axis{Name: "hours"}, Series: []page.Series{makespan}},
	}
	if losses {
		out = append(out, page.Chart{Title: "Losses", Note: "of the step of learning after each run", X: runs, Y: page.Axis{Name: "loss"}, Series: []page.Series{loss}})
	}
	return out
}
