// Package schedule defines what schedulers of many training jobs decide on: jobs, the device types of a cluster, a
// snapshot of both, and policies, which compute from a snapshot the share of each device type that each job receives. Its
// Engine turns the shares into leases of devices.
//
// The package and those below it are pure: they read neither files nor a clock, start no goroutine, and the same calls
// return the same decisions. Policies are in package share. Simulated and live clusters drive the same code: a World
// reports arrivals and completions, answers questions about jobs, and carries out the commands of the engine.
//
//	policy, err := share.New("srtf", share.Options{})
//	allocation, err := policy.Decide(&schedule.Snapshot{Now: now, Devices: devices, Jobs: jobs})
//
//	e := schedule.NewEngine(schedule.EngineOptions{Devices: devices, Interval: 360}, world)
//	e.Arrive(now, &schedule.ActiveJob{Job: job, Number: 0, Rate: rates})
//	commands, err := e.Step(now) // call again at e.Next(), or after an event
//	e.End(now, job)
package schedule

// Job is one training submitted to a cluster. Unknown numbers are NaN.
type Job struct {
	ID      int     // from 0 in order of arrival, unless the trace contains ids
	Type    string  // model name in throughput tables: "ResNet-18 (batch size 64)"
	Arrival float64 // seconds from the start of the trace
	GPUs    int     // requested; Gavel's scale factor
	Steps   float64 // total steps of work; generated jobs have fractions
	Seconds float64 // duration alone on the reference device
	Weight  float64 // priority weight, 1 is normal
	SLO     float64 // deadline as a multiple of Seconds after arrival; NaN none
	// Deadline is in seconds from the start of the trace; NaN if none.
	Deadline float64
	// Restart is the measured loss in seconds of this job when it is moved; 0: that of all jobs.
	Restart float64
	// User and Queue (virtual cluster), if the trace contains them.
	User, Queue string
	// Mode is the adaptation of the batch size during the run, if the trace contains it (Shockwave: static, accordion,
	// gns).
	Mode string
}

// DeviceType is a type of accelerator in a cluster. A cluster is a list of device types, sorted by name.
type DeviceType struct {
	Name      string
	Count     int
	PerServer int     // number of devices per server, at least 1
	USDHour   float64 // price of one device; NaN: unknown
	Watts     float64 // power of one device under load; NaN: unknown
}

// Preemption is the loss of a job each time it continues after a pause or on other devices. Gavel's simulation has
// none.
type Preemption struct {
	Seconds float64 // seconds on the new devices before it continues
	Steps   float64 // steps since the last checkpoint, which are repeated
}

// Of returns the loss of a job.
func (p Preemption) Of(j *Job) Preemption {
	if j.Restart > 0 {
		p.Seconds = j.Restart
	}
	return p
}

// JobState is an active job: arrived and not finished.
type JobState struct {
	*Job
	// Rate is the throughput of the whole job alone, in steps/s, by device type in the order of Snapshot.Devices; 0
	// where the job cannot run.
	Rate      []float64
	Remaining float64 // steps
	Attained  float64 // device-seconds received so far
	Seconds   float64 // remaining run time alone on the reference device; NaN: unknown
	// Held is the number of devices that the job holds now, of type Device; 0: it waits, or the scheduler does not
	// report it.
	Held, Device int
}

// Snapshot is the input of a policy. The policy must neither modify nor retain it.
type Snapshot struct {
	Now     float64      // seconds
	Devices []DeviceType // sorted by name
	// Jobs are in order of arrival, which is the order of their IDs unless a trace numbers them differently.
	Jobs []JobState
	// Absent are further active jobs, for which nothing is to be decided: they keep the devices that they hold, or cannot run on
	// those of the snapshot. Policies remember them.
	Absent []JobState
	// Pair returns the throughputs, in steps/s, of two jobs (indices into Jobs) co-located on devices of a type; 0, 0
	// if they cannot be co-located. It is nil when rates of pairs are not available.
	Pair func(a, b, device int) (ra, rb float64)
	// PairByKind: rates of pairs depend only on the types and sizes of both jobs, as measured rates do and estimates
	// do not.
	PairByKind bool
	// SizedRate returns the throughput in steps/s of a job on a number of devices of a type; 0 if it does not run
	// there or the rate is unknown. It is nil where jobs run on the number of devices that they request; else a policy
	// may choose the number (Allocation.GPUs).
	SizedRate func(j *Job, device, gpus int) float64
	// Preemption is the loss of a job that is moved.
	Preemption Preemption
}

