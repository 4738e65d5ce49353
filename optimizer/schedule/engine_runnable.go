package schedule

import (
	"math"
	"slices"
)

// slot is the devices of a job or pair.
type slot struct {
	Device int     // type, an index into EngineOptions.Devices; −1: none
	Where  []int32 // numbers of the devices; those of a server are consecutive
}

// ActiveJob is an active job. The world sets the exported fields and hands a pointer to Arrive; the engine keeps the rest.
type ActiveJob struct {
	*Job
	Number int       // in order of arrival
	Rate   []float64 // steps/s alone, by device type; 0 where it does not run
	// Pinned is set for a job that must not be interrupted: it keeps its devices until it ends.
	Pinned bool

	single         *Runnable // the job alone
	runs           *Runnable // that holds its devices; nil: it waits
	last           slot      // devices held before it was stopped
	stopped        float64   // time at which it was stopped
	chosen         int       // last round in which it was chosen
	started, ended bool
}

// Held returns the number and the type of the devices that the job holds now; 0, −1 if it waits.
func (j *ActiveJob) Held() (gpus, device int) {
	if j.runs == nil {
		return 0, -1
	}
	return j.runs.GPUs, j.runs.Device
}

// Beside returns the job on the same devices; nil: none.
func (j *ActiveJob) Beside() *ActiveJob {
	switch {
	case j.runs == nil:
		return nil
	case j.runs.A == j:
		return j.runs.B
	}
	return j.runs.A
}

// leave records the devices that the job loses with a runnable.
func (j *ActiveJob) leave(r *Runnable, now float64) {
	j.last.Device, j.last.Where = r.Device, append(j.last.Where[:0], r.Where...)
	j.runs, j.stopped = nil, now
}

// enter records that the job receives the devices of a runnable and returns what this means for it.
func (j *ActiveJob) enter(r *Runnable, now float64) Decision {
	d := Move
	switch {
	case !j.started || j.stopped < now:
		d = Start
	case len(j.last.Where) != len(r.Where):
		d = Resize
	case j.last.Device == r.Device && slices.Equal(j.last.Where, r.Where):
		d = Keep
	}
	j.runs, j.started = r, true
	if s := j.single; s != nil {
		s.refused, s.refusedOn = math.Inf(1), -1
	}
	return d
}

// Runnable is a job, or a pair of co-located jobs, and its current lease: the unit that the engine schedules.
type Runnable struct {
	A, B *ActiveJob // B is nil for a single job
	GPUs int
	// RateA and RateB are the throughputs in steps/s by device type, as the policy sees them; RateB is nil for a single
	// job.
	RateA, RateB []float64
	slot              // current devices
	Spread       bool // over more servers than the number of devices requires

	shares  []float64 // of the last decision
	deficit []float64 // seconds owed by device type
	best    float64   // rate of A alone on its fastest type
	want    int       // device type assigned in this round; −1: none
	counted int       // device type whose share its time counts for; −1: surplus time
	asked   bool      // included in the last decision
	sized   bool      // the policy has chosen GPUs
	// refused is the time since which it waits although it was chosen, since it fitted on no server; +Inf: it does not. refusedOn is the
	// last type of which that is so; −1: none.
	refused   float64
	refusedOn int
	at        int   // index in Engine.running while it has devices
	kind      *kind // of a single job; nil: unknown
}

// newRunnable returns a runnable without devices, with the rates of a single job.
func newRunnable(a, b *ActiveJob, types int) *Runnable {
	f := make([]float64, 2*types)
	return &Runnable{
		A: a, B: b, GPUs: a.GPUs, RateA: a.Rate, slot: slot{Device: -1}, want: -1, counted: -1, refused: math.Inf(1), refusedOn: -1,
		shares: f[:types:types], deficit: f[types:],
	}
}

// keyOf identifies a runnable by the numbers of its jobs.
func keyOf(a, b *ActiveJob) [2]int { return [2]int{a.Number, numberOf(b)} }

// numberOf returns the number of a job; −1 without one.
func numberOf(j *ActiveJob) int {
	if j == nil {
		return -1
	}
	return j.Number
}

// runsOn reports whether all jobs make progress on a device type.
func (r *Runnable) runsOn(device int) bool {
	return r.RateA[device] > 0 && (r.B == nil || r.RateB[device] > 0)
}

// gone reports whether a job has ended.
func (r *Runnable) gone() bool { return r.A.ended || r.B != nil && r.B.ended }

// pinned reports whether a job of the runnable must keep its devices.
func (r *Runnable) pinned() bool { return r.A.Pinned || r.B != nil && r.B.Pinned }

// isChosen reports whether a job was chosen in a round.
func (r *Runnable) isChosen(round int) bool {
	return r.A.chosen == round || r.B != nil && r.B.chosen == round
}

func (r *Runnable) choose(round int) {
	r.A.chosen = round
	if r.B != nil {
		r.B.chosen = round
	}
}
