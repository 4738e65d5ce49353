package trial

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
)

// recurringOptions configure a simulation; the zero value counts time alone as cost.
type recurringOptions struct {
	// Eta weighs energy against time in the cost; see Job.Cost. Zeus's default is 0.5.
	Eta float64
	// Recurrences is the number of recurrences; 0 means the published number, Job.PublishedRecurrences.
	Recurrences int
	Seed        uint64
}

// recurringOutcome is the result of a job's recurrences under one policy, including all failed and stopped runs.
type recurringOutcome struct {
	// Seconds and Joules are the totals over all recurrences.
	Seconds, Joules float64
	// SecondsAfter[k] and JoulesAfter[k] are the totals of the first k+1 recurrences.
	SecondsAfter, JoulesAfter []float64
	// Runs is the number of runs, at least one per recurrence.
	Runs int
	// Settled is the setting with which the policy would continue. Its expectation is NaN if some runs with it never
	// reach the target.
	Settled jobSetting
	// Needed is the number of recurrences from which on the expected cost of the policy's settled choice stayed within
	// Near of the optimum, relative to the cost of the default; -1 if it was not within Near at the end.
	Needed int
}

// near is the distance from the optimum that counts as having found it: 3 % of the default's expected cost.
const near = 0.03

// mostTries is the number of failed runs in one recurrence after which the default is used; a recurrence fails after
// as many more.
const mostTries = 20

// playJob simulates the recurrences of a job under a policy. The same seed yields the same bytes.
func playJob(j *RecurringJob, p policy, o recurringOptions) (recurringOutcome, error) {
	if !(o.Eta >= 0 && o.Eta <= 1) || o.Recurrences < 0 {
		return recurringOutcome{}, fmt.Errorf("play %s: eta %g must be 0 to 1, and %d recurrences not negative", j.Name(), o.Eta, o.Recurrences)
	}
	truth, own := rand.New(rand.NewPCG(o.Seed, 1)), rand.New(rand.NewPCG(o.Seed, 2))
	player, err := p(j, o.Eta, own)
	if err != nil {
		return recurringOutcome{}, fmt.Errorf("play %s: %w", j.Name(), err)
	}
	n := cmp.Or(o.Recurrences, j.PublishedRecurrences())
	enough := j.ExpectedCost(o.Eta, j.Optimum(o.Eta)) + near*j.ExpectedCost(o.Eta, j.Default)
	out := recurringOutcome{Needed: -1}
	for k := range n {
		if err := recur(j, player, o.Eta, truth, &out); err != nil {
			return out, fmt.Errorf("play %s, recurrence %d: %w", j.Name(), k+1, err)
		}
		out.SecondsAfter, out.JoulesAfter = append(out.SecondsAfter, out.Seconds), append(out.JoulesAfter, out.Joules)
		out.Settled = player.Settled()
		switch near := j.ExpectedCost(o.Eta, out.Settled) <= enough*(1+1e-12); {
		case !near:
			out.Needed = -1
		case out.Needed < 0:
			out.Needed = k + 1
		}
	}
	return out, nil
}

// recur simulates one recurrence: runs until one reaches the target.
func recur(j *RecurringJob, player settingPlayer, eta float64, rng *rand.Rand, out *recurringOutcome) error {
	for try := range 2 * mostTries {
		a := player.Next(try > 0)
		if try >= mostTries {
			a = attempt{jobSetting: j.Default, Threshold: math.Inf(1)}
		}
		r := j.Run(a.Batch, a.Profile, a.Watts, eta, a.Threshold, rng)
		out.Runs++
		out.Seconds += r.Seconds
		out.Joules += r.Joules
		player.Observe(a, r, j.Cost(eta, r.Seconds, r.Joules))
		if r.Reached {
			return nil
		}
	}
	return fmt.Errorf("%d runs did not reach the target", 2*mostTries)
}
