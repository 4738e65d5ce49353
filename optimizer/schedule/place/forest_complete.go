package place

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// CompleteTable returns the table of all patterns of at most capacity containers: measured values where samples contain the
// pattern (of repeated ones the last), estimates elsewhere. estimated tells which patterns are estimates, by number.
// Single containers need not be measured: their throughput is 1 by definition.
//
// An estimate is that of an additive slowdown model (1/RPS of an app is linear in the numbers of its neighbours, fitted
// by ridge regression), corrected by a forest of the ratio of measurement and model. The model extrapolates to larger
// patterns than those measured, which a forest alone cannot. O(that of Train + apps⁴).
func (s *Samples) CompleteTable(capacity int, o ForestOptions) (t *Table, estimated []bool, err error) {
	if err := check(s); err != nil {
		return nil, nil, err
	}
	s = withSingles(s)
	slow := fitSlowdown(s)
	ratios := &Samples{Apps: s.Apps, Counts: s.Counts}
	for i, c := range s.Counts {
		row := slices.Clone(s.RPS[i])
		for a := range row {
			row[a] /= slow.rps(c, a)
		}
		ratios.RPS = append(ratios.RPS, row)
	}
	o.HoldOut = -1
	f, err := ratios.TrainForest(o)
	if err != nil {
		return nil, nil, err
	}
	measured := map[string]int{}
	for i, c := range s.Counts {
		measured[string(c)] = i
	}
	ratio := make([]float64, len(s.Apps))
	t, err = NewTable(s.Apps, capacity, func(counts []uint8, rps []float64) {
		i, ok := measured[string(counts)]
		if ok {
			copy(rps, s.RPS[i])
			return
		}
		f.Predict(counts, ratio)
		for a, k := range counts {
			if k > 0 {
				rps[a] = slow.rps(counts, a) * ratio[a]
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	estimated = make([]bool, t.Patterns())
	for p := range estimated {
		_, ok := measured[string(t.Counts(p))]
		estimated[p] = !ok && p > 0
	}
	return t, estimated, nil
}

// withSingles returns samples with a row for every single container, before the measured ones.
func withSingles(s *Samples) *Samples {
	out := &Samples{Apps: s.Apps}
	for a := range s.Apps {
		counts, rps := make([]uint8, len(s.Apps)), make([]float64, len(s.Apps))
		for b := range rps {
			rps[b] = math.NaN()
		}
		counts[a], rps[a] = 1, 1
		out.Counts, out.RPS = append(out.Counts, counts), append(out.RPS, rps)
	}
	out.Counts, out.RPS = append(out.Counts, s.Counts...), append(out.RPS, s.RPS...)
	return out
}

// slowdown is a model of 1/RPS.
type slowdown struct {
	by   [][]float64 // by app and neighbour: increase of 1/RPS per neighbour
	most []float64   // by app: the highest measured RPS, which the model does not exceed
}

// leastRate is the lowest RPS that is distinguished from 0, so that its inverse exists.
const leastRate = 0.01

// rps returns the throughput of one container of an app in a pattern.
func (s slowdown) rps(counts []uint8, app int) float64 {
	sum := 1.0
	for b, k := range counts {
		n := float64(k)
		if b == app {
			n--
		}
		sum += s.by[app][b] * n
	}
	return math.Max(1/math.Max(sum, 1/s.most[app]), leastRate)
}

// fitSlowdown fits the increases by least squares of relative errors. The mean increase of an app is free; deviations of
// single neighbours from it are subject to a small penalty, which determines those that were not measured.
func fitSlowdown(s *Samples) slowdown {
	n := len(s.Apps)
	const penalty = 0.1
	out := slowdown{make([][]float64, n), make([]float64, n)}
	for a := range n {
		// The unknowns are the mean increase, then the deviation of each neighbour.
		lhs, rhs := mat.NewSymDense(n+1, nil), mat.NewVecDense(n+1, nil)
		for j := range n + 1 {
			lhs.SetSym(j, j, penalty)
		}
		lhs.SetSym(0, 0, 1e-9)
		x := make([]float64, n+1)
		for i, c := range s.Counts {
			if c[a] == 0 || math.IsNaN(s.RPS[i][a]) {
				continue
			}
			x[0] = 0
			for b, k := range c {
				x[b+1] = float64(k)
				x[0] += float64(k)
			}
			x[0]--
			x[a+1]--
			r := math.Max(s.RPS[i][a], leastRate)
			out.most[a] = math.Max(out.most[a], r)
			for j := range x {
				rhs.SetVec(j, rhs.AtVec(j)+r*r*x[j]*(1/r-1))
				for k := range j + 1 {
					lhs.SetSym(j, k, lhs.At(j, k)+r*r*x[j]*x[k])
				}
			}
		}
		out.by[a] = make([]float64, n)
		var chol mat.Cholesky
		solution := mat.NewVecDense(n+1, nil)
		if !chol.Factorize(lhs) || chol.SolveVecTo(solution, rhs) != nil {
			continue // no neighbour was measured: no slowdown
		}
		for b := range n {
			out.by[a][b] = solution.AtVec(0) + solution.AtVec(b+1)
		}
	}
	return out
}

// Doubt returns for every pattern of at most capacity containers how uncertain the estimate of its throughput per
// container is: the standard deviation between completions of members bootstrap samples. Measured patterns and the empty
// node have 0. O(members × that of Complete).
func (s *Samples) Doubt(capacity, members int, seed uint64) ([]float64, error) {
	_, estimated, err := s.CompleteTable(capacity, ForestOptions{Trees: 1})
	if err != nil {
		return nil, err
	}
	values := make([][]float64, len(estimated))
	rng := rand.New(rand.NewPCG(seed, 1))
	for m := range members {
		drawn := &Samples{Apps: s.Apps}
		for range s.Counts {
			i := rng.IntN(len(s.Counts))
			drawn.Counts, drawn.RPS = append(drawn.Counts, s.Counts[i]), append(drawn.RPS, s.RPS[i])
		}
		t, _, err := drawn.CompleteTable(capacity, ForestOptions{Trees: 5, Seed: seed + uint64(m)})
		if err != nil {
			return nil, fmt.Errorf("bootstrap sample: %w", err)
		}
		for p := range values {
			if estimated[p] {
				size := 0
				for _, k := range t.Counts(p) {
					size += int(k)
				}
				values[p] = append(values[p], t.Throughput(p)/float64(size))
			}
		}
	}
	doubt := make([]float64, len(values))
	for p, v := range values {
		if len(v) > 1 {
			doubt[p] = stat.StdDev(v, nil)
		}
	}
	return doubt, nil
}
