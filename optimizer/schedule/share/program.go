package share

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// throughputView is the view of throughputs on which a policy that solves a program is based: Gavel's
// heterogeneity-aware, heterogeneity-agnostic and packed variants.
type throughputView int

const (
	heterogeneousView throughputView = iota // actual throughputs
	agnosticView                            // one step per second on every type: only time counts
	referenceView                           // the throughput on the reference device, on every type
	packedView                              // actual throughputs, including those of pairs
)

// suffix returns the suffix of Gavel's policy names.
func (v throughputView) suffix() string {
	switch v {
	case heterogeneousView:
		return "_Perf"
	case packedView:
		return "_Packing"
	}
	return ""
}

// solver contains the properties common to policies that solve a program.
type solver struct {
	name   string // Gavel's display name without the suffix
	view   throughputView
	compat bool
}

// Traits returns those of the policy in Gavel.
func (p solver) Traits() schedule.Traits {
	return schedule.Traits{Name: p.name + p.view.suffix(), Packs: p.view == packedView, FixedOrder: p.view == heterogeneousView || p.view == packedView}
}

// program is the cluster of a snapshot as a time-sharing program: the jobs that can run, and pairs of them.
type program struct {
	solve.Sharing
	jobs     []int // index into Snapshot.Jobs, by job of the program
	snapshot *schedule.Snapshot
}

// program omits jobs that run on no type. Without compat, it also excludes types with fewer devices than a job
// requires, and pairs whose relative throughputs sum to at most 1, since time-sharing is then at least as good.
func (p solver) program(s *schedule.Snapshot) *program {
	n := len(s.Jobs)
	g := &program{snapshot: s, jobs: make([]int, 0, n)}
	g.Rate, g.Scale, g.Devices = make([][]float64, 0, n), make([]float64, 0, n), make([]float64, 0, len(s.Devices))
	for d := range s.Devices {
		g.Devices = append(g.Devices, float64(s.Devices[d].Count))
	}
	for i := range s.Jobs {
		rate := p.rate(s, &s.Jobs[i])
		for d, r := range rate {
			if r > 0 && s.Devices[d].Count > 0 {
				g.jobs = append(g.jobs, i)
				g.Rate = append(g.Rate, rate)
				g.Scale = append(g.Scale, float64(s.Jobs[i].GPUs))
				break
			}
		}
	}
	if p.view == packedView && s.Pair != nil {
		p.addPairs(g)
	}
	return g
}

// rate returns the throughput in steps/s by device type in the policy's view.
func (p solver) rate(s *schedule.Snapshot, j *schedule.JobState) []float64 {
	if p.view == heterogeneousView || p.view == packedView {
		if p.compat || fitsEverywhere(s, j) {
			return j.Rate
		}
	}
	out := make([]float64, len(j.Rate))
	same := 1.0
	if p.view == referenceView {
		same = referenceRate(s, j)
	}
	for d, r := range j.Rate {
		switch {
		case !p.compat && (r == 0 || s.Devices[d].Count < j.GPUs):
		case p.view == heterogeneousView || p.view == packedView:
			out[d] = r
		default:
			out[d] = same
		}
	}
	return out
}

// fitsEverywhere reports whether every type on which the job has a rate has enough devices for it.
func fitsEverywhere(s *schedule.Snapshot, j *schedule.JobState) bool {
	for d := range s.Devices {
		if s.Devices[d].Count < j.GPUs && j.Rate[d] > 0 {
			return false
		}
	}
	return true
}

// referenceDevice is the type by which Gavel's heterogeneity-agnostic policies represent all others.
const referenceDevice = "v100"

// referenceRate returns the rate on the reference device. In a cluster without it, the rate follows from the
// remaining time on the reference device, or is the highest rate if that is unknown.
func referenceRate(s *schedule.Snapshot, j *schedule.JobState) float64 {
	most := 0.0
	for d, r := range j.Rate {
		if s.Devices[d].Name == referenceDevice && r > 0 {
			return r
		}
		most = max(most, r)
	}
	if r := j.Remaining / j.Seconds; r > 0 && !math.IsInf(r, 1) {
		return r
	}
	return most
}

