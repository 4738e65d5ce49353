package spot

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/capacity"
)

// slack is the relative tolerance for sums of seconds.
const slack = 1e-9

// givesUp is the multiple of the deadline after which an unfinished run ends.
const givesUp = 20

// MostTicks is the maximum number of ticks until the deadline.
const MostTicks = 2e6

// outcome is the result of a job. Costs and seconds on machines include changeovers.
type outcome struct {
	USD       float64
	ElapsedS  float64 // from start to end
	DoneS     float64 // completed work: all of it, unless the run ended at 20 times the deadline
	SpotS     float64
	OnDemandS float64
	WaitS     float64 // without a machine
	// ChangeoverS is the total start-up time of machines.
	ChangeoverS float64
	LostS       float64 // of work, when machines were taken away
	Starts      int     // of machines
	Taken       int     // machines taken away
	Missed      bool
	Timeline    []stretch
}

// Finished reports whether all work was done, in time or late.
func (o *outcome) Finished() bool { return !math.IsInf(o.ElapsedS, 1) }

// stretch is a period on one machine or on none, in seconds from the start.
type stretch struct {
	FromS, ToS float64
	ReadyS     float64 // start of the work, after ToS if the machine was lost before; FromS without a machine
	On         capacity.Choice
	DoneS      float64 // at the end of the period
}

// run runs a job on a market from a tick ≥ 0 on; after its last tick the market repeats. The policy chooses at each
// tick. A machine may be taken away at the end of a tick; work done on it is kept. ElapsedS is +Inf if the job is not
// finished after 20 times its deadline. It returns an error for an invalid choice of the policy. O(ticks of the run ×
// zones).
func run(p capacity.Policy, j capacity.Job, m Market, from int) (outcome, error) {
	if err := check(j, m, from); err != nil {
		return outcome{}, fmt.Errorf("run a job on spot capacity: %w", err)
	}
	r := runner{State: capacity.State{Job: j, TickS: m.TickS, Up: make([]bool, len(m.Zones)), UpS: make([]float64, len(m.Zones)), Seen: make([][]bool, len(m.Zones))}}
	for k := from; ; k++ {
		r.see(m, k)
		next := p(r.State)
		if err := r.refuse(next); err != nil {
			return outcome{}, fmt.Errorf("run a job on spot capacity, at %.0f s: %w", r.NowS, err)
		}
		r.step(next)
		if r.DoneS >= j.WorkS*(1-slack) {
			r.out.DoneS, r.out.ElapsedS = j.WorkS, r.NowS
			r.out.Missed = r.NowS > j.DeadlineS*(1+slack)
			return r.out, nil
		}
		if r.NowS > givesUp*j.DeadlineS {
			r.out.DoneS, r.out.ElapsedS, r.out.Missed = r.DoneS, math.Inf(1), true
			return r.out, nil
		}
	}
}

// runner is a job in progress.
type runner struct {
	capacity.State
	out    outcome
	beganS float64 // work done when the machine was started
}

// see updates the state to the capacity of tick k.
func (r *runner) see(m Market, k int) {
	r.PaidUSD = r.out.USD
	week := max(1, int(capacity.Week/m.TickS))
	for z := range m.Zones {
		up, at := m.Zones[z].Up, k%m.Ticks()
		if r.NowS == 0 { // the market before the job
			r.Seen[z] = slices.Clone(up[max(0, at-week):at])
		}
		r.Up[z] = up[at]
		r.Seen[z] = append(r.Seen[z], up[at])
		r.Seen[z] = r.Seen[z][max(0, len(r.Seen[z])-week):]
		if r.Up[z] && r.NowS > 0 {
			r.UpS[z] += r.TickS
		}
		if !r.Up[z] {
			r.UpS[z] = 0
		}
	}
	if r.USDHour = nil; m.Priced() {
		for z := range m.Zones {
			r.USDHour = append(r.USDHour, m.usdHour(r.Job, z, k))
		}
	}
	if r.On.Machine == capacity.Spot && !r.Up[r.On.Zone] {
		r.On = capacity.Choice{}
		r.out.Taken++
		r.lose()
	}
}

