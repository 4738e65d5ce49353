package share

import (
	"encoding/binary"
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
// O(kinds · types²) a decision, and mostly O(types · log kinds + log jobs) for each job that moves.
type matching struct {
	chains
	bestMatch
	devices []schedule.DeviceType
	size    int // devices of every job
	kinds   []*matchedKind
	byRates map[string]*matchedKind
	byFirst map[*float64]*matchedKind // by the place of its rates: jobs of a kind mostly share them
	jobs    []*matchedJob             // by number; nil: not active
	active  int
	best    []mover // from × to; job is the index of a kind
	// ranked contains, by from × to, the kinds by the gain of their first movers, the largest first; empty: not yet ranked
	// in this decision. A gain that has decreased is corrected when it comes first, one that has increased is added.
	ranked  []schedule.Heap[mover]
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
	m := &matching{bestMatch: p, devices: devices, byRates: map[string]*matchedKind{}, byFirst: map[*float64]*matchedKind{}}
	m.types = len(devices)
	m.path = make([]int, 0, longestChain+1)
	for d := range devices {
		m.room = append(m.room, devices[d].Count)
	}
	m.best = make([]mover, (m.types+1)*(m.types+1))
	m.ranked = make([]schedule.Heap[mover], len(m.best))
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
	added := make([]matchedJob, len(c.Arrived))
	for i := range c.Arrived {
		if !m.add(&c.Arrived[i], &added[i]) {
			return nil, false
		}
	}
	m.fill()
	m.findMovers()
	for rest := 4 * m.active; rest > 0 && m.find(m.best, m.size); {
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
		if moves = append(moves, schedule.Place{Number: j.number, Device: j.at}); j.at == m.types {
			moves[len(moves)-1].Device = -1
		}
	}
	return moves, true
}

// add adds a waiting job. It returns false if the job has another size than the others.
func (m *matching) add(a *schedule.Arrival, j *matchedJob) bool {
	if m.active == 0 {
		m.size = a.GPUs
	}
	if a.GPUs != m.size {
		return false
	}
	*j = matchedJob{number: a.Number, kind: m.kindOf(a), at: m.types, before: m.types}
	m.jobs = append(m.jobs, make([]*matchedJob, max(0, a.Number+1-len(m.jobs)))...)
	m.jobs[a.Number] = j
	m.active++
	m.enter(j, m.types, a.Remaining)
	return true
}

// kindOf returns the kind of a job.
func (m *matching) kindOf(a *schedule.Arrival) int {
	if len(a.Rate) > 0 {
		if k, ok := m.byFirst[&a.Rate[0]]; ok {
			return k.index
		}
	}
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
	if len(a.Rate) > 0 {
		m.byFirst[&a.Rate[0]] = k
	}
	return k.index
}

// remove removes an ended job.
func (m *matching) remove(number int) {
	if number >= len(m.jobs) || m.jobs[number] == nil {
		return
	}
	j := m.jobs[number]
	m.jobs[number] = nil
	m.active--
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
	if j.before < m.types {
		remaining = afterLoss(m.changes.Preemption, remaining, k.rate[j.before])
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
		m.best[e], m.ranked[e] = mover{job: -1}, m.ranked[e][:0]
		from, to := e/(m.types+1), e%(m.types+1)
		if from == to {
			continue
		}
		for _, k := range m.present[from] {
			m.best[e] = m.best[e].or(m.moverOf(k, from, to))
		}
	}
}

// findMover computes the best mover of an entry of best again. O(log kinds) for each kind whose gain has decreased, and
// O(kinds) for the first time in a decision.
func (m *matching) findMover(e int) {
	from, to, ranked := e/(m.types+1), e%(m.types+1), &m.ranked[e]
	if len(*ranked) == 0 {
		for _, k := range m.present[from] {
			if b := m.moverOf(k, from, to); b.job >= 0 {
				*ranked = append(*ranked, b)
			}
		}
		ranked.Init()
	}
	m.best[e] = mover{job: -1}
	for len(*ranked) > 0 {
		was := (*ranked)[0]
		b := m.moverOf(was.job, from, to)
		if b.job >= 0 && !(b.gain < was.gain) {
			m.best[e] = b
			return
		}
		for len(*ranked) > 0 && (*ranked)[0] == was { // once or, if it was added again, several times
			ranked.Pop()
		}
		if b.job >= 0 {
			ranked.Push(b)
		}
	}
}

// offer replaces the best mover of an entry by the first of the kind of a job that has come, if its gain is larger.
func (m *matching) offer(e, from, to int, j *matchedJob) {
	b, k := m.moverOf(j.kind, from, to), m.kinds[j.kind]
	if b.job < 0 {
		return
	}
	if len(m.ranked[e]) > 0 && (k.count[from] == 1 || m.varies(from, to) && m.first(k, from, to) == j) {
		m.ranked[e].Push(b)
	}
	if m.best[e].job == j.kind && m.varies(from, to) {
		m.findMover(e)
		return
	}
	m.best[e] = m.best[e].or(b)
}

// moverOf returns the gain of the first job of a kind from a move between two types; job is −1 if none can move.
func (m *matching) moverOf(kind, from, to int) mover {
	k := m.kinds[kind]
	if k.count[from] == 0 || to < m.types && k.relative[to] == 0 {
		return mover{job: -1}
	}
	here, there, first := 0.0, 0.0, m.first(k, from, to)
	if from < m.types {
		here = m.relative(k, first, from)
	}
	if to < m.types {
		there = m.relative(k, first, to)
	}
	larger := max(here, there)
	if from == m.types || to == m.types { // otherwise the remaining time counts on both sides
		s := m.shortness(k, first)
		larger += s
		if from == m.types {
			there += s
		} else {
			here += s
		}
	}
	return mover{kind, there - here - leastExchange*larger}
}

// relative returns the rate of a job on a type, relative to that on its best type. Where it would have to restart, it is the
// mean rate over its remaining steps.
func (m *matching) relative(k *matchedKind, j *matchedJob, d int) float64 {
	p := m.changes.Preemption
	if !m.shortest || p == (schedule.Preemption{}) || j.before == m.types || j.before == d {
		return k.relative[d]
	}
	return afterRestart(p, m.changes.Remaining(j.number), k.rate[d]) / k.best
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
			if other != from && m.best[from*n+other].job == kind && (m.kinds[kind].count[from] == 0 || m.varies(from, other)) {
				m.findMover(from*n + other)
			}
			if other != to {
				m.offer(to*n+other, to, other, moved[c])
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

// varies reports whether the gain of a kind's move between two types depends on which of its jobs is the first: its remaining
// time counts where it waits before or after, or restarts.
func (m *matching) varies(from, to int) bool {
	return m.shortest && (from == m.types || to == m.types || m.changes.Preemption != schedule.Preemption{})
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
