package rounds

import (
	"fmt"
	"math"

	"trainopt/simulator/workload"
)

// Elastic is a policy that also decides the number of devices of each job, among those for which the throughput table
// has rates. Its Decide, which is called by mechanisms without elasticity, keeps the numbers that jobs request.
type Elastic interface {
	Policy
	// DecideSizes decides shares and, for each entry, the number of devices. Entries are single jobs. rate returns
	// the throughput of a job on a number of devices of a type (an index into Snapshot.Devices), 0 if it does not run
	// there or the table has no rate.
	DecideSizes(s *Snapshot, rate SizedRate) (Allocation, []int, error)
}

// SizedRate returns the throughput in steps/s of a job on a number of devices of a type.
type SizedRate func(j *workload.Job, device, gpus int) float64

// sized adapts an elastic policy to Policy and stores its numbers of devices.
type sized struct {
	Elastic
	rate   SizedRate
	counts []int
}

// Decide checks the numbers of devices and stores them for the mechanism.
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

// ask calls the policy. counts are the numbers of devices by entry; nil: jobs run on the number that they request.
func (m *improved) ask() (a Allocation, counts []int, err error) {
	a, err = m.decide()
	if m.sized != nil {
		counts = m.sized.counts
	}
	return a, counts, err
}

// Every returns the interval of the elastic policy; +Inf if it requests no periodic decisions.
func (p *sized) Every() float64 {
	if r, ok := p.Elastic.(Restless); ok {
		return r.Every()
	}
	return math.Inf(1)
}

// resize changes the number of devices of a tenant.
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