// lose takes back the work since the last checkpoint, or the time of the save within the notice.
func (r *runner) lose() {
	last := &r.out.Timeline[len(r.out.Timeline)-1]
	lost := r.DoneS - r.beganS
	if most := r.LossS(); most < r.CheckpointS {
		lost = min(lost, most)
	} else if r.CheckpointS > 0 {
		lost = math.Mod(lost, r.CheckpointS)
	} else {
		lost = 0
	}
	r.out.LostS += lost
	r.DoneS -= lost
	last.DoneS = r.DoneS
}

// refuse returns an error for an invalid choice.
func (r *runner) refuse(c capacity.Choice) error {
	switch {
	case c.Machine != capacity.None && c.Machine != capacity.Spot && c.Machine != capacity.OnDemand:
		return fmt.Errorf("the policy chose %v, which is no machine", c.Machine)
	case c.Machine != capacity.Spot:
		return nil
	case c.Zone < 0 || c.Zone >= len(r.Up):
		return fmt.Errorf("the policy chose spot capacity in zone %d of %d", c.Zone, len(r.Up))
	case !r.Up[c.Zone]:
		return fmt.Errorf("the policy chose spot capacity in zone %d, which has none", c.Zone)
	}
	return nil
}

// step simulates one tick, or less if the work is done before its end.
func (r *runner) step(next capacity.Choice) {
	if next.Machine != capacity.Spot {
		next.Zone = 0
	}
	begins := next.Machine != capacity.None && next != r.On
	if begins {
		r.out.Starts++
		r.beganS = r.DoneS
		r.ReadyS = r.NowS + r.ChangeoverS
	}
	if last := len(r.out.Timeline) - 1; begins || last < 0 || r.out.Timeline[last].On != next {
		ready := r.NowS
		if begins {
			ready = r.ReadyS
		}
		r.out.Timeline = append(r.out.Timeline, stretch{FromS: r.NowS, ReadyS: ready, On: next})
	}
	r.On = next
	length, worked := r.TickS, 0.0
	if next.Machine != capacity.None {
		worked = max(0, r.NowS+r.TickS-max(r.ReadyS, r.NowS))
		if over := r.DoneS + worked - r.WorkS; over >= 0 {
			length, worked = r.TickS-over, worked-over
		}
		r.out.ChangeoverS += length - worked
	}
	r.pay(next.Machine, length)
	r.DoneS += worked
	r.NowS += length
	last := &r.out.Timeline[len(r.out.Timeline)-1]
	last.ToS, last.DoneS = r.NowS, r.DoneS
}

// pay adds time on a machine, or waiting time, to the outcome.
func (r *runner) pay(m capacity.Machine, seconds float64) {
	switch m {
	case capacity.None:
		r.out.WaitS += seconds
	case capacity.Spot:
		r.out.SpotS += seconds
		usd := r.SpotUSDHour
		if r.USDHour != nil {
			usd = r.USDHour[r.On.Zone]
		}
		r.out.USD += seconds / 3600 * usd
	case capacity.OnDemand:
		r.out.OnDemandS += seconds
		r.out.USD += seconds / 3600 * r.OnDemandUSDHour
	}
}

// check validates the arguments of a run.
func check(j capacity.Job, m Market, from int) error {
	if err := errors.Join(j.Validate(), m.validate()); err != nil {
		return err
	}
	if from < 0 {
		return fmt.Errorf("start at tick %d: want one from 0", from)
	}
	if j.DeadlineS/m.TickS > MostTicks {
		return fmt.Errorf("%.0f ticks of %v s until the deadline: want at most %.0f", j.DeadlineS/m.TickS, m.TickS, float64(MostTicks))
	}
	return nil
}
