package rounds

import (
	"errors"
	"fmt"
	"math"

	"trainopt/simulator/rounds/estimate"
)

// Profiling says how much is measured of jobs that share devices, before they do. Policies that pack then see estimates of a pair's
// rates on a device type until it has run there; how fast it runs follows from the table of throughputs. Rates of jobs alone are known.
// The zero value is that everything is known. See package estimate.
type Profiling struct {
	// Share is the probability with which a new job is measured beside a reference model on a device type; 0 is 1.
	Share float64
	// References is how many reference models there are, all of which are measured beside each other; 0 is every kind of job.
	References int
}

func (p Profiling) options(seed int64, compat bool) estimate.Options {
	if p.Share == 0 {
		p.Share = 1
	}
	return estimate.Options{Profiled: p.Share, References: p.References, Seed: seed + 4, Compat: compat, FactorSeed: seed}
}

// validateProfiling says why rates of pairs cannot be estimated.
func validateProfiling(c Config) (errs []error) {
	if c.Profiling == (Profiling{}) {
		return nil
	}
	c = c.withDefaults()
	e, err := estimate.New(c.Throughputs, c.Profiling.options(c.Seed, c.Compat))
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("profiling: %w", err))
	case e.Exact():
		return nil
	}
	if c.Ideal {
		errs = append(errs, errors.New("profiling: without rounds nothing is learned of pairs that run"))
	}
	if c.Generate != nil && c.Generate.MultiGPU {
		errs = append(errs, errors.New("profiling: only jobs on one device each can be profiled"))
	}
	for i := range c.Jobs {
		if c.Jobs[i].GPUs > 1 {
			errs = append(errs, fmt.Errorf("profiling: job %d asks for %d devices, and only jobs on one can be profiled", c.Jobs[i].ID, c.Jobs[i].GPUs))
			break
		}
	}
	return errs
}

// beliefs are what is thought of the rates of pairs of jobs in the cluster; nil when the truth is known.
type beliefs struct {
	estimator *estimate.Estimator
	devices   []int                     // as the estimator numbers them
	profiles  map[int]*estimate.Profile // by number of the job
	pairs     map[int]map[int]pairRates // by number of the later job, then of the earlier, which is a
}

func newBeliefs(c Config, t Traits) (*beliefs, error) {
	if c.Profiling == (Profiling{}) || !t.Packs {
		return nil, nil
	}
	e, err := estimate.New(c.Throughputs, c.Profiling.options(c.Seed, c.Compat))
	if err != nil || e.Exact() {
		return nil, err
	}
	b := &beliefs{estimator: e, profiles: map[int]*estimate.Profile{}, pairs: map[int]map[int]pairRates{}}
	for _, d := range c.Devices {
		n, known := e.Device(d.Name)
		if !known {
			return nil, fmt.Errorf("profiling: the throughput table does not have device type %s", d.Name)
		}
		b.devices = append(b.devices, n)
	}
	return b, nil
}

// profile measures a job that arrives.
func (s *simulation) profile(j *job) {
	b := s.beliefs
	if b == nil {
		return
	}
	b.pairs[j.number] = map[int]pairRates{}
	p, err := b.estimator.Profile(j.Type)
	if err != nil {
		s.warnings.add("jobs never paired because the throughput table does not have them on one device", j.ID)
		return
	}
	b.profiles[j.number] = p
}

// forget drops what is thought of a job that has ended.
func (b *beliefs) forget(j *job) {
	if b != nil {
		delete(b.profiles, j.number)
		delete(b.pairs, j.number)
	}
}

// of are the rates of a pair as they are thought to be; the first job came first. What is learned later shows in them.
func (b *beliefs) of(first, second *job) pairRates {
	pairs := b.pairs[second.number]
	if p, ok := pairs[first.number]; ok {
		return p
	}
	n := len(b.devices)
	p := pairRates{make([]float64, n), make([]float64, n)}
	if one, other := b.profiles[first.number], b.profiles[second.number]; one != nil && other != nil {
		for d, device := range b.devices {
			partA, partB := b.estimator.Beside(device, one, other)
			p.a[d], p.b[d] = partA*first.kind.rate[d], partB*second.kind.rate[d]
		}
	}
	pairs[first.number] = p
	return p
}

// believed are the rates of a pair, the earlier job first, as policies and the choice of what runs see them.
func (s *simulation) believed(first, second *job) pairRates {
	if s.beliefs == nil {
		return s.rates.pair(first.kind, second.kind)
	}
	return s.beliefs.of(first, second)
}

// pace is how fast an entry really runs on a device type.
func (s *simulation) pace(e *entry, device int) (a, b float64) {
	switch {
	case e.b == nil:
		return e.rate[device], 0
	case s.beliefs == nil:
		return e.rate[device], e.rateB[device]
	}
	p := s.rates.pair(e.a.kind, e.b.kind)
	return p.a[device], p.b[device]
}

// mistaken says whether an entry runs otherwise on a device type than is believed.
func (s *simulation) mistaken(e *entry, device int) bool {
	if s.beliefs == nil || e.b == nil {
		return false
	}
	a, b := s.pace(e, device)
	return a != e.rate[device] || b != e.rateB[device]
}

// learn replaces what is believed of an entry on a device type where it has run by the truth, and says whether that is news.
func (s *simulation) learn(e *entry, device int) bool {
	if !s.mistaken(e, device) {
		return false
	}
	e.rate[device], e.rateB[device] = s.pace(e, device)
	return true
}

// observe learns from the pairs that have run since the last round; the policy decides anew when one was mistaken.
func (m *improved) observe() {
	for _, t := range m.running {
		if m.now > math.Max(t.since, t.resumes) && m.learn(&t.entry, t.device) {
			m.changed = true
		}
	}
}

// surprise says whether something runs otherwise than is believed, which the end of the round will show.
func (m *improved) surprise() bool {
	for _, t := range m.running {
		if m.mistaken(&t.entry, t.device) {
			return true
		}
	}
	return false
}
