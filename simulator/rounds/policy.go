// Package rounds simulates clusters that divide time among jobs in rounds, as Gavel does (Narayanan et al., OSDI 2020), and
// holds the policies that decide the shares.
package rounds

import "trainopt/simulator/workload"

// DeviceType is a kind of accelerator in a cluster.
type DeviceType struct {
	Name      string
	Count     int
	PerServer int     // devices of one server, at least 1
	USDHour   float64 // price of one; NaN unknown
	Watts     float64 // of one at work; NaN unknown
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
	Jobs    []JobState   // ascending ID
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
