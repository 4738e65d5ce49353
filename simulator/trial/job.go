package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

// jobSetting is the choice of one recurrence.
type jobSetting struct {
	Batch int     `json:"batch"`
	Watts float64 `json:"watts"` // the GPU's power limit
}

// RecurringJob is one recurring training on one kind of GPU. It is immutable and safe for concurrent use.
type RecurringJob struct {
	Dataset, Network, GPU string
	// Batches and Limits (in W) are the available choices, ascending; each batch size has at least one measured limit.
	Batches []int
	Limits  []float64
	// Default is the user's choice without a policy: the batch size of the model's authors and its highest measured power
	// limit.
	Default jobSetting
	// MaxEpochs is the number of epochs after which a run that has not reached the target stops: the longest measured
	// run.
	MaxEpochs float64

	truth truth
}

// truth is the actual behaviour of a job on one GPU.
type truth interface {
	// epoch returns the seconds and the mean power in W of an epoch.
	epoch(jobSetting) (seconds, watts float64)
	// draw returns the number of epochs until one run reaches the target, NaN if it never does.
	draw(batch int, rng *rand.Rand) float64
	// mean returns the mean number of epochs, NaN if some runs never reach the target.
	mean(batch int) float64
}

// Name returns "dataset/network on GPU".
func (j *RecurringJob) Name() string { return j.Dataset + "/" + j.Network + " on " + j.GPU }

// Settings returns every measured pair of batch size and power limit, in ascending order.
func (j *RecurringJob) Settings() []jobSetting {
	var out []jobSetting
	for _, b := range j.Batches {
		for _, w := range j.Limits {
			if s := (jobSetting{b, w}); j.measured(s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// measured reports whether the behaviour of a setting is known: tables may have holes.
func (j *RecurringJob) measured(s jobSetting) bool {
	seconds, _ := j.truth.epoch(s)
	return !math.IsNaN(seconds)
}

// PublishedRecurrences returns the number of recurrences over which Zeus was evaluated: 2·|batches|·|limits| (section 6.1).
func (j *RecurringJob) PublishedRecurrences() int { return 2 * len(j.Batches) * len(j.Limits) }

// Epoch returns the seconds and joules of an epoch.
func (j *RecurringJob) Epoch(s jobSetting) (seconds, joules float64) {
	seconds, watts := j.truth.epoch(s)
	return seconds, seconds * watts
}

// Expected returns the mean seconds and joules of a run to the target, NaN if some runs never reach it.
func (j *RecurringJob) Expected(s jobSetting) (seconds, joules float64) {
	seconds, joules = j.Epoch(s)
	n := j.truth.mean(s.Batch)
	return n * seconds, n * joules
}

// Cost returns the cost of a run in joules: eta·energy + (1-eta)·(highest power limit)·time (Zeus, equation 2). Eta 1
// counts energy alone, eta 0 time alone.
func (j *RecurringJob) Cost(eta, seconds, joules float64) float64 {
	return eta*joules + (1-eta)*j.Limits[len(j.Limits)-1]*seconds
}

// Optimum returns the setting with the lowest expected cost, by exhaustive search over the settings that always reach
// the target.
func (j *RecurringJob) Optimum(eta float64) jobSetting {
	best, least := j.Default, math.Inf(1)
	for _, s := range j.Settings() {
		if c := j.ExpectedCost(eta, s); c < least {
			best, least = s, c
		}
	}
	return best
}

// recurringRun is the result of one run, ended by reaching the target or by a stop.
type recurringRun struct {
	Seconds, Joules float64
	Reached         bool
}

// stretch is a period at one power limit.
type stretch struct {
	Watts, Seconds float64
}

// Run trains once with a batch size: first for the given stretches, at whose limits the run is measured, then at the
// limit watts. It ends when the target is reached, when the cost with the given eta reaches the threshold (+Inf: no
// threshold), or after MaxEpochs.
func (j *RecurringJob) Run(batch int, first []stretch, watts, eta, threshold float64, rng *rand.Rand) recurringRun {
	left := j.truth.draw(batch, rng)
	reaches := left <= j.MaxEpochs // false for NaN
	if !reaches {
		left = j.MaxEpochs
	}
	var r recurringRun
	for _, s := range append(slices.Clone(first), stretch{watts, math.Inf(1)}) {
		perEpoch, power := j.truth.epoch(jobSetting{batch, s.Watts})
		seconds := min(s.Seconds, left*perEpoch)
		afford := (threshold - j.Cost(eta, r.Seconds, r.Joules)) / j.Cost(eta, 1, power)
		if stop := afford <= seconds; stop {
			r.Seconds += max(0, afford)
			r.Joules += max(0, afford) * power
			return r
		}
		r.Seconds += seconds
		r.Joules += seconds * power
		if left -= seconds / perEpoch; left <= 1e-9 {
			break
		}
	}
	r.Reached = reaches
	return r
}

// ExpectedCost returns the cost of the expected run, NaN if some runs never reach the target.
func (j *RecurringJob) ExpectedCost(eta float64, s jobSetting) float64 {
	seconds, joules := j.Expected(s)
	return j.Cost(eta, seconds, joules)
}
