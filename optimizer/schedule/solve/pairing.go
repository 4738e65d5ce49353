package solve

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// pairing contains the throughputs of co-located jobs by class. Jobs of one class have the same rates alone and
// beside any job of any class. An option is two classes co-located on a device type. The time that jobs of class a
// spend on it beside b equals in total that of b beside a, and any two such lists of times can be divided into pairs
// (divide.go), so the program over options has the same value as the program over all pairs.
type pairing struct {
	classOf []int // by job
	jobs    [][]int
	options []option
	top     []float64 // by class: largest rate beside another job
	partner []bool    // by class: whether it occurs in an option
}

// option is two classes that share devices of one type.
type option struct {
	a, b         int // a ≤ b
	kind         int // index into the types that have devices
	rateA, rateB float64
	high         float64 // for two jobs of one class with different rates: the larger rate; rateA and rateB are then the smaller
	gain         float64
	dead         bool // a class with a single job, paired with itself
}

// sideOf returns 1 for class a (also when a equals b), −1 for class b and 0 for other classes.
func (o *option) sideOf(class int) float64 {
	switch class {
	case o.a:
		return 1
	case o.b:
		return -1
	}
	return 0
}

// best returns the largest rate of a job beside another one.
func (p *pairing) best(i int) float64 { return p.top[p.classOf[i]] }

// checkPair validates the rates of a pair.
func (s *Sharing) checkPair(what string, ra, rb []float64) error {
	if len(ra) != len(s.Devices) || len(rb) != len(s.Devices) {
		return fmt.Errorf("%s: a pair has %d and %d rates for %d kinds", what, len(ra), len(rb), len(s.Devices))
	}
	for j := range ra {
		if v := min(ra[j], rb[j]); !(v >= 0) || math.IsInf(max(ra[j], rb[j]), 1) {
			return fmt.Errorf("%s: a pair has rates %g and %g on kind %d", what, ra[j], rb[j], j)
		}
	}
	return nil
}

// addOptions adds the options of two classes on the types that have devices, except for those without any rate or
// gain.
func (p *pairing) addOptions(s *Sharing, a, b int, ra, rb, value []float64) {
	kind := 0
	for j, d := range s.Devices {
		if d <= 0 {
			continue
		}
		o := option{a: a, b: b, kind: kind, rateA: ra[j], rateB: rb[j]}
		kind++
		if value != nil {
			o.gain = value[j]
		}
		if a == b && o.rateA != o.rateB {
			o.high = max(o.rateA, o.rateB)
			o.rateA = min(o.rateA, o.rateB)
			o.rateB = o.rateA
		}
		if o.rateA > 0 || o.rateB > 0 || o.high > 0 || o.gain > 0 {
			p.options = append(p.options, o)
		}
	}
}

// findTop computes top and partner from the options.
func (p *pairing) findTop() {
	p.top, p.partner = make([]float64, len(p.jobs)), make([]bool, len(p.jobs))
	for _, o := range p.options {
		p.top[o.a] = max(p.top[o.a], o.rateA)
		p.top[o.b] = max(p.top[o.b], o.rateB)
		p.partner[o.a], p.partner[o.b] = true, true
	}
}

// newPairing derives the classes of a sharing from its pairs: jobs of equal rates and scale for which either all or no
// pairs between two classes are listed, with the same rates and values. Classes that violate this are split into
// single jobs. It returns nil without error when the sharing has no pairs.
func newPairing(what string, s *Sharing, values [][]float64) (*pairing, error) {
	if len(s.Pairs) == 0 {
		return nil, nil
	}
	if err := s.checkPairs(what, values); err != nil {
		return nil, err
	}
	p := &pairing{classOf: make([]int, len(s.Rate))}
	seen := new(numberTable)
	seen.begin(len(s.Rate))
	numbers := make([]float64, len(s.Devices)+1)
	classes := 0
	for i, r := range s.Rate {
		copy(numbers, r)
		numbers[len(r)] = s.Scale[i]
		c, known := seen.find(numbers, classes)
		if !known {
			classes++
		}
		p.classOf[i] = c
	}
	if odd := p.unlike(s, values, classes); len(odd) > 0 {
		p.takeApart(odd, classes)
	}
	p.collect(s, values)
	p.findTop()
	return p, nil
}

