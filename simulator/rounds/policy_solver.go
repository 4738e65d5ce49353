package rounds

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/solve"
	"trainopt/simulator/workload"
)

// sight is what a policy that solves a program knows of how fast jobs are.
type sight int

const (
	measured  sight = iota // as fast as they are
	alike                  // one step per second everywhere: all that counts is time
	reference              // as fast everywhere as on the reference device
	paired                 // as fast as they are, and how fast beside each other
)

// suffix of the names that Gavel gives to policies.
func (s sight) suffix() string {
	switch s {
	case measured:
		return "_Perf"
	case paired:
		return "_Packing"
	}
	return ""
}

// solver is what policies that solve a program have in common.
type solver struct {
	name   string // Gavel's display name without what it sees
	sees   sight
	compat bool
}

// Traits are those of the policy in Gavel.
func (p solver) Traits() Traits {
	return Traits{Name: p.name + p.sees.suffix(), Packs: p.sees == paired, FixedOrder: p.sees == measured || p.sees == paired}
}

// program is the cluster of a snapshot as shares of time: the jobs that can get something done, and pairs of them.
type program struct {
	solve.Sharing
	jobs     []int // index into Snapshot.Jobs, by job of the program
	snapshot *Snapshot
}

// program leaves out jobs that run nowhere: no program can do anything for them. Without compat it also knows that a job cannot
// run on a type of which there are fewer devices than it takes, and leaves out pairs that get less done than their jobs would by
// taking turns, so that nothing is lost.
func (p solver) program(s *Snapshot) *program {
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
	if p.sees == paired && s.Pair != nil {
		p.addPairs(g)
	}
	return g
}

// rate is steps/s by device type as the policy sees them.
func (p solver) rate(s *Snapshot, j *JobState) []float64 {
	if p.sees == measured || p.sees == paired {
		if p.compat || fitsEverywhere(s, j) {
			return j.Rate
		}
	}
	out := make([]float64, len(j.Rate))
	same := 1.0
	if p.sees == reference {
		same = referenceRate(s, j)
	}
	for d, r := range j.Rate {
		switch {
		case !p.compat && (r == 0 || s.Devices[d].Count < j.GPUs):
		case p.sees == measured || p.sees == paired:
			out[d] = r
		default:
			out[d] = same
		}
	}
	return out
}

func fitsEverywhere(s *Snapshot, j *JobState) bool {
	for d := range s.Devices {
		if s.Devices[d].Count < j.GPUs && j.Rate[d] > 0 {
			return false
		}
	}
	return true
}

// referenceDevice is the one that Gavel's policies without knowledge of device types take all others for.
const referenceDevice = "v100"

// referenceRate is the rate on the reference device. In a cluster without it, that follows from the time that the rest of the job
// would take there, or is the highest.
func referenceRate(s *Snapshot, j *JobState) float64 {
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

// addPairs adds all pairs of jobs that take as many devices. Gavel keeps rates of packed policies in 32 bits.
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

// job is the state of a job of the program.
func (g *program) job(i int) *JobState { return &g.snapshot.Jobs[g.jobs[i]] }

// allocation gives the shares of a solution to the jobs of the snapshot.
func (g *program) allocation(sol solve.Solution) Allocation {
	entries := make([]Entry, 0, len(g.snapshot.Jobs)+len(sol.Pairs))
	for i, x := range sol.X {
		entries = append(entries, Entry{g.jobs[i], -1, clip(x)})
	}
	for k, x := range sol.Pairs {
		pair := &g.Pairs[k]
		for _, v := range clip(x) {
			if v > 0 {
				a, b := g.jobs[pair.A], g.jobs[pair.B]
				entries = append(entries, Entry{min(a, b), max(a, b), x})
				break
			}
		}
	}
	return Allocation{entries}
}

// clip takes rounding away from shares.
func clip(x []float64) []float64 {
	for d := range x {
		x[d] = min(max(x[d], 0), 1)
	}
	return x
}

// done is what job i gets done per second, alone and beside others.
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

// proportionalRate is what a job gets done when it spends its time on device types in proportion to how many there are.
func (g *program) proportionalRate(i int) float64 {
	all, rate := 0.0, 0.0
	for d, n := range g.Devices {
		all += n
		rate += float64(n * g.Rate[i][d])
	}
	return rate / all
}

// isolatedRate is what a job gets done with an equal part of the cluster.
func (g *program) isolatedRate(i int) float64 {
	time, rate := 0.0, 0.0
	for d, n := range g.Devices {
		x := n / float64(len(g.snapshot.Jobs)) / g.Scale[i]
		time += x
		rate += float64(x * g.Rate[i][d])
	}
	return rate / max(time, 1)
}

// bestRate is the most that a job gets done alone.
func (g *program) bestRate(i int) float64 {
	most := 0.0
	for d, n := range g.Devices {
		if n > 0 {
			most = max(most, g.Rate[i][d])
		}
	}
	return most
}

// priority is the weight of a job; one of which the trace says nothing is normal.
func priority(j *workload.Job) (float64, error) {
	switch {
	case math.IsNaN(j.Weight):
		return 1, nil
	case !(j.Weight > 0) || math.IsInf(j.Weight, 1):
		return 0, fmt.Errorf("job %d: priority weight %v, want a number above 0", j.ID, j.Weight)
	}
	return j.Weight, nil
}

// fairWeights are what Gavel's fairness multiplies rates by: s_i / (w_i P_i), where P_i is the rate of proportional shares (1
// for a policy that sees only time).
func (p solver) fairWeights(g *program) ([]float64, error) {
	weight := make([]float64, len(g.jobs))
	for i := range g.jobs {
		w, err := priority(g.job(i).Job)
		if err != nil {
			return nil, err
		}
		weight[i] = g.Scale[i] / w
		if p.sees != alike {
			weight[i] /= g.proportionalRate(i)
		}
	}
	return weight, nil
}

// spread solves for shares by which the worst of weight_i · (rate of job i) is best. They are in the middle of all such shares, where
// interior-point solvers end, so that what is left over is spread. Without compat, jobs that wait then get the time of devices
// that would stay idle.
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

// allBest has every job on its fastest device type for all its time, which no other shares can beat for any job, when there is
// room.
func (p solver) allBest(g *program) (sol solve.Solution, ok bool) {
	if p.compat || p.sees == alike || p.sees == reference {
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

// fastest is the first of the types with devices on which a rate is highest.
func (g *program) fastest(rate []float64) int {
	best := 0
	for d, n := range g.Devices {
		if n > 0 && (rate[d] > rate[best] || g.Devices[best] == 0) {
			best = d
		}
	}
	return best
}

// useIdle gives devices that are not shared out to the jobs that wait and can use them: on each type, from the last to the first,
// all of them wait less by the same part.
func (g *program) useIdle(sol solve.Solution) {
	wait, idle := make([]float64, len(g.jobs)), slices.Clone(g.Devices)
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

// solve solves a program. One that rounding keeps from its end leaves shares that can be, of which Gap says how good they are; with
// pairs, they are compared with those without, of which the program is easier.
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

// usable takes shares that are not proven to be the best.
func usable(sol solve.Solution, err error) (solve.Solution, error) {
	if errors.Is(err, solve.ErrUnfinished) && sol.X != nil {
		return sol, nil
	}
	return sol, err
}

// margins are left below floors that have just been found to be all that is possible.
var margins = []float64{1e-7, 1e-6, 1e-5, 1e-4, 1e-3}

// above solves a program with floors that can be met. Where they are all that is possible they leave a program no room, and it
// takes some to be solved: the margin below them is the first with which it is.
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