// addPairs adds all pairs of jobs of equal size. In compat mode, rates are rounded to 32 bits, as in Gavel's packed
// policies.
func (p solver) addPairs(g *program) {
	s, J := g.snapshot, len(g.Devices)
	ra, rb := make([]float64, J), make([]float64, J)
	for b := range g.jobs {
		for a := range b {
			if g.Scale[a] != g.Scale[b] {
				continue
			}
			any := false
			for d := range J {
				x, y := s.Pair(g.jobs[a], g.jobs[b], d)
				if !p.compat && x*g.Rate[b][d]+y*g.Rate[a][d] <= g.Rate[a][d]*g.Rate[b][d] {
					x, y = 0, 0
				}
				ra[d], rb[d] = x, y
				any = any || x > 0 || y > 0
			}
			if any {
				g.Pairs = append(g.Pairs, solve.Pair{A: a, B: b, RateA: ra, RateB: rb})
				ra, rb = make([]float64, J), make([]float64, J)
			}
		}
	}
	if p.compat {
		g.round32()
	}
}

// round32 rounds all rates to 32 bits.
func (g *program) round32() {
	round := func(list []float64) []float64 {
		out := make([]float64, len(list))
		for i, v := range list {
			out[i] = float64(float32(v))
		}
		return out
	}
	for i, r := range g.Rate {
		g.Rate[i] = round(r)
	}
	for i := range g.Pairs {
		g.Pairs[i].RateA, g.Pairs[i].RateB = round(g.Pairs[i].RateA), round(g.Pairs[i].RateB)
	}
}

// job returns the state of a job of the program.
func (g *program) job(i int) *schedule.JobState { return &g.snapshot.Jobs[g.jobs[i]] }

// allocation converts the shares of a solution to those of the snapshot's jobs.
func (g *program) allocation(sol solve.Solution) schedule.Allocation {
	entries := make([]schedule.Entry, 0, len(g.snapshot.Jobs)+len(sol.Pairs))
	for i, x := range sol.X {
		entries = append(entries, schedule.Entry{A: g.jobs[i], B: -1, X: clip(x)})
	}
	for k, x := range sol.Pairs {
		pair := &g.Pairs[k]
		for _, v := range clip(x) {
			if v > 0 {
				a, b := g.jobs[pair.A], g.jobs[pair.B]
				entries = append(entries, schedule.Entry{A: min(a, b), B: max(a, b), X: x})
				break
			}
		}
	}
	return schedule.Allocation{Entries: entries}
}

// clip removes rounding errors from shares, in place.
func clip(x []float64) []float64 {
	for d := range x {
		x[d] = min(max(x[d], 0), 1)
	}
	return x
}

// done returns the throughput of each job, alone and in pairs.
func (g *program) done(sol solve.Solution) []float64 {
	out := make([]float64, len(g.Rate))
	for i, x := range sol.X {
		for d, v := range x {
			out[i] += float64(v * g.Rate[i][d])
		}
	}
	for k, x := range sol.Pairs {
		pair := &g.Pairs[k]
		for d, v := range x {
			out[pair.A] += float64(v * pair.RateA[d])
			out[pair.B] += float64(v * pair.RateB[d])
		}
	}
	return out
}

// proportionalRate returns the throughput of a job under shares proportional to the number of devices of each type.
func (g *program) proportionalRate(i int) float64 {
	all, rate := 0.0, 0.0
	for d, n := range g.Devices {
		all += n
		rate += float64(n * g.Rate[i][d])
	}
	return rate / all
}

