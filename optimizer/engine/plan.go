package engine

import (
	"math"
	"slices"
	"sort"
)

// plan is the state of one pass of backfilling: what is reserved, and what is known about which jobs can start now.
type plan struct {
	reserved [][]reservation // of whole nodes, by node, in ascending order
	bounds   [][]bound       // of other reservations, by node, in ascending order
	touched  []int32         // nodes with a reservation
	shapes   []outlook       // by shape
	version  int32           // of the free resources; it grows with each pass and each start
	starts   []float64       // by take of the shape that is placed
}

// reservation is a time for which a node is reserved, s.
type reservation struct{ from, to float64 }

// bound is the beginning (sign −1) or the end (sign 1) of the reservation of a take.
type bound struct {
	take
	at   float64
	sign int32
}

// outlook is what a pass has found about a shape. Resources only shrink during a pass, so that what cannot start once
// cannot start later in the pass, and the earliest start of the same request only moves back.
type outlook struct {
	version int32
	fits    bool    // the free resources suffice, whatever is reserved
	failed  float64 // the least limit of a job that could not start, s
	limit   float64 // of the last job that was planned, s
	at      float64 // its earliest start
}

func (p *plan) init(c *cluster) {
	p.reserved, p.bounds = make([][]reservation, len(c.active)), make([][]bound, len(c.active))
	p.shapes = make([]outlook, len(c.shapes))
}

// begin starts a pass.
func (p *plan) begin() {
	for _, n := range p.touched {
		p.reserved[n], p.bounds[n] = p.reserved[n][:0], p.bounds[n][:0]
	}
	p.touched = p.touched[:0]
	p.version++
	for i := range p.shapes {
		p.shapes[i] = outlook{failed: math.Inf(1), limit: math.Inf(1)}
	}
}

// backfill starts the waiting jobs that, by the limits, delay no reservation of a job ahead of them, and reserves
// resources for the others, in order of rank. The pass ends with the last job that can still start.
//
// Cost: O(jobs × nodes × running jobs and reservations per node) in the worst case, of which the outlook of the shapes
// saves most.
func (s *simulation) backfill() {
	s.plan.begin()
	w := s.waiting
	if depth := s.q.Scheduler.Depth; depth > 0 {
		w = w[:min(depth, len(w))]
	}
	last, reserved, kept := len(w)-1, 0, 0
	for i := 0; ; i++ {
		for last >= i && !s.mayStart(w[last]) {
			last--
		}
		if i > last {
			s.waiting = append(s.waiting[:kept], s.waiting[i:]...)
			return
		}
		id := w[i]
		reserving := reserved < s.rules.Reservations || s.rules.Reservations <= 0
		if reserving || s.mayStart(id) {
			if s.place(id, reserving) {
				reserved++
			} else if !math.IsNaN(s.started[id]) {
				continue
			}
		}
		w[kept] = id
		kept++
	}
}

// place starts a job if it can start now; otherwise, if reserving, it reserves resources and reports whether it has.
func (s *simulation) place(id int32, reserving bool) bool {
	t := &s.tasks[id]
	o := &s.plan.shapes[t.shape]
	from := s.now
	if t.limit >= o.limit {
		from = max(from, o.at)
	}
	at := s.earliest(&s.shapes[t.shape], from, t.limit, !reserving)
	if at <= s.now {
		s.start(id)
		s.plan.version++
		return false
	}
	o.failed = min(o.failed, t.limit)
	if !reserving {
		return false
	}
	o.limit, o.at = t.limit, at
	return s.reserve(at, t.limit)
}

// mayStart reports whether a job can start in this pass, as far as the reservations so far tell.
func (s *simulation) mayStart(id int32) bool {
	t := &s.tasks[id]
	o, k := &s.plan.shapes[t.shape], &s.shapes[t.shape]
	if t.limit >= o.failed {
		return false
	}
	if o.version != s.plan.version && (o.version == 0 || o.fits) {
		o.fits = s.fitsAnywhere(k)
		o.version = s.plan.version
	}
	if o.fits && s.earliest(k, s.now, t.limit, true) > s.now {
		o.failed = t.limit
		return false
	}
	return o.fits
}

