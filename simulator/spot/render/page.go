package render

import (
	"io"
	"math"

	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

// shownTicks bounds the number of ticks shown in the lines of capacity.
const shownTicks = 20000

// page writes the run as an HTML page.
func page(w io.Writer, r *Run) error {
	p := experiment.Page{Title: r.title(), Subtitle: r.subtitle(), Facts: r.facts(), Charts: []experiment.Chart{r.progress(), r.ahead()}, Notes: r.Warnings}
	if t := r.table(); len(t.Lines) > 0 {
		p.Tables = append(p.Tables, t)
	}
	return p.Write(w)
}

// Colours of machines, the same in all charts.
const (
	spotColor, demandColor, waitColor = 1, 2, 8
	optimumColor, lineColor           = 3, 4
)

var zoneColors = []int{7, 5, 6}

// progress returns the chart of the work done over time, coloured by machine.
func (r *Run) progress() experiment.Chart {
	return experiment.Chart{Title: "Work done, and on which machine", X: experiment.Axis{Name: "hours", Zero: true}, Y: experiment.Axis{Name: "hours of work", Zero: true}, Lines: r.lines()}
}

// lines returns the work of the optimum (unless it is the policy itself), of the job by machine, and last the straight
// line.
func (r *Run) lines() []experiment.Line {
	var out []experiment.Line
	if r.Optimum != nil && r.Policy != "optimum" {
		line := experiment.Line{Name: "optimum", Color: optimumColor, Dash: true}
		y := 0.0
		for _, s := range r.Optimum.Timeline {
			line.Points = append(line.Points, points(s, y)...)
			y = hours(s.DoneS)
		}
		out = append(out, line)
	}
	out = append(out, machineLines(r.Outcome)...)
	return append(out, experiment.Line{Name: "straight to the deadline", Color: lineColor, Dash: true, Points: []experiment.Point{{}, {X: hours(r.Job.DeadlineS), Y: hours(r.Job.WorkS)}}})
}

func hours(seconds float64) float64 { return seconds / 3600 }

// points returns the points that a period adds to a line of work at level y.
func points(s spot.Stretch, y float64) []experiment.Point {
	return []experiment.Point{{X: hours(s.FromS), Y: y}, {X: hours(math.Min(s.ReadyS, s.ToS)), Y: y}, {X: hours(s.ToS), Y: hours(s.DoneS)}}
}

// gap is a point that interrupts a line.
var gap = experiment.Point{X: math.NaN(), Y: math.NaN()}

// machineLines returns the progress of an outcome, one line for each machine.
func machineLines(o spot.Outcome) []experiment.Line {
	out := []experiment.Line{{Name: "on spot capacity", Color: spotColor}, {Name: "on demand", Color: demandColor}, {Name: "waiting", Color: waitColor}}
	of := map[spot.Machine]int{spot.Spot: 0, spot.OnDemand: 1, spot.None: 2}
	y := 0.0
	for _, s := range o.Timeline {
		line := &out[of[s.On.Machine]]
		line.Points = append(append(line.Points, points(s, y)...), gap)
		y = hours(s.DoneS)
	}
	return out
}

// ahead returns the chart of the job's lead over the straight line, coloured by machine, with the periods of capacity
// below.
func (r *Run) ahead() experiment.Chart {
	c := experiment.Chart{Title: "Ahead of the straight line, and when there is capacity", X: experiment.Axis{Name: "hours", Zero: true}, Y: experiment.Axis{Name: "hours of work ahead"},
		Note: "Above 0 the job is ahead of the line to its deadline. Lines at the bottom: when a zone has spot capacity."}
	c.Lines = r.lines()
	lo, hi := 0.0, 0.0
	for l := range c.Lines {
		line := &c.Lines[l]
		if l == len(c.Lines)-1 { // the straight line itself
			line.Points = []experiment.Point{{}, {X: hours(r.Job.DeadlineS)}}
			continue
		}
		for i := range line.Points {
			q := &line.Points[i]
			q.Y -= math.Min(hours(r.Job.WorkS), q.X*r.Job.WorkS/r.Job.DeadlineS)
			if !math.IsNaN(q.Y) {
				lo, hi = math.Min(lo, q.Y), math.Max(hi, q.Y)
			}
		}
	}
	step := math.Max((hi-lo)/12, 1e-3)
	for z := range r.Market.Zones {
		c.Lines = append(c.Lines, r.capacity(z, lo-step*float64(z+1)))
	}
	return c
}

// capacity returns the periods of capacity of a zone as a line at a level.
func (r *Run) capacity(z int, level float64) experiment.Line {
	zone := r.Market.Zones[z]
	end := r.Job.DeadlineS
	for _, s := range r.Outcome.Timeline {
		end = math.Max(end, s.ToS)
	}
	ticks := min(shownTicks, int(math.Ceil(end/r.Market.TickS)))
	line := experiment.Line{Name: "capacity in " + zone.Name, Color: zoneColors[z%len(zoneColors)]}
	up := func(k int) bool { return zone.Up[(r.From+k)%len(zone.Up)] }
	for k := 0; k < ticks; k++ {
		if !up(k) {
			continue
		}
		from := k
		for k < ticks && up(k) {
			k++
		}
		at := func(k int) float64 { return hours(math.Min(end, float64(k)*r.Market.TickS)) }
		line.Points = append(line.Points, experiment.Point{X: at(from), Y: level}, experiment.Point{X: at(k), Y: level}, gap)
	}
	return line
}