// isolatedRate returns the throughput of a job with an equal part of the cluster.
func (g *program) isolatedRate(i int) float64 {
	time, rate := 0.0, 0.0
	for d, n := range g.Devices {
		x := n / float64(len(g.snapshot.Jobs)) / g.Scale[i]
		time += x
		rate += float64(x * g.Rate[i][d])
	}
	return rate / max(time, 1)
}

// bestRate returns the maximum throughput of a job alone.
func (g *program) bestRate(i int) float64 {
	most := 0.0
	for d, n := range g.Devices {
		if n > 0 {
			most = max(most, g.Rate[i][d])
		}
	}
	return most
}

// priority returns the weight of a job; 1 if the trace contains none.
func priority(j *schedule.Job) (float64, error) {
	switch {
	case math.IsNaN(j.Weight):
		return 1, nil
	case !(j.Weight > 0) || math.IsInf(j.Weight, 1):
		return 0, fmt.Errorf("job %d: priority weight %v, want a number above 0", j.ID, j.Weight)
	}
	return j.Weight, nil
}

// fairWeights returns the factors of the rates in Gavel's fairness objective: s_i / (w_i P_i), where P_i is the
// throughput under proportional shares (1 for a view that only counts time).
func (p solver) fairWeights(g *program) ([]float64, error) {
	weight := make([]float64, len(g.jobs))
	for i := range g.jobs {
		w, err := priority(g.job(i).Job)
		if err != nil {
			return nil, err
		}
		weight[i] = g.Scale[i] / w
		if p.view != agnosticView {
			weight[i] /= g.proportionalRate(i)
		}
	}
	return weight, nil
}

// spread maximizes min_i weight_i · throughput_i. The shares are at the centre of the optimal face, where
// interior-point solvers end, so excess capacity is distributed. Without compat, idle device time is then assigned to
// waiting jobs.
func (p solver) spread(g *program, weight []float64) (solve.Solution, error) {
	if len(g.jobs) == 0 {
		return solve.Solution{}, nil
	}
	if best, ok := p.allBest(g); ok {
		return best, nil
	}
	sol, err := g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.Central(s, weight, nil) })
	if err == nil && !p.compat {
		g.useIdle(sol)
	}
	return sol, err
}

// allBest assigns every job its fastest device type at full share, if enough devices exist. No other allocation is
// better for any job.
func (p solver) allBest(g *program) (sol solve.Solution, ok bool) {
	if p.compat || p.view == agnosticView || p.view == referenceView {
		return sol, false
	}
	free := slices.Clone(g.Devices)
	for i, rate := range g.Rate {
		best := g.fastest(rate)
		if free[best] -= g.Scale[i]; free[best] < 0 {
			return sol, false
		}
	}
	shares := make([]float64, len(g.jobs)*len(free))
	for i, rate := range g.Rate {
		x := shares[i*len(free) : (i+1)*len(free)]
		x[g.fastest(rate)] = 1
		sol.X = append(sol.X, x)
	}
	return sol, true
}

// fastest returns the first type with devices on which a rate is highest.
func (g *program) fastest(rate []float64) int {
	best := 0
	for d, n := range g.Devices {
		if n > 0 && (rate[d] > rate[best] || g.Devices[best] == 0) {
			best = d
		}
	}
	return best
}

// useIdle assigns unused device time to waiting jobs that can use it: on each type, from the last to the first, the
// waiting time of all of them shrinks by the same fraction.
func (g *program) useIdle(sol solve.Solution) {
	wait, idle := make([]float64, len(g.jobs)), slices.Clone(g.Devices)
	// Subtract the shares from the unused devices and the waiting time.
	take := func(x []float64, who ...int) {
		for d, v := range x {
			idle[d] -= v * g.Scale[who[0]]
			for _, i := range who {
				wait[i] -= v
			}
		}
	}
	for i, x := range sol.X {
		wait[i]++
		take(x, i)
	}
	for k, x := range sol.Pairs {
		take(x, g.Pairs[k].A, g.Pairs[k].B)
	}
	for d := len(idle) - 1; d >= 0; d-- {
		asked := 0.0
		for i, w := range wait {
			if g.Rate[i][d] > 0 && w > 0 {
				asked += w * g.Scale[i]
			}
		}
		if asked == 0 || idle[d] <= 0 {
			continue
		}
		part := min(1, idle[d]/asked)
		for i, w := range wait {
			if g.Rate[i][d] > 0 && w > 0 {
				sol.X[i][d] += part * w
				wait[i] -= part * w
			}
		}
	}
}

