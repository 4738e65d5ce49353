// Package replay audits a live cluster: it reads the event log of a day, simulates the same jobs with the rates and the
// move costs that were measured, and compares the live day with its simulation and with every other policy.
//
// The simulated cluster is driven by the same scheduler as the live one; only the clock and the source of rates
// differ. The package reads no clock: the same events and options give the same Audit.
//
//	events, torn, err := cluster.ReadEvents(stateDir, 0)
//	day, err := replay.NewDay(events)
//	audit, err := day.Audit(ctx, replay.Options{})
//	err = audit.Render(os.Stdout, "text")
package replay

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"trainopt/optimizer/cluster"
)

// Day is what happened on a cluster, from its event log. Times are Unix seconds; unknown numbers are NaN.
type Day struct {
	From, Until float64 // first submission, last event; equal without jobs
	Devices     []cluster.Device
	Round       float64 // seconds
	Seed        int64
	Policies    []cluster.Span // in force one after the other
	Jobs        []*job         // in order of arrival
	Engine      string         // "local", "slurm"
	Restarts    int            // of the server
	unserved    []outage       // times without a server while jobs had not ended, at most
	up          []upCount      // devices that are up, in order of time
	Changed     bool           // the devices: at a restart, or since nodes were down
	Failures    int            // decisions that failed
	Torn        int            // lines of the log that were no events, contradict others, or are of a job without its submission
}

// outage is a time, in Unix seconds.
type outage struct{ from, to float64 }

// upCount is a number of devices from a time in Unix seconds on.
type upCount struct {
	at      float64
	devices int
}

// job is a job of a day.
type job struct {
	ID                int
	Name, User        string
	Command           string // equal for jobs of the same command
	Arrival, Deadline float64
	Delay             float64 // seconds from the arrival until the server has decided on it; 0: it never did
	Weight            float64
	GPUs, MaxGPUs     int
	Unit              string
	Total             float64 // steps; NaN: unknown
	Stated            bool    // Total was known at the submission
	Done              float64 // at the end, or at the last event
	State             cluster.State
	End               float64 // NaN: not ended
	CostUSD           float64
	KeepsKnown        float64 // time at which it was known whether it keeps its work; NaN: never
	Pinned            bool    // kept its devices until it ended, since it keeps no work
	Lives             []*life
	Shrinks           []shrink // in order of time
	Launches          int      // of its training; 0: unknown
	checkpoint        float64  // bytes of the largest that it has written; 0: none is known
	silent            bool     // it reported no progress: its steps are seconds
	endless           bool     // the simulation of its work would take too long
}

// shrink is a change of the number of devices of a job, to those that it used, or back.
type shrink struct {
	At       float64
	From, To int
	Gain     float64 // predicted seconds by which jobs end earlier, in all; NaN for one that undoes another
}

// life is the time of a job on one set of devices.
type life struct {
	Device           string
	GPUs             int
	Do               string
	Start, Left      float64
	Worked           float64                         // from which it made progress; NaN: it made none
	Asked            float64                         // when it was asked to leave; NaN: never
	Save             float64                         // seconds from then until it left
	useful           float64                         // part of Save in which it still made progress: trainings save at the end of a step or epoch
	Before, Done     float64                         // steps at its beginning and at its end
	PredictedRate    float64                         // that the policy used, steps/s
	PredictedMove    float64                         // seconds that the policy charged
	Seen             float64                         // last measured rate, steps/s
	Rates            []cluster.Measurement           // all measured while it had its devices alone
	Startup          float64                         // seconds that the scheduler measured
	prepared         float64                         // seconds before them that no later life has
	Known            float64                         // time of the first measurement of the start-up or the rate
	known            []struct{ After, Done float64 } // at decisions
	rated, ratedDone float64                         // time of the first measurement of the rate, and the steps then, with half of one in progress; NaN: none
	Reason           string                          // why it ended; empty while it has not
	Expected         *[3]float64                     // first prediction of the start: 5, 50 and 95 % quantiles; nil: none
	Awaited          float64                         // time from which the job waited for the start
	Away             float64                         // seconds between exits of its training, while no server noticed, and the next server or the notice
	exit             float64                         // seconds between the last step of the job and its end, as far as they are known
	Shared           []together                      // times in which another job had the same devices
	open, first      bool
}

