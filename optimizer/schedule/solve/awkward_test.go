package solve

import (
	"math"
	"math/rand/v2"
	"testing"
)

// awkward contains generators of degenerate rates by name. A generator fills in the rates of one job on all device
// types.
var awkward = map[string]func(r *rand.Rand, row []float64){
	"different": func(r *rand.Rand, row []float64) {
		for j := range row {
			row[j] = (0.1 + r.Float64()) * float64(j+1)
		}
	},
	"nearly equal": func(r *rand.Rand, row []float64) {
		for j := range row {
			row[j] = float64(j+1) * (1 + 1e-9*r.Float64())
		}
	},
	"all equal": func(_ *rand.Rand, row []float64) {
		for j := range row {
			row[j] = float64(j*j + 1)
		}
	},
	"huge and tiny": func(r *rand.Rand, row []float64) {
		size := math.Pow(10, 18*r.Float64()-9)
		for j := range row {
			row[j] = size * (0.05 + r.Float64())
		}
	},
	"huge beside tiny": func(r *rand.Rand, row []float64) {
		for j := range row {
			row[j] = math.Pow(10, 18*r.Float64()-9)
		}
	},
	"one kind dominates": func(r *rand.Rand, row []float64) {
		for j := range row {
			row[j] = 0.1 * r.Float64()
		}
		row[0] = 100 + r.Float64()
	},
	"many ties": func(r *rand.Rand, row []float64) {
		for j := range row {
			row[j] = float64(r.IntN(3))
		}
	},
	"some run nowhere": func(r *rand.Rand, row []float64) {
		for j := range row {
			row[j] = 0
			if r.IntN(2) == 0 {
				row[j] = 1 + r.Float64()
			}
		}
	},
	"in proportion": func(r *rand.Rand, row []float64) {
		size := 0.1 + r.Float64()
		for j := range row {
			row[j] = size * float64(j+1)
		}
	},
}

// awkwardSharing returns a cluster of n jobs with about perJob devices per job.
func awkwardSharing(r *rand.Rand, n, kinds int, perJob float64, rates func(*rand.Rand, []float64)) (s Sharing, weight []float64) {
	for range kinds {
		s.Devices = append(s.Devices, math.Max(1, math.Round(perJob*float64(n)*(0.5+r.Float64())/float64(kinds))))
	}
	weight = make([]float64, n)
	for i := range n {
		row := make([]float64, kinds)
		rates(r, row)
		s.Rate = append(s.Rate, row)
		s.Scale = append(s.Scale, oneTo8[r.IntN(len(oneTo8))])
		weight[i] = 1
		if sum := total(row); sum > 0 {
			weight[i] = s.Scale[i] / sum
		}
	}
	return s, weight
}

func total(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum
}

// Degenerate programs are solved to the promised gap with feasible shares that attain the value.
func TestMaxMinOnAwkwardRates(t *testing.T) {
	for name, rates := range awkward {
		t.Run(name, func(t *testing.T) {
			for kinds := 1; kinds <= 8; kinds++ {
				for _, perJob := range []float64{0.05, 0.5, 20} {
					for _, n := range []int{1, 7, 90} {
						checkMaxMin(t, rand.New(rand.NewPCG(uint64(n), uint64(kinds))), n, kinds, perJob, rates)
					}
				}
			}
		})
	}
}

func checkMaxMin(t *testing.T, r *rand.Rand, n, kinds int, perJob float64, rates func(*rand.Rand, []float64)) {
	t.Helper()
	s, weight := awkwardSharing(r, n, kinds, perJob, rates)
	sol, err := MaxMin(s, weight, nil)
	if err != nil {
		t.Errorf("%d jobs, %d kinds, %g devices a job: %v", n, kinds, perJob, err)
		return
	}
	if err := feasible(s, sol); err != nil {
		t.Errorf("%d jobs, %d kinds, %g devices a job: %v", n, kinds, perJob, err)
	}
	if got := worst(weight, doneBy(s, sol)); sol.Value > got*(1+1e-12) {
		t.Errorf("%d jobs, %d kinds, %g devices a job: value %.17g, but the shares give %.17g", n, kinds, perJob, sol.Value, got)
	}
}