func (s *simulation) fitsAnywhere(k *shape) bool {
	n := 0
	for i := range k.takes {
		t := &k.takes[i]
		if s.fitsNow(t) {
			if n++; n == k.nodes {
				return true
			}
		}
	}
	return false
}

// earliest returns the earliest start of a shape from a time on, for a number of seconds, and chooses its nodes; +Inf if
// it cannot start now and only that matters.
//
// With k nodes, no start is possible before the k-th smallest of the nodes' earliest starts. From there the search is
// repeated, since a reservation may end the time for which a node is free, until k nodes are free simultaneously.
func (s *simulation) earliest(k *shape, from, seconds float64, onlyNow bool) float64 {
	if cap(s.plan.starts) < len(k.takes) {
		s.plan.starts = make([]float64, len(k.takes))
	}
	starts := s.plan.starts[:len(k.takes)]
	for t := from; ; {
		s.chosen = s.chosen[:0]
		best := math.Inf(1)
		for i := range k.takes {
			starts[i] = math.Inf(1)
			free := max(t, s.freeFrom(k, i))
			if onlyNow && free > t || k.nodes == 1 && free >= best {
				continue // too late, or no earlier than another node
			}
			if s.rules.WholeNodes {
				starts[i] = s.unreserved(k.takes[i].node, free, seconds)
			} else {
				starts[i] = s.nodeStart(&k.takes[i], t, seconds)
			}
			if best = min(best, starts[i]); starts[i] <= t {
				if s.chosen = append(s.chosen, k.takes[i]); len(s.chosen) == k.nodes {
					return t
				}
			}
		}
		if onlyNow {
			return math.Inf(1)
		}
		if k.nodes == 1 {
			at := slices.Index(starts, best)
			s.chosen = append(s.chosen[:0], k.takes[at])
			return best
		}
		s.ascending = append(s.ascending[:0], starts...)
		slices.Sort(s.ascending)
		if t = s.ascending[k.nodes-1]; math.IsInf(t, 1) {
			return t
		}
	}
}

// freeFrom returns the time from which the resources of a possible take of a shape are free, by the limits of the running
// jobs alone. It is computed once for each state of the node. A job that outlasts its limit is expected to end within a
// second.
func (s *simulation) freeFrom(shape *shape, i int) float64 {
	k, at := &shape.takes[i], shape.first+i
	if s.freeVersions[at] != s.versions[k.node] {
		s.freeVersions[at] = s.versions[k.node]
		s.freeTimes[at] = math.Inf(-1)
		if have := s.freeFor(k); !have.covers(k) {
			l := s.active[k.node]
			i := 0
			for ; i < len(l) && !have.covers(k); i++ {
				have.add(&l[i].take, 1)
			}
			s.freeTimes[at] = math.Inf(1)
			if have.covers(k) {
				s.freeTimes[at] = l[i-1].until
			}
		}
	}
	t := s.freeTimes[at]
	if math.IsInf(t, -1) {
		return s.now
	}
	if s.rules.EndWindow > 0 {
		t = s.endOfWindow(shape.set, t)
	}
	return max(t, s.now+1)
}

// endOfWindow returns the end of the last job that is planned to end in the same window as a job on one of the nodes of
// a set.
func (s *simulation) endOfWindow(set int32, t float64) float64 {
	if s.windowsAt[set] != s.state {
		s.windowsAt[set] = s.state
		s.ascending = s.ascending[:0]
		for _, n := range s.sets[set] {
			for i := range s.active[n] {
				s.ascending = append(s.ascending, s.active[n][i].until)
			}
		}
		slices.Sort(s.ascending)
		w := s.windows[set][:0]
		width := s.rules.EndWindow.Seconds()
		first := math.Inf(-1)
		for _, end := range s.ascending {
			if end > first+width || len(w) == 0 {
				if len(w) > 0 {
					width *= 2
				}
				w, first = append(w, end), end
			}
			w[len(w)-1] = end
		}
		s.windows[set] = w
	}
	w := s.windows[set]
	if i := sort.SearchFloat64s(w, t); i < len(w) {
		return w[i]
	}
	return t
}