// NewDay assembles a day from the events of a log, in their order.
func NewDay(events []cluster.Event) (*Day, error) {
	d := &Day{From: math.NaN(), Until: math.NaN(), Round: math.NaN()}
	byID := map[int]*job{}
	served := math.Inf(-1) // start of the present server
	decided := 0           // number of jobs that a decision has included
	for i := range events {
		e := &events[i]
		if e.Kind == cluster.EventServe {
			served = e.Time
		}
		if e.Exited > served && e.Kind == cluster.EventLeft { // the job held its devices until the server, suspended or slow, noticed
			copied := *e
			copied.Exited = 0
			if j := byID[e.Job]; j != nil && len(j.Lives) > 0 && !j.contradicts(e, e.Time) {
				l := j.Lives[len(j.Lives)-1]
				l.Away, l.rated = l.Away+e.Time-e.Exited, l.rated+e.Time-e.Exited
				d.unserved = append(d.unserved, outage{e.Exited, e.Time})
			}
			e = &copied
		}
		if e.Kind == cluster.EventServe && slices.ContainsFunc(d.Jobs, func(j *job) bool { return !j.State.Ended() }) && e.Time > d.Until {
			d.unserved = append(d.unserved, outage{d.Until, e.Time})
		}
		if !(d.Until > e.Time) {
			d.Until = e.Time
		}
		d.serverEvent(e)
		if e.Kind == cluster.EventDecide {
			for ; decided < len(d.Jobs); decided++ {
				d.Jobs[decided].Delay = max(0, e.Time-d.Jobs[decided].Arrival)
			}
			for _, k := range e.Progress {
				if j := byID[k.Job]; j != nil && len(j.Lives) > 0 {
					l := j.Lives[len(j.Lives)-1]
					l.known = append(l.known, struct{ After, Done float64 }{e.Time - l.Start, j.atMost(max(k.Done, l.Before))})
				}
			}
		}
		if e.Kind == cluster.EventSubmit && byID[e.Job] == nil {
			j := newJob(e)
			byID[e.Job] = j
			d.Jobs = append(d.Jobs, j)
		} else if j := byID[e.Job]; j != nil && j.contradicts(e, d.Until) {
			d.Torn++
		} else if j != nil {
			j.take(e)
		} else if e.Kind == cluster.EventLeft {
			d.Torn++
		}
	}
	if len(d.Devices) == 0 || len(d.Policies) == 0 {
		return nil, errors.New("replay the event log: it does not contain the start of a server, with its devices and policy")
	}
	slices.SortStableFunc(d.Jobs, func(a, b *job) int { return cmp.Compare(a.Arrival, b.Arrival) })
	d.From = d.Until
	if len(d.Jobs) > 0 {
		d.From = d.Jobs[0].Arrival
	}
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			if l.open {
				l.Left = d.Until
			}
		}
		j.countSeconds()
	}
	d.meet()
	return d, nil
}

// serverEvent takes an event that concerns no job.
func (d *Day) serverEvent(e *cluster.Event) {
	policy := ""
	switch e.Kind {
	case cluster.EventServe:
		if len(d.Devices) > 0 {
			d.Restarts++
			d.Changed = d.Changed || !slices.Equal(d.Devices, e.Devices)
		}
		d.Devices, d.Round, d.Seed, d.Engine, policy = e.Devices, e.Round, e.Seed, e.Engine, e.Policy
		d.up = append(d.up, upCount{e.Time, countOf(e.Devices)})
	case cluster.EventDevices:
		d.Changed = true
		d.up = append(d.up, upCount{e.Time, countOf(e.Devices)})
	case cluster.EventPolicy:
		policy = e.Policy
	case cluster.EventDecide:
		if e.Reason != "" {
			d.Failures++
		}
	}
	if policy != "" && (len(d.Policies) == 0 || d.Policies[len(d.Policies)-1].Policy != policy) {
		d.Policies = append(d.Policies, cluster.Span{From: e.Time, Policy: policy})
	}
}

