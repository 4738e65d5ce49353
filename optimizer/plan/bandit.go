package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
)

// banditPlanner chooses the batch size of a recurring job from the costs of its earlier runs, as Zeus does (You, Chung and
// Chowdhury, NSDI 2023, section 4.4), and GPUs and CPUs with the performance model. The model predicts the speed of a
// batch size; only finished runs show the number of units required to reach the target.
//
// The batch sizes are the powers of two in Limits.BatchSize, that of Baseline and those of earlier runs within the
// range. Each is tried once, outwards from the baseline's until runs fail; afterwards Thompson sampling
// (trainopt/morl/bandit) decides, with correlated neighbouring batch sizes. The choice depends only on the
// recurrences and is therefore constant within a run.
//
// The cost of a run is the weighted sum of seconds, USD and joules (with the weight of "resource"), each relative to
// a run with the baseline's batch size (or else the oldest finished run); a quantity not measured in every finished
// run is omitted. An unfinished run counts as at least twice the cheapest finished one.
//
// Power limits are not part of an allocation and are not chosen here; simulator/trial covers both knobs.
//
// Without a range of batch sizes or without recurrences, Bandit decides as Model does and states so in the reason.
type banditPlanner struct{}

var _ Planner = banditPlanner{}

// Name returns "bandit".
func (banditPlanner) Name() string { return "bandit" }

// failedFactor is the minimum cost of an unfinished run, relative to the cheapest finished one: the stopping
// threshold of Zeus.
const failedFactor = 2

// Decide chooses a batch size and then the best allocation with it. When no allocation with it meets the SLA, the
// model decides among all batch sizes. Errors are those of Model.
func (p banditPlanner) Decide(s Snapshot) (Plan, error) {
	arms := banditBatches(s)
	switch {
	case len(arms) < 2:
		return p.asModel(s, "no choice of batch sizes is given (--batch-size A:B), so as the model planner: ")
	case len(s.Recurrences) == 0:
		return p.asModel(s, "no earlier run of this job has finished, so as the model planner: ")
	}
	c, err := chooseBatch(s, arms)
	if err != nil {
		return Plan{}, err
	}
	narrow := s
	narrow.Limits.BatchSize = resources.Range{Min: c.batch, Max: c.batch}
	if s.Model == nil {
		a := s.Baseline
		a.BatchSize = c.batch
		return unpredicted(p.Name(), clip(a, narrow), c.why), nil
	}
	b := evaluateCandidates(s)
	for _, a := range Allocations(narrow) { // batch sizes beyond those that Allocations would try
		if !slices.ContainsFunc(b.cs, func(x Candidate) bool { return x.Allocation.SameShape(a) }) {
			b.add(b.forecast.outcome(a))
		}
	}
	for i, x := range b.cs { // total work differs between batch sizes, so each is compared with its own baseline
		if own := s.Baseline; x.Allocation.GPUs == own.GPUs && x.Allocation.CPUs == own.CPUs && x.Allocation.BatchSize == c.batch && x.Allocation.Threads == own.Threads {
			b.baseline = i
		}
	}
	b.excludeSlower()
	b.mark()
	ofBatch := where(b.cs, func(x Candidate) bool { return feasible(x) && x.Allocation.BatchSize == c.batch })
	chosen := choose(b.cs, ofBatch, b.preference, b.current)
	if chosen < 0 {
		return p.asModel(s, fmt.Sprintf("%s; but no allocation with it meets the SLA, so the model planner decides: ", c.why))
	}
	return b.plan(p.Name(), chosen, c.why+"; with it "+b.reason(chosen)), nil
}

// asModel returns the decision of the model planner, its reason prefixed with why.
func (p banditPlanner) asModel(s Snapshot, why string) (Plan, error) {
	out, err := Model{}.Decide(s)
	out.Planner = p.Name()
	if out.Reason != "" {
		out.Reason = why + out.Reason
	}
	if no, ok := err.(*Infeasible); ok {
		no.Plan.Planner = p.Name()
	}
	return out, err
}

