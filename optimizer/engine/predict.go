package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options control a prediction. The zero value is a useful default.
type Options struct {
	Seed uint64
	// Draws is the number of simulations; 0 means 200.
	Draws int
	// Horizon is the longest predicted wait; 0 means 30 days.
	Horizon time.Duration
	// Waiting also predicts the starts of the waiting jobs.
	Waiting bool
}

// start is the distribution of a start. A zero time is one beyond the horizon.
type start struct {
	P5, P50, P95 time.Time
}

// Prediction is the predicted start of a job.
type Prediction struct {
	start
	Now time.Time
	// ByLimits is the start if every job ran to its limit and no further job arrived, as a scheduler plans it; zero if
	// beyond the horizon.
	ByLimits time.Time
	// Ahead is the number of waiting jobs that are considered before this one and may use some of the same nodes.
	Ahead int
	// Observed is the number of run lengths in the history; without any the prediction is nearly uninformed.
	Observed int
	// Waiting contains the starts of Queue.Waiting if requested; that of a job that is held or that no node can run
	// is zero.
	Waiting []start
}

// Predict predicts when a job would start that is submitted now. Equal arguments give equal predictions. The error
// reports a queue that cannot be simulated, or a job that no nodes of it can run.
//
// Cost: Draws × the events until the start, each with a pass over the waiting jobs.
func Predict(q Queue, j Job, h History, o Options) (Prediction, error) {
	c, err := newCluster(&q, &j, &h)
	if err != nil {
		return Prediction{}, fmt.Errorf("predict the start: %w", err)
	}
	if o.Draws <= 0 {
		o.Draws = 200
	}
	if o.Horizon <= 0 {
		o.Horizon = 30 * 24 * time.Hour
	}
	p := Prediction{Now: q.Now, Ahead: c.ahead(), Observed: len(c.runs.groups[0].shares)}
	plan := newSimulation(c)
	plan.byLimits, plan.horizon = true, o.Horizon.Seconds()
	plan.run(rand.New(rand.NewPCG(o.Seed, 0)))
	p.ByLimits = p.at(plan.started[c.target])

	starts := c.draw(o)
	p.start = p.quantiles(starts[c.target])
	if o.Waiting {
		p.Waiting = make([]start, len(q.Waiting))
		for i, id := range c.simulated {
			if id >= 0 {
				p.Waiting[i] = p.quantiles(starts[id])
			}
		}
	}
	return p, nil
}

// draw returns the starts of the present jobs by task and draw, in seconds; NaN beyond the horizon.
func (c *cluster) draw(o Options) [][]float64 {
	starts := make([][]float64, len(c.tasks))
	for id := range starts {
		starts[id] = make([]float64, o.Draws)
	}
	workers := min(runtime.GOMAXPROCS(0), o.Draws)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			s := newSimulation(c)
			s.horizon, s.all = o.Horizon.Seconds(), o.Waiting
			for d := w; d < o.Draws; d += workers {
				s.run(rand.New(rand.NewPCG(o.Seed, uint64(d)+1)))
				for id := range starts {
					starts[id][d] = s.started[id]
				}
			}
		})
	}
	group.Wait()
	return starts
}

// ahead returns the number of waiting jobs of higher rank than the job in question that may use one of its nodes.
func (c *cluster) ahead() int {
	target := &c.tasks[c.target]
	n := 0
	for _, id := range c.waiting {
		t := &c.tasks[id]
		if t.compare(target.rank) < 0 && slices.ContainsFunc(c.shapes[t.shape].takes, func(k take) bool {
			return slices.ContainsFunc(c.shapes[target.shape].takes, func(l take) bool { return k.node == l.node })
		}) {
			n++
		}
	}
	return n
}

// quantiles returns the distribution of starts. The bounds are order statistics, the lower one rounded down and the
// upper one up, so that they contain at least nine draws in ten.
func (p *Prediction) quantiles(seconds []float64) start {
	sorted := slices.Clone(seconds)
	for i, s := range sorted {
		if math.IsNaN(s) {
			sorted[i] = math.Inf(1)
		}
	}
	slices.Sort(sorted)
	last := float64(len(sorted) - 1)
	middle := sorted[int(last/2)]
	return start{p.at(sorted[int(0.05*last)]), p.at(middle), p.at(sorted[int(math.Ceil(0.95*last))])}
}

// at returns the time a number of seconds from now; zero if it is not a number or infinite.
func (p *Prediction) at(seconds float64) time.Time {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return time.Time{}
	}
	return p.Now.Add(time.Duration(seconds * float64(time.Second)))
}

// immediate is the wait below which a job is said to start now.
const immediate = time.Minute

// String describes the prediction: "starts 14:10 (13:50–15:30): 3 jobs ahead". Times are in the location of Now.
func (p Prediction) String() string {
	ahead := fmt.Sprintf("%d jobs ahead", p.Ahead)
	switch p.Ahead {
	case 0:
		ahead = "no job ahead"
	case 1:
		ahead = "1 job ahead"
	}
	switch {
	case p.P50.IsZero():
		return "start not within the horizon of the prediction: " + ahead
	case !p.P95.IsZero() && p.P95.Sub(p.Now) < immediate:
		return "starts now: " + ahead
	}
	return fmt.Sprintf("starts %s (%s–%s): %s", p.clock(p.P50), p.clock(p.P5), p.clock(p.P95), ahead)
}

// clock formats a time by the minute, with the date unless it is today.
func (p *Prediction) clock(t time.Time) string {
	if t.IsZero() {
		return "later"
	}
	t = t.In(p.Now.Location())
	if t.Format(time.DateOnly) == p.Now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Jan 2 15:04")
}
