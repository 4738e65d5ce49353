package rounds

import (
	"cmp"
	"math"
	"slices"

	"trainopt/simulator/solve"
	"trainopt/simulator/workload"
)

// waterFilling is max-min fairness that goes on above the worst: jobs that cannot get more keep what they have, the others rise
// (Gavel, section 4.3 "Weighted fairness"). One program without compat; with compat two for each step, as Gavel goes.
type waterFilling struct{ solver }

var _ Described = waterFilling{}

func newWaterFilling(sees sight) func(PolicyOptions) Policy {
	return func(o PolicyOptions) Policy {
		return waterFilling{solver{"MaxMinFairnessWaterFilling", sees, o.Compat}}
	}
}

// Decide solves the programs.
func (p waterFilling) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return Allocation{}, err
	}
	if !p.compat {
		sol, err := p.spread(g, weight)
		return g.allocation(sol), err
	}
	f := newFilling(g, weight)
	f.step = 1e-4
	for i := range f.lowest {
		w, _ := priority(g.job(i).Job)
		f.lowest[i] = 0.1 * g.Scale[i] / w
	}
	sol, err := f.run(func([]bool) []float64 { return nil })
	return g.allocation(sol), err
}

// Hierarchy is a cluster that is divided among entities, such as the teams of a company, and what an entity gets among its jobs
// (Gavel, section 4.3 "Hierarchical scheduling policies").
type Hierarchy struct {
	// Of names the entity of a job; nil is its Queue, or its User where it has none.
	Of func(*workload.Job) string
	// Weight is that of an entity; those that are not there have 1.
	Weight map[string]float64
	// FIFO are the entities that give all they have to the first of their jobs that can use it. The others divide by the weights
	// of jobs.
	FIFO map[string]bool
	// AllFIFO: all entities are like that.
	AllFIFO bool
}

// hierarchical fills like waterFilling, with weights that change: what jobs that are full can no longer use goes to their own
// entity first.
type hierarchical struct {
	solver
	Hierarchy
}

var _ Described = hierarchical{}

// NewHierarchical is a policy for Config.Custom that sees how fast jobs are on each device type.
func NewHierarchical(h Hierarchy) Policy {
	return hierarchical{solver{"Hierarchical", measured, false}, h}
}

func newHierarchical(sees sight, fifo bool) func(PolicyOptions) Policy {
	return func(PolicyOptions) Policy {
		return hierarchical{solver{"Hierarchical", sees, false}, Hierarchy{AllFIFO: fifo}}
	}
}

// Decide fills until no job can get more: at most as many steps as there are jobs.
func (p hierarchical) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	weight, err := p.fairWeights(g)
	if err != nil || len(g.jobs) == 0 {
		return Allocation{}, err
	}
	entity := make([]string, len(g.jobs))
	for i := range entity {
		j := g.job(i).Job
		w, _ := priority(j)
		weight[i] *= w
		entity[i] = p.of(j)
	}
	f := newFilling(g, weight)
	f.step = fullAt
	sol, err := f.run(func(full []bool) []float64 { return p.parts(g, entity, full) })
	return g.allocation(sol), err
}

func (p hierarchical) of(j *workload.Job) string {
	switch {
	case p.Of != nil:
		return p.Of(j)
	case j.Queue != "":
		return j.Queue
	}
	return j.User
}

// parts are the weights of jobs that are not full: those of their entities, divided.
func (p hierarchical) parts(g *program, entity []string, full []bool) []float64 {
	sum := map[string]float64{}
	out := make([]float64, len(entity))
	for i, e := range entity {
		if full[i] || sum[e] > 0 && (p.AllFIFO || p.FIFO[e]) {
			continue
		}
		out[i], _ = priority(g.job(i).Job)
		sum[e] += out[i]
	}
	for i, e := range entity {
		if out[i] > 0 {
			w, named := p.Weight[e]
			if !named {
				w = 1
			}
			out[i] *= w / sum[e]
		}
	}
	return out
}

// filling raises all jobs that are not full, each in proportion to its part, as far as all can go; then finds out who is full.
type filling struct {
	g      *program
	weight []float64 // what a rate is multiplied by before it is compared
	level  []float64 // rate of each job so far
	full   []bool
	step   float64 // who can get so much more, relative, is not full
	// Gavel's test of who is full has no answer when someone who is full is below lowest, and is then taken to say that all are.
	lowest []float64
}

const fullAt = 1e-6

func newFilling(g *program, weight []float64) *filling {
	n := len(g.jobs)
	return &filling{g: g, weight: weight, level: make([]float64, n), full: make([]bool, n), lowest: make([]float64, n)}
}

