package share

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// matching is the assignment of bestMatch for jobs of one size, kept between decisions. Jobs with equal rates are a
// kind: on a type, they differ only in the order in which they would leave it. After arrivals and completions, free
// devices go to the waiting jobs with the highest value, and chains of jobs are exchanged over types while this gains,
// as in assigner. The best mover between two types is the best of the kinds' first movers.
//
// The remaining time of a job decreases while it runs, at the same speed for all jobs on a type, so their order by
// time of completion is constant. A value is computed when it is compared. Where times are unknown, the job that arrived
// last is the shortest: jobs that have been served least are likely to end first.
//
// O(kinds · types²) a decision, and at most O(kinds · types + log jobs) for each job that moves.
type matching struct {
	chains
	bestMatch
	devices []schedule.DeviceType
	size    int // devices of every job
	kinds   []*matchedKind
	byRates map[string]*matchedKind
	jobs    map[int]*matchedJob // by number
	best    []mover             // from × to; job is the index of a kind
	now     float64
	changes *schedule.Changes
	touched []*matchedJob
	queue   schedule.Heap[queuedKind]
	present [][]int // by type, and for waiting jobs: kinds with jobs there
	key     []byte
}

// matchedKind is a set of jobs with equal rates.
type matchedKind struct {
	index    int
	rate     []float64
	relative []float64 // to the rate on the best type; 0: it does not run there
	best     float64
	waiting  jobHeap   // the shortest first
	long     []jobHeap // by type: the longest first
	short    []jobHeap // by type: the shortest first
	count    []int     // by type, and of waiting jobs
	listed   []int     // index in matching.present
}

// matchedJob is an active job.
type matchedJob struct {
	number int
	kind   int
	at     int // type; types: it waits
	before int // type at the last decision
	turn   int // increases with every move
	marked bool
	// length is the time of completion on its type or, while it waits, the remaining steps; if times are unknown, minus its
	// number.
	length float64
}

func newMatching(p bestMatch, devices []schedule.DeviceType) *matching {
	m := &matching{bestMatch: p, devices: devices, byRates: map[string]*matchedKind{}}
	m.types = len(devices)
	m.path = make([]int, 0, longestChain+1)
	for d := range devices {
		m.room = append(m.room, devices[d].Count)
	}
	m.best = make([]mover, (m.types+1)*(m.types+1))
	m.present = make([][]int, m.types+1)
	return m
}

// update applies changes and returns the jobs whose type differs from that of the last decision. ok is false if jobs
// have several sizes.
func (m *matching) update(c *schedule.Changes) (moves []schedule.Place, ok bool) {
	m.now, m.changes, m.touched = c.Now, c, m.touched[:0]
	for _, number := range c.Ended {
		m.remove(number)
	}
	if len(m.jobs) == 0 {
		m.jobs = make(map[int]*matchedJob, len(c.Arrived))
	}
	added := make([]matchedJob, len(c.Arrived))
	for i := range c.Arrived {
		if !m.add(&c.Arrived[i], &added[i]) {
			return nil, false
		}
	}
	m.fill()
	m.findMovers()
	for rest := 4 * len(m.jobs); rest > 0 && m.find(m.best, m.size); {
		for again := true; again && rest > 0; again = m.again() {
			m.exchange()
			rest--
		}
	}
	for _, j := range m.touched {
		j.marked = false
		if j.at == j.before {
			continue
		}
		j.before = j.at
		if j.at == m.types {
			moves = append(moves, schedule.Place{Number: j.number, Device: -1})
		} else {
			moves = append(moves, schedule.Place{Number: j.number, Device: j.at})
		}
	}
	return moves, true
}

// add adds a waiting job. It returns false if the job has another size than the others.
func (m *matching) add(a *schedule.Arrival, j *matchedJob) bool {
	if len(m.jobs) == 0 {
		m.size = a.GPUs
	}
	if a.GPUs != m.size {
		return false
	}
	*j = matchedJob{number: a.Number, kind: m.kindOf(a), at: m.types, before: m.types}
	m.jobs[a.Number] = j
	m.enter(j, m.types, a.Remaining)
	return true
}

// kindOf returns the kind of a job.
func (m *matching) kindOf(a *schedule.Arrival) int {
	m.key = m.key[:0]
	for _, r := range a.Rate {
		m.key = binary.LittleEndian.AppendUint64(m.key, math.Float64bits(r))
	}
	if k, ok := m.byRates[string(m.key)]; ok {
		return k.index
	}
	k := &matchedKind{index: len(m.kinds), rate: a.Rate, relative: make([]float64, m.types), long: make([]jobHeap, m.types), short: make([]jobHeap, m.types), count: make([]int, m.types+1), listed: make([]int, m.types+1)}
	for d, r := range a.Rate {
		if m.devices[d].Count >= m.size {
			k.best = max(k.best, r)
		}
	}
	for d, r := range a.Rate {
		if r > 0 && m.devices[d].Count >= m.size {
			k.relative[d] = r / k.best
		}
	}
	m.kinds = append(m.kinds, k)
	m.byRates[string(m.key)] = k
	return k.index
}

