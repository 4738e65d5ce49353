package rounds

import (
	"cmp"
	"slices"
)

// assigner gives jobs whole devices so that the sum of their values is high: the jobs with most value per device first, each where
// its value is highest among the types with room, then exchanges between jobs of equal size, over two or three types, for
// as long as they gain. It is a heuristic: with jobs of one size nearly always optimal; with several sizes the first step
// decides which sizes fit. O(jobs · types) for each exchange.
type assigner struct {
	types, jobs int
	gpus        []int     // by job
	value       []float64 // job × type; at most 0 is no
	room        []int     // by type
	at          []int     // by job: type; types is none
	sizes       []int     // that there are, ascending
	best        []mover   // from × to

	path, chain []int
	most        float64
	queue       []rankedJob
}

// rankedJob is a job with its highest value per device.
type rankedJob struct {
	job     int
	density float64
}

// mover is the job that gains most by going from one type to another.
type mover struct {
	job  int // −1 none
	gain float64
}

func newAssigner(s *Snapshot) *assigner {
	a := &assigner{}
	a.reset(s)
	return a
}

// reset begins anew with the jobs of a snapshot, none of which is worth anything yet.
func (a *assigner) reset(s *Snapshot) {
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
	if n := a.types + 1; len(a.best) != n*n {
		a.best, a.path = make([]mover, n*n), make([]int, 0, longestChain+1)
	}
	a.room, _ = freeDevices(s)
}

// of is what a job is worth of a job on a type; 0 on none.
func (a *assigner) of(job, device int) float64 {
	if device == a.types {
		return 0
	}
	return a.value[job*a.types+device]
}

func (a *assigner) run() {
	a.fill()
	for rest := 4 * a.jobs; rest > 0; rest-- {
		gained := false
		for _, size := range a.sizes {
			gained = a.exchange(size) || gained
		}
		if !gained {
			return
		}
	}
}

// fill takes jobs by value per device.
func (a *assigner) fill() {
	a.queue = a.queue[:0]
	for i := range a.jobs {
		a.queue = append(a.queue, rankedJob{i, slices.Max(a.value[i*a.types:(i+1)*a.types]) / float64(a.gpus[i])})
	}
	slices.SortStableFunc(a.queue, func(x, y rankedJob) int { return cmp.Compare(y.density, x.density) })
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
	leastExchange = 1e-12 // relative to what a job is worth
	longestChain  = 3     // moves of an exchange
)

// exchange does the exchange among jobs of a size that gains most, and says whether there was one.
func (a *assigner) exchange(size int) bool {
	a.findMovers(size)
	a.most, a.chain = 0, a.chain[:0]
	for from := range a.types + 1 {
		a.search(append(a.path[:0], from), 0, size)
	}
	for k := 1; k < len(a.chain); k++ {
		from, to := a.chain[k-1], a.chain[k]
		a.at[a.best[from*(a.types+1)+to].job] = to
	}
	if last := len(a.chain) - 1; last > 0 && a.chain[0] != a.chain[last] {
		if a.chain[0] < a.types {
			a.room[a.chain[0]] += size
		}
		if a.chain[last] < a.types {
			a.room[a.chain[last]] -= size
		}
	}
	return len(a.chain) > 0
}

// search goes on from the end of a path of types, along which jobs move one step each. It is complete where there is room, or where
// it began.
func (a *assigner) search(path []int, gain float64, size int) {
	first, end := path[0], path[len(path)-1]
	if len(path) > 1 && gain > a.most && (end == first || end == a.types || a.room[end] >= size) {
		a.most, a.chain = gain, append(a.chain[:0], path...)
	}
	if len(path) > longestChain || len(path) > 1 && end == first {
		return
	}
	for to := range a.types + 1 {
		if b := a.best[end*(a.types+1)+to]; b.job >= 0 && !slices.Contains(path[1:], to) {
			a.search(append(path, to), gain+b.gain, size)
		}
	}
}

func (a *assigner) findMovers(size int) {
	n := a.types + 1
	for k := range a.best {
		a.best[k] = mover{job: -1}
	}
	for i, from := range a.at {
		if a.gpus[i] != size {
			continue
		}
		here := a.of(i, from)
		for to := range n {
			there := a.of(i, to)
			if to == from || to < a.types && there <= 0 {
				continue
			}
			gain := there - here
			gain -= leastExchange * max(here, there)
			if b := &a.best[from*n+to]; b.job < 0 || gain > b.gain {
				*b = mover{i, gain}
			}
		}
	}
}

// shares is the allocation: all the time of a type for each job that has one.
func (a *assigner) shares(s *Snapshot) Allocation {
	placed := make([]whole, 0, a.jobs)
	for i, d := range a.at {
		if d < a.types {
			placed = append(placed, whole{i, -1, d})
		}
	}
	return wholeShares(s, placed)
}
