// Package capacity decides on which machine a job with a deadline runs when spot capacity is intermittent: on spot
// capacity, which is cheap and may be taken away, on demand, which is expensive and reliable, or on none for the
// moment. The problem and the method Uniform Progress are those of Wu et al., "Can't Be Late: Optimizing Spot Instance
// Savings under Deadlines", NSDI 2024 (in this package: the paper).
//
// A policy is a function from the state observable at a tick to a machine, without clock or files. Package run calls it
// for a training, package simulator/spot for a simulated job; neither is a cloud client.
//
//	var policy capacity.Adaptive
//	choice := policy.Choose(capacity.State{Job: job, TickS: 300, Up: up, UpS: upS, Seen: seen})
package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Machine is the kind of machine a job runs on.
type Machine int

// The kinds of machine.
const (
	None Machine = iota
	Spot
	OnDemand
)

// String returns "none", "spot" or "on-demand".
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

// Choice is a machine; Zone is its zone, counted from 0, and applies to Spot only.
type Choice struct {
	Machine Machine
	Zone    int
}

// Job is a job on one machine or one group of machines at a time that must end by its deadline.
type Job struct {
	WorkS       float64 // seconds on any machine
	DeadlineS   float64 // seconds from its start
	ChangeoverS float64 // seconds lost, and paid, at each start of a machine; 0: none
	// Prices of the machine in USD per hour.
	SpotUSDHour, OnDemandUSDHour float64
	// If spot capacity is taken away, work since the last checkpoint is lost: one is saved every CheckpointS of work, which
	// includes the time of these saves. With a notice of at least SaveS, one is saved then, and only SaveS is lost. With a
	// CheckpointS of 0, all repeated work is part of the changeover. Seconds.
	CheckpointS, SaveS, NoticeS float64
}

// LossS returns the most seconds of work that are lost when spot capacity is taken away.
func (j Job) LossS() float64 {
	if j.CheckpointS > 0 && j.NoticeS > 0 && j.NoticeS >= j.SaveS {
		return min(j.SaveS, j.CheckpointS)
	}
	return j.CheckpointS
}

// Feasible reports whether a machine on demand from the start meets the deadline. Otherwise no policy can.
func (j Job) Feasible() bool { return j.WorkS+j.ChangeoverS <= j.DeadlineS*(1+1e-9) }

// AloneUSD returns the cost of the job on demand alone.
func (j Job) AloneUSD() float64 { return (j.WorkS + j.ChangeoverS) / 3600 * j.OnDemandUSDHour }

// Validate returns all problems of a job.
func (j Job) Validate() error {
	var problems []error
	for _, v := range []struct {
		name  string
		value float64
		zero  bool // may be zero
		unit  string
	}{{"work", j.WorkS, false, "s"}, {"deadline", j.DeadlineS, false, "s"}, {"changeover", j.ChangeoverS, true, "s"},
		{"price of spot capacity", j.SpotUSDHour, true, "USD/h"}, {"price on demand", j.OnDemandUSDHour, true, "USD/h"},
		{"work between checkpoints", j.CheckpointS, true, "s"}, {"save", j.SaveS, true, "s"}, {"notice", j.NoticeS, true, "s"}} {
		switch {
		case math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0:
			problems = append(problems, fmt.Errorf("%s of %v %s: want a number from 0", v.name, v.value, v.unit))
		case v.value == 0 && !v.zero:
			problems = append(problems, fmt.Errorf("%s of 0 %s: want more than 0", v.name, v.unit))
		}
	}
	return errors.Join(problems...)
}

// State is the input of a policy at a tick.
type State struct {
	Job
	NowS  float64 // seconds from the start of the job
	DoneS float64 // seconds of work
	TickS float64 // seconds until the next choice
	On    Choice  // during the previous tick; None if it was taken away
	Up    []bool  // by zone: spot capacity is available
	// USDHour is the present price of spot capacity by zone; nil: SpotUSDHour in all.
	USDHour []float64
	// UpS is the seconds of uninterrupted capacity by zone, as observed by the job; 0 at its first tick.
	UpS []float64
	// Seen is the capacity by zone and tick, oldest first, ending with the current tick: at most the past week,
	// including the time before the job where the market has it. It must not be modified.
	Seen [][]bool
	// ReadyS is when the machine of the previous tick is, or was, ready to work, in seconds from the start of the job.
	ReadyS float64
	// PaidUSD is the cost so far.
	PaidUSD float64
}

// Policy chooses the machine for the next tick. It must not choose Spot in a zone without capacity.
type Policy func(s State) Choice

// zonePrice returns the present price of a zone.
func (s State) zonePrice(zone int) float64 {
	if s.USDHour == nil {
		return s.SpotUSDHour
	}
	return s.USDHour[zone]
}

// worth reports whether a zone has capacity at a price below that on demand; equal prices of all zones are not judged.
func (s State) worth(zone int) bool {
	return s.Up[zone] && (s.USDHour == nil || s.USDHour[zone] < s.OnDemandUSDHour)
}

// stays reports whether the job is on spot capacity and may continue there.
func (s State) stays() bool { return s.On.Machine == Spot && s.worth(s.On.Zone) }

// spot returns the cheapest zone, and of these the one with the longest observed capacity; ok is false if no zone has
// capacity below the price on demand.
func (s State) spot() (c Choice, ok bool) {
	for z := range s.Up {
		if s.worth(z) && (!ok || s.zonePrice(z) < s.zonePrice(c.Zone) || s.zonePrice(z) == s.zonePrice(c.Zone) && s.UpS[z] > s.UpS[c.Zone]) {
			c, ok = Choice{Spot, z}, true
		}
	}
	return c, ok
}

// late is the safety net of the paper, for decisions at ticks: at the next decision, less time would remain than the
// work, the loss and two changeovers take, one to a machine that is lost immediately and one to a machine on demand.
func (s State) late() bool {
	return s.DeadlineS-s.NowS-s.TickS < s.WorkS-s.DoneS+2*s.ChangeoverS+s.LossS()
}

// line returns the work due at a time on the straight line from the start to the deadline.
func (s State) line(atS float64) float64 { return atS * s.WorkS / s.DeadlineS }
