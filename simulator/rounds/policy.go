// Package rounds simulates clusters that divide time among jobs in rounds, as Gavel does (Narayanan et al., "Heterogeneity-Aware
// Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020), and holds the policies that decide the shares.
//
// A policy says which share of time each job should spend on each type of device; a mechanism turns shares into rounds of a
// few minutes, in which a device runs one job, or a pair of jobs that share it. Nothing here reads a file or a clock: the same
// Config gives the same Result.
//
//	result, err := rounds.Run(ctx, rounds.Config{
//		Devices:    rounds.Devices(cluster),
//		Generate:   &workload.Options{Lambda: workload.PerHour(4)},
//		Window:     rounds.Window{Start: 4000, End: 5000},
//		Policy:     "fifo_perf",
//		Compat:     true,
//	})
package rounds

import (
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// DeviceType is a kind of accelerator in a cluster.
type DeviceType struct {
	Name      string
	Count     int
	PerServer int     // devices of one server, at least 1
	USDHour   float64 // price of one; NaN unknown
	Watts     float64 // of one at work; NaN unknown
}

// Devices are the accelerators of a cluster, sorted by name.
func Devices(c platform.Cluster) []DeviceType {
	out := make([]DeviceType, len(c))
	for i, a := range c {
		out[i] = DeviceType{Name: a.Name, Count: a.Count, PerServer: a.PerServer, USDHour: a.USDHour, Watts: a.Watts}
	}
	return out
}

// JobState is a job that has arrived and is not finished.
type JobState struct {
	*workload.Job
	// Rate is steps/s of the whole job alone, by device type in the order of Snapshot.Devices; 0 where it does not run.
	Rate      []float64
	Remaining float64 // steps
	Attained  float64 // device-seconds so far
	Seconds   float64 // alone on the reference device, for the work that remains; NaN unknown
}

// Snapshot is all that a policy may look at. It must not change it or keep it.
type Snapshot struct {
	Now     float64      // seconds
	Devices []DeviceType // sorted by name
	// Jobs in the order in which they arrived, which is that of their IDs unless a trace numbers them otherwise.
	Jobs []JobState
	// Pair is steps/s of two jobs (indices into Jobs) that share devices of a type; 0, 0 when they cannot. Nil when nothing is
	// known of pairs.
	Pair func(a, b, device int) (ra, rb float64)
}

// Entry is a job, or a pair of jobs that share devices, with its share of each device type.
type Entry struct {
	A, B int       // indices into Snapshot.Jobs; B is −1 for a job alone
	X    []float64 // share of time, 0…1, by device type
}

// Allocation is what a policy decides: shares of time. Jobs that are not in it get nothing.
type Allocation struct {
	Entries []Entry
}

// Policy decides shares. It may keep what it needs from call to call; Decide is called whenever jobs come or go, or as often
// as the mechanism allows.
type Policy interface {
	Decide(s *Snapshot) (Allocation, error)
}

// Traits are what a mechanism has to know of a policy. Gavel reads them out of the display name.
type Traits struct {
	Name string // for display
	// Packs: two jobs that ask for as many devices may share them, and Snapshot.Pair is there.
	Packs bool
	// FixedOrder: device types are filled from the last name to the first (V100, P100, K80); without, in a new random order in
	// each round.
	FixedOrder bool
	// OnlyShares: who has no share of a device type never runs there, though devices stay idle.
	OnlyShares bool
	// Settled is the least time between two decisions when jobs only left, seconds, unless Config.MinRecompute says another: for
	// policies that take long to decide and plan for jobs that leave. Gavel's mechanism does not look at it.
	Settled float64
	// Overcommits: shares may add up to more devices than there are. Without, such an allocation ends the run.
	Overcommits bool
}

// Described is a policy that says its traits. The traits of any other are zero.
type Described interface {
	Policy
	Traits() Traits
}

// traitsOf are the traits of a policy, with a name in any case.
func traitsOf(p Policy, name string) Traits {
	var t Traits
	if d, ok := p.(Described); ok {
		t = d.Traits()
	}
	if t.Name == "" {
		t.Name = name
	}
	return t
}
