package solve

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
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

// The cutting-plane method and the interior-point method agree, and no bound of either is below a point of the other.
func TestCuttingAgainstInterior(t *testing.T) {
	for name, rates := range awkward {
		t.Run(name, func(t *testing.T) {
			for kinds := 1; kinds <= 8; kinds++ {
				for _, perJob := range []float64{0.05, 0.5, 20} {
					for _, n := range []int{1, 7, 90} {
						compareCutting(t, rand.New(rand.NewPCG(uint64(n), uint64(kinds))), n, kinds, perJob, rates)
					}
				}
			}
		})
	}
}

func compareCutting(t *testing.T, r *rand.Rand, n, kinds int, perJob float64, rates func(*rand.Rand, []float64)) {
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
	m := newMaxMin(&s, nil, weight, nil)
	if !m.rising || m.stuck {
		return
	}
	p, _ := m.optimise(m.set, nil)
	if low, high := p.value*m.scale, p.bound*m.scale; sol.Value > high*(1+1e-9) || sol.Value*(1+sol.Gap+1e-9) < low || sol.Gap > promisedGap {
		t.Errorf("%d jobs, %d kinds, %g devices a job: value %.12g with gap %g, by the interior %.12g to %.12g", n, kinds, perJob, sol.Value, sol.Gap, low, high)
	}
}

// The intended case is solved to full precision without the interior-point method.
func TestCuttingSolves(t *testing.T) {
	for _, n := range []int{26, 512, 2048} {
		s, weight := instance(n, n, oneTo8)
		m := newMaxMin(&s, nil, weight, nil)
		m.set()
		c := newCutting(m.program)
		p := c.solve(m.wanted)
		if p == nil || !c.alone() {
			t.Fatalf("%d jobs: not the only point", n)
		}
		if p.gap() > 1e-13 {
			t.Errorf("%d jobs: gap %g", n, p.gap())
		}
		if len(c.tried) > 60 {
			t.Errorf("%d jobs: %d rounds", n, len(c.tried))
		}
		central, it := m.optimise(m.set, nil)
		it.recentre(central)
		for k, x := range central.x {
			if math.Abs(x-p.x[k]) > 1e-4 {
				t.Fatalf("%d jobs: share %g of column %d, in the middle %g", n, p.x[k], k, x)
			}
		}
	}
}

// Where a job could progress further at no cost, the program is left to the interior-point method, which distributes
// the remaining capacity.
func TestCuttingLeavesWhatIsLeft(t *testing.T) {
	for name, s := range map[string]Sharing{
		"more devices than jobs":   {Rate: [][]float64{{1, 2}, {1, 3}}, Scale: []float64{1, 1}, Devices: []float64{4, 4}},
		"a slow job among fast":    {Rate: [][]float64{{0.1, 0.1}, {9, 9}, {8, 9}}, Scale: []float64{1, 1, 1}, Devices: []float64{1, 1}},
		"a kind for one job alone": {Rate: [][]float64{{0, 9}, {1, 0}, {2, 0}}, Scale: []float64{1, 1, 1}, Devices: []float64{1, 1}},
	} {
		m := newMaxMin(&s, nil, nil, nil)
		m.set()
		if newCutting(m.program).solve(m.wanted) != nil {
			t.Errorf("%s: a point by prices", name)
		}
	}
}

// A pivot on an element of 1e-7 in a row of level zero leaves the basis feasible.
func TestGameSmallPivot(t *testing.T) {
	g := newGame(6)
	g.lists = []line{
		{[]float64{1, 0, 1, 2, 0, 0}, []float64{0, 0, 1, 1, 0, 0}},
		{[]float64{0, 1, 1, 1, 0, 2}, []float64{0, 1, 0.5, 0, 1, 0}},
		{[]float64{0, -0x1p-24, 1, 1.25, 0x1p-24, 0}, []float64{0, 0, 0, 0, 1, 1.375}},
		{[]float64{-0.032684326171875, 1, -2.098077317954292, 0, 1, 0}, []float64{0, 0.5, 0, 0, 1, 0}},
		{[]float64{0, 0, 1, 0, 0, 1}, []float64{0, 0, 1, 1, 1, 1}},
	}
	if _, _, ok := g.solve(0x1p-54); !ok {
		t.Error("no answer")
	}
}

// The game agrees with the reference simplex method.
func TestGameAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, lists := rapid.IntRange(1, 6).Draw(t, "size"), rapid.IntRange(1, 12).Draw(t, "lists")
		number := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 1, 2, -3}), rapid.Float64Range(-5, 5))
		g := newGame(size)
		at := 0.0
		for range lists {
			base := rapid.SliceOfN(number, size, size).Draw(t, "base")
			slope := rapid.SliceOfN(number, size, size).Draw(t, "slope")
			g.lists = append(g.lists, line{base, slope})
			at = rapid.Float64Range(0, 2).Draw(t, "t")
			value, _, ok := g.solve(at)
			if !ok {
				t.Fatal("no answer")
			}
			// max 50 − s with Σ λ V_j ≤ s; s is split, and Σ λ ≤ 1 binds because all V are shifted by 20 to be
			// positive.
			r := &reference{cost: make([]float64, len(g.lists)+1)}
			for j := range size {
				row := r.row()
				for k, l := range g.lists {
					row[k] = l.base[j] + l.slope[j]*at + 20
				}
				row[len(row)-1] = -1
				r.add(row, 0)
			}
			one := r.row()
			for k := range g.lists {
				one[k] = -1
			}
			r.add(one, -1)
			r.cost[len(r.cost)-1] = -1
			want, _ := r.exactly().Float64()
			if !near(value, -want-20, 1e-9) {
				t.Fatalf("value %.12g, reference %.12g", value, -want-20)
			}
			if low := min(0, g.odds[0]); low < -1e-9 || !near(total(g.odds), 1, 1e-9) {
				t.Fatalf("odds %v", g.odds)
			}
		}
	})
}
