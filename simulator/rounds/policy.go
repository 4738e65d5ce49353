// Package rounds simulates clusters that are time-shared in rounds, as in Gavel (Narayanan et al.,
// "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020), and contains the
// policies that compute the shares.
//
// A policy computes the fraction of time (share) that each job spends on each device type. A mechanism turns shares
// into rounds of a few minutes, in which a device runs one job, or two jobs that are co-located on it. The package
// reads neither files nor a clock: the same Config yields the same Result.
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

// DeviceType is a type of accelerator in a cluster.
type DeviceType struct {
	Name      string
	Count     int
	PerServer int     // number of devices per server, at least 1
	USDHour   float64 // price of one device; NaN: unknown
	Watts     float64 // power of one device under load; NaN: unknown
}

// Devices returns the device types of a cluster, sorted by name.
func Devices(c platform.Cluster) []DeviceType {
	out := make([]DeviceType, len(c))
	for i, a := range c {
		out[i] = DeviceType{Name: a.Name, Count: a.Count, PerServer: a.PerServer, USDHour: a.USDHour, Watts: a.Watts}
	}
	return out
}

// JobState is an active job: arrived and not finished.
type JobState struct {
	*workload.Job
	// Rate is the throughput of the whole job alone, in steps/s, by device type in the order of Snapshot.Devices; 0
	// where the job cannot run.
	Rate      []float64
	Remaining float64 // steps
	Attained  float64 // device-seconds received so far
	Seconds   float64 // remaining run time alone on the reference device; NaN: unknown
}

// Snapshot is the input of a policy. The policy must neither modify nor retain it.
type Snapshot struct {
	Now     float64      // seconds
	Devices []DeviceType // sorted by name
	// Jobs are in order of arrival, which is the order of their IDs unless a trace numbers them differently.
	Jobs []JobState
	// Pair returns the throughputs, in steps/s, of two jobs (indices into Jobs) co-located on devices of a type; 0, 0
	// if they cannot be co-located. It is nil when rates of pairs are not available.
	Pair func(a, b, device int) (ra, rb float64)
}

// Entry is a job, or a pair of co-located jobs, and its share of each device type.
type Entry struct {
	A, B int       // indices into Snapshot.Jobs; B is −1 for a single job
	X    []float64 // share of time, 0…1, by device type
}

// Allocation is the decision of a policy. Jobs without an entry receive nothing.
type Allocation struct {
	Entries []Entry
}

// Policy computes shares. It may keep state between calls. Decide is called when jobs arrive or complete, subject to
// the minimum interval of the mechanism.
type Policy interface {
	Decide(s *Snapshot) (Allocation, error)
}

// Traits are the properties of a policy that a mechanism depends on. Gavel derives them from the display name.
type Traits struct {
	Name string // display name
	// Packs: two jobs with the same number of devices may be co-located; Snapshot.Pair is then set.
	Packs bool
	// FixedOrder: device types are filled in descending order of name (V100, P100, K80). Without it, the order is
	// random in each round.
	FixedOrder bool
	// OnlyShares: jobs never run on device types of which they have no share, even if devices stay idle.
	OnlyShares bool
	// Settled is the minimum time in seconds between two decisions after completions without arrivals, unless
	// Config.MinRecompute is set. It is meant for expensive policies whose shares remain good when jobs complete.
	// Gavel's mechanism ignores it.
	Settled float64
	// Overcommits: shares may sum to more devices than exist. Without it, such an allocation ends the run.
	Overcommits bool
}

// Described is a policy with traits. The traits of other policies are zero.
type Described interface {
	Policy
	Traits() Traits
}

// traitsOf returns the traits of a policy; the name defaults to the given one.
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
