package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl/bandit"
	"trainopt/resources"
)

// Bandit chooses the batch size of a job that recurs by what its earlier runs cost, as Zeus does (You, Chung and
// Chowdhury, NSDI 2023, section 4.4), and GPUs and CPUs with the performance model. The model knows how fast a batch size
// is; only finished runs know how long it takes to learn as much.
//
// The batch sizes are the powers of two in Limits.BatchSize, that of Baseline and those of earlier runs in the range. Each
// is tried once, from the user's own outwards to where runs fail; then Thompson sampling (trainopt/morl/bandit)
// decides, with neighbouring batch sizes telling of each other. The choice depends on the recurrences alone, so it
// stays the same within a run.
//
// The cost of a run is the preference's weights over seconds, USD and joules (the weight of "resource"), each relative to
// a run with the user's own batch size (or else the oldest that finished); what was not measured of every finished
// run is left out. A run that did not finish counts as at least twice the cheapest that did.
//
// It has no power limit to set: that is not part of an allocation. simulator/training/recurring has both knobs.
//
// Without a range of batch sizes or without recurrences it decides as Model does, and says so.
type Bandit struct{}

var _ Planner = Bandit{}

// Name is "bandit".
func (Bandit) Name() string { return "bandit" }

// failedFactor is what a run that did not finish costs at least, in costs of the cheapest that did: where Zeus gives up.
const failedFactor = 2

// Decide chooses a batch size and then the best allocation with it. Where no allocation with it meets the agreement, all
// batch sizes are weighed by the model. Errors are those of Model.
func (p Bandit) Decide(s Snapshot) (Plan, error) {
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
	b := weigh(s)
	for _, a := range Allocations(narrow) { // a batch size beyond those that the model would dare
		if !slices.ContainsFunc(b.cs, func(x Candidate) bool { return x.Allocation.SameShape(a) }) {
			b.add(b.forecast.outcome(a))
		}
	}
	for i, x := range b.cs { // batch sizes differ in how much work there is, so each is held against its own
		if own := s.Baseline; x.Allocation.GPUs == own.GPUs && x.Allocation.CPUs == own.CPUs && x.Allocation.BatchSize == c.batch && x.Allocation.Threads == own.Threads {
			b.baseline = i
		}
	}
	b.hold()
	b.mark()
	ofBatch := where(b.cs, func(x Candidate) bool { return feasible(x) && x.Allocation.BatchSize == c.batch })
	chosen := choose(b.cs, ofBatch, b.preference, b.current)
	if chosen < 0 {
		return p.asModel(s, fmt.Sprintf("%s; but no allocation with it meets the SLA, so the model planner decides: ", c.why))
	}
	return b.plan(p.Name(), chosen, c.why+"; with it "+b.reason(chosen)), nil
}

// asModel is the model planner's decision, with why it was asked.
func (p Bandit) asModel(s Snapshot, why string) (Plan, error) {
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

// banditBatches are the batch sizes to choose from, ascending; nil without a range.
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
	return slices.DeleteFunc(all, func(b int) bool { return b <= 0 }) // 0 is the script's own, whatever that is
}

// batchChoice is a batch size and why, in words.
type batchChoice struct {
	batch int
	why   string
}

func chooseBatch(s Snapshot, arms []int) (batchChoice, error) {
	own := ownArm(s, arms)
	octaves := make([]float64, len(arms))
	for i, b := range arms {
		octaves[i] = math.Log2(float64(b))
	}
	b, err := bandit.New(len(arms), bandit.Settings{Default: own, Rounds: 1, Positions: octaves})
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
		if err := b.Observe(bandit.Observation{Arm: arm, Cost: runs[i], Stopped: !x.Reached}); err != nil {
			return batchChoice{}, fmt.Errorf("choose a batch size: recurrence %d: %w", i+1, err)
		}
	}
	pull := b.Next(rand.New(rand.NewPCG(seed, 0xba7c4)))
	return batchChoice{arms[pull.Arm], batchWords(b, pull, arms, len(runs)+1, fmt.Sprintf("%s of a run with batch %d", measure, arms[own]))}, nil
}

// ownArm is the arm of the user's own batch size: the baseline's; where that is the script's own, the nearest to that of
// the oldest run that says its batch size; else the middle.
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

// runCosts is what each recurrence cost relative to a run with the own batch size, NaN where it cannot be told, and what
// was weighed, in words. O(recurrences).
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
		{"time", 1e-9, func(r Recurrence) float64 { return r.Seconds }}, // when nothing that is weighed was measured
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
		case math.IsInf(least, 1): // nothing has finished yet
			costs[i] = 1
		case !(costs[i] >= failedFactor*least): // unknown too
			costs[i] = failedFactor * least
		}
		if !(costs[i] > 0) || math.IsInf(costs[i], 1) {
			costs[i] = math.NaN()
		}
	}
	return costs, measure
}

// reference is the mean over the finished runs with the own batch size, else the oldest finished run's; NaN when a
// finished run does not say or none finished.
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

func batchWords(b *bandit.Thompson, pull bandit.Pull, arms []int, recurrence int, measure string) string {
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
		text += fmt.Sprintf(", %s, because it is the best of %d batch sizes by %d run%s with it", expected(best), len(arms), at.Pulls, plural(at.Pulls))
	default:
		text += fmt.Sprintf(", %s, because it may yet be better than batch %d (%.2f ± %.2f)", expected(pull.Arm), arms[best], beliefs[best].Mean, beliefs[best].SD)
	}
	return text
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