// unreserved returns the earliest time from t on at which a node has no reservation for a number of seconds.
func (s *simulation) unreserved(node int32, t, seconds float64) float64 {
	l := s.plan.reserved[node]
	for i := sort.Search(len(l), func(i int) bool { return l[i].to > t }); i < len(l) && l[i].from < t+seconds; i++ {
		t = max(t, l[i].to)
	}
	return t
}

// add adds a multiple of another take of the same node; GPUs only if they are of the same type.
func (k *take) add(o *take, times int32) {
	k.cpus, k.mib = k.cpus+times*o.cpus, k.mib+times*o.mib
	if k.kind == o.kind {
		k.gpus += times * o.gpus
	}
}

// covers reports whether free resources suffice for a take.
func (k *take) covers(o *take) bool {
	return o.cpus <= k.cpus && o.mib <= k.mib && (o.gpus == 0 || o.gpus <= k.gpus)
}

// nodeStart returns the earliest time from t on at which a take is free on its node for a number of seconds, by the limits
// of the running jobs and by reservations that take what their jobs request.
func (s *simulation) nodeStart(k *take, t, seconds float64) float64 {
	held, bounds := s.active[k.node], s.plan.bounds[k.node]
	have := s.freeFor(k)
	anchor := math.Inf(1)
	for i, j := 0, 0; ; {
		for ; i < len(held) && max(held[i].until, s.now+1) <= t; i++ {
			have.add(&held[i].take, 1)
		}
		for ; j < len(bounds) && bounds[j].at <= t; j++ {
			have.add(&bounds[j].take, bounds[j].sign)
		}
		if !have.covers(k) {
			anchor = math.Inf(1)
		} else if math.IsInf(anchor, 1) {
			anchor = t
		}
		next := math.Inf(1)
		if i < len(held) {
			next = max(held[i].until, s.now+1)
		}
		if j < len(bounds) {
			next = min(next, bounds[j].at)
		}
		if next >= anchor+seconds || math.IsInf(next, 1) {
			return anchor
		}
		t = next
	}
}

// freeFor returns the free resources of the node of a take, with the GPUs of its type.
func (s *simulation) freeFor(k *take) take {
	f := s.free[k.node*s.stride:]
	have := take{cpus: f[0], mib: f[1], kind: k.kind}
	if k.gpus > 0 {
		have.gpus = f[2+k.kind]
	}
	return have
}

// reserve reserves the chosen nodes from a time on for a number of seconds, and reports whether that time is within
// the window of the scheduler.
func (s *simulation) reserve(at, seconds float64) bool {
	if w := s.q.Scheduler.Window.Seconds(); math.IsInf(at, 1) || w > 0 && at > s.now+w {
		return false
	}
	end := at + seconds
	if r := s.q.Scheduler.Resolution.Seconds(); r > 0 {
		offset := math.Mod(float64(s.q.Now.UnixMicro())/1e6, r)
		at = math.Floor((at+offset)/r)*r - offset
		end = math.Ceil((end+offset)/r)*r - offset
	}
	for _, k := range s.chosen {
		l, b := &s.plan.reserved[k.node], &s.plan.bounds[k.node]
		if len(*l)+len(*b) == 0 {
			s.plan.touched = append(s.plan.touched, k.node)
		}
		if s.rules.WholeNodes {
			i := sort.Search(len(*l), func(i int) bool { return (*l)[i].from > at })
			*l = slices.Insert(*l, i, reservation{at, end})
			continue
		}
		for _, x := range [2]bound{{k, at, -1}, {k, end, 1}} {
			i := sort.Search(len(*b), func(i int) bool { return (*b)[i].at > x.at })
			*b = slices.Insert(*b, i, x)
		}
	}
	return true
}