// checkPairs validates a list of pairs and their values.
func (s *Sharing) checkPairs(what string, values [][]float64) error {
	if values != nil && len(values) != len(s.Pairs) {
		return fmt.Errorf("%s: values of %d pairs for %d pairs", what, len(values), len(s.Pairs))
	}
	for q := range s.Pairs {
		pair := &s.Pairs[q]
		if n := len(s.Rate); pair.A < 0 || pair.B < 0 || pair.A >= n || pair.B >= n || pair.A == pair.B {
			return fmt.Errorf("%s: pair %d is of jobs %d and %d of %d", what, q, pair.A, pair.B, n)
		}
		if s.Scale[pair.A] != s.Scale[pair.B] {
			return fmt.Errorf("%s: pair %d is of jobs that take %g and %g devices", what, q, s.Scale[pair.A], s.Scale[pair.B])
		}
		if err := s.checkPair(what, pair.RateA, pair.RateB); err != nil {
			return fmt.Errorf("%w (pair %d)", err, q)
		}
		if values == nil {
			continue
		}
		for j, v := range values[q] {
			if math.IsNaN(v) || math.IsInf(v, 0) || len(values[q]) != len(s.Devices) {
				return fmt.Errorf("%s: value %g of pair %d on kind %d", what, v, q, j)
			}
		}
	}
	return nil
}

// oriented returns the index of a pair of classes, and the pair with the smaller class first.
func (p *pairing) oriented(pair *Pair, classes int) (at, a, b int, ra, rb []float64) {
	a, b, ra, rb = p.classOf[pair.A], p.classOf[pair.B], pair.RateA, pair.RateB
	if a > b {
		a, b, ra, rb = b, a, rb, ra
	}
	return a*classes + b, a, b, ra, rb
}

// unlike returns the classes whose pairs are listed only in part or differ from each other.
func (p *pairing) unlike(s *Sharing, values [][]float64, classes int) map[int]bool {
	size := make([]int, classes)
	for _, c := range p.classOf {
		size[c]++
	}
	first := make([]int32, classes*classes) // pair+1
	count := make([]int, classes*classes)
	odd := map[int]bool{}
	for q := range s.Pairs {
		at, a, b, ra, rb := p.oriented(&s.Pairs[q], classes)
		count[at]++
		if first[at] == 0 {
			first[at] = int32(q + 1)
		}
		f := int(first[at] - 1)
		_, _, _, fa, fb := p.oriented(&s.Pairs[f], classes)
		same := equal(ra, fa) && equal(rb, fb) || a == b && equal(ra, fb) && equal(rb, fa)
		if a == b && !alike(ra, rb) {
			odd[a] = true
		}
		if !same || values != nil && !equal(values[q], values[f]) {
			odd[a], odd[b] = true, true
		}
	}
	// A pair of classes must be listed completely or not at all.
	for a := range classes {
		for b := a; b < classes; b++ {
			all := size[a] * size[b]
			if a == b {
				all = size[a] * (size[a] - 1) / 2
			}
			if c := count[a*classes+b]; c != 0 && c != all {
				odd[a], odd[b] = true, true
			}
		}
	}
	return odd
}

// maxPairRateSpread is the largest relative difference between the rates of two jobs of one class beside each other. It also
// limits the gap of programs with such pairs.
const maxPairRateSpread = 0.1

func alike(ra, rb []float64) bool {
	for j, a := range ra {
		if math.Abs(a-rb[j]) > maxPairRateSpread*max(a, rb[j]) {
			return false
		}
	}
	return true
}

// uneven reports whether two jobs of one class have different rates beside each other on some type; the bound is then
// not tight.
func (p *pairing) uneven() bool {
	return slices.ContainsFunc(p.options, func(o option) bool { return o.high > 0 })
}

// takeApart makes every job of the odd classes a class of its own.
func (p *pairing) takeApart(odd map[int]bool, classes int) {
	for i, c := range p.classOf {
		if odd[c] {
			p.classOf[i] = classes
			classes++
		}
	}
}

// collect renumbers the nonempty classes and takes the options of each two classes from their first pair. Of two
// entries for the same jobs, the first is used.
func (p *pairing) collect(s *Sharing, values [][]float64) {
	number := map[int]int{}
	for i, c := range p.classOf {
		k, known := number[c]
		if !known {
			k = len(p.jobs)
			number[c] = k
			p.jobs = append(p.jobs, nil)
		}
		p.classOf[i] = k
		p.jobs[k] = append(p.jobs[k], i)
	}
	classes := len(p.jobs)
	done := make([]bool, classes*classes)
	for q := range s.Pairs {
		at, a, b, ra, rb := p.oriented(&s.Pairs[q], classes)
		if done[at] {
			continue
		}
		done[at] = true
		var value []float64
		if values != nil {
			value = values[q]
		}
		p.addOptions(s, a, b, ra, rb, value)
	}
}