func countOf(devices []cluster.Device) (n int) {
	for _, t := range devices {
		n += t.Count
	}
	return n
}

// spans reports whether a job of a number of devices needs several nodes: it was admitted, so that it runs on them.
func (d *Day) spans(gpus int) bool {
	return !slices.ContainsFunc(d.Devices, func(t cluster.Device) bool { return t.PerServer >= gpus })
}

func newJob(e *cluster.Event) *job {
	return &job{ID: e.Job, Name: e.Name, Command: e.Command, User: e.User, Arrival: e.Time, Deadline: known(e.Deadline), Weight: cmp.Or(e.Weight, 1), GPUs: max(e.GPUs, 1),
		MaxGPUs: max(e.MaxGPUs, e.GPUs, 1), Unit: e.Unit, Total: known(e.Total), Stated: e.Total > 0, Done: e.Done, State: cluster.Waiting, End: math.NaN(), KeepsKnown: math.NaN(), CostUSD: math.NaN()}
}

// atMost returns progress, at most the total as far as that is known.
func (j *job) atMost(done float64) float64 {
	if done > j.Total {
		return j.Total
	}
	return done
}

// known returns NaN for the 0 of an absent field.
func known(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// contradicts reports whether an event states more time than the present life has lasted by then, an exit out of it, or a rate
// that its steps contradict.
func (j *job) contradicts(e *cluster.Event, until float64) bool {
	n := len(j.Lives) - 1
	if n < 0 {
		return false
	}
	l := j.Lives[n]
	if done := max(e.Done, j.Done) - l.Before; e.Kind == cluster.EventRate && done > 0 { // else it repeats steps
		steps := e.Seen * max(until-l.Start, 1)
		return steps > unrelated*done || done > unrelated*steps
	}
	return seconds(e.Seconds) > until-l.Start+1 || e.Exited > 0 && !(e.Exited > l.Start-1 && e.Exited < until+1)
}

// unrelated is the ratio between the steps of a life so far and those at a rate in the same time above which the rate is not that
// of the job: start-ups of hours cause less.
const unrelated = 1e5

// take applies an event of the job.
func (j *job) take(e *cluster.Event) {
	if e.Total > 0 {
		j.Total = e.Total
	}
	if e.Unit != "" {
		j.Unit = e.Unit
	}
	switch e.Kind {
	case cluster.EventStart:
		l := &life{Device: e.Device, GPUs: e.GPUs, Do: e.Do, Start: e.Time, Left: math.NaN(), Worked: math.NaN(), Asked: math.NaN(), Save: math.NaN(),
			Before: j.Done, Done: j.Done, PredictedRate: known(e.Predicted), PredictedMove: seconds(e.PredictedSeconds), Seen: math.NaN(), Startup: math.NaN(), Known: math.NaN(), rated: math.NaN(), ratedDone: math.NaN(), open: true, first: len(j.Lives) == 0,
			Expected: e.Expected, Awaited: j.Arrival}
		if n := len(j.Lives); n > 0 {
			l.Awaited = j.Lives[n-1].Left
		}
		j.Lives = append(j.Lives, l)
		j.State = cluster.Running
	case cluster.EventShrink:
		j.Shrinks = append(j.Shrinks, shrink{e.Time, e.GPUs, e.To, seconds(e.GainS)})
	case cluster.EventShrunk:
		if n := len(j.Shrinks); e.Do == "undo" && n > 0 {
			j.Shrinks = append(j.Shrinks, shrink{e.Time, e.GPUs, j.Shrinks[n-1].From, math.NaN()})
		}
	case cluster.EventPin:
		j.Pinned = !e.Save
		if math.IsNaN(j.KeepsKnown) {
			j.KeepsKnown = e.Time
		}
	case cluster.EventEnd:
		if l := len(j.Lives) - 1; e.State == cluster.Done && l >= 0 && j.Total > 0 {
			j.Done, j.Lives[l].Done = j.Total, j.Total // the last steps are read late
		}
		j.End, j.State, j.CostUSD, j.Launches = cmp.Or(e.Exited, e.Time), e.State, known(e.CostUSD), e.Launches
		j.Done = max(j.Done, e.Done)
	default:
		if len(j.Lives) > 0 {
			j.takeLife(e, j.Lives[len(j.Lives)-1])
		}
	}
}

// takeLife applies an event of the present life.
func (j *job) takeLife(e *cluster.Event, l *life) {
	switch e.Kind {
	case cluster.EventRunning:
		l.Worked = l.Start
		if s := seconds(e.Seconds); s >= 0 {
			l.prepared = min(max(0, e.PreparedSeconds), max(0, e.Time-l.Start-s))
			l.Worked += l.prepared + s
			l.Startup = s
		}
		l.Known = e.Time
	case cluster.EventShare:
		l.share(e.Time, e.With)
	case cluster.EventRate:
		if n := len(l.Shared); e.With != 0 && n > 0 && l.Shared[n-1].with == e.With {
			l.Shared[n-1].seen = known(e.Seen)
		} else {
			if len(l.Rates) == 0 && e.Done > 0 {
				l.rated, l.ratedDone = e.Time, e.Done
				if e.Done == math.Trunc(e.Done) {
					l.ratedDone += 0.5
				}
			}
			l.Seen = known(e.Seen)
			l.Rates = append(l.Rates, cluster.Measurement{After: e.Time - l.Start, PerSec: e.Seen})
		}
		if math.IsNaN(l.Known) {
			l.Known = e.Time
		}
		if e.Done > j.Done {
			j.Done, l.Done = e.Done, e.Done
		}
		if math.IsNaN(l.PredictedRate) {
			l.PredictedRate = known(e.Predicted)
		}
	case cluster.EventStop:
		l.Asked = e.Time
	case cluster.EventAdopt:
		l.Away, l.rated = l.Away+max(0, e.Time-e.Exited), l.rated+max(0, e.Time-e.Exited)
	case cluster.EventLeft:
		j.checkpoint = max(j.checkpoint, float64(e.CheckpointBytes))
		l.Left, l.open, l.Save, l.Reason = cmp.Or(e.Exited, e.Time), false, seconds(e.Seconds), e.Reason
		l.share(l.Left, 0)
		if e.Exited > 0 { // it is over before
			l.Away, l.rated = 0, l.rated-l.Away
		}
		j.State = cluster.Waiting
		if e.Done > 0 {
			j.Done, l.Done = e.Done, e.Done
		}
	}
}

// seconds returns NaN for an absent field.
func seconds(s *float64) float64 {
	if s == nil {
		return math.NaN()
	}
	return *s
}

// countSeconds makes the seconds of its last life the steps of a job that has ended and reported no progress.
func (j *job) countSeconds() {
	if n := len(j.Lives); n > 0 && j.State.Ended() && !math.IsNaN(j.End) && !(j.Done > 0) {
		l := j.Lives[n-1]
		j.silent, j.Done, j.Total = true, l.Left-l.Start, l.Left-l.Start
		l.Worked, l.Done = l.Start, l.Before+j.Done
	}
}

// ended reports whether the job has done all its work.
func (j *job) ended() bool { return j.State == cluster.Done && !math.IsNaN(j.End) }

// lost reports whether a life has ended without a request before its job did, so that steps may be lost.
func (j *job) lost(i int) bool {
	l := j.Lives[i]
	return !(l.Asked <= l.Left) && !l.open && !(i == len(j.Lives)-1 && j.State.Ended())
}

// work returns the steps that the replay gives the job: all of its work or, if it was stopped or failed before, what it
// had done. ok is false if it never made progress and its work is unknown, or has no end in sight.
func (j *job) work() (steps float64, ok bool) {
	switch {
	case j.endless:
		return 0, false
	case j.State.Ended() && j.State != cluster.Done:
		return j.Done, j.Done > 0
	case j.State == cluster.Done && j.Done > 0:
		return j.Done, true
	}
	return j.Total, j.Total > 0
}