// run ends when all are full. parts tells by how much each job rises, 0 is not at all; nil is all alike.
func (f *filling) run(parts func(full []bool) []float64) (solve.Solution, error) {
	for {
		sol, err := f.rise(parts(f.full))
		if err != nil {
			return sol, err
		}
		more, err := f.findFull(sol)
		if err != nil || !more {
			return sol, err
		}
	}
}

// rise raises those that are not full. The shares are in the middle of all that are as good.
func (f *filling) rise(part []float64) (solve.Solution, error) {
	g := f.g
	floor, inverse := make([]float64, len(f.level)), make([]float64, len(f.level))
	var rising []int
	for i, level := range f.level {
		switch {
		case !f.full[i] && (part == nil || part[i] > 0):
			rising = append(rising, i)
		default:
			floor[i] = level / f.weight[i] * (1 - margin)
		}
	}
	partOf := func(i int) float64 {
		if part == nil {
			return 1
		}
		return part[i]
	}
	demand := func(by float64) []float64 {
		for _, i := range rising {
			inverse[i] = f.weight[i] / (f.level[i] + by*partOf(i))
		}
		return inverse
	}
	by, err := threshold(bounds{0, math.Inf(1)}, 1, func(by float64) (probe, error) {
		sol, err := usable(solve.MaxMin(g.Sharing, demand(by), floor))
		at := bounds{math.Inf(1), 0}
		for _, i := range rising {
			// Where a job has factor times what is asked, it has risen by so much.
			risen := sol.Value*by + (sol.Value-1)*f.level[i]/partOf(i)
			at = bounds{min(at.lo, risen), max(at.hi, risen)}
		}
		return probe{sol.Value, at}, err
	})
	if err != nil {
		return solve.Solution{}, err
	}
	sol, err := usable(solve.Central(g.Sharing, demand(by), floor))
	for _, i := range rising {
		f.level[i] += by * partOf(i)
	}
	return sol, err
}

// findFull marks the jobs that cannot get more without taking it from others, and says whether any is left that is not marked.
// Those that have more in the middle of the best shares can. Of the rest it is tried how much more they can have together,
// without those that turn out to get some, until none of them does.
func (f *filling) findFull(sol solve.Solution) (more bool, err error) {
	var risen []int
	for i := range f.level {
		if f.level[i] > 0 && !f.full[i] {
			risen = append(risen, i)
		}
	}
	stuck := f.stuck(risen, sol)
	if len(stuck) == 0 {
		stuck = []int{f.least(risen, sol)}
	}
	for tried := len(risen) + 1; len(stuck) > 0 && len(stuck) < tried; {
		tried = len(stuck)
		if sol, err = f.reach(stuck); err != nil {
			return false, err
		}
		if rest := f.stuck(stuck, sol); len(rest) > 0 {
			stuck = rest
		}
	}
	if slices.ContainsFunc(stuck, func(i int) bool { return f.level[i] < f.lowest[i] }) {
		stuck = risen
	}
	for _, i := range stuck {
		f.full[i] = true
	}
	return slices.Contains(f.full, false), nil
}

// stuck are those of some jobs that do not have more than their level.
func (f *filling) stuck(who []int, sol solve.Solution) []int {
	rate := f.g.done(sol)
	return slices.DeleteFunc(slices.Clone(who), func(i int) bool { return f.weight[i]*rate[i] > f.level[i]*(1+f.step) })
}

// least is the one that has least more than its level.
func (f *filling) least(who []int, sol solve.Solution) int {
	rate := f.g.done(sol)
	return slices.MinFunc(who, func(a, b int) int {
		return cmp.Compare(f.weight[a]*rate[a]/f.level[a], f.weight[b]*rate[b]/f.level[b])
	})
}

// reach is the most that some jobs can have together when nobody has less than its level.
func (f *filling) reach(who []int) (solve.Solution, error) {
	g, J := f.g, len(f.g.Devices)
	gain := make([]float64, len(f.level)) // of a step per second
	for _, i := range who {
		gain[i] = f.weight[i] / f.level[i]
	}
	floor := make([]float64, len(f.level))
	alone := make([][]float64, len(g.Rate))
	for i, r := range g.Rate {
		floor[i] = f.level[i] / f.weight[i] * (1 - margin)
		alone[i] = make([]float64, J)
		for d := range r {
			alone[i][d] = gain[i] * r[d]
		}
	}
	pairs := make([][]float64, len(g.Pairs))
	for k := range pairs {
		p := &g.Pairs[k]
		pairs[k] = make([]float64, J)
		for d := range J {
			pairs[k][d] = gain[p.A]*p.RateA[d] + gain[p.B]*p.RateB[d]
		}
	}
	return usable(solve.MaxSum(g.Sharing, alone, pairs, floor))
}
