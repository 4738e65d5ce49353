package solve

import (
	"math"
	"slices"
)

// layout is the program of a Sharing together with the origin of its groups and columns. Jobs that are equal in every
// number form one group. The programs are convex and invariant under permutations of equal jobs, so averaging an
// optimum over all such permutations gives an optimum in which equal jobs have equal shares; the centre of the
// optimal face already has this property.
type layout struct {
	*program
	sharing *Sharing
	kinds   []int     // indices of the device types that have devices
	groupOf []int     // by job; −1: not in the program
	member  []int     // by group: one of its jobs
	unit    []float64 // by group: divisor of its rates
	gains   [][]float64
	pairing *pairing // nil: no pairs
	active  []int    // options of pairing that have columns
	again   func(*pairing) *layout
	wanted  float64   // gap at which iteration stops
	count   []float64 // by group: number of jobs
	seen    numberTable
}

// newLayout groups the jobs by rates, scales and keys, except those for which skip returns true (nil keys are
// ignored). The columns are those of jobs without partners.
func newLayout(s *Sharing, p *pairing, skip func(i int) bool, gains [][]float64, keys ...[]float64) *layout {
	l := &layout{sharing: s, pairing: p, gains: gains, wanted: wantedGap}
	l.again = func(p *pairing) *layout { return newLayout(s, p, skip, gains, keys...) }
	l.group(s, p, skip, gains, keys...)
	l.program = &program{count: l.count}
	l.fillColumns()
	return l
}

// group computes the kinds and groups, reusing the slices of the layout.
func (l *layout) group(s *Sharing, p *pairing, skip func(i int) bool, gains [][]float64, keys ...[]float64) {
	l.kinds, l.member, l.unit, l.count = l.kinds[:0], l.member[:0], l.unit[:0], l.count[:0]
	for j, d := range s.Devices {
		if d > 0 {
			l.kinds = append(l.kinds, j)
		}
	}
	n := len(s.Rate)
	l.groupOf = slices.Grow(l.groupOf[:0], n)[:n]
	l.member, l.unit, l.count = slices.Grow(l.member, n), slices.Grow(l.unit, n), slices.Grow(l.count, n)
	l.seen.begin(len(s.Rate))
	var room [16]float64
	numbers := room[:0]
	for i, rate := range s.Rate {
		l.groupOf[i] = -1
		if len(l.kinds) == 0 || s.useless(p, i) && gains == nil || skip != nil && skip(i) {
			continue
		}
		// Key of the job: scale, class, rates, gains and the additional keys.
		numbers = append(numbers[:0], s.Scale[i])
		if p != nil {
			numbers = append(numbers, float64(p.classOf[i]))
		}
		for _, j := range l.kinds {
			numbers = append(numbers, rate[j])
			if gains != nil {
				numbers = append(numbers, gains[i][j])
			}
		}
		for _, k := range keys {
			if k != nil {
				numbers = append(numbers, k[i])
			}
		}
		g, known := l.seen.find(numbers, len(l.count))
		l.groupOf[i] = g
		if known {
			l.count[g]++
			continue
		}
		l.count = append(l.count, 1)
		l.member = append(l.member, i)
		// Rates are scaled to at most 1.
		unit := s.best(i)
		if p != nil {
			unit = max(unit, p.best(i))
		}
		if unit == 0 {
			unit = 1
		}
		l.unit = append(l.unit, unit)
	}
}

// fillColumns writes the columns of all groups; those of the active options follow those of jobs alone. Rates are
// divided by the unit of the group, and capacities are 1.
func (l *layout) fillColumns() {
	old := l.program
	p := &program{rising: old.rising, logs: old.logs, centred: old.centred, links: 0}
	for range l.kinds {
		p.capacity = append(p.capacity, 1)
	}
	link := l.numberLinks(p)
	p.reserve(len(l.member), l.columns())
	for g, i := range l.member {
		p.addGroup(old.count[g])
		for c, j := range l.kinds {
			gain := 0.0
			if l.gains != nil {
				gain = l.gains[i][j]
			}
			p.addColumn(c, l.sharing.Rate[i][j]/l.unit[g], l.sharing.Scale[i]/l.sharing.Devices[j], gain)
		}
		if l.pairing == nil {
			continue
		}
		for a, o := range l.active {
			option := &l.pairing.options[o]
			if side := option.sideOf(l.pairing.classOf[i]); side != 0 {
				l.addPairColumn(p, g, option, side, link[a])
			}
		}
	}
	if len(old.level) == len(p.count) {
		p.base, p.level, p.levelled = old.base, old.level, old.levelled
		p.floor, p.floored = old.floor, old.floored
	}
	l.program = p
}

