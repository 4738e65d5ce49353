package share

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule"
)

// assigner assigns whole devices to jobs so that the sum of their values is high. Jobs are placed in descending order
// of value per device, each on the type with enough free devices where its value is highest; then jobs of equal size
// are exchanged over two or three types while this gains. It is a heuristic: with jobs of one size it is nearly
// always optimal; with several sizes the first step determines which sizes fit. O(jobs) for each exchange.
type assigner struct {
	chains
	jobs  int
	gpus  []int     // by job
	value []float64 // job × type; not possible where not positive
	at    []int     // by job: its type; types: none
	sizes []int     // distinct sizes, ascending
	best  []mover   // size × from × to
	in    [][]int   // size × type: jobs of the size on the type
	queue []rankedJob
}

// chains finds the exchange with the largest gain: a chain of moves between types.
type chains struct {
	types       int
	room        []int // free devices by type
	path, chain []int
	most        float64
}

// rankedJob is a job with its highest value per device.
type rankedJob struct {
	job     int
	density float64
}

// mover is the job with the largest gain from a move between two types.
type mover struct {
	job  int // −1: none
	gain float64
}

// Before reports whether a move has the larger gain; among equal gains, the smaller index comes first.
func (b mover) Before(o mover) bool { return b.gain > o.gain || b.gain == o.gain && b.job < o.job }

// or returns the better one of two moves, either of which may be none.
func (b mover) or(o mover) mover {
	if o.job >= 0 && (b.job < 0 || o.Before(b)) {
		return o
	}
	return b
}

// reset starts with the jobs of a snapshot, all unassigned and without value.
func (a *assigner) reset(s *schedule.Snapshot) {
	a.types, a.jobs = len(s.Devices), len(s.Jobs)
	a.gpus, a.at = a.gpus[:0], a.at[:0]
	for i := range s.Jobs {
		a.gpus = append(a.gpus, s.Jobs[i].GPUs)
		a.at = append(a.at, a.types)
	}
	a.sizes = append(a.sizes[:0], a.gpus...)
	slices.Sort(a.sizes)
	a.sizes = slices.Compact(a.sizes)
	a.value = slices.Grow(a.value[:0], a.jobs*a.types)[:a.jobs*a.types]
	clear(a.value)
	if cap(a.path) == 0 {
		a.path = make([]int, 0, longestChain+1)
	}
	a.room, _ = freeDevices(s)
}

// of returns the value of a job on a type; 0 if unassigned.
func (a *assigner) of(job, device int) float64 {
	if device == a.types {
		return 0
	}
	return a.value[job*a.types+device]
}

// run computes the assignment; the number of exchanges is limited.
func (a *assigner) run() {
	a.fill()
	a.findMovers()
	for rest := 4 * a.jobs; rest > 0; rest-- {
		gained := false
		for k := range a.sizes {
			gained = a.exchange(k) || gained
		}
		if !gained {
			return
		}
	}
}

// fill assigns jobs in descending order of value per device.
func (a *assigner) fill() {
	a.queue = a.queue[:0]
	for i := range a.jobs {
		a.queue = append(a.queue, rankedJob{i, slices.Max(a.value[i*a.types:(i+1)*a.types]) / float64(a.gpus[i])})
	}
	slices.SortFunc(a.queue, func(x, y rankedJob) int {
		return cmp.Or(cmp.Compare(y.density, x.density), x.job-y.job)
	})
	for _, r := range a.queue {
		i := r.job
		for d := range a.types {
			if a.gpus[i] <= a.room[d] && a.of(i, d) > a.of(i, a.at[i]) {
				a.at[i] = d
			}
		}
		if a.at[i] < a.types {
			a.room[a.at[i]] -= a.gpus[i]
		}
	}
}

const (
	leastExchange = 1e-12 // relative to the value of the job
	longestChain  = 3     // maximum number of moves in an exchange
)

// exchange performs the most profitable exchange among the jobs of the k-th size. It returns false if none exists.
func (a *assigner) exchange(k int) bool {
	n := a.types + 1
	best, size := a.best[k*n*n:(k+1)*n*n], a.sizes[k]
	if !a.find(best, size) {
		return false
	}
	last := len(a.chain) - 1
	// The movers are recorded first, since relocate changes the table.
	var moved [longestChain]int
	for c := range last {
		moved[c] = best[a.chain[c]*n+a.chain[c+1]].job
	}
	for c := range last {
		a.relocate(k, moved[c], a.chain[c+1])
	}
	a.account(size)
	return true
}

