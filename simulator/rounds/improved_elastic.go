package rounds

import (
	"fmt"
	"math"

	"trainopt/simulator/workload"
)

// Elastic is a policy that also decides on how many devices jobs run, among the numbers for which the throughput table has rates.
// Its Decide, which mechanisms without elasticity call, keeps to what jobs ask for.
type Elastic interface {
	Policy
	// DecideSizes decides shares and, for each entry, the number of devices. Entries are jobs alone. rate is steps/s of a job on
	// so many devices of a type (an index into Snapshot.Devices), 0 when it does not run there or the table does not say.
	DecideSizes(s *Snapshot, rate SizedRate) (Allocation, []int, error)
}

// SizedRate is steps/s of a job on so many devices of a type.
type SizedRate func(j *workload.Job, device, gpus int) float64

// sized makes an ordinary policy of an elastic one, and keeps the numbers.
type sized struct {
	Elastic
	rate   SizedRate
	counts []int
}

// Decide keeps the numbers of devices for the mechanism, and checks them.
func (p *sized) Decide(s *Snapshot) (Allocation, error) {
	a, counts, err := p.DecideSizes(s, p.rate)
	if err != nil {
		return a, err
	}
	if len(counts) != len(a.Entries) {
		return a, fmt.Errorf("%d numbers of devices for %d entries", len(counts), len(a.Entries))
	}
	load := make([]float64, len(s.Devices))
	for i, e := range a.Entries {
		if counts[i] < 1 || e.B >= 0 {
			return a, fmt.Errorf("%d devices for job %d", counts[i], e.A)
		}
		for d, x := range e.X {
			load[d] += float64(x * float64(counts[i]))
		}
	}
	for d, x := range load {
		if n := float64(s.Devices[d].Count); x > n*(1+shareSlack) {
			return a, fmt.Errorf("shares add up to %v devices of type %s, and there are %v", x, s.Devices[d].Name, n)
		}
	}
	p.counts = counts
	return a, nil
}

// ask has the policy decide. counts are the numbers of devices by entry; nil when jobs run on as many as they ask for.
func (m *improved) ask() (a Allocation, counts []int, err error) {
	a, err = m.decide()
	if m.sized != nil {
		counts = m.sized.counts
	}
	return a, counts, err
}

// Every is that of the policy that chooses sizes; +Inf when it never decides though nobody comes or goes.
func (p *sized) Every() float64 {
	if r, ok := p.Elastic.(Restless); ok {
		return r.Every()
	}
	return math.Inf(1)
}

// resize has a tenant run on so many devices from now on.
func (m *improved) resize(t *tenant, gpus int) {
	if t.gpus == gpus {
		return
	}
	if t.device >= 0 {
		m.leave(t)
	}
	t.gpus = gpus
	rate := make([]float64, len(m.Devices))
	for d := range rate {
		rate[d] = m.sized.rate(t.a.Job, d, gpus)
	}
	t.rate = rate
	t.best = m.best(t)
}
