package spot

import (
	"errors"
	"fmt"
	"math"
)

// Machine is what a job runs on.
type Machine int

// The machines there are.
const (
	None Machine = iota
	Spot
	OnDemand
)

// String is "none", "spot" or "on-demand".
func (m Machine) String() string {
	switch m {
	case None:
		return "none"
	case Spot:
		return "spot"
	case OnDemand:
		return "on-demand"
	}
	return fmt.Sprintf("machine %d", int(m))
}

// Choice is a machine; Zone says where, from 0, and matters for Spot only.
type Choice struct {
	Machine Machine
	Zone    int
}

// Job is a job on one machine at a time, or on one group of machines, that must end by its deadline.
type Job struct {
	WorkS       float64 // seconds on either machine
	DeadlineS   float64 // seconds from its start
	ChangeoverS float64 // seconds lost, and paid, whenever a machine begins; 0: none
	// Prices of the machine, USD per hour.
	SpotUSDHour, OnDemandUSDHour float64
}

// Feasible says whether a machine on demand from the start is in time. When it is not, nothing is.
func (j Job) Feasible() bool { return j.WorkS+j.ChangeoverS <= j.DeadlineS*(1+slack) }

// AloneUSD is what the job costs on demand alone.
func (j Job) AloneUSD() float64 { return (j.WorkS + j.ChangeoverS) / 3600 * j.OnDemandUSDHour }

// Validate says everything that is wrong with a job.
func (j Job) Validate() error {
	var problems []error
	for _, v := range []struct {
		name  string
		value float64
		zero  bool // allowed
		unit  string
	}{{"work", j.WorkS, false, "s"}, {"deadline", j.DeadlineS, false, "s"}, {"changeover", j.ChangeoverS, true, "s"},
		{"price of spot capacity", j.SpotUSDHour, true, "USD/h"}, {"price on demand", j.OnDemandUSDHour, true, "USD/h"}} {
		switch {
		case math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0:
			problems = append(problems, fmt.Errorf("%s of %v %s: want a number from 0", v.name, v.value, v.unit))
		case v.value == 0 && !v.zero:
			problems = append(problems, fmt.Errorf("%s of 0 %s: want more than 0", v.name, v.unit))
		}
	}
	return errors.Join(problems...)
}

// State is what a policy sees at a tick.
type State struct {
	Job
	NowS  float64 // seconds from the start of the job
	DoneS float64 // seconds of work
	TickS float64 // seconds until the next choice
	On    Choice  // in the tick before; None when that was taken away
	Up    []bool  // by zone: whether spot capacity can be had
	// UpS is, by zone, for how many seconds there has been capacity without a break, as far as the job has seen; 0 at its first tick.
	UpS []float64
}

// Policy chooses the machine for the next tick. It must not choose Spot in a zone where there is none.
type Policy func(s State) Choice

// stays says that the job is on spot capacity and may go on there.
func (s State) stays() bool { return s.On.Machine == Spot && s.Up[s.On.Zone] }

// spot is the zone that has had capacity for the longest, as far as seen; ok is false when none has.
func (s State) spot() (c Choice, ok bool) {
	best := -1.0
	for z, up := range s.Up {
		if up && s.UpS[z] > best {
			c, best = Choice{Spot, z}, s.UpS[z]
		}
	}
	return c, best >= 0
}

// late is the safety net of the paper, for choices at ticks: at the next choice less time would be left than the work and two changeovers take, one to a
// machine that is lost at once and one to a machine on demand.
func (s State) late() bool { return s.DeadlineS-s.NowS-s.TickS < s.WorkS-s.DoneS+2*s.ChangeoverS }

// line is how much work is done at a time on the straight line from the start to the deadline.
func (s State) line(atS float64) float64 { return atS * s.WorkS / s.DeadlineS }
