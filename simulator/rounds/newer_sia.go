package rounds

import (
	"cmp"
	"math"
	"slices"
)

// sia chooses a type and a number of devices for every job together (Jayaram Subramanya et al., "Sia: Heterogeneity-aware,
// goodput-optimized ML-cluster scheduling", SOSP 2023, section 3.3): it minimises Σ_i G_i^p over jobs with devices plus λ for each
// without, where G is the rate relative to the job's least, p = −1/2 and λ = 1.1. Rates on other devices than those a job has are
// multiplied by its restart factor (T − N·S)/(T + S), T the age of the job, N its restarts and S what one takes.
//
// The paper solves an integer program. Here prices of devices are raised and lowered until demand meets what there is (the
// Lagrangian dual, by subgradients), jobs choose by price, and what does not fit is mended greedily; the dual is a bound, see
// siaProgram.bound. Rates stand for goodput: the batch size is the job's own. O(steps · n · sizes).
//
// It knows rates by number of devices, not how long jobs are.
type sia struct {
	held     map[int]size // by job ID
	restarts map[int]int
}

var (
	_ Described = (*sia)(nil)
	_ Elastic   = (*sia)(nil)
	_ Restless  = (*sia)(nil)
)

const (
	siaPower       = -0.5
	siaPenalty     = 1.1 // λ
	siaRestart     = 60  // S, seconds
	siaPriceSteps  = 100
	siaRoundLength = 360 // seconds; the paper has 60
)

func newSia(PolicyOptions) Policy { return &sia{map[int]size{}, map[int]int{}} }

// Traits say that who has no device waits.
func (*sia) Traits() Traits { return Traits{Name: "Sia", FixedOrder: true, OnlyShares: true} }

// Every is the length of a round.
func (*sia) Every() float64 { return siaRoundLength }

// Decide decides for jobs that run on as many devices as they ask for.
func (p *sia) Decide(s *Snapshot) (Allocation, error) {
	a, _ := p.decide(s, rigid(s))
	return a, nil
}

// DecideSizes decides shares and numbers of devices.
func (p *sia) DecideSizes(s *Snapshot, rate SizedRate) (Allocation, []int, error) {
	a, gpus := p.decide(s, elastic(s, rate))
	return a, gpus, nil
}

func (p *sia) decide(s *Snapshot, sizes [][]size) (Allocation, []int) {
	g := &siaProgram{sizes: sizes, value: make([][]float64, len(sizes))}
	g.room, _ = freeDevices(s)
	for i := range sizes {
		g.value[i] = p.values(s, i, sizes[i])
	}
	held := g.solve()
	for i, z := range held {
		id := s.Jobs[i].ID
		before, had := p.held[id]
		switch {
		case z == nil:
			continue
		case had && before != *z:
			p.restarts[id]++
		}
		p.held[id] = *z
	}
	return sizedShares(s, held)
}

// values are λ − G^p by size.
func (p *sia) values(s *Snapshot, i int, sizes []size) []float64 {
	least := math.Inf(1)
	for _, z := range sizes {
		least = min(least, z.rate)
	}
	id := s.Jobs[i].ID
	before, had := p.held[id]
	age := s.Now - s.Jobs[i].Arrival
	factor := max((age-float64(p.restarts[id])*siaRestart)/(age+siaRestart), 0.01)
	out := make([]float64, len(sizes))
	for k, z := range sizes {
		g := z.rate / least
		if had && z != before {
			g *= factor
		}
		out[k] = max(siaPenalty-math.Pow(g, siaPower), 1e-3)
	}
	return out
}

// siaProgram gives each job at most one size, of highest total value, within the room there is.
type siaProgram struct {
	sizes [][]size
	value [][]float64
	room  []int   // by type
	bound float64 // no choice is worth more
}

// solve returns a size by job, nil for none, and sets bound.
func (g *siaProgram) solve() []*size {
	price := make([]float64, len(g.room))
	best := slices.Clone(price)
	g.bound = math.Inf(1)
	mean := g.meanValue()
	for step := range siaPriceSteps {
		dual, spare := g.dual(price)
		if dual < g.bound {
			g.bound = dual
			copy(best, price)
		}
		for d := range price {
			if g.room[d] > 0 {
				price[d] = max(0, price[d]-mean/float64(step+1)*spare[d]/float64(g.room[d]))
			}
		}
	}
	return g.round(best)
}

// meanValue is the scale of prices.
func (g *siaProgram) meanValue() float64 {
	sum, n := 0.0, 0
	for i := range g.value {
		for k, v := range g.value[i] {
			sum += v / float64(g.sizes[i][k].gpus)
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// choice is the size that is worth most above its price; −1 when none is worth it.
func (g *siaProgram) choice(i int, price []float64) (size int, worth float64) {
	size = -1
	for k, z := range g.sizes[i] {
		if w := g.value[i][k] - price[z.device]*float64(z.gpus); w > worth {
			size, worth = k, w
		}
	}
	return size, worth
}

// dual is the bound that prices give, and by type how many devices nobody wants at these prices.
func (g *siaProgram) dual(price []float64) (bound float64, spare []float64) {
	spare = make([]float64, len(price))
	for d, n := range g.room {
		spare[d] = float64(n)
		bound += price[d] * float64(n)
	}
	for i := range g.sizes {
		k, worth := g.choice(i, price)
		if k >= 0 {
			bound += worth
			spare[g.sizes[i][k].device] -= float64(g.sizes[i][k].gpus)
		}
	}
	return bound, spare
}

// round takes choices by what they are worth above their price per device, then whatever still gains.
func (g *siaProgram) round(price []float64) []*size {
	type wish struct{ job, size int }
	var wishes []wish
	per := func(w wish) float64 {
		z := g.sizes[w.job][w.size]
		return (g.value[w.job][w.size] - price[z.device]*float64(z.gpus)) / float64(z.gpus)
	}
	for i := range g.sizes {
		if k, _ := g.choice(i, price); k >= 0 {
			wishes = append(wishes, wish{i, k})
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(per(b), per(a)) })
	left := slices.Clone(g.room)
	chosen := make([]int, len(g.sizes))
	for i := range chosen {
		chosen[i] = -1
	}
	for _, w := range wishes {
		if z := g.sizes[w.job][w.size]; z.gpus <= left[z.device] {
			left[z.device] -= z.gpus
			chosen[w.job] = w.size
		}
	}
	for g.improve(chosen, left) {
	}
	held := make([]*size, len(g.sizes))
	for i, k := range chosen {
		if k >= 0 {
			held[i] = &g.sizes[i][k]
		}
	}
	return held
}

// improve makes the change of one job that gains most per device, and says whether there was one.
func (g *siaProgram) improve(chosen, left []int) bool {
	job, to, most := -1, -1, 1e-9
	for i := range g.sizes {
		now, gpus, device := 0.0, 0, -1
		if k := chosen[i]; k >= 0 {
			now, gpus, device = g.value[i][k], g.sizes[i][k].gpus, g.sizes[i][k].device
		}
		for k, z := range g.sizes[i] {
			room := left[z.device]
			if z.device == device {
				room += gpus
			}
			if gain := (g.value[i][k] - now) / float64(z.gpus); z.gpus <= room && gain > most {
				job, to, most = i, k, gain
			}
		}
	}
	if job < 0 {
		return false
	}
	if k := chosen[job]; k >= 0 {
		left[g.sizes[job][k].device] += g.sizes[job][k].gpus
	}
	left[g.sizes[job][to].device] -= g.sizes[job][to].gpus
	chosen[job] = to
	return true
}
