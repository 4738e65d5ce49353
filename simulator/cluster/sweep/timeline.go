package sweep

import (
	"maps"
	"math"
	"slices"

	"trainopt/optimizer/report/chart"
	"trainopt/simulator/cluster"
)

// shownSteps is the approximate number of points of a line over time.
const shownSteps = 120

// utilizationChart returns a chart of utilization over time.
func utilizationChart(note string, lines []chart.Series) chart.Chart {
	return chart.Chart{Title: "Utilisation over time", Note: note, X: chart.Axis{Name: "hours", Zero: true},
		Y: chart.Axis{Name: "share of devices", Zero: true, Share: true}, Series: lines}
}

// deviceLines returns a line for each device type.
func deviceLines(r *cluster.Result) []chart.Series {
	var out []chart.Series
	for _, name := range slices.Sorted(maps.Keys(r.Cluster)) {
		out = append(out, utilizationLine(name, r, name))
	}
	return out
}

// utilizationLine returns the share of the devices of some types that were in use, by hour; without types, of all
// devices. Each of its at most 120 points is the mean over an interval and is placed at its centre.
func utilizationLine(name string, r *cluster.Result, types ...string) chart.Series {
	line := chart.Series{Name: name, Dense: true}
	if r.Timeline == nil {
		return line
	}
	if len(types) == 0 {
		types = slices.Sorted(maps.Keys(r.Cluster))
	}
	steps := r.Timeline.Steps()
	together := max(1, (steps+shownSteps-1)/shownSteps)
	for k := 0; k < steps; k += together {
		from := float64(k) * float64(r.Timeline.StepS)
		to := math.Min(float64(k+together)*float64(r.Timeline.StepS), float64(r.MakespanS))
		used, devices := 0.0, 0
		for _, t := range types {
			devices += r.Cluster[t]
			for _, v := range r.Timeline.UsedS[t][k:min(k+together, steps)] {
				used += float64(v)
			}
		}
		line.Points = append(line.Points, chart.Point{X: (from + to) / 2 / 3600, Y: used / (float64(devices) * (to - from))})
	}
	return line
}
