package trial

import (
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl"
)

// policy returns the player of one job. Players observe only the costs of runs, except for the oracle.
type policy func(j *RecurringJob, eta float64, rng *rand.Rand) (settingPlayer, error)

// settingPlayer decides the runs of a job one after another.
type settingPlayer interface {
	// Next returns the next run; retry means that the previous run of this recurrence failed.
	Next(retry bool) attempt
	// Observe records the result of an attempt and its cost.
	Observe(a attempt, r recurringRun, cost float64)
	// Settled returns the choice of the policy without further exploration.
	Settled() jobSetting
}

// attempt is the decision on one run.
type attempt struct {
	jobSetting
	Profile   []stretch // power limits to measure first
	Threshold float64   // cost at which the run is stopped, +Inf: never
}

// policies maps names to policies. A new policy is one function and one line here.
//
//	default  the user's own setting, always
//	oracle   the setting with the lowest expected cost, known from the start
//	grid     every setting once, from the default outwards, without the batch sizes that failed; then the cheapest seen
//	random   every setting once in random order; then the cheapest seen
//	zeus     Zeus as published: pruning, then Thompson sampling with independent beliefs over batch sizes; stops a run at
//	         twice the lowest cost; measures every power limit inside the first run of a batch size
//	smooth   our policy: neighbouring batch sizes share information, so that none has to be tried twice before sampling;
//	         stops a run at 1.5 times the estimated cost of the best; measures three power limits, next to the best one
//	         of the nearest batch size, inside the first run of a batch size, and two more inside each later run until
//	         all are known
var policies = map[string]policy{
	"default": func(j *RecurringJob, _ float64, _ *rand.Rand) (settingPlayer, error) {
		return fixedSetting{j.Default}, nil
	},
	"oracle": func(j *RecurringJob, eta float64, _ *rand.Rand) (settingPlayer, error) {
		return fixedSetting{j.Optimum(eta)}, nil
	},
	"grid":   func(j *RecurringJob, _ float64, _ *rand.Rand) (settingPlayer, error) { return newSearch(j, nil), nil },
	"random": func(j *RecurringJob, _ float64, rng *rand.Rand) (settingPlayer, error) { return newSearch(j, rng), nil },
	"zeus": func(j *RecurringJob, eta float64, rng *rand.Rand) (settingPlayer, error) {
		return newBatches(j, morl.ThompsonSettings{}, newProfiler(j, eta, len(j.Limits), len(j.Limits), rng), rng)
	},
	"smooth": func(j *RecurringJob, eta float64, rng *rand.Rand) (settingPlayer, error) {
		return newBatches(j, morl.ThompsonSettings{Rounds: -1, Beta: 1.5, Positions: log2Positions(j.Batches)}, newProfiler(j, eta, 3, 2, rng), rng)
	},
}

// fixedSetting always chooses the same setting.
type fixedSetting struct{ jobSetting }

func (f fixedSetting) Next(bool) attempt {
	return attempt{jobSetting: f.jobSetting, Threshold: math.Inf(1)}
}
func (f fixedSetting) Observe(attempt, recurringRun, float64) {}
func (f fixedSetting) Settled() jobSetting                    { return f.jobSetting }

// settingSearch tries every setting once, skips batch sizes that failed, and then keeps the cheapest setting.
type settingSearch struct {
	order  []jobSetting
	failed map[int]bool
	best   jobSetting
	least  float64
}

// newSearch returns a search in random order, or from the default outwards if rng is nil.
func newSearch(j *RecurringJob, rng *rand.Rand) *settingSearch {
	s := &settingSearch{failed: map[int]bool{}, best: j.Default, least: math.Inf(1)}
	all := j.Settings()
	if rng != nil {
		for _, i := range rng.Perm(len(all)) {
			s.order = append(s.order, all[i])
		}
		return s
	}
	// From the default outwards: batch sizes by distance, power limits from the highest down.
	for _, i := range indicesByDistance(len(j.Batches), slices.Index(j.Batches, j.Default.Batch)) {
		for _, w := range slices.Backward(j.Limits) {
			if x := (jobSetting{j.Batches[i], w}); j.measured(x) {
				s.order = append(s.order, x)
			}
		}
	}
	return s
}

// Next returns the next untried setting. After a failure in the same recurrence, and when all are tried, it returns
// the best known one.
func (s *settingSearch) Next(retry bool) attempt {
	a := attempt{jobSetting: s.best, Threshold: math.Inf(1)}
	if retry && !math.IsInf(s.least, 1) {
		return a
	}
	for len(s.order) > 0 {
		next := s.order[0]
		s.order = s.order[1:]
		if !s.failed[next.Batch] {
			a.jobSetting = next
			break
		}
	}
	return a
}

// Observe excludes the batch size of a failed run and records the cheapest setting.
func (s *settingSearch) Observe(a attempt, r recurringRun, cost float64) {
	switch {
	case !r.Reached:
		s.failed[a.Batch] = true
	case cost < s.least:
		s.best, s.least = a.jobSetting, cost
	}
}

func (s *settingSearch) Settled() jobSetting { return s.best }

// banditPlayer chooses the batch size by a bandit and the power limit by measurements inside the run.
type banditPlayer struct {
	job    *RecurringJob
	bandit *morl.Thompson
	power  *profiler
	rng    *rand.Rand
}

// newBatches returns a player with a bandit over the batch sizes of the job.
func newBatches(j *RecurringJob, s morl.ThompsonSettings, power *profiler, rng *rand.Rand) (*banditPlayer, error) {
	s.Default = slices.Index(j.Batches, j.Default.Batch)
	b, err := morl.NewThompson(len(j.Batches), s)
	if err != nil {
		return nil, err
	}
	return &banditPlayer{j, b, power, rng}, nil
}

// Next returns the choice of the bandit. A failed recurrence continues with the best known batch size, without a
// threshold.
func (b *banditPlayer) Next(retry bool) attempt {
	arm, known := b.bandit.Best()
	if !retry || !known {
		arm = b.bandit.Next(b.rng).Arm
	}
	a := attempt{Threshold: b.bandit.Threshold(arm)}
	if retry && known {
		a.Threshold = math.Inf(1)
	}
	a.Batch = b.job.Batches[arm]
	a.Profile, a.Watts = b.power.profile(a.Batch)
	return a
}

// Observe updates the bandit and the profiler.
func (b *banditPlayer) Observe(a attempt, r recurringRun, cost float64) {
	_ = b.bandit.Observe(morl.PullOutcome{Arm: slices.Index(b.job.Batches, a.Batch), Cost: cost, Stopped: !r.Reached}) // the error is impossible: every run has a cost
	b.power.recordRun(a, r)
}

// Settled returns the best known batch size at its best known power limit.
func (b *banditPlayer) Settled() jobSetting {
	arm, _ := b.bandit.Best()
	batch := b.job.Batches[arm]
	return jobSetting{batch, b.job.Limits[b.power.best(batch)]}
}
