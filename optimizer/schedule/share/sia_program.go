package share

import (
	"cmp"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// siaProgram assigns each job at most one size so that the total value is high, subject to the number of devices of
// each type: a multiple-choice knapsack with several capacities.
//
// For any nonnegative prices of devices, the total gain of all jobs by their best sizes at these prices, plus the
// prices of all devices, is an upper bound. The prices with the lowest bound are sought by subgradient steps with
// Polyak's step length, starting from the prices of the last decision, until the bound is within the tolerance of the
// best solution. Two candidate solutions are improved by local search, in which one job changes its size, and
// possibly a second one frees the devices for it: the current sizes, and the best sizes at these prices as far as
// devices suffice. The better one is returned. Equal jobs are evaluated once. O(steps · (devices + kinds) · sizes).
type siaProgram struct {
	sizes [][]size // in ascending order of numbers of devices
	value [][]float64
	room  []int // number of devices by type
	// before contains the current size of each job, −1: none; nil: no job has devices.
	before []int
	// same contains the first job with the same sizes and values; nil: all jobs are distinct.
	same   []int
	prices []float64 // initial prices, nil: unknown; afterwards the prices of the bound
	bound  float64   // upper bound on the value of any solution
	found  float64   // value of the solution

	group []siaGroup
	at    []int     // by job: its group
	peak  []float64 // by job: its highest value
	// placed contains the jobs with a size in the solution that is being improved, ascending; open those of them that
	// have a better size.
	placed, open []int
	// cheapest is the last result of losses, whose memory the next one uses.
	cheapest [][][]loss
}

// siaGroup is a set of equal jobs.
type siaGroup struct {
	job     int // the first one
	count   int
	waiting schedule.Heap[index] // its jobs without a size
}

const (
	siaPriceSteps = 60
	siaTolerance  = 1e-3  // relative to the bound
	siaFarGap     = 5e-3  // above which prices are sought again
	siaTie        = 1e-12 // values and prices that differ by less are equal but for rounding
)

// resized returns a slice of n elements, of any values, in the memory of another one if that suffices.
func resized[T any](memory []T, n int) []T { return slices.Grow(memory[:0], n)[:n] }

// solve returns the size of each job, nil for none, and sets bound and prices.
func (g *siaProgram) solve() []*size {
	g.prepare()
	best, left := g.keep()
	g.localSearch(best, left)
	worth := g.worth(best)
	// In a large program, the first solution may be so far from the bound that the steps of the prices are too long.
	for k := 0; k == 0 || k < 3 && g.many(); k++ {
		if k > 0 && g.bound-worth <= siaFarGap*g.bound {
			break
		}
		g.minimizeBound(worth)
		if g.bound-worth <= siaTolerance*g.bound {
			break
		}
		other, left := g.choose()
		g.localSearch(other, left)
		if w := g.worth(other); w > worth {
			best, worth = other, w
		}
	}
	g.found = worth
	held := make([]*size, len(g.sizes))
	for i, k := range best {
		if k >= 0 {
			held[i] = &g.sizes[i][k]
		}
	}
	return held
}

// maxLoss returns the most by which the value of the solution can be below the optimum, relative to it.
func (g *siaProgram) maxLoss() float64 {
	if g.bound <= 0 {
		return 0
	}
	return max(0, 1-g.found/g.bound)
}

// prepare collects groups of equal jobs and initializes missing inputs.
func (g *siaProgram) prepare() {
	n := len(g.sizes)
	if g.same == nil {
		g.same = make([]int, n)
		for i := range g.same {
			g.same[i] = i
		}
	}
	g.at, g.peak, g.group = resized(g.at, n), resized(g.peak, n), g.group[:0]
	for i, first := range g.same {
		if g.at[i], g.peak[i] = g.at[first], g.peak[first]; first != i {
			g.group[g.at[i]].count++
			continue
		}
		g.at[i], g.peak[i] = len(g.group), 0
		g.group = slices.Grow(g.group, 1)[:len(g.group)+1] // its heap keeps its memory
		g.group[g.at[i]].job, g.group[g.at[i]].count = i, 1
		for _, v := range g.value[i] {
			g.peak[i] = max(g.peak[i], v)
		}
	}
	if len(g.prices) != len(g.room) {
		g.prices = make([]float64, len(g.room))
	}
}

// keep returns the current sizes, as far as devices suffice.
func (g *siaProgram) keep() (chosen, left []int) {
	left = slices.Clone(g.room)
	chosen = make([]int, len(g.sizes))
	for i := range chosen {
		chosen[i] = -1
		if g.before == nil || g.before[i] < 0 {
			continue
		}
		if z := g.sizes[i][g.before[i]]; z.GPUs <= left[z.Device] {
			left[z.Device] -= z.GPUs
			chosen[i] = g.before[i]
		}
	}
	return chosen, left
}

// worth returns the total value of a solution.
func (g *siaProgram) worth(chosen []int) float64 {
	sum := 0.0
	for i, k := range chosen {
		if k >= 0 {
			sum += g.value[i][k]
		}
	}
	return sum
}

// minimizeBound seeks the prices with the lowest bound. worth is the value of a known solution. The step length is halved
// after four steps without improvement.
func (g *siaProgram) minimizeBound(worth float64) {
	price := slices.Clone(g.prices)
	spare := make([]float64, len(price))
	g.bound = math.Inf(1)
	pace, since := 1.0, 0
	for range siaPriceSteps {
		dual := g.dual(price, spare)
		if dual < g.bound*(1-1e-6) {
			since = 0
		} else if since++; since == 4 {
			pace, since = pace/2, 0
		}
		if dual < g.bound {
			g.bound = dual
			copy(g.prices, price)
		}
		// Subgradient, projected on the nonnegative prices.
		length := 0.0
		for d, x := range spare {
			if price[d] == 0 && x > 0 {
				spare[d] = 0
			}
			length += spare[d] * spare[d]
		}
		if length == 0 || g.bound-worth <= siaTolerance*g.bound || pace < 0.02 {
			return
		}
		// Polyak's step length.
		step := pace * (dual - worth) / length
		for d := range price {
			if price[d] -= step * spare[d]; price[d] < siaTie {
				price[d] = 0
			}
		}
	}
}

// choice returns the size with the largest value above its price, the largest of equal ones; −1 if none is positive.
func (g *siaProgram) choice(i int, price []float64) (size int, worth float64) {
	size = -1
	value := g.value[i]
	for k, z := range g.sizes[i] {
		if w := value[k] - price[z.Device]*float64(z.GPUs); w > max(siaTie, worth-siaTie) {
			size, worth = k, w
		}
	}
	return size, worth
}

// dual returns the bound at the given prices, and in spare the number of devices of each type without demand at these
// prices (negative: excess demand).
func (g *siaProgram) dual(price, spare []float64) (bound float64) {
	for d, n := range g.room {
		spare[d] = float64(n)
		bound += price[d] * float64(n)
	}
	for _, e := range g.group {
		if k, worth := g.choice(e.job, price); k >= 0 {
			z := g.sizes[e.job][k]
			bound += worth * float64(e.count)
			spare[z.Device] -= float64(z.GPUs * e.count)
		}
	}
	return bound
}

// choose assigns the best sizes at the current prices in descending order of value above price per device, while
// devices suffice.
func (g *siaProgram) choose() (chosen, left []int) {
	type wish struct {
		job, size int
		worth     float64 // per device
	}
	best := make([]wish, len(g.group))
	for e := range g.group {
		i := g.group[e].job
		if best[e].size, best[e].worth = g.choice(i, g.prices); best[e].size >= 0 {
			best[e].worth /= float64(g.sizes[i][best[e].size].GPUs)
		}
	}
	wishes := make([]wish, 0, len(g.sizes))
	chosen = make([]int, len(g.sizes))
	for i, e := range g.at {
		chosen[i] = -1
		if w := best[e]; w.size >= 0 {
			wishes = append(wishes, wish{i, w.size, w.worth})
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(b.worth, a.worth) })
	left = slices.Clone(g.room)
	for _, w := range wishes {
		if z := g.sizes[w.job][w.size]; z.GPUs <= left[z.Device] {
			left[z.Device] -= z.GPUs
			chosen[w.job] = w.size
		}
	}
	return chosen, left
}

// localSearch improves a solution until no change has a gain; the number of changes is limited.
func (g *siaProgram) localSearch(chosen, left []int) {
	g.begin(chosen)
	if g.many() {
		g.searchInPasses(chosen, left)
		return
	}
	for range 4 * len(chosen) {
		if !g.improve(chosen, left) && !g.exchange(chosen, left) {
			return
		}
		g.sortPlaced(chosen)
	}
}

// has returns a size of a job and its value.
func (g *siaProgram) has(i, k int) (z size, worth float64) {
	if k < 0 {
		return size{Device: -1}, 0
	}
	return g.sizes[i][k], g.value[i][k]
}

const siaGain = 1e-9 // smaller gains are rounding errors

// improve makes the single change with the largest gain per device. It returns false if none exists.
func (g *siaProgram) improve(chosen, left []int) bool {
	best := siaChange{to: -1}
	free := slices.Max(left)
	g.each(func(i int) {
		if c := g.bestChange(i, chosen, left, free); c.to >= 0 && (best.to < 0 || c.Before(best)) {
			best = c
		}
	})
	if best.to < 0 {
		return false
	}
	g.change(chosen, left, best.job, best.to)
	return true
}

// roomFor returns the number of free devices of a size's type, including those that the job holds there.
func roomFor(z, had size, left []int) int {
	if z.Device == had.Device {
		return left[z.Device] + had.GPUs
	}
	return left[z.Device]
}

// change assigns another size to a job; −1: none.
func (g *siaProgram) change(chosen, left []int, job, to int) {
	if z, _ := g.has(job, chosen[job]); z.Device >= 0 {
		left[z.Device] += z.GPUs
	}
	if z, _ := g.has(job, to); z.Device >= 0 {
		left[z.Device] -= z.GPUs
	}
	// The first waiting job of a group is the one that changes. placed and open are sorted after the last change.
	switch waiting := &g.group[g.at[job]].waiting; {
	case chosen[job] < 0 && to >= 0:
		waiting.Pop()
		g.placed = append(g.placed, job)
	case chosen[job] >= 0 && to < 0:
		waiting.Push(index(job))
	}
	chosen[job] = to
}

// loss is the loss of value when a job leaves a type or reduces its devices there.
type loss struct {
	job, to int
	worth   float64
}

// exchange makes the most profitable exchange, in which one job changes to a size without enough free devices and
// another job frees them. It returns false if no exchange has a gain. O((jobs + kinds) · sizes · number of missing
// devices).
func (g *siaProgram) exchange(chosen, left []int) bool {
	most := siaGain
	var up, down loss
	up.job = -1
	cheapest := g.losses(chosen, left, 2)
	g.each(func(i int) {
		had, now := g.has(i, chosen[i])
		for k, z := range g.sizes[i] {
			missing := z.GPUs - roomFor(z, had, left)
			if missing <= 0 || missing >= len(cheapest[z.Device]) || g.value[i][k]-now < most {
				continue
			}
			for _, l := range cheapest[z.Device][missing] {
				if l.job == i || l.job < 0 {
					continue
				}
				if gain := g.value[i][k] - now - l.worth; gain > most || gain == most && i < up.job {
					most, up, down = gain, loss{i, k, 0}, l
				}
				break
			}
		}
	})
	if most <= siaGain {
		return false
	}
	g.change(chosen, left, up.job, up.to)
	g.change(chosen, left, down.job, down.to)
	return true
}

// losses returns, by type and number of devices, the jobs with the smallest losses from freeing that many, in ascending
// order, at most n of them. A job may move to another type with free devices.
func (g *siaProgram) losses(chosen, left []int, n int) [][][]loss {
	out := make([][][]loss, len(g.room))
	for d := range out {
		if len(g.cheapest) > d {
			out[d] = g.cheapest[d][:0]
		}
	}
	free := slices.Max(left)
	for _, i := range g.placed {
		k := chosen[i]
		had, now := g.has(i, k)
		for by := out[had.Device]; len(by) <= had.GPUs; out[had.Device] = by {
			if m := len(by); m < cap(by) && cap(by[:m+1][m]) == n {
				by = append(by, by[:m+1][m][:0])
				continue
			}
			by = append(by, make([]loss, 0, n))
		}
		// A job that waits or moves to another type frees all its devices, a smaller size frees some of them.
		by, all := out[had.Device], loss{i, -1, now}
		for to, z := range g.sizes[i] {
			if z.GPUs > max(had.GPUs, free) {
				break
			}
			switch {
			case z.Device == had.Device && z.GPUs < had.GPUs:
				note(by, had.GPUs-z.GPUs, loss{i, to, now - g.value[i][to]})
			case z.Device != had.Device && z.GPUs <= left[z.Device] && now-g.value[i][to] < all.worth:
				all = loss{i, to, now - g.value[i][to]}
			}
		}
		note(by, had.GPUs, all)
	}
	for _, by := range out { // freeing more devices includes freeing fewer
		for n := len(by) - 2; n > 0; n-- {
			for _, l := range by[n+1] {
				note(by, n, l)
			}
		}
	}
	g.cheapest = out
	return out
}

// note inserts a loss into the smallest ones of distinct jobs. Among equal losses, those noted first remain.
func note(by [][]loss, n int, l loss) {
	list := by[n]
	if len(list) == cap(list) && l.worth >= list[len(list)-1].worth {
		return
	}
	if at := slices.IndexFunc(list, func(x loss) bool { return x.job == l.job }); at >= 0 {
		if l.worth >= list[at].worth {
			return
		}
		list = slices.Delete(list, at, at+1)
	} else if len(list) == cap(list) {
		list = list[:len(list)-1]
	}
	at := len(list)
	for at > 0 && l.worth < list[at-1].worth {
		at--
	}
	by[n] = slices.Insert(list, at, l)
}

// index orders jobs by their index.
type index int

func (a index) Before(b index) bool { return a < b }
