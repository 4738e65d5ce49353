package share

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// pairing searches for jobs and pairs on whole devices with the largest total value. With several types and sizes
// this is a capacitated matching in a general graph, which is hard to solve exactly and need not be exact when jobs
// arrive or complete every few minutes. The search starts from the previous solution and applies changes while they
// gain: a job moves to idle devices, joins another, swaps with another, or replaces a pair or several smaller jobs.
// Only jobs affected by an event are examined: those that arrived, lost their partner, wait, or were involved in a
// change. On average the result reaches 0.99 of the optimum in small random cases (TestPairingIsNearTheOptimum). A
// change must gain at least one hundredth of the value of the moving job plus the loss from restarts, so that pairs
// are stable.
//
// O(jobs · kinds) for each change; waiting jobs of a kind count as one, since only the most valuable of them matters.
type pairing struct {
	*schedule.Snapshot

	types    int
	best     []float64 // by job: highest rate alone; 0: it runs on no type
	value    []float64 // job × type: value alone; 0: not possible
	at, mate []int     // by job: type, −1: waiting; co-located job, −1: none
	before   []int     // by job: type at the last decision, −1: it waited or is new
	room     []int     // free devices by type
	mixed    bool      // jobs have different sizes

	group  []int // by job: its kind, as numbered in kinds
	kinds  map[jobKind]int
	crowd  []float64 // by group: number of jobs
	kind   []int     // by job: its group, or the job itself where pairs of a group differ
	wide   int       // number of kinds for which slowed has room
	slowed []float64 // kind × kind × type: relative rate of the first beside the second; 0: no pair, NaN: not yet computed

	index  map[int]int   // index in the snapshot, by job ID
	places map[int]place // of the last decision, by job ID

	assigner assigner
	queue    []int // jobs to examine
	queued   []bool
	waiting  []int // most valuable waiting job of each kind, in descending order of value per device
	first    []int // by kind: scratch of findWaiting
	cleared  []int // see clearing
	sorted   []int
	density  []float64
}

// jobKind identifies jobs with equal throughputs.
type jobKind struct {
	name string
	gpus int
}

// place is the position of a job at the last decision.
type place struct {
	Device int
	Mate   int // ID of the co-located job; −1: none
}

// leastPairing is the minimum by which the sum of relative throughputs of a pair must exceed 1.
const leastPairing = 0.1

func newPairing() *pairing {
	return &pairing{kinds: map[jobKind]int{}, index: map[int]int{}, places: map[int]place{}}
}

// zeros returns a slice of n zeros that reuses the memory of s.
func zeros[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// reset starts from a cluster in which all jobs wait.
func (p *pairing) reset(s *schedule.Snapshot) {
	p.Snapshot, p.types = s, len(s.Devices)
	n := len(s.Jobs)
	p.best, p.value = zeros(p.best, n), zeros(p.value, n*p.types)
	p.at, p.mate, p.before, p.kind = p.at[:0], p.mate[:0], p.before[:0], p.kind[:0]
	p.group, p.crowd = p.group[:0], zeros(p.crowd, len(p.crowd))
	clear(p.index)
	p.mixed, p.waiting = false, p.waiting[:0]
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p.index[j.ID] = i
		p.best[i] = bestRate(s, j)
		p.at, p.mate = append(p.at, -1), append(p.mate, -1)
		was := -1
		if w, ok := p.places[j.ID]; ok {
			was = w.Device
		}
		p.before = append(p.before, was)
		p.join(i)
		p.mixed = p.mixed || j.GPUs != s.Jobs[0].GPUs
	}
	p.room, _ = freeDevices(s)
	p.widen()
}

// join numbers the kind of a job.
func (p *pairing) join(i int) {
	j := &p.Jobs[i]
	name := jobKind{j.Type, j.GPUs}
	k, ok := p.kinds[name]
	if !ok {
		k = len(p.kinds)
		p.kinds[name] = k
		p.crowd = append(p.crowd, 0)
	}
	p.crowd[k]++
	p.group = append(p.group, k)
	if !p.PairByKind {
		k = i
	}
	p.kind = append(p.kind, k)
}

// widen makes room for all kinds and invalidates cached rates of pairs that may have changed.
func (p *pairing) widen() {
	n := len(p.kinds)
	if !p.PairByKind {
		n = len(p.Jobs)
	}
	if n <= p.wide && p.PairByKind {
		return
	}
	if n > p.wide {
		p.wide = 2 * n
		p.slowed = make([]float64, p.wide*p.wide*p.types)
		p.first = make([]int, p.wide)
	}
	for k := range p.slowed {
		p.slowed[k] = math.NaN()
	}
}

// alone applies a policy that places all jobs without pairs and reports whether every job then has devices.
func (p *pairing) alone(b bestMatch) bool {
	asked, left := 0, 0
	for i := range p.Jobs {
		if p.best[i] > 0 {
			asked += p.Jobs[i].GPUs
		}
	}
	for _, n := range p.room {
		left += n
	}
	if asked > left {
		return false
	}
	b.assign(p.Snapshot)
	for i, d := range b.assigner.at {
		if d == p.types && p.best[i] > 0 {
			return false
		}
	}
	for i, d := range b.assigner.at {
		if d < p.types {
			p.put(i, d)
		}
	}
	return true
}