// remove removes an ended job.
func (m *matching) remove(number int) {
	j := m.jobs[number]
	if j == nil {
		return
	}
	delete(m.jobs, number)
	m.leave(j)
	if j.at < m.types {
		m.room[j.at] += m.size
	}
}

// leave removes a job from the heaps of its type, or of the waiting jobs.
func (m *matching) leave(j *matchedJob) {
	j.turn++
	k := m.kinds[j.kind]
	if k.count[j.at]--; k.count[j.at] == 0 {
		list := m.present[j.at]
		last := list[len(list)-1]
		list[k.listed[j.at]] = last
		m.kinds[last].listed[j.at] = k.listed[j.at]
		m.present[j.at] = list[:len(list)-1]
	}
	if j.at == m.types {
		k.waiting.live--
		return
	}
	k.long[j.at].live--
	k.short[j.at].live--
}

// enter records that a job is on a type, or waits, with its remaining steps.
func (m *matching) enter(j *matchedJob, device int, remaining float64) {
	k := m.kinds[j.kind]
	j.at = device
	if k.count[device]++; k.count[device] == 1 {
		k.listed[device] = len(m.present[device])
		m.present[device] = append(m.present[device], j.kind)
	}
	switch {
	case !m.shortest:
		j.length = float64(-j.number)
	case device == m.types:
		j.length = remaining
	default:
		j.length = m.now + remaining/k.rate[device]
	}
	if device == m.types {
		k.waiting.push(j, j.length)
		return
	}
	k.long[device].push(j, -j.length)
	k.short[device].push(j, j.length)
}

// move moves a job to another type.
func (m *matching) move(j *matchedJob, device int) {
	if !j.marked {
		j.marked = true
		m.touched = append(m.touched, j)
	}
	remaining := 0.0
	if m.shortest {
		remaining = m.changes.Remaining(j.number)
	}
	m.leave(j)
	m.enter(j, device, remaining)
}

// first returns the job of a kind that would be the first to move between two types; nil: none.
func (m *matching) first(k *matchedKind, from, to int) *matchedJob {
	switch {
	case from == m.types:
		return k.waiting.first()
	case to < m.types && k.relative[to] < k.relative[from]:
		return k.short[from].first()
	}
	return k.long[from].first()
}

// shortness returns the value of the remaining time of a job; 0 if times do not count.
func (m *matching) shortness(k *matchedKind, j *matchedJob) float64 {
	if !m.shortest {
		return 0
	}
	remaining := j.length
	if j.at < m.types {
		remaining = max(1, j.length-m.now) * k.rate[j.at]
	}
	return shortness(k.best, remaining)
}

// fill assigns free devices to waiting jobs in descending order of value.
func (m *matching) fill() {
	m.queue = m.queue[:0]
	if slices.Max(m.room) < m.size {
		return
	}
	for _, k := range m.present[m.types] {
		m.enqueue(m.kinds[k])
	}
	for len(m.queue) > 0 {
		k := m.queue.Pop().kind
		if at := m.bestRoom(k); at >= 0 {
			m.room[at] -= m.size
			m.move(k.waiting.first(), at)
			m.enqueue(k)
		}
	}
}

// enqueue adds a kind to queue by the value of its first waiting job.
func (m *matching) enqueue(k *matchedKind) {
	if j := k.waiting.first(); j != nil {
		m.queue.Push(queuedKind{1 + m.shortness(k, j), j.number, k})
	}
}

// queuedKind is a kind with the value and the number of its first waiting job.
type queuedKind struct {
	value  float64
	number int
	kind   *matchedKind
}

func (a queuedKind) Before(b queuedKind) bool {
	return a.value > b.value || a.value == b.value && a.number < b.number
}

// bestRoom returns the type with enough free devices on which a kind is fastest; −1: none.
func (m *matching) bestRoom(k *matchedKind) int {
	best := -1
	for d, r := range k.relative {
		if r > 0 && m.room[d] >= m.size && (best < 0 || r > k.relative[best]) {
			best = d
		}
	}
	return best
}

// findMovers computes the best mover between each two types.
func (m *matching) findMovers() {
	for e := range m.best {
		m.findMover(e)
	}
}

// findMover computes the best mover of an entry of best.
func (m *matching) findMover(e int) {
	from, to := e/(m.types+1), e%(m.types+1)
	m.best[e] = mover{job: -1}
	if from == to {
		return
	}
	for _, k := range m.present[from] {
		m.offer(e, from, to, k)
	}
}

// offer replaces the best mover of an entry by the first of a kind if its gain is larger.
func (m *matching) offer(e, from, to, kind int) {
	k := m.kinds[kind]
	if to < m.types && k.relative[to] == 0 {
		return
	}
	j := m.first(k, from, to)
	if j == nil {
		return
	}
	here, there := 0.0, 0.0
	if from < m.types {
		here = k.relative[from]
	}
	if to < m.types {
		there = k.relative[to]
	}
	larger := max(here, there)
	if from == m.types || to == m.types { // otherwise the remaining time counts on both sides
		s := m.shortness(k, j)
		larger += s
		if from == m.types {
			there += s
		} else {
			here += s
		}
	}
	if gain := there - here - leastExchange*larger; m.best[e].job < 0 || gain > m.best[e].gain || gain == m.best[e].gain && kind < m.best[e].job {
		m.best[e] = mover{kind, gain}
	}
}

