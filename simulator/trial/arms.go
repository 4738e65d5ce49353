package trial

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// Arm is one way of running a job.
type Arm struct {
	Means string // one-line description
	run   func(Job, *jobTruth, Options) (*outcome, error)
}

// Run runs a job. Only the reference arms oracle and probed use the truth of the job.
func (a Arm) Run(job Job, t *jobTruth, o Options) (*outcome, error) { return a.run(job, t, o) }

// arms contains the arms that are not planners. Every planner of plan.Planners is an arm too.
var arms = map[string]Arm{
	"user":   {"the user's own configuration from start to end, nothing measured", runPlanner(plan.Static{})},
	"oracle": {"the best fixed allocation in hindsight, by exhaustive search that costs nothing", runOracle},
	"probed": {"the measurements of model before its plan, then the best allocation for the rest in hindsight: what those measurements could have been worth", runProbed},
	"random": {"the user's own configuration and random ones measured, as many as a planner may, the best of them taken", runRandom},
}

// Lookup returns an arm by name: one of Arms, a planner, or a planner returned by agents (may be nil), such as an
// agent loaded from a file. A planner returned by agents must be safe for concurrent use.
func Lookup(name string, agents func(name string) (plan.Planner, error)) (Arm, error) {
	if a, ok := arms[name]; ok {
		return a, nil
	}
	if p, ok := plan.Planners[name]; ok {
		return Arm{"the planner " + name, runPlanner(p)}, nil
	}
	if agents != nil {
		p, err := agents(name)
		if err != nil {
			return Arm{}, fmt.Errorf("policy %s: %w", name, err)
		}
		if p != nil {
			return Arm{"a loaded agent", runPlanner(p)}, nil
		}
	}
	return Arm{}, fmt.Errorf("policy %q is unknown, want one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the arms that do not have to be loaded.
func Names() []string {
	names := slices.Collect(maps.Keys(arms))
	names = append(names, slices.Collect(maps.Keys(plan.Planners))...)
	slices.Sort(names)
	return slices.Compact(names)
}

// runPlanner returns the arm of a planner, which does not use the truth.
func runPlanner(p plan.Planner) func(Job, *jobTruth, Options) (*outcome, error) {
	return func(job Job, _ *jobTruth, o Options) (*outcome, error) { return Run(job, p, o) }
}

// fixed is a strategy that uses one allocation from start to end.
type fixed struct{ at resources.Allocation }

func (fixed) measures() bool                        { return false }
func (fixed) next() (*resources.Allocation, string) { return nil, "" }
func (f fixed) settle() (resources.Allocation, string) {
	return f.at, "the best fixed allocation in hindsight"
}
func (fixed) reevaluate() (*resources.Allocation, string) { return nil, "" }

// runOracle runs the oracle's allocation. If it meets the SLA it runs without guard, which would stop it in the last
// second before a limit that it meets.
func runOracle(job Job, t *jobTruth, o Options) (*outcome, error) {
	best, ok := t.Oracle(job.Prefer)
	if !ok {
		return nil, fmt.Errorf("oracle: %s can run nowhere", job.Scenario.Name)
	}
	return runJob(job, o, func(r *runner) strategy {
		r.unguarded = t.Feasible
		return fixed{best.Allocation}
	})
}

// random is a strategy that measures random allocations and settles on the best.
type random struct {
	r   *runner
	rng *rand.Rand
}

// runRandom runs a job with the strategy random; its draws depend on the job's seed.
func runRandom(job Job, _ *jobTruth, o Options) (*outcome, error) {
	return runJob(job, o, func(r *runner) strategy { return &random{r, rand.New(rand.NewPCG(job.Seed, 0x7a11d0))} })
}

func (*random) measures() bool                              { return true }
func (*random) reevaluate() (*resources.Allocation, string) { return nil, "" }

// next returns a random allocation that was neither measured nor refused, nil after Samples probes.
func (x *random) next() (*resources.Allocation, string) {
	r := x.r
	if r.probes >= r.o.Samples {
		return nil, ""
	}
	var fresh []resources.Allocation
	for _, a := range plan.Allocations(r.snapshot()) {
		measured := slices.ContainsFunc(r.progress.Segments, func(s *run.Segment) bool { return s.Allocation.SameShape(a) })
		if !measured && !r.isRefused(a) {
			fresh = append(fresh, a)
		}
	}
	if len(fresh) == 0 {
		return nil, ""
	}
	return &fresh[x.rng.IntN(len(fresh))], "drawn at random"
}

// settle returns the measured allocation with the lowest weighted sum of seconds, USD and share of the limits,
// projected to the end of the run and relative to the lowest of each. An excess over a limit outweighs all objectives.
// The restart to reach the allocation is not counted.
func (x *random) settle() (resources.Allocation, string) {
	r := x.r
	left := r.s.Units - r.x.Done
	type tried struct {
		at     resources.Allocation
		x      [3]float64
		excess float64
	}
	var all []tried
	best := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	for _, o := range r.progress.Observations() {
		u := stat.Median(o.UnitSeconds)
		t := tried{at: o.Allocation, x: [3]float64{r.x.Elapsed + left*u, r.x.SpentUSD + left*u/3600*r.hourly(o.Allocation), perf.ResourceShare(o.Allocation, r.s.Limits)}}
		for i, limit := range [2]float64{r.s.Spec.TimeMax.Seconds(), r.s.Spec.CostMaxUSD} {
			if limit > 0 {
				t.excess = max(t.excess, t.x[i]/limit-1)
			}
		}
		all = append(all, t)
		for i := range best {
			best[i] = min(best[i], t.x[i])
		}
	}
	chosen, least := r.s.Baseline, math.Inf(1)
	for _, t := range all {
		loss := 1e6 * t.excess
		for i, w := range [3]float64{r.prefer.Time, r.prefer.Cost, r.prefer.Resource} {
			if w > 0 && best[i] > 0 {
				loss += w * t.x[i] / best[i]
			}
		}
		if loss < least {
			chosen, least = t.at, loss
		}
	}
	return chosen, "the best of those measured"
}
