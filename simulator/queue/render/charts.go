package render

import (
	"cmp"
	"math"
	"slices"

	"trainopt/simulator/evaluate"
	"trainopt/simulator/queue"
)

// shownSteps is about how many points a line over time has.
const shownSteps = 240

// change is that something grows by so much at a time.
type change struct{ at, by float64 }

// level is what changes add up to over time, from first to last, as the mean of each of at most shownSteps parts. Times of the
// points are hours from first, at the middle of a part.
func level(changes []change, first, last, scale float64) []evaluate.Point {
	if !(last > first) {
		return nil
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	width := (last - first) / shownSteps
	out := make([]evaluate.Point, shownSteps)
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
		out[i] = evaluate.Point{X: (from + to - 2*first) / 2 / 3600, Y: area / width * scale}
	}
	return out
}

// extent is the time that a result is about.
func extent(r *queue.Result) (first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for i := range r.Jobs {
		o := &r.Jobs[i]
		first = min(first, o.Job.Submit)
		for _, v := range []float64{o.Job.Submit, o.Start, o.End} {
			if known(v) {
				last = max(last, v)
			}
		}
	}
	return first, last
}

// QueueLine is how many jobs wait, over hours from the first submission.
func QueueLine(name string, r *queue.Result) evaluate.Line {
	first, last := extent(r)
	var c []change
	for i := range r.Jobs {
		o := &r.Jobs[i]
		if o.State == queue.Rejected {
			continue
		}
		c = append(c, change{o.Job.Submit, 1})
		if known(o.Start) {
			c = append(c, change{o.Start, -1})
		}
	}
	return evaluate.Line{Name: name, Points: level(c, first, last, 1)}
}

// UtilizationLine is the share of the processors that run something, over hours from the first submission.
func UtilizationLine(name string, r *queue.Result) evaluate.Line {
	first, last := extent(r)
	var c []change
	for i := range r.Jobs {
		if o := &r.Jobs[i]; known(o.Start) {
			c = append(c, change{o.Start, float64(o.Job.Procs)})
			if known(o.End) {
				c = append(c, change{o.End, -float64(o.Job.Procs)})
			}
		}
	}
	return evaluate.Line{Name: name, Points: level(c, first, last, 1/float64(r.Procs))}
}

// SlowdownLine is how bounded slowdowns are distributed.
func SlowdownLine(name string, r *queue.Result) evaluate.Line {
	var v []float64
	for i := range r.Jobs {
		if o := &r.Jobs[i]; ended(o) {
			v = append(v, o.BoundedSlowdown())
		}
	}
	return evaluate.Distribution(name, v)
}

// The charts that runs and comparisons have in common.
func queueChart(lines ...evaluate.Line) evaluate.Chart {
	return evaluate.Chart{Title: "Jobs that wait", Note: "mean over each of 240 parts of the time, from the first submission on",
		X: evaluate.Axis{Name: "hours", Zero: true}, Y: evaluate.Axis{Name: "jobs", Zero: true}, Lines: lines}
}

func utilizationChart(lines ...evaluate.Line) evaluate.Chart {
	return evaluate.Chart{Title: "Utilisation over time", Note: "share of the processors that run something",
		X: evaluate.Axis{Name: "hours", Zero: true}, Y: evaluate.Axis{Name: "share of processors", Zero: true, Share: true}, Lines: lines}
}

func slowdownChart(lines ...evaluate.Line) evaluate.Chart {
	return evaluate.Chart{Title: "Slowdown", Note: "share of the jobs whose bounded slowdown is at most so much",
		X: evaluate.Axis{Name: "bounded slowdown", Log: true}, Y: evaluate.Axis{Name: "share of jobs", Zero: true, Share: true}, Lines: lines}
}

func charts(r *Run) []evaluate.Chart {
	name := r.Method.Policy
	return []evaluate.Chart{queueChart(QueueLine(name, r.Result)), utilizationChart(UtilizationLine(name, r.Result)), slowdownChart(SlowdownLine(name, r.Result))}
}
