package rounds

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrLimit says that a run reached Config.Limit.
var ErrLimit = errors.New("stopped at the limit of simulated time")

// ErrNotStable says that jobs arrive faster than the cluster gets them done under the policy.
var ErrNotStable = errors.New("not stable")

// Unstable is the evidence that a run is not stable: the devices that jobs in the cluster ask for, at three times.
type Unstable struct {
	AtS     [3]float64 `json:"at_s"`    // a quarter of the time, half of it, the end
	Demand  [3]int     `json:"demand"`  // devices asked for by the jobs that are in the cluster
	Devices int        `json:"devices"` // in the cluster
	// Load is the least that jobs which arrived so far need, on the device type where each needs least, as a share of what the
	// cluster could have given so far. Above 1 no policy is stable.
	Load float64 `json:"load"`
}

// backlog watches whether the demand of the jobs in the cluster keeps growing.
type backlog struct {
	on     bool
	times  []float64
	demand []int
	every  int // arrivals between two samples
	next   int // arrivals at which the next sample is due
	found  *Unstable
	work   float64 // least device-seconds of all jobs that arrived
}

const backlogSamples = 256

// growth is how much the demand must grow from a quarter of the time to half of it, and from there to the end.
const growth = 4.0 / 3

func (b *backlog) init(s *simulation) {
	b.on = s.source.endless() && !math.IsInf(s.Backlog, 1)
	b.every = 16
}

// add counts the work of a job that arrived.
func (b *backlog) add(j *job) {
	if !b.on {
		return
	}
	fastest := slices.Max(j.kind.rate)
	b.work += j.Steps / fastest * float64(j.GPUs)
}

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
	u := Unstable{Devices: s.devices, Load: b.work / (s.now * float64(s.devices))}
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
		ErrNotStable, u.Demand[0], u.AtS[0]/3600, u.Demand[1], u.AtS[1]/3600, u.Demand[2], u.AtS[2]/3600, u.Devices, u.Load)
}