func (p *pairing) put(i, device int) {
	p.at[i] = device
	p.room[device] -= p.Jobs[i].GPUs
}

// remember stores the positions of all jobs for the next decision, with those of absent ones.
func (p *pairing) remember() {
	absent := map[int]place{}
	keepAbsent(p.Snapshot, absent, p.places)
	clear(p.places)
	maps.Copy(p.places, absent)
	for i, d := range p.at {
		if d < 0 {
			continue
		}
		w := place{d, -1}
		if m := p.mate[i]; m >= 0 {
			w.Mate = p.Jobs[m].ID
		}
		p.places[p.Jobs[i].ID] = w
	}
}

// units returns the jobs and pairs with devices.
func (p *pairing) units() (placed []fullShare) {
	for i, d := range p.at {
		if d >= 0 && p.mate[i] < i && p.mate[i] >= 0 {
			continue
		}
		if d >= 0 {
			placed = append(placed, fullShare{i, p.mate[i], d})
		}
	}
	return placed
}

// aloneValue returns the value of a job alone on a type; 0: not possible.
func (p *pairing) aloneValue(i, device int) float64 { return p.value[i*p.types+device] }

// pairValue returns the total value of two jobs co-located on a type; 0: not possible.
func (p *pairing) pairValue(i, k, device int) float64 {
	a, b := p.kind[i], p.kind[k]
	x := p.slowed[(a*p.wide+b)*p.types+device]
	if math.IsNaN(x) {
		x = p.computePairRates(i, k, device)
	}
	if x == 0 {
		return 0
	}
	return p.aloneValue(i, device)*x + p.aloneValue(k, device)*p.slowed[(b*p.wide+a)*p.types+device]
}

// computePairRates computes the relative rates of two co-located kinds, caches them and returns that of the first.
func (p *pairing) computePairRates(i, k, device int) float64 {
	x, y := 0.0, 0.0
	if one, other := p.Jobs[i].Rate[device], p.Jobs[k].Rate[device]; one > 0 && other > 0 {
		if ra, rb := p.Pair(i, k, device); ra > 0 && rb > 0 && ra/one+rb/other > 1+leastPairing {
			x, y = ra/one, rb/other
		}
	}
	a, b := p.kind[i], p.kind[k]
	p.slowed[(a*p.wide+b)*p.types+device], p.slowed[(b*p.wide+a)*p.types+device] = x, y
	return x
}

// currentValue returns the value of a job and its partner at their current position.
func (p *pairing) currentValue(i int) float64 {
	switch {
	case p.at[i] < 0:
		return 0
	case p.mate[i] < 0:
		return p.aloneValue(i, p.at[i])
	}
	return p.pairValue(i, p.mate[i], p.at[i])
}

func (p *pairing) push(i int) {
	if !p.queued[i] {
		p.queued[i] = true
		p.queue = append(p.queue, i)
	}
}

// pair runs the search. It repeats passes over the queue until a pass makes no change; the number of changes is
// limited.
func (p *pairing) pair() {
	p.queue, p.queued = p.queue[:0], zeros(p.queued, len(p.Jobs))
	p.restore()
	p.findWaiting()
	changes, most := 0, 4*len(p.Jobs)+100
	for seen := -1; seen != changes && changes < most; {
		seen = changes
		for _, i := range p.waiting {
			p.push(i)
		}
		for next := 0; next < len(p.queue) && changes < most; next++ {
			i := p.queue[next]
			p.queued[i] = false
			if p.improve(i) {
				changes++
			}
		}
		p.queue = p.queue[:0]
		clear(p.queued)
	}
}

// restore places all jobs as at the last decision, as far as they are still present.
func (p *pairing) restore() {
	for i := range p.Jobs {
		w, ok := p.places[p.Jobs[i].ID]
		if !ok || p.at[i] >= 0 || w.Device >= p.types || p.aloneValue(i, w.Device) <= 0 || p.room[w.Device] < p.Jobs[i].GPUs {
			continue
		}
		p.put(i, w.Device)
		if w.Mate < 0 {
			continue
		}
		if m, ok := p.index[w.Mate]; ok && p.at[m] < 0 && p.pairValue(i, m, w.Device) > 0 {
			p.at[m], p.mate[m], p.mate[i] = w.Device, i, m
		} else {
			p.push(i)
		}
	}
}

// findWaiting finds the most valuable waiting job of each kind: others of the kind gain less on every type.
func (p *pairing) findWaiting() {
	for k := range p.first {
		p.first[k] = -1
	}
	p.waiting = p.waiting[:0]
	for i, d := range p.at {
		if d >= 0 || p.best[i] <= 0 {
			continue
		}
		if f := p.first[p.kind[i]]; f < 0 || p.most(i) > p.most(f) {
			p.first[p.kind[i]] = i
		}
	}
	for _, i := range p.first {
		if i >= 0 {
			p.waiting = append(p.waiting, i)
		}
	}
	slices.SortFunc(p.waiting, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.most(b)*float64(p.Jobs[a].GPUs), p.most(a)*float64(p.Jobs[b].GPUs)), a-b)
	})
}

// most returns the value of a job on its best type.
func (p *pairing) most(i int) float64 { return slices.Max(p.value[i*p.types : (i+1)*p.types]) }