// without returns a copy of the pairing in which a job forms a class of its own.
func (p *pairing) without(job int) *pairing {
	old, fresh := p.classOf[job], len(p.jobs)
	q := &pairing{
		classOf: slices.Clone(p.classOf), jobs: slices.Clone(p.jobs),
		options: slices.Clone(p.options),
		top:     append(slices.Clone(p.top), p.top[old]), partner: append(slices.Clone(p.partner), p.partner[old]),
	}
	q.classOf[job] = fresh
	q.jobs[old] = slices.DeleteFunc(slices.Clone(p.jobs[old]), func(i int) bool { return i == job })
	q.jobs = append(q.jobs, []int{job})
	// Options of the old class are copied for the job; those that need two jobs of a class that has one left are
	// dead.
	for k, o := range p.options {
		switch old {
		case o.a:
			o.a = fresh
		case o.b:
			o.b = fresh
		default:
			continue
		}
		if o.a != o.b && (o.a == old || o.b == old) && len(q.jobs[old]) < 2 {
			q.options[k].dead = true
		}
		if len(q.jobs[old]) > 0 || o.a != old && o.b != old {
			q.options = append(q.options, o)
		}
	}
	return q
}

// offer is an option without columns and its reduced profit.
type offer struct {
	option int
	worth  float64
}

// pick returns the best offers, at most a few of each class.
func (p *pairing) pick(offers []offer) (improving []int) {
	slices.SortFunc(offers, func(a, b offer) int { return cmp.Or(cmp.Compare(b.worth, a.worth), a.option-b.option) })
	taken := make([]int, len(p.jobs))
	most := 3 // of one class in a round
	if len(p.jobs) > 40 {
		most = 1
	}
	for _, f := range offers {
		o := &p.options[f.option]
		if taken[o.a] < most && taken[o.b] < most {
			taken[o.a]++
			taken[o.b]++
			improving = append(improving, f.option)
		}
	}
	return improving
}

// price finds options without columns that would improve the program, best first, and returns the amount by which the
// bound of the iterate rises when all options are included. With prices π of time, λ of progress and p of capacity,
// dual feasibility requires of every option max_{i∈a}(λ_i r_a − π_i) + max_{i∈b}(λ_i r_b − π_i) ≤ s·p − gain. Where
// that is violated, the prices of time of both classes are raised by half of the violation.
func (l *layout) price(it *interior) (improving []int, extra float64) {
	p := l.pairing
	classGroups := make([][]int, len(p.jobs))
	time := make([]float64, len(l.count))
	for g := range l.count {
		c := p.classOf[l.member[g]]
		classGroups[c] = append(classGroups[c], g)
		time[g] = it.timePrice(g)
	}
	raise := make([]float64, len(p.jobs))
	active := make([]bool, len(p.options))
	for _, o := range l.active {
		active[o] = true
	}
	side := func(class int, rate float64) float64 {
		best := math.Inf(-1)
		for _, g := range classGroups[class] {
			best = max(best, (it.z[it.v0+g]+it.z[it.w0+g])*rate/l.unit[g]-time[g])
		}
		return best
	}
	var offers []offer
	for o := range p.options {
		option := &p.options[o]
		groups := classGroups[option.a]
		if option.dead || len(groups) == 0 || len(classGroups[option.b]) == 0 {
			continue
		}
		use := l.sharing.Scale[l.member[groups[0]]] / l.sharing.Devices[l.kinds[option.kind]]
		rest := -use * it.z[it.c0+option.kind]
		if l.gains != nil {
			rest += option.gain
		}
		worth := side(option.a, option.rateA) + side(option.b, option.rateB) + rest
		if worth > 0 && !active[o] {
			offers = append(offers, offer{o, worth})
		}
		if option.high > 0 {
			worth = side(option.a, option.high) + side(option.b, option.high) + rest
		}
		raise[option.a], raise[option.b] = max(raise[option.a], worth/2), max(raise[option.b], worth/2)
	}
	for g, m := range l.count {
		extra += m * raise[p.classOf[l.member[g]]]
	}
	return p.pick(offers), extra
}
