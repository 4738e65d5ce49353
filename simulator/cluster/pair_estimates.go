package cluster

import (
	"cmp"
	"errors"
	"fmt"

	"trainopt/optimizer/schedule"
)

// Profiling determines how much is measured about co-located jobs in advance. Packing policies then receive estimates
// of a pair's rates on a device type until the pair has run there; the actual rates follow from the throughput table.
// Rates of single jobs are always known. The zero value means that all rates are known. See package cluster.
type Profiling struct {
	// Share is the probability with which a new job is measured beside a reference model on a device type; 0: 1.
	Share float64
	// References is the number of reference models, all of which are measured beside each other; 0: all kinds of
	// jobs.
	References int
}

func (p Profiling) options(seed int64, compat bool) estimatorOptions {
	p.Share = cmp.Or(p.Share, 1)
	return estimatorOptions{Profiled: p.Share, References: p.References, Seed: seed + 4, Compat: compat, FactorSeed: seed}
}

// validateProfiling returns the reasons for which rates of pairs cannot be estimated.
func validateProfiling(c Config) (errs []error) {
	if c.Profiling == (Profiling{}) {
		return nil
	}
	c = c.withDefaults()
	e, err := newEstimator(c.Throughputs, c.Profiling.options(c.Seed, c.Compat))
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("profiling: %w", err))
	case e.exact():
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

// pairEstimates contains the estimated rates of pairs of active jobs; nil when the actual rates are known.
type pairEstimates struct {
	estimator *estimator
	devices   []int                     // device numbers of the estimator
	profiles  map[int]*pairProfile      // by job number
	pairs     map[int]map[int]pairRates // by number of the later job, then of the earlier one, whose rate is a
}

// newPairEstimates returns nil without error when estimates are not needed: for policies that do not pack, and when
// everything is measured.
func newPairEstimates(c Config, t schedule.Traits) (*pairEstimates, error) {
	if c.Profiling == (Profiling{}) || !t.Packs {
		return nil, nil
	}
	e, err := newEstimator(c.Throughputs, c.Profiling.options(c.Seed, c.Compat))
	if err != nil || e.exact() {
		return nil, err
	}
	b := &pairEstimates{estimator: e, profiles: map[int]*pairProfile{}, pairs: map[int]map[int]pairRates{}}
	for _, d := range c.Devices {
		n, known := e.device(d.Name)
		if !known {
			return nil, fmt.Errorf("profiling: the throughput table does not have device type %s", d.Name)
		}
		b.devices = append(b.devices, n)
	}
	return b, nil
}

// profile measures a job that arrives.
func (s *simulation) profile(j *job) {
	b := s.estimates
	if b == nil {
		return
	}
	b.pairs[j.number] = map[int]pairRates{}
	p, err := b.estimator.profile(j.Type)
	if err != nil {
		s.warnings.add("jobs never paired because the throughput table does not have them on one device", j.ID)
		return
	}
	b.profiles[j.number] = p
}

// forget drops the estimates for a job that has ended.
func (b *pairEstimates) forget(j *job) {
	if b != nil {
		delete(b.profiles, j.number)
		delete(b.pairs, j.number)
	}
}

// of returns the estimated rates of a pair; first is the job that arrived earlier. Corrections by learn apply to the
// returned slices.
func (b *pairEstimates) of(first, second *job) pairRates {
	pairs := b.pairs[second.number]
	if p, ok := pairs[first.number]; ok {
		return p
	}
	n := len(b.devices)
	p := pairRates{make([]float64, n), make([]float64, n)}
	if one, other := b.profiles[first.number], b.profiles[second.number]; one != nil && other != nil {
		for d, device := range b.devices {
			partA, partB := b.estimator.relativeRates(device, one, other)
			p.a[d], p.b[d] = partA*first.kind.rate[d], partB*second.kind.rate[d]
		}
	}
	pairs[first.number] = p
	return p
}

// estimatedRates returns the rates of a pair as used by policies and by the choice of entries. The job that arrived
// earlier comes first.
func (s *simulation) estimatedRates(first, second *job) pairRates {
	if s.estimates == nil {
		return s.rates.pair(first.kind, second.kind)
	}
	return s.estimates.of(first, second)
}

// actualRates returns the actual rates of a job or pair on a device type.
func (s *simulation) actualRates(r *rated, device int) (a, b float64) {
	switch {
	case r.b == nil:
		return r.rate[device], 0
	case s.estimates == nil:
		return r.rate[device], r.rateB[device]
	}
	p := s.rates.pair(r.a.kind, r.b.kind)
	return p.a[device], p.b[device]
}

// misestimated reports whether the actual rates of a pair on a device type differ from the estimates.
func (s *simulation) misestimated(r *rated, device int) bool {
	if s.estimates == nil || r.b == nil {
		return false
	}
	a, b := s.actualRates(r, device)
	return a != r.rate[device] || b != r.rateB[device]
}

// learn replaces the estimates for a pair that has run on a device type by the actual rates and reports whether they
// changed.
func (s *simulation) learn(r *rated, device int) bool {
	if !s.misestimated(r, device) {
		return false
	}
	r.rate[device], r.rateB[device] = s.actualRates(r, device)
	return true
}