// banditBatches returns the batch sizes to choose from, ascending; nil without a range.
func banditBatches(s Snapshot) []int {
	r := s.Limits.BatchSize
	if r.Max <= 0 {
		return nil
	}
	all := batchSizes(s)
	for _, x := range s.Recurrences {
		if b := x.Allocation.BatchSize; b >= r.Min && b <= r.Max {
			all = append(all, b)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(b int) bool { return b <= 0 }) // 0 is the unknown default of the script
}

// batchChoice is a batch size with the reason as text.
type batchChoice struct {
	batch int
	why   string
}

// chooseBatch replays the recurrences into a bandit and returns its next arm. The random seed is a hash of the
// recurrences.
func chooseBatch(s Snapshot, arms []int) (batchChoice, error) {
	own := ownArm(s, arms)
	octaves := make([]float64, len(arms))
	for i, b := range arms {
		octaves[i] = math.Log2(float64(b))
	}
	b, err := morl.NewThompson(len(arms), morl.ThompsonSettings{Default: own, Rounds: 1, Positions: octaves})
	if err != nil {
		return batchChoice{}, fmt.Errorf("choose a batch size: %w", err)
	}
	runs, measure := runCosts(s, arms[own])
	seed := uint64(len(runs))
	for i, x := range s.Recurrences {
		seed = seed*0x9e3779b97f4a7c15 + math.Float64bits(x.Seconds)
		arm := slices.Index(arms, x.Allocation.BatchSize)
		if arm < 0 || math.IsNaN(runs[i]) {
			continue
		}
		if err := b.Observe(morl.PullOutcome{Arm: arm, Cost: runs[i], Stopped: !x.Reached}); err != nil {
			return batchChoice{}, fmt.Errorf("choose a batch size: recurrence %d: %w", i+1, err)
		}
	}
	pull := b.Next(rand.New(rand.NewPCG(seed, 0xba7c4)))
	return batchChoice{arms[pull.Arm], batchWords(b, pull, arms, len(runs)+1, fmt.Sprintf("%s of a run with batch %d", measure, arms[own]))}, nil
}

// ownArm returns the arm of the baseline's batch size. If that is unknown (the default of the script), it returns the
// arm nearest to the oldest recorded batch size, or the middle one when none is recorded.
func ownArm(s Snapshot, arms []int) int {
	own := s.Baseline.BatchSize
	for _, x := range s.Recurrences {
		if own <= 0 {
			own = x.Allocation.BatchSize
		}
	}
	if own <= 0 {
		return len(arms) / 2
	}
	best := 0
	for i, b := range arms {
		if math.Abs(math.Log2(float64(b)/float64(own))) < math.Abs(math.Log2(float64(arms[best])/float64(own))) {
			best = i
		}
	}
	return best
}

// runCosts returns the cost of each recurrence relative to a run with batch size own, NaN when unknown, and the names
// of the quantities included. O(recurrences).
func runCosts(s Snapshot, own int) (costs []float64, measure string) {
	w := s.Preference.normalised()
	parts := []struct {
		name   string
		weight float64
		of     func(Recurrence) float64
	}{
		{"time", w.Time, func(r Recurrence) float64 { return r.Seconds }},
		{"cost", w.Cost, func(r Recurrence) float64 { return float64(r.USD) }},
		{"energy", w.Resource, func(r Recurrence) float64 { return r.Joules }},
		{"time", 1e-9, func(r Recurrence) float64 { return r.Seconds }}, // fallback when no weighted quantity was measured
	}
	costs = make([]float64, len(s.Recurrences))
	sum := 0.0
	for _, p := range parts {
		unit := reference(s.Recurrences, own, p.of)
		if p.weight <= 0 || math.IsNaN(unit) || p.weight < 1e-6 && sum > 0 {
			continue
		}
		sum += p.weight
		if measure != "" {
			measure += " and "
		}
		measure += p.name
		for i, r := range s.Recurrences {
			costs[i] += p.weight * p.of(r) / unit
		}
	}
	least := math.Inf(1)
	for i, r := range s.Recurrences {
		if costs[i] /= sum; r.Reached && costs[i] < least {
			least = costs[i]
		}
	}
	for i, r := range s.Recurrences {
		switch {
		case r.Reached:
		case math.IsInf(least, 1): // no run has finished yet
			costs[i] = 1
		case !(costs[i] >= failedFactor*least): // NaN included
			costs[i] = failedFactor * least
		}
		if !(costs[i] > 0) || math.IsInf(costs[i], 1) {
			costs[i] = math.NaN()
		}
	}
	return costs, measure
}

// reference returns the mean over the finished runs with batch size own, otherwise the value of the oldest finished
// run. It is NaN when a finished run lacks the value or none has finished.
func reference(runs []Recurrence, own int, of func(Recurrence) float64) float64 {
	oldest, sum, n := math.NaN(), 0.0, 0.0
	for _, r := range runs {
		v := of(r)
		switch {
		case !r.Reached:
			continue
		case !(v > 0) || math.IsInf(v, 1):
			return math.NaN()
		case math.IsNaN(oldest):
			oldest = v
		}
		if r.Allocation.BatchSize == own {
			sum, n = sum+v, n+1
		}
	}
	if n > 0 {
		return sum / n
	}
	return oldest
}

// batchWords describes the selected arm: not yet tried, best so far, or possibly better than the best.
func batchWords(b *morl.Thompson, pull morl.Pull, arms []int, recurrence int, measure string) string {
	text := fmt.Sprintf("recurrence %d of this job: batch %d", recurrence, arms[pull.Arm])
	beliefs := b.Beliefs()
	best, known := b.Best()
	expected := func(arm int) string {
		return fmt.Sprintf("expected at %.2f ± %.2f of the %s", beliefs[arm].Mean, beliefs[arm].SD, measure)
	}
	switch at := beliefs[pull.Arm]; {
	case pull.Round > 0 && !known:
		text += ", as nothing is known of its cost yet"
	case pull.Round > 0:
		text += fmt.Sprintf(", %s, because it is the next to be tried once (batch %d is the best so far)", expected(pull.Arm), arms[best])
	case pull.Arm == best:
		text += fmt.Sprintf(", %s, because it is the best of %d batch sizes by %s with it", expected(best), len(arms), page.Plural(at.Pulls, "run"))
	default:
		text += fmt.Sprintf(", %s, because it may yet be better than batch %d (%.2f ± %.2f)", expected(pull.Arm), arms[best], beliefs[best].Mean, beliefs[best].SD)
	}
	return text
}
