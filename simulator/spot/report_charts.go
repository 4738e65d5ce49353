package spot

import (
	"math"
	"slices"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/capacity"
)

// shownTicks bounds the number of ticks shown in the lines of capacity.
const shownTicks = 20000

// pictured returns the document of the run with its charts.
func (r *Report) pictured() page.Document {
	d := r.document()
	d.Title = "Simulated job on spot capacity: " + d.Title
	s := &d.Sections[0]
	s.Blocks[0].Intro = "Spot capacity is cheaper and may end at any time; machines on demand stay. The optimum knows in advance when there is capacity."
	s.Blocks = slices.Insert(s.Blocks, 1, page.Block{Pictures: page.Pictures([]page.Chart{r.progress(), r.ahead()})})
	return d
}

// Colours of machines, the same in all charts.
const (
	spotColor, demandColor, waitColor = "s1", "s2", "s4"
	optimumColor, lineColor           = "s3", "s5"
)

var zoneColors = []string{"s7", "s8", "s6"}

// progress returns the chart of the work done over time, coloured by machine.
func (r *Report) progress() page.Chart {
	return page.Chart{Title: "Work done, and on which machine", X: page.Axis{Name: "hours", Zero: true}, Y: page.Axis{Name: "hours of work", Zero: true}, Series: r.lines()}
}

// lines returns the work of the optimum (unless it is the policy itself), of the job by machine, and last the straight
// line.
func (r *Report) lines() []page.Series {
	var out []page.Series
	if r.Optimum != nil && r.Policy != "optimum" {
		line := page.Series{Name: "optimum", Class: optimumColor, Dashed: true, Pieces: true}
		y := 0.0
		for _, s := range r.Optimum.Timeline {
			line.Points = append(line.Points, points(s, y)...)
			y = hours(s.DoneS)
		}
		out = append(out, line)
	}
	out = append(out, machineLines(r.Outcome)...)
	return append(out, page.Series{Name: "straight to the deadline", Class: lineColor, Dashed: true, Points: []page.Point{{}, {X: hours(r.Job.DeadlineS), Y: hours(r.Job.WorkS)}}})
}

func hours(seconds float64) float64 { return seconds / 3600 }

// points returns the points that a period adds to a line of work at level y.
func points(s stretch, y float64) []page.Point {
	return []page.Point{{X: hours(s.FromS), Y: y}, {X: hours(math.Min(s.ReadyS, s.ToS)), Y: y}, {X: hours(s.ToS), Y: hours(s.DoneS)}}
}

// gap is a point that interrupts a line.
var gap = page.Point{X: math.NaN(), Y: math.NaN()}

// machineLines returns the progress of an outcome, one line for each machine.
func machineLines(o outcome) []page.Series {
	out := []page.Series{{Name: "on spot capacity", Class: spotColor, Pieces: true}, {Name: "on demand", Class: demandColor, Pieces: true}, {Name: "waiting", Class: waitColor, Pieces: true}}
	of := map[capacity.Machine]int{capacity.Spot: 0, capacity.OnDemand: 1, capacity.None: 2}
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
func (r *Report) ahead() page.Chart {
	c := page.Chart{Title: "Ahead of the straight line, and when there is capacity", X: page.Axis{Name: "hours", Zero: true}, Y: page.Axis{Name: "hours of work ahead"},
		Note: "Above 0 the job is ahead of the line to its deadline. Lines at the bottom: when a zone has spot capacity."}
	c.Series = r.lines()
	lo, hi := 0.0, 0.0
	for l := range c.Series {
		line := &c.Series[l]
		if l == len(c.Series)-1 { // the straight line itself
			line.Points = []page.Point{{}, {X: hours(r.Job.DeadlineS)}}
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
		c.Series = append(c.Series, r.capacity(z, lo-step*float64(z+1)))
	}
	return c
}

// capacity returns the periods of capacity of a zone as a line at a level.
func (r *Report) capacity(z int, level float64) page.Series {
	zone := r.Market.Zones[z]
	end := r.Job.DeadlineS
	for _, s := range r.Outcome.Timeline {
		end = math.Max(end, s.ToS)
	}
	ticks := min(shownTicks, int(math.Ceil(end/r.Market.TickS)))
	line := page.Series{Name: "capacity in " + zone.Name, Class: zoneColors[z%len(zoneColors)], Pieces: true, One: func(float64) string { return "available" }}
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
		line.Points = append(line.Points, page.Point{X: at(from), Y: level}, page.Point{X: at(k), Y: level}, gap)
	}
	return line
}
