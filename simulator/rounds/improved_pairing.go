package rounds

import (
	"cmp"
	"math"
	"slices"
)

// pairing looks for the jobs and pairs on whole devices that are worth most together, which with types and sizes is a matching in a
// general graph with several capacities: hard to have exactly, and not needed exactly when a job comes or goes every few minutes. It
// begins with what it found the last time, and changes it as long as that gains: a job goes to idle devices, joins another, changes places with another,
// takes the devices of a pair, or of several smaller jobs. Only whom something happened to is looked at: who came, whose partner
// left, who waits, and whom a change concerned. What is found is 0.99 of the optimum on average in small random cases
// (TestPairingIsNearTheOptimum). A change must gain a hundredth of what the job that goes first is worth, and what restarts lose, so that
// pairs last.
//
// O(jobs · kinds) for each change, in which waiting jobs of a kind, of which only the most preferred matters, count as one.
type pairing struct {
	*Snapshot
	byKind bool       // rates of pairs depend on nothing but the kinds of jobs
	lost   Preemption // at each restart

	types    int
	best     []float64 // by job: highest rate alone; 0 it runs nowhere
	value    []float64 // job × type: worth alone; 0 is no
	at, mate []int     // by job: type, −1 waits; job beside it, −1 none
	before   []int     // by job: type at the last decision, −1 it waited or is new
	room     []int     // by type
	mixed    bool      // there are jobs of several sizes

	group  []int // by job: its kind, as numbered in kinds
	kinds  map[kindName]int
	crowd  []float64 // by group: number of its jobs
	kind   []int     // by job: its group or, where pairs of a group differ, itself
	wide   int       // room for kinds in slowed
	slowed []float64 // kind × kind × type: rate of the first beside the second by its rate alone; 0 no pair, NaN not looked at

	index  map[int]int   // of jobs in the snapshot, by ID
	places map[int]place // by ID, of the last decision

	assigner assigner
	queue    []int // of jobs to look at
	queued   []bool
	waiting  []int // of each kind the waiting job that is worth most, by worth of a device
	first    []int // by kind, for waiting
	cleared  []int // see clearing
	sorted   []int
	density  []float64
}

// place is where a job was.
type place struct {
	device int
	mate   int // ID of the job beside it; −1 none
}

// leastPairing is by how much the relative throughputs of a pair must exceed 1: less is not worth the trouble.
const leastPairing = 0.1

func newPairing() *pairing {
	return &pairing{kinds: map[kindName]int{}, index: map[int]int{}, places: map[int]place{}}
}

// zeros is a slice of so many zeros in the memory of another.
func zeros[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// reset begins with a cluster in which all jobs wait.
func (p *pairing) reset(s *Snapshot) {
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
		p.best[i] = j.best(s)
		p.at, p.mate = append(p.at, -1), append(p.mate, -1)
		was := -1
		if w, ok := p.places[j.ID]; ok {
			was = w.device
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
	name := kindName{j.Type, j.GPUs}
	k, ok := p.kinds[name]
	if !ok {
		k = len(p.kinds)
		p.kinds[name] = k
		p.crowd = append(p.crowd, 0)
	}
	p.crowd[k]++
	p.group = append(p.group, k)
	if !p.byKind {
		k = i
	}
	p.kind = append(p.kind, k)
}

// widen makes room for all kinds, and forgets what is known of pairs where it may have changed.
func (p *pairing) widen() {
	n := len(p.kinds)
	if !p.byKind {
		n = len(p.Jobs)
	}
	if n <= p.wide && p.byKind {
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

// alone has a policy place all jobs without pairs, and says whether all have devices then.
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

func (p *pairing) remember() {
	clear(p.places)
	for i, d := range p.at {
		if d < 0 {
			continue
		}
		w := place{d, -1}
		if m := p.mate[i]; m >= 0 {
			w.mate = p.Jobs[m].ID
		}
		p.places[p.Jobs[i].ID] = w
	}
}

// units are the jobs and pairs that have devices.
func (p *pairing) units() (placed []whole) {
	for i, d := range p.at {
		if d >= 0 && p.mate[i] < i && p.mate[i] >= 0 {
			continue
		}
		if d >= 0 {
			placed = append(placed, whole{i, p.mate[i], d})
		}
	}
	return placed
}

// of is what a job alone on a type is worth; 0 is no.
func (p *pairing) of(i, device int) float64 { return p.value[i*p.types+device] }

// both is what two jobs are worth beside each other on a type; 0 is no.
func (p *pairing) both(i, k, device int) float64 {
	a, b := p.kind[i], p.kind[k]
	x := p.slowed[(a*p.wide+b)*p.types+device]
	if math.IsNaN(x) {
		x = p.look(i, k, device)
	}
	if x == 0 {
		return 0
	}
	return p.of(i, device)*x + p.of(k, device)*p.slowed[(b*p.wide+a)*p.types+device]
}

// look finds how much two kinds slow each other down, and returns that of the first.
func (p *pairing) look(i, k, device int) float64 {
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

// worth is of the job, and the one beside it, where it is.
func (p *pairing) worth(i int) float64 {
	switch {
	case p.at[i] < 0:
		return 0
	case p.mate[i] < 0:
		return p.of(i, p.at[i])
	}
	return p.both(i, p.mate[i], p.at[i])
}

func (p *pairing) push(i int) {
	if !p.queued[i] {
		p.queued[i] = true
		p.queue = append(p.queue, i)
	}
}

// pair searches.
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

// restore places everybody as the last time, as far as they still are there.
func (p *pairing) restore() {
	for i := range p.Jobs {
		w, ok := p.places[p.Jobs[i].ID]
		if !ok || p.at[i] >= 0 || w.device >= p.types || p.of(i, w.device) <= 0 || p.room[w.device] < p.Jobs[i].GPUs {
			continue
		}
		p.put(i, w.device)
		if w.mate < 0 {
			continue
		}
		if m, ok := p.index[w.mate]; ok && p.at[m] < 0 && p.both(i, m, w.device) > 0 {
			p.at[m], p.mate[m], p.mate[i] = w.device, i, m
		} else {
			p.push(i)
		}
	}
}

// findWaiting lists of each kind the waiting job that is worth most: any other of the kind gains less wherever it goes.
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

// most is what a job is worth where it is worth most.
func (p *pairing) most(i int) float64 { return slices.Max(p.value[i*p.types : (i+1)*p.types]) }
