package render

import (
	"io"
	"math"

	"trainopt/simulator/evaluate"
	"trainopt/simulator/spot"
)

// shownTicks bounds the points of the lines of capacity.
const shownTicks = 20000

func page(w io.Writer, r *Run) error {
	p := evaluate.Page{Title: r.title(), Subtitle: r.subtitle(), Facts: r.facts(), Charts: []evaluate.Chart{r.progress(), r.capacity()}, Notes: r.Warnings}
	if t := r.table(); len(t.Lines) > 0 {
		p.Tables = append(p.Tables, t)
	}
	return p.Write(w)
}

// Colours of machines, the same in all pictures.
const (
	spotColor, demandColor, waitColor = 1, 2, 8
	optimumColor, lineColor           = 3, 4
)

// progress is the work done over time, in the colour of the machine.
func (r *Run) progress() evaluate.Chart {
	c := evaluate.Chart{Title: "Work done, and on which machine", X: evaluate.Axis{Name: "hours", Zero: true}, Y: evaluate.Axis{Name: "hours of work", Zero: true},
		Note: "The dashed line goes straight to the deadline: Uniform Progress pays for a machine on demand only below it."}
	c.Lines = append(c.Lines, machineLines(r.Outcome)...)
	if r.Optimum != nil && r.Policy != "optimum" {
		line := evaluate.Line{Name: "optimum", Color: optimumColor, Dash: true, Points: []evaluate.Point{{}}}
		for _, s := range r.Optimum.Timeline {
			line.Points = append(line.Points, points(s, work(line.Points))...)
		}
		c.Lines = append(c.Lines, line)
	}
	c.Lines = append(c.Lines, evaluate.Line{Name: "straight to the deadline", Color: lineColor, Dash: true, Points: []evaluate.Point{{}, {X: hours(r.Job.DeadlineS), Y: hours(r.Job.WorkS)}}})
	return c
}

func hours(seconds float64) float64 { return seconds / 3600 }

// work is where a line ends.
func work(p []evaluate.Point) float64 {
	if len(p) == 0 {
		return 0
	}
	return p[len(p)-1].Y
}

// points are what a stretch adds to a line of work that was at y.
func points(s spot.Stretch, y float64) []evaluate.Point {
	return []evaluate.Point{{X: hours(s.FromS), Y: y}, {X: hours(math.Min(s.ReadyS, s.ToS)), Y: y}, {X: hours(s.ToS), Y: hours(s.DoneS)}}
}

// machineLines are the progress of an outcome, a line for each machine.
func machineLines(o spot.Outcome) []evaluate.Line {
	out := []evaluate.Line{{Name: "on spot capacity", Color: spotColor}, {Name: "on demand", Color: demandColor}, {Name: "waiting", Color: waitColor}}
	of := map[spot.Machine]int{spot.Spot: 0, spot.OnDemand: 1, spot.None: 2}
	gap := evaluate.Point{X: math.NaN(), Y: math.NaN()}
	y := 0.0
	for _, s := range o.Timeline {
		line := &out[of[s.On.Machine]]
		line.Points = append(append(line.Points, points(s, y)...), gap)
		y = hours(s.DoneS)
	}
	return out
}

// capacity is when which zone has capacity, a line each, and when the job is on what.
func (r *Run) capacity() evaluate.Chart {
	c := evaluate.Chart{Title: "Spot capacity, and the machine used", X: evaluate.Axis{Name: "hours", Zero: true}, Y: evaluate.Axis{Name: "1: the job; above: zones with capacity", Zero: true}}
	gap := evaluate.Point{X: math.NaN(), Y: math.NaN()}
	machines := []evaluate.Line{{Name: "on spot capacity", Color: spotColor}, {Name: "on demand", Color: demandColor}, {Name: "waiting", Color: waitColor}}
	of := map[spot.Machine]int{spot.Spot: 0, spot.OnDemand: 1, spot.None: 2}
	end := r.Job.DeadlineS
	for _, s := range r.Outcome.Timeline {
		line := &machines[of[s.On.Machine]]
		line.Points = append(line.Points, evaluate.Point{X: hours(s.FromS), Y: 1}, evaluate.Point{X: hours(s.ToS), Y: 1}, gap)
		end = math.Max(end, s.ToS)
	}
	c.Lines = append(c.Lines, machines...)
	ticks := min(shownTicks, int(math.Ceil(end/r.Market.TickS)))
	for z, zone := range r.Market.Zones {
		line := evaluate.Line{Name: "capacity in " + zone.Name, Color: 3 + z%5}
		level := float64(z + 2)
		for k := 0; k < ticks; k++ {
			if !zone.Up[(r.From+k)%len(zone.Up)] {
				continue
			}
			from := k
			for k < ticks && zone.Up[(r.From+k)%len(zone.Up)] {
				k++
			}
			line.Points = append(line.Points, evaluate.Point{X: hours(float64(from) * r.Market.TickS), Y: level},
				evaluate.Point{X: hours(math.Min(end, float64(k)*r.Market.TickS)), Y: level}, gap)
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}