// exchange performs the exchange of chain and updates the best movers.
func (m *matching) exchange() {
	n, last := m.types+1, len(m.chain)-1
	var moved [longestChain]*matchedJob
	for c := range last {
		from, to := m.chain[c], m.chain[c+1]
		moved[c] = m.first(m.kinds[m.best[from*n+to].job], from, to)
	}
	for c := range last {
		m.move(moved[c], m.chain[c+1])
	}
	m.account(m.size)
	for c := range last {
		from, to, kind := m.chain[c], m.chain[c+1], moved[c].kind
		for other := range n {
			if other != from && m.best[from*n+other].job == kind && m.worse(kind, from, other) {
				m.findMover(from*n + other)
			}
			if other == to {
				continue
			}
			if e := to*n + other; m.best[e].job == kind && m.shortest && (to == m.types || other == m.types) {
				m.findMover(e)
			} else {
				m.offer(e, to, other, kind)
			}
		}
	}
}

// again reports whether the chain of the last exchange has nearly the same gain for other jobs, so that no search is
// needed.
func (m *matching) again() bool {
	gain, last := 0.0, len(m.chain)-1
	for c := range last {
		b := m.best[m.chain[c]*(m.types+1)+m.chain[c+1]]
		if b.job < 0 {
			return false
		}
		gain += b.gain
	}
	end := m.chain[last]
	return gain > nearGain*m.most && (end == m.chain[0] || end == m.types || m.room[end] >= m.size)
}

// nearGain is the part of the gain of an exchange from which the same exchange is repeated.
const nearGain = 0.99

// worse reports whether the gain of a kind's move between two types may have decreased since one of its jobs left the
// first: no job is left, or the remaining time of the job counts.
func (m *matching) worse(kind, from, to int) bool {
	return m.kinds[kind].count[from] == 0 || m.shortest && (from == m.types || to == m.types)
}

// jobHeap is a heap of jobs by key. Jobs that have left are removed when they come first, or once they are the majority.
type jobHeap struct {
	list schedule.Heap[heapJob]
	live int
}

type heapJob struct {
	key  float64
	turn int
	job  *matchedJob
}

// gone reports whether the job has left since.
func (a heapJob) gone() bool { return a.turn != a.job.turn }

// Before reports whether a comes before b: by key, then by number of the job.
func (a heapJob) Before(b heapJob) bool {
	return a.key < b.key || a.key == b.key && a.job.number < b.job.number
}

func (h *jobHeap) push(j *matchedJob, key float64) {
	if len(h.list) > 2*h.live+64 {
		h.list = slices.DeleteFunc(h.list, heapJob.gone)
		h.list.Init()
	}
	h.live++
	h.list.Push(heapJob{key, j.turn, j})
}

// first returns the first job; nil: none.
func (h *jobHeap) first() *matchedJob {
	for len(h.list) > 0 {
		if first := &h.list[0]; !first.gone() {
			return first.job
		}
		h.list.Pop()
	}
	return nil
}

// maxLoss returns the most by which the value of the matching can be below the optimum, relative to it. For any
// nonnegative prices of devices, the devices at these prices and the largest gain of every job above them are an upper
// bound (linear programming duality). The price of a type is the gain from one more device of it, along any chain of
// moves: with an optimal matching the bound is its value. O(types³ · kinds + jobs · (types + log jobs)).
func (m *matching) maxLoss() float64 {
	m.findMovers()
	price := m.prices()
	value, bound := 0.0, 0.0
	for d, p := range price {
		bound += p * float64(m.devices[d].Count)
	}
	for _, number := range slices.Sorted(maps.Keys(m.jobs)) { // in one order: sums of floats depend on it
		j := m.jobs[number]
		k := m.kinds[j.kind]
		own := m.shortness(k, j)
		if j.at < m.types {
			value += k.relative[j.at] + own
		}
		most := 0.0
		for d, r := range k.relative {
			if r > 0 {
				most = max(most, r+own-price[d]*float64(m.size))
			}
		}
		bound += most
	}
	if bound == 0 {
		return 0
	}
	return max(0, 1-value/bound)
}

// prices returns the gain per device from devices for one more job on each type; 0 where devices are free.
func (m *matching) prices() []float64 {
	n := m.types + 1
	gain := make([]float64, n) // from one more place on a type, by chains of moves into it
	for range n {
		for to := range m.types {
			if m.room[to] >= m.size {
				continue
			}
			for from := range n {
				if b := m.best[from*n+to]; from != to && b.job >= 0 {
					gain[to] = max(gain[to], b.gain+gain[from])
				}
			}
		}
	}
	price := gain[:m.types]
	for d := range price {
		price[d] /= float64(m.size)
	}
	return price
}