// solve solves a program. If rounding prevents the promised gap, a feasible solution with a larger Gap is accepted;
// with pairs, it is compared with the solution without pairs, whose program is easier.
func (g *program) solve(with func(solve.Sharing) (solve.Solution, error)) (solve.Solution, error) {
	sol, err := with(g.Sharing)
	if !errors.Is(err, solve.ErrUnfinished) || sol.X != nil && sol.Gap <= closeGap {
		return usable(sol, err)
	}
	if len(g.Pairs) > 0 {
		alone := g.Sharing
		alone.Pairs = nil
		if other, err := with(alone); err == nil && (sol.X == nil || other.Value > sol.Value) {
			return other, nil
		}
	}
	return usable(sol, err)
}

const closeGap = 1e-4

// usable accepts feasible shares that are not proven optimal.
func usable(sol solve.Solution, err error) (solve.Solution, error) {
	if errors.Is(err, solve.ErrUnfinished) && sol.X != nil {
		return sol, nil
	}
	return sol, err
}

// margins are the relative amounts by which floors are lowered when they are the maximum that is feasible.
var margins = []float64{1e-7, 1e-6, 1e-5, 1e-4, 1e-3}

// above solves a program with feasible floors. Floors at their maximum leave no interior, which the solver requires,
// so the smallest margin is used for which the program is solved.
func (g *program) above(floor []float64, with func(s solve.Sharing, floor []float64) (solve.Solution, error)) (sol solve.Solution, err error) {
	lower := make([]float64, len(floor))
	for _, m := range margins {
		for i, v := range floor {
			lower[i] = v * (1 - m)
		}
		sol, err = g.solve(func(s solve.Sharing) (solve.Solution, error) { return with(s, lower) })
		if err == nil && sol.Gap <= closeGap {
			return sol, nil
		}
		if err != nil && !errors.Is(err, solve.ErrUnfinished) && !errors.Is(err, solve.ErrInfeasible) {
			return sol, err
		}
	}
	return sol, err
}

// ecos solves a program like Gavel's solver, which selects the same solution among the many optimal ones (see
// solve.ECOSMaxMin). ok is false if the method does not converge; callers then use any optimal solution.
func (g *program) ecos(with func(solve.Sharing) (solve.Solution, error)) (sol solve.Solution, ok bool) {
	if len(g.jobs) == 0 {
		return sol, true
	}
	all := g.Sharing
	if g.snapshot.Pair != nil && len(g.Pairs) > 0 {
		all.Pairs = g.withIdlePairs()
	}
	sol, err := with(all)
	if err != nil {
		return sol, false
	}
	sol.Pairs = sol.Pairs[:len(g.Pairs)]
	return sol, true
}

// withIdlePairs returns the pairs, which are in the order of addPairs, followed by those without throughput. Gavel's programs
// contain shares for the latter as well, which affect the centre of the optimal face.
func (g *program) withIdlePairs() []solve.Pair {
	pairs, known := slices.Clone(g.Pairs), g.Pairs
	nothing := make([]float64, len(g.Devices))
	for b := range g.jobs {
		for a := range b {
			if len(known) > 0 && known[0].A == a && known[0].B == b {
				known = known[1:]
			} else if g.Scale[a] == g.Scale[b] {
				pairs = append(pairs, solve.Pair{A: a, B: b, RateA: nothing, RateB: nothing})
			}
		}
	}
	return pairs
}
