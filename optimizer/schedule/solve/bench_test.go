package solve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Published and measured times of other solvers for the same kind of program, in seconds per solve. Gavel: figure 12
// of the paper (OSDI 2020; a quarter as many devices of each of three types as jobs) and, for pairs, after its later
// rewrite. HiGHS 1.x through gohighs: BenchmarkHiGHS with the build tag highs, on the machine where these benchmarks
// were written (2 shared cores, AMD EPYC). Our times were measured there at the same time: all jobs of distinct types
// / of 26 types as in Gavel's study.
//
//	                      jobs   Gavel           HiGHS ipm/simplex   ours
//	max-min                128   0.013           0.008 / 0.020       –
//	                       512   0.032           0.048 / 0.080       –
//	                      2048   0.083           0.21 / 1.0          –
//	water filling (hier.) 2048   97.3            –                   –
//	packed max-min          64   0.289           –                   –
//	                       256   5.27 (1.73)     –                   –
//	                      1024   296 (39.2)      –                   –
//	AlloX (assignment)     256   7.2             –                   0.15
//
// Entries of ours marked – have changed since. On another machine (2 cores, Intel Xeon): max-min with 2048 jobs
// 0.0031 / 0.0004, by the interior-point method alone 0.0129 / 0.0007 under load; 512 distinct jobs 0.00086, before
// 0.0034; 128 jobs 0.0002, before 0.0007. Water filling by entities with 2048 jobs: 0.34 / 0.040.

// instance returns a cluster as in Gavel's runtime study: n jobs of the given number of types, n/4 devices of each of
// three types.
func instance(n, types int, scales []float64) (Sharing, []float64) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(types)))
	s := Sharing{Devices: []float64{float64(n) / 4, float64(n) / 4, float64(n) / 4}}
	var rates [][]float64
	for range types {
		fast := math.Exp(4 * r.Float64())
		rates = append(rates, []float64{fast * (0.1 + 0.4*r.Float64()), fast * (0.3 + 0.8*r.Float64()), fast})
	}
	weight := make([]float64, n)
	for i := range n {
		s.Rate = append(s.Rate, rates[i%types])
		s.Scale = append(s.Scale, scales[(i/types)%len(scales)])
		mean := (s.Rate[i][0] + s.Rate[i][1] + s.Rate[i][2]) / 3
		weight[i] = s.Scale[i] / mean
	}
	return s, weight
}

var oneTo8 = []float64{1, 1, 1, 1, 1, 1, 1, 2, 4, 8}

// packed adds all pairs of jobs to an instance, with random rates by types; some types cannot be co-located.
func packed(s Sharing, types int) Sharing {
	r := rand.New(rand.NewPCG(7, uint64(types)))
	rates := map[[2]int][2][]float64{}
	for a := range types {
		for b := a; b < types; b++ {
			ra, rb := make([]float64, 3), make([]float64, 3)
			for j := range ra {
				if r.Float64() < 0.35 {
					ra[j] = s.Rate[a][j] * (0.3 + 0.65*r.Float64())
					rb[j] = s.Rate[b][j] * (0.3 + 0.65*r.Float64())
				}
			}
			if a == b {
				rb = ra
			}
			rates[[2]int{a, b}] = [2][]float64{ra, rb}
		}
	}
	for b := range s.Rate {
		for a := range b {
			first, second := a%types, b%types
			two := rates[[2]int{min(first, second), max(first, second)}]
			if first > second {
				two[0], two[1] = two[1], two[0]
			}
			s.Pairs = append(s.Pairs, Pair{A: a, B: b, RateA: two[0], RateB: two[1]})
		}
	}
	return s
}

func solveIn(b *testing.B, solve func() (Solution, error)) {
	b.ReportAllocs()
	gap := 0.0
	for b.Loop() {
		sol, err := solve()
		if err != nil {
			b.Fatal(err)
		}
		gap = max(gap, sol.Gap)
	}
	b.ReportMetric(gap*1e12, "gap/1e-12")
}

