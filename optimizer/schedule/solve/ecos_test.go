package solve

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Expected values are those of ECOS 2.0.14 through CVXPY 1.9.3, to six digits; near a gap of 1e-8 the sixth digit
// depends on rounding.
func TestSolverEndsWhereECOSDoes(t *testing.T) {
	rates := [][]float64{{1, 2, 3}, {2, 5, 7}, {4, 4, 5}, {10, 30, 20}}
	weight, scale := []float64{1, 0.5, 0.4, 0.1}, []float64{1, 1, 2, 1}
	cut := func(kinds int) (r [][]float64) {
		for _, row := range rates {
			r = append(r, row[:kinds])
		}
		return r
	}
	pairs := []Pair{
		{A: 0, B: 1, RateA: []float64{0.9, 1.5, 2.5}, RateB: []float64{1.5, 4, 6}},
		{A: 1, B: 3, RateA: []float64{1, 1, 1}, RateB: []float64{0, 0, 0}},
	}
	for name, c := range map[string]struct {
		kinds     int
		devices   float64
		pairs     []Pair
		asked     []float64
		value     float64
		x, beside [][]float64
	}{
		"three kinds": {3, 1, nil, nil, 1.378788, [][]float64{{0, 0, 0.459596}, {0, 0, 0.393939}, {0.5, 0.270202, 0.073232}, {0, 0.459596, 0}}, nil},
		"two kinds":   {2, 1, nil, nil, 0.805369, [][]float64{{0, 0.402685}, {0, 0.322148}, {0.5, 0.003356}, {0, 0.268456}}, nil},
		"pairs": {3, 1, pairs, nil, 1.570470, [][]float64{{0, 0, 0.087248}, {0, 0, 0}, {0.5, 0.238255, 0.194631}, {0, 0.523490, 0}},
			[][]float64{{0, 0, 0.523490}, {0, 0, 0}}},
		"room for all": {3, 4, nil, nil, 2, [][]float64{
			{0.144572, 0.228256, 0.531593}, {0.189131, 0.289597, 0.400273}, {0, 0, 1}, {0.147537, 0.563314, 0.189741}}, nil},
		"demand": {3, 1, nil, []float64{0.3, 0.5, 0.2, 4}, math.NaN(), [][]float64{
			{0.213572, 0.194804, 0.163479}, {0.216415, 0.143946, 0.117866}, {0.100600, 0.156879, 0.147309}, {0.195361, 0.081334, 0.134146}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := Sharing{Rate: cut(c.kinds), Scale: scale, Pairs: c.pairs}
			for range c.kinds {
				s.Devices = append(s.Devices, c.devices)
			}
			sol, err := ECOSMaxMin(s, weight)
			if c.asked != nil {
				sol, err = ECOSDemand(s, c.asked)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := feasible(s, sol); err != nil {
				t.Error(err)
			}
			compare := func(what string, got, want [][]float64) {
				for i := range want {
					for j, v := range want[i] {
						if !(math.Abs(got[i][j]-v) < 1e-5) {
							t.Errorf("%s: %.7f in row %d, ECOS has %.7f", what, got[i], i, want[i])
							break
						}
					}
				}
			}
			compare("shares", sol.X, c.x)
			compare("shares of pairs", sol.Pairs, c.beside)
			if c.asked == nil && !(math.Abs(sol.Value-c.value) < 1e-5) {
				t.Errorf("value %.7f, ECOS has %.7f", sol.Value, c.value)
			}
		})
	}
	s := Sharing{Rate: rates, Scale: scale, Devices: []float64{1, 1, 1}}
	if _, err := ECOSDemand(s, []float64{3, 5, 2, 4}); !errors.Is(err, ErrInfeasible) {
		t.Errorf("a demand that cannot be met: %v, want %v", err, ErrInfeasible)
	}
}

// Both solvers of the Newton system and MaxMin agree on the optimal value.
func TestECOSValueIsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "jobs")
		s := Sharing{Devices: drawList(t, 3, "devices", 1, 2, 4, 16)}
		weight := drawList(t, n, "weight", 0.5, 1, 2)
		for i := range n {
			s.Rate = append(s.Rate, drawList(t, 3, fmt.Sprint("rate ", i), 0.1, 1, 2, 3, 7))
			s.Scale = append(s.Scale, rapid.SampledFrom([]float64{1, 1, 2}).Draw(t, "scale"))
		}
		want, err := MaxMin(s, weight, nil)
		if err != nil {
			t.Fatal(err)
		}
		sol, err := ECOSMaxMin(s, weight)
		if errors.Is(err, ErrUnfinished) {
			t.Skip("it may")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		if !near(sol.Value, want.Value, 1e-6) {
			t.Fatalf("value %.10g, the optimum is %.10g", sol.Value, want.Value)
		}
		e := new(ecosSolver)
		e.build(&s, weight, nil)
		e.kkt, e.blocks = newECOSRows(e), nil
		if e.run() == nil && !near(e.t/e.tau, want.Value, 1e-6) {
			t.Fatalf("by rows %.10g, the optimum is %.10g", e.t/e.tau, want.Value)
		}
	})
}