// columns returns an estimate of the number of columns for allocation.
func (l *layout) columns() int {
	each := len(l.kinds)
	if l.pairing != nil {
		each += min(len(l.active), 8)
	}
	return each * len(l.member)
}

// reserve allocates space for groups and columns.
func (p *program) reserve(groups, columns int) {
	numbers := make([]float64, 4*(groups+columns))
	take := func(n int) []float64 {
		part := numbers[:0:n]
		numbers = numbers[n:]
		return part
	}
	p.rate, p.gain, p.use, p.side = take(columns), take(columns), take(columns), take(columns)
	p.count, p.base, p.level, p.floor = take(groups), take(groups), take(groups), take(groups)
	whole := make([]int32, 2*columns)
	p.kind, p.link = whole[:0:columns], whole[columns:columns]
	flags := make([]bool, 2*groups)
	p.levelled, p.floored = flags[:0:groups], flags[groups:groups]
	p.start = make([]int, 0, groups+1)
}

// numberLinks assigns a link to every active option between different classes, and −1 to the others.
func (l *layout) numberLinks(p *program) []int32 {
	link := make([]int32, len(l.active))
	for a, o := range l.active {
		link[a] = -1
		if option := &l.pairing.options[o]; option.a != option.b {
			link[a] = int32(p.links)
			p.links++
		}
	}
	return link
}

// addPairColumn adds the column of group g for a pair option. side is 1 for the option's class a and −1 for class b.
// Each job of a pair accounts for half of the devices and of the gain.
func (l *layout) addPairColumn(p *program, g int, o *option, side float64, link int32) {
	i := l.member[g]
	rate := o.rateA
	if side < 0 {
		rate = o.rateB
	}
	j := l.kinds[o.kind]
	gain := 0.0
	if l.gains != nil {
		gain = 0.5 * o.gain
	}
	p.addColumn(o.kind, rate/l.unit[g], 0.5*l.sharing.Scale[i]/l.sharing.Devices[j], gain)
	last := len(p.rate) - 1
	p.link[last] = link
	if link >= 0 {
		p.side[last] = side
	}
}

// idle reports whether a job has no throughput on any device, alone or co-located.
func (s *Sharing) idle(p *pairing, i int) bool {
	return s.best(i) == 0 && (p == nil || p.best(i) == 0)
}

// useless reports whether a job can be left out of a program: it has no throughput alone and no partner.
func (s *Sharing) useless(p *pairing, i int) bool {
	return s.best(i) == 0 && (p == nil || !p.partner[p.classOf[i]])
}

// best returns the largest rate of a job alone on types that have devices.
func (s *Sharing) best(i int) float64 {
	most := 0.0
	for j, r := range s.Rate[i] {
		if s.Devices[j] > 0 {
			most = max(most, r)
		}
	}
	return most
}

// numberTable is a hash table keyed by lists of numbers. All lists of a table have the same length.
type numberTable struct {
	slots   []int32 // index+1 of a list; 0: empty
	numbers []float64
	stored  []int
}

// begin clears the table and makes room for n lists.
func (t *numberTable) begin(n int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	t.numbers, t.stored = t.numbers[:0], slices.Grow(t.stored[:0], n)
	t.slots = slices.Grow(t.slots[:0], size)[:size]
	clear(t.slots)
}

// find returns the value stored for these numbers, or stores fresh.
func (t *numberTable) find(numbers []float64, fresh int) (stored int, known bool) {
	width := len(numbers)
	h := uint64(1469598103934665603)
	for _, v := range numbers {
		h = (h ^ math.Float64bits(v)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	mask := uint64(len(t.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		e := int(t.slots[at])
		if e == 0 {
			t.numbers = append(t.numbers, numbers...)
			t.stored = append(t.stored, fresh)
			t.slots[at] = int32(len(t.stored))
			return fresh, false
		}
		if equal(t.numbers[(e-1)*width:e*width], numbers) {
			return t.stored[e-1], true
		}
	}
}

func equal(a, b []float64) bool {
	for i, v := range a {
		if v != b[i] {
			return false
		}
	}
	return true
}