// Entry is a job, or a pair of co-located jobs, and its share of each device type.
type Entry struct {
	A, B int       // indices into Snapshot.Jobs; B is −1 for a single job
	X    []float64 // share of time, 0…1, by device type
}

// Allocation is the decision of a policy. Jobs without an entry receive nothing.
type Allocation struct {
	Entries []Entry
	// GPUs contains the number of devices by entry, all of which are single jobs; nil: jobs run on the number that they
	// request.
	GPUs []int
}

// Policy computes shares. It may keep state between calls.
type Policy interface {
	// Decide is called when jobs arrive or complete, subject to the minimum interval of the scheduler, and once per
	// Traits.Period.
	Decide(s *Snapshot) (Allocation, error)
	// Traits are constant. Their zero value is valid.
	Traits() Traits
}

// Incremental is a policy that derives a decision from its last one and from what has changed since, at a cost that does
// not grow with the number of jobs, as a snapshot of all of them does.
type Incremental interface {
	Policy
	// Update returns the jobs whose place changes. The first call contains all jobs as arrivals. ok is false if the
	// policy needs a snapshot of all jobs: it must be asked by Decide from then on.
	Update(c *Changes) (moves []Place, ok bool)
}

// Changes is the input of an Incremental policy. The policy must neither modify nor retain it, except for the jobs and
// rates to which it refers.
type Changes struct {
	Now     float64      // seconds
	Devices []DeviceType // sorted by name; the same in all calls
	Arrived []Arrival    // since the last call, in order of arrival
	Ended   []int        // numbers of the jobs that ended since the last call
	// Remaining returns the remaining steps of an active job by its number.
	Remaining func(number int) float64
	// Preemption is the loss of a job that is moved.
	Preemption Preemption
}

// Arrival is a job that arrived, with its number from 0 in order of arrival.
type Arrival struct {
	Number int
	JobState
}

// Place is a job and the type of its devices, on which it runs all the time.
type Place struct {
	Number int // of the job
	Device int // index into Changes.Devices; −1: it waits
}

// Certified is a policy that can prove how good its decisions are.
type Certified interface {
	Policy
	// MaxLoss returns the most by which the objective of the last decision can be below its optimum, relative to the
	// optimum; NaN: unknown.
	MaxLoss() float64
}

// Stateful is a policy that keeps state between decisions.
type Stateful interface {
	Policy
	// State returns pointers to the state, which can be stored as JSON and set in a new policy of the same name. Derived
	// data, such as caches, and sources of random numbers are not part of it.
	State() []any
}

// Traits are the properties of a policy that a scheduler depends on. Gavel derives them from the display name.
type Traits struct {
	Name string // display name
	// Packs: two jobs with the same number of devices may be co-located; Snapshot.Pair is then set.
	Packs bool
	// FixedOrder: device types are filled in descending order of name (V100, P100, K80). Without it, the order is
	// random in each round of Gavel's mechanism.
	FixedOrder bool
	// OnlyShares: jobs never run on device types of which they have no share, even if devices stay idle.
	OnlyShares bool
	// MinReplanInterval is the minimum time in seconds between two decisions after completions without arrivals,
	// unless the user sets another. It is meant for expensive policies whose shares remain good when jobs complete.
	// Gavel's mechanism ignores it.
	MinReplanInterval float64
	// Period is the time in seconds after which a policy decides again even if no job arrived or completed; 0: never.
	// Gavel's mechanism ignores it.
	Period float64
	// Overcommits: shares may sum to more devices than exist. Without it, such an allocation is an error.
	Overcommits bool
}

// Decision is a change of the devices of a job.
type Decision int

const (
	Keep   Decision = iota // it continues on the devices that it has held until now
	Start                  // it receives devices, for the first time or after a pause
	Move                   // it continues on other devices
	Resize                 // it continues on another number of devices
	Stop                   // it loses its devices and waits
)

// String returns the name of the decision.
func (d Decision) String() string {
	return [...]string{"keep", "start", "move", "resize", "stop"}[d]
}