// Equal jobs and their pairs are one column by type; their shares are those of the program in which weights that differ in
// the last digits keep all jobs apart.
func TestECOSPairsOfEqualJobs(t *testing.T) {
	const kinds, types = 3, 4
	compared := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		draw := func(least, most float64) []float64 {
			list := make([]float64, kinds)
			for j := range list {
				list[j] = least + (most-least)*r.Float64()
			}
			return list
		}
		s := Sharing{Devices: []float64{2, 3, 4}}
		var weight, apart []float64
		var rates, beside [types][]float64
		for k := range types {
			rates[k], beside[k] = draw(1, 7), draw(0.3, 0.9)
		}
		for i := range 15 + r.IntN(10) { // more than fewPairs
			k := r.IntN(types)
			s.Rate, s.Scale = append(s.Rate, rates[k]), append(s.Scale, 1)
			weight = append(weight, 1+float64(k)/2)
			apart = append(apart, weight[i]*(1+float64(i)*0x1p-50))
			for j := range i {
				p := Pair{A: j, B: i, RateA: make([]float64, kinds), RateB: make([]float64, kinds)}
				for d := range kinds {
					both := beside[k][d] * beside[slices.IndexFunc(rates[:], func(l []float64) bool { return &l[0] == &s.Rate[j][0] })][d]
					p.RateA[d], p.RateB[d] = s.Rate[j][d]*both, s.Rate[i][d]*both
				}
				s.Pairs = append(s.Pairs, p)
			}
		}
		sol, err := ECOSMaxMin(s, weight)
		want, errApart := ECOSMaxMin(s, apart)
		if err != nil || errApart != nil {
			continue // it may end without a solution, more often with more columns
		}
		compared++
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		for i, row := range append(want.X, want.Pairs...) {
			for j, v := range row {
				if got := append(sol.X, sol.Pairs...)[i]; !(math.Abs(got[j]-v) < 1e-4) {
					t.Fatalf("seed %d: shares %.7f in row %d, of jobs kept apart %.7f", seed, got, i, row)
				}
			}
		}
	}
	if compared < 10 {
		t.Errorf("%d programs compared", compared)
	}
}

// A job without any rate, and a cluster without devices, have no solution rather than an end of the program.
func TestECOSPairsOfUselessJobs(t *testing.T) {
	nothing := []float64{0}
	s := Sharing{Rate: [][]float64{{1}, {0}, {1}}, Scale: []float64{1, 1, 1}, Devices: []float64{1},
		Pairs: []Pair{{0, 1, nothing, nothing}, {0, 2, nothing, nothing}, {1, 2, nothing, nothing}}}
	for _, devices := range []float64{1, 0} {
		s.Devices[0] = devices
		if sol, err := ECOSMaxMin(s, []float64{1, 1, 1}); err == nil && sol.Value > 1e-6 {
			t.Errorf("value %v, want 0", sol.Value)
		}
	}
}

func BenchmarkECOS(b *testing.B) {
	for _, c := range []struct{ jobs, types int }{{100, 26}, {2048, 2048}} {
		s, w := instance(c.jobs, c.types, oneTo8)
		b.Run(fmt.Sprintf("jobs=%d/types=%d", c.jobs, c.types), func(b *testing.B) {
			solveIn(b, func() (Solution, error) { return ECOSMaxMin(s, w) })
		})
	}
}
