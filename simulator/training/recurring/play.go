package recurring

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Options of a simulation; the zero value is one with a cost of time alone.
type Options struct {
	// Eta weighs energy against time in the cost; see Job.Cost. Zeus's default is 0.5.
	Eta float64
	// Recurrences is how often the job recurs; 0 is the published number, Job.Published.
	Recurrences int
	Seed        uint64
}

// Outcome is a job's recurrences under one policy, all runs that failed or were given up included.
type Outcome struct {
	// Seconds and Joules are of all recurrences together.
	Seconds, Joules float64
	// SecondsAfter and JoulesAfter are those of the first k+1 recurrences.
	SecondsAfter, JoulesAfter []float64
	// Runs is how many runs were made, at least one a recurrence.
	Runs int
	// Settled is what the policy would go on with. NaN expectations mean that it may never reach the target.
	Settled Setting
	// Needed is the number of recurrences after which the expected cost of what it would settle on stayed within Near of
	// the optimum, in points of the default's cost; -1 when it was not at the end.
	Needed int
}

// Near is how near to the optimum counts as having found it: 3 % of the default's expected cost.
const Near = 0.03

// mostTries bounds the runs of one recurrence; the user's default is taken after as many failures.
const mostTries = 20

// Play simulates the recurrences of a job under a policy. The same seed draws the same bytes.
func Play(j *Job, p Policy, o Options) (Outcome, error) {
	if !(o.Eta >= 0 && o.Eta <= 1) || o.Recurrences < 0 {
		return Outcome{}, fmt.Errorf("play %s: eta %g must be 0 to 1, and %d recurrences not negative", j.Name(), o.Eta, o.Recurrences)
	}
	truth, own := rand.New(rand.NewPCG(o.Seed, 1)), rand.New(rand.NewPCG(o.Seed, 2))
	player, err := p(j, o.Eta, own)
	if err != nil {
		return Outcome{}, fmt.Errorf("play %s: %w", j.Name(), err)
	}
	n := o.Recurrences
	if n == 0 {
		n = j.Published()
	}
	enough := j.ExpectedCost(o.Eta, j.Optimum(o.Eta)) + Near*j.ExpectedCost(o.Eta, j.Default)
	out := Outcome{Needed: -1}
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

// recur is one recurrence: runs until one reaches the target.
func recur(j *Job, player Player, eta float64, rng *rand.Rand, out *Outcome) error {
	for try := range 2 * mostTries {
		a := player.Next(try > 0)
		if try >= mostTries {
			a = Attempt{Setting: j.Default, Threshold: math.Inf(1)}
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
