package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// errLimit reports that a run reached Config.Limit.
var errLimit = errors.New("stopped at the limit of simulated time")

// errNotStable reports that jobs arrive faster than the cluster completes them under the policy.
var errNotStable = errors.New("not stable")

// unstable is the evidence that a run is not stable: the number of devices requested by active jobs at three points
// in time.
type unstable struct {
	AtS     [3]float64 `json:"at_s"`    // at a quarter of the time, at half of it, and at the end
	Demand  [3]int     `json:"demand"`  // devices requested by active jobs
	Devices int        `json:"devices"` // number of devices in the cluster
	// Load is the minimum work of all jobs that arrived, each on the device type where it needs least, as a share of
	// the capacity of the cluster so far. Above 1 no policy is stable.
	Load float64 `json:"load"`
}

// backlog detects continued growth of the demand of active jobs.
type backlog struct {
	on     bool
	times  []float64
	demand []int
	every  int // number of arrivals between samples
	next   int // number of arrivals at which the next sample is due
	found  *unstable
	work   float64 // minimum device-seconds of all jobs that arrived
}

const backlogSamples = 256

// growth is the factor by which the demand must grow from a quarter of the time to half of it, and again until the
// end.
const growth = 4.0 / 3

func (b *backlog) init(s *simulation) {
	b.on = s.source.endless() && !math.IsInf(s.Backlog, 1)
	b.every = 16
}

// add adds the work of a job that arrived.
func (b *backlog) add(j *job) {
	if !b.on {
		return
	}
	fastest := slices.Max(j.kind.rate)
	b.work += j.Steps / fastest * float64(j.GPUs)
}

// check samples the demand and returns errNotStable if it exceeds the limit of Config.Backlog and has kept growing.
// When the samples are full, every second one is dropped.
func (b *backlog) check(s *simulation) error {
	if !b.on || s.arrived < b.next {
		return nil
	}
	b.next = s.arrived + b.every
	b.times, b.demand = append(b.times, s.now), append(b.demand, s.demand)
	if len(b.times) == backlogSamples {
		for i := range backlogSamples / 2 {
			b.times[i], b.demand[i] = b.times[2*i+1], b.demand[2*i+1]
		}
		b.times, b.demand = b.times[:backlogSamples/2], b.demand[:backlogSamples/2]
		b.every *= 2
	}
	if float64(s.demand) < s.Backlog*float64(s.devices) {
		return nil
	}
	// The first samples after a quarter of the time, after half of it, and the last one.
	u := unstable{Devices: s.devices, Load: b.work / (s.now * float64(s.devices))}
	for k, part := range []float64{0.25, 0.5, 1} {
		i, _ := slices.BinarySearch(b.times, part*s.now)
		i = min(i, len(b.times)-1)
		u.AtS[k], u.Demand[k] = b.times[i], b.demand[i]
	}
	if float64(u.Demand[1]) < growth*float64(u.Demand[0]) || float64(u.Demand[2]) < growth*float64(u.Demand[1]) {
		return nil
	}
	b.found = &u
	return fmt.Errorf("%w: jobs in the cluster ask for %d devices at %.0f h, %d at %.0f h and %d at %.0f h, and there are %d; what arrived needs at least %.2f of them all the time",
		errNotStable, u.Demand[0], u.AtS[0]/3600, u.Demand[1], u.AtS[1]/3600, u.Demand[2], u.AtS[2]/3600, u.Devices, u.Load)
}