func BenchmarkMaxMin(b *testing.B) {
	for _, n := range []int{128, 512, 2048} {
		for _, types := range []int{26, n} {
			s, w := instance(n, types, oneTo8)
			b.Run(fmt.Sprintf("jobs=%d/types=%d", n, types), func(b *testing.B) {
				solveIn(b, func() (Solution, error) { return MaxMin(s, w, nil) })
			})
		}
	}
}

func BenchmarkCentral(b *testing.B) {
	for _, types := range []int{26, 2048} {
		s, w := instance(2048, types, oneTo8)
		b.Run(fmt.Sprintf("jobs=2048/types=%d", types), func(b *testing.B) {
			solveIn(b, func() (Solution, error) { return Central(s, w, nil) })
		})
	}
}

func BenchmarkDemand(b *testing.B) {
	s, w := instance(2048, 2048, oneTo8)
	best, err := MaxMin(s, w, nil)
	if err != nil {
		b.Fatal(err)
	}
	asked := make([]float64, len(w))
	for i := range asked {
		asked[i] = 0.9 * best.Value / w[i]
	}
	b.Run("jobs=2048", func(b *testing.B) {
		solveIn(b, func() (Solution, error) { return Demand(s, asked) })
	})
}

func BenchmarkNash(b *testing.B) {
	s, w := instance(2048, 2048, oneTo8)
	b.Run("jobs=2048", func(b *testing.B) {
		solveIn(b, func() (Solution, error) { return Nash(s, w) })
	})
}

func BenchmarkWaterFill(b *testing.B) {
	for _, types := range []int{26, 2048} {
		s, w := instance(2048, types, oneTo8)
		b.Run(fmt.Sprintf("jobs=2048/types=%d", types), func(b *testing.B) {
			solveIn(b, func() (Solution, error) { return WaterFill(s, w) })
		})
		var entities []Entity
		for e := range 5 {
			entity := Entity{Weight: float64(1 + e%3)}
			for i := e; i < 2048; i += 5 {
				entity.Jobs = append(entity.Jobs, i)
			}
			entities = append(entities, entity)
		}
		b.Run(fmt.Sprintf("entities=5/jobs=2048/types=%d", types), func(b *testing.B) {
			solveIn(b, func() (Solution, error) { return WaterFillEntities(s, w, entities) })
		})
	}
}

func BenchmarkPacked(b *testing.B) {
	for _, n := range []int{64, 256, 1024} {
		s, w := instance(n, 26, []float64{1})
		s = packed(s, 26)
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			solveIn(b, func() (Solution, error) { return MaxMin(s, w, nil) })
		})
		r := rand.New(rand.NewPCG(3, 3))
		other := make([]float64, n)
		for i := range other {
			other[i] = w[i] * (0.2 + r.Float64())
		}
		b.Run(fmt.Sprintf("all-different/jobs=%d", n), func(b *testing.B) {
			solveIn(b, func() (Solution, error) { return MaxMin(s, other, nil) })
		})
	}
}

// BenchmarkAssign measures the program of AlloX, which assigns m jobs to the queue positions of n free devices: m
// rows, n·m columns.
func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct{ jobs, free int }{{64, 8}, {256, 4}, {100, 108}} {
		r := rand.New(rand.NewPCG(1, 2))
		cost := make([][]float64, c.jobs)
		for i := range cost {
			seconds := []float64{1e4 * (1 + r.Float64()), 1e4 * (1 + r.Float64()), 1e4 * (1 + r.Float64())}
			for k := range c.jobs {
				for d := range c.free {
					cost[i] = append(cost[i], float64(k+1)*seconds[d%3]+100*float64(i))
				}
			}
		}
		b.Run(fmt.Sprintf("jobs=%d/free=%d", c.jobs, c.free), func(b *testing.B) {
			for b.Loop() {
				if Assign(cost) == nil {
					b.Fatal("no assignment")
				}
			}
		})
	}
}