// find sets chain to the most profitable exchange among jobs of a size, given the best movers from × to. It returns
// false if none exists.
func (a *chains) find(best []mover, size int) bool {
	a.most, a.chain = 0, a.chain[:0]
	for from := range a.types + 1 {
		a.search(best, append(a.path[:0], from), 0, size)
	}
	return len(a.chain) > 1
}

// account updates the free devices after the exchange of chain: only the ends of an open path change them.
func (a *chains) account(size int) {
	last := len(a.chain) - 1
	if a.chain[0] == a.chain[last] {
		return
	}
	if a.chain[0] < a.types {
		a.room[a.chain[0]] += size
	}
	if a.chain[last] < a.types {
		a.room[a.chain[last]] -= size
	}
}

// search extends a path of types along which jobs move one step each. A path is complete if its last type has enough
// free devices or is its first one.
func (a *chains) search(best []mover, path []int, gain float64, size int) {
	first, end := path[0], path[len(path)-1]
	if len(path) > 1 && gain > a.most && (end == first || end == a.types || a.room[end] >= size) {
		a.most, a.chain = gain, append(a.chain[:0], path...)
	}
	if len(path) > longestChain || len(path) > 1 && end == first {
		return
	}
	for to := range a.types + 1 {
		if b := best[end*(a.types+1)+to]; b.job >= 0 && !slices.Contains(path[1:], to) {
			a.search(best, append(path, to), gain+b.gain, size)
		}
	}
}

// findMovers computes the jobs on each type, and the best mover between each two types.
func (a *assigner) findMovers() {
	n := a.types + 1
	a.best = slices.Grow(a.best[:0], len(a.sizes)*n*n)[:len(a.sizes)*n*n]
	for k := range a.best {
		a.best[k] = mover{job: -1}
	}
	a.in = slices.Grow(a.in, max(0, len(a.sizes)*n-len(a.in)))[:len(a.sizes)*n]
	for k := range a.in {
		a.in[k] = a.in[k][:0]
	}
	k := 0
	for i, from := range a.at {
		if a.gpus[i] != a.sizes[k] {
			k, _ = slices.BinarySearch(a.sizes, a.gpus[i])
		}
		a.in[k*n+from] = append(a.in[k*n+from], i)
	}
	for k := range a.best {
		a.offer(&a.best[k], a.in[k/n], k/n%n, k%n)
	}
}

// offer replaces a mover by the job with the largest gain from the move, if that gain is larger.
func (a *assigner) offer(b *mover, jobs []int, from, to int) {
	if from == to {
		return
	}
	n, most := a.types, *b
	for _, i := range jobs {
		there, here := 0.0, 0.0
		if to < n {
			if there = a.value[i*n+to]; there <= 0 {
				continue
			}
		}
		if from < n {
			here = a.value[i*n+from]
		}
		larger := max(here, there)
		gain := there - here
		gain -= leastExchange * larger
		most = most.or(mover{i, gain})
	}
	*b = most
}

// relocate moves a job of the k-th size. O(jobs on its type) for each move of which it was the best mover.
func (a *assigner) relocate(k, i, device int) {
	n, from := a.types+1, a.at[i]
	left := a.in[k*n+from]
	at := slices.Index(left, i)
	left[at] = left[len(left)-1]
	left = left[:len(left)-1]
	a.in[k*n+from] = left
	for to := range n {
		b := &a.best[(k*n+from)*n+to]
		if b.job != i {
			continue
		}
		*b = mover{job: -1}
		a.offer(b, left, from, to)
	}
	a.at[i] = device
	there := append(a.in[k*n+device], i)
	a.in[k*n+device] = there
	for to := range n {
		a.offer(&a.best[(k*n+device)*n+to], there[len(there)-1:], device, to)
	}
}

// shares returns the allocation of full shares.
func (a *assigner) shares(s *schedule.Snapshot) schedule.Allocation {
	placed := make([]fullShare, 0, a.jobs)
	for i, d := range a.at {
		if d < a.types {
			placed = append(placed, fullShare{i, -1, d})
		}
	}
	return fullShares(s, placed)
}
