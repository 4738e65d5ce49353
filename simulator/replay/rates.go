package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/cluster"
)

// rateSource says where a rate of the replay comes from, best first.
type rateSource int

// Sources of rates.
const (
	measured   rateSource = iota // of this job on these devices
	ofSameName                   // measured on jobs of the same name, relative to devices that both had
	ofOthers                     // measured on other jobs in the same way
	stated                       // by the stated speeds of the device types
	assumed                      // nothing is known: as on the devices that it had
)

// String returns the words of the report.
func (s rateSource) String() string {
	return [...]string{"measured", "from jobs of the same name", "from other jobs", "from stated speeds", "assumed equal"}[s]
}

// place is a number of devices of a type.
type place struct {
	device string
	gpus   int
}

// estimate is a rate in steps/s with the standard deviation of its logarithm (NaN: unknown).
type estimate struct {
	rate, spread float64
	source       rateSource
}

// rates contains the rates of all jobs of a day.
type rates struct {
	day   *Day
	seen  map[int]map[place]float64 // steps/s by job
	lives map[int]map[place]int
	// repeat is the standard deviation of the logarithm of the rate between lives of the same command on the same devices; NaN
	// without such lives. transfer is that of rates estimated from other jobs, by source.
	repeat   float64
	transfer map[rateSource]float64
	exit     float64 // seconds between the last step of a job and its end; 0: not measured
	late     float64 // seconds by which a life begins to make progress after what the server measured; 0: not measured
	pairs    pairRates
}

// newRates collects the rates that were seen: the last that the server measured on a place or, if it measured none, the
// steps over the seconds from the first progress of a life until it left.
func newRates(d *Day) *rates {
	r := &rates{day: d, seen: map[int]map[place]float64{}, lives: map[int]map[place]int{}, transfer: map[rateSource]float64{}}
	r.pairs = newPairRates(d, d.measuredAlone())
	d.divideSaves()
	r.leave()
	r.divideFewSaves()
	repeats := map[string][]float64{}
	for _, j := range d.Jobs {
		steps, time := map[place]float64{}, map[place]float64{}
		logs := map[place][]float64{}
		r.seen[j.ID], r.lives[j.ID] = map[place]float64{}, map[place]int{}
		for _, l := range j.Lives {
			p := place{l.Device, l.GPUs}
			if done, took, ok := l.progress(); ok {
				if math.IsNaN(l.Seen) && !math.IsNaN(l.Worked) {
					took = max(took-r.late, took/2)
				}
				steps[p] += done
				time[p] += took
				r.lives[j.ID][p]++
			}
			if l.Seen > 0 {
				logs[p] = append(logs[p], math.Log(l.Seen))
				key := fmt.Sprint(j.kind(), p)
				repeats[key] = append(repeats[key], math.Log(l.Seen))
			}
		}
		for p := range steps {
			r.seen[j.ID][p] = steps[p] / time[p]
		}
		for p, l := range logs {
			r.seen[j.ID][p] = math.Exp(l[len(l)-1])
		}
	}
	for _, j := range d.Jobs {
		r.fit(j)
	}
	for _, j := range d.Jobs {
		r.fitUnmeasured(j)
	}
	r.repeat = math.Sqrt(within(repeats))
	for _, source := range []rateSource{ofSameName, ofOthers} {
		r.transfer[source] = r.crossValidate(source)
	}
	return r
}

// measuredAlone returns the last measured rates of jobs that had their devices alone, else those of the last job of the same
// command.
func (d *Day) measuredAlone() map[int]map[place]float64 {
	alone, same := map[int]map[place]float64{}, map[string]map[place]float64{}
	for _, j := range d.Jobs {
		alone[j.ID] = map[place]float64{}
		if same[j.Command] == nil {
			same[j.Command] = map[place]float64{}
		}
		for _, l := range j.Lives {
			if p := (place{l.Device, l.GPUs}); l.Seen > 0 {
				alone[j.ID][p], same[j.Command][p] = l.Seen, l.Seen
			}
		}
	}
	for _, j := range d.Jobs {
		for p, rate := range same[j.Command] {
			if alone[j.ID][p] == 0 && j.Command != "" {
				alone[j.ID][p] = rate
			}
		}
	}
	return alone
}

// leave measures how long trainings take to leave after their last step, which is time of the job and not of its starts: other
// policies have more lives or fewer. It is what the steps after the first measurement of the rate do not explain of last lives, and
// late what those before it do not explain beyond the start-up that the server measured, which would make lives without a
// measured rate appear slow.
func (r *rates) leave() {
	var rest, late []float64
	for _, j := range r.day.Jobs {
		for i, l := range j.Lives {
			if !(l.ratedDone > l.Before && l.Seen > 0) {
				continue
			}
			if v := l.anchored(l.Seen) - l.Worked; !math.IsNaN(v) {
				late = append(late, v)
			}
			if done, took, ok := l.steady(); ok && j.ended() && i == len(j.Lives)-1 {
				rest = append(rest, took-done/l.Seen)
			}
		}
	}
	if len(late) >= fewestLives {
		r.late = max(0, stat.Median(late))
	}
	if len(rest) >= fewestLives {
		r.exit = max(0, stat.Median(rest))
	}
	for _, j := range r.day.Jobs {
		if n := len(j.Lives); n > 0 && j.ended() {
			l := j.Lives[n-1]
			l.exit = max(0, min(r.exit, (l.until()-l.Start)/2))
		}
	}
}

const fewestLives = 5 // of each kind

// anchored returns the time at which a life began to make progress by its steps at the first measurement of its rate.
func (l *life) anchored(rate float64) float64 {
	return l.rated - l.Away - l.lostBeside(l.rated) - (l.ratedDone-l.Before)/rate
}

// exitOf returns the seconds between the last step of a job and its end.
func (r *rates) exitOf(j *job) float64 {
	if n := len(j.Lives); n > 0 && j.ended() {
		return j.Lives[n-1].exit
	}
	return r.exit
}

// unexplained is the share of a life that may be spent on what neither the server's start-up nor its rate contains, such
// as the start of the agent and the exit of the script. If it is more, the job was slower than its rate: it also
// evaluated, or saved.
const unexplained = 0.1

// fit sets the times at which the lives of a job began to make progress, and those of their last steps: by the steps at the first
// measurement of the rate or, in lives without one, so that the steps fill the rest of the life. A rate that does not explain
// the time after its measurement is replaced by that of this time.
func (r *rates) fit(j *job) {
	for _, l := range j.Lives { // a life is no shorter than its steps at the rate
		p := place{l.Device, l.GPUs}
		if rate, least := r.seen[j.ID][p], (l.Done-l.Before)/l.ran(); rate > 0 && least > rate && least < rate*(1+unexplained) {
			r.seen[j.ID][p] = least
		}
	}
	steps, time, slow, rated := map[place]float64{}, map[place]float64{}, map[place]bool{}, map[place]bool{}
	for _, l := range j.Lives {
		rated[place{l.Device, l.GPUs}] = rated[place{l.Device, l.GPUs}] || l.ratedDone > l.Before
	}
	for i, l := range j.Lives {
		p := place{l.Device, l.GPUs}
		if done, took, ok := l.steady(); ok && !j.lost(i) && (l.ratedDone > l.Before || !rated[p]) {
			steps[p], time[p] = steps[p]+done, time[p]+took
			slow[p] = slow[p] || took-done/r.seen[j.ID][p] > max(3, unexplained*took)
		}
	}
	for p := range steps {
		if slow[p] {
			r.seen[j.ID][p] = steps[p] / time[p]
		}
	}
	for i, l := range j.Lives {
		rate := r.seen[j.ID][place{l.Device, l.GPUs}]
		if math.IsNaN(l.Worked) && rate > 0 && l.Done > l.Before { // it left before its rate was measured
			l.Worked = l.Start + max(0, l.ran()-(l.Done-l.Before)/rate)
		} else if done, took, ok := l.progress(); !ok || !(rate > 0) || j.lost(i) {
			continue
		} else if l.ratedDone > l.Before {
			l.anchor(done, rate)
		} else {
			l.Worked = max(l.Start, l.Worked+took-done/rate)
		}
	}
}

// anchor divides a life at its first and last step.
func (l *life) anchor(done, rate float64) {
	l.Worked, l.exit, l.useful = max(l.Start, l.anchored(rate)), 0, 0
	_, took, _ := l.progress()
	if rest := took - done/rate; math.IsNaN(l.Asked) {
		l.exit = max(0, rest)
		l.Worked = max(l.Start, l.Worked+min(0, rest))
	} else {
		l.useful = min(max(0, -rest), l.Save)
		l.Worked = max(l.Start, l.Worked+min(0, rest+l.Save))
	}
}

// fitUnmeasured gives the lives that ended before anything was measured the rate of similar jobs, or the one that fills them.
func (r *rates) fitUnmeasured(j *job) {
	for _, l := range j.Lives {
		p := place{l.Device, l.GPUs}
		steps, whole := l.Done-l.Before, l.ran()
		if !math.IsNaN(l.Worked) || !(steps > 0 && whole > 0) {
			continue
		}
		rate := r.seen[j.ID][p]
		if !(rate > 0) {
			rate = max(r.at(j, p).rate, steps/whole)
			r.seen[j.ID][p], r.lives[j.ID][p] = rate, 1
		}
		l.Worked = l.Start + max(0, whole-steps/rate)
	}
}

// progress returns the steps of a life and the seconds in which it made them, or would have made them without another job on
// its devices. ok is false if it made none, or has not ended: what it has done since the last event is not known.
func (l *life) progress() (steps, seconds float64, ok bool) {
	steps, seconds = l.Done-l.Before, l.until()-l.Worked-l.lostBeside(l.until())-l.Away
	return steps, seconds, !l.open && steps > 0 && seconds > 0
}

// steady is progress since the first measurement of the rate, which no delay of the start is part of; since the start if the steps
// then are not known.
func (l *life) steady() (steps, seconds float64, ok bool) {
	if !(l.ratedDone > l.Before) {
		return l.progress()
	}
	steps, seconds = l.Done-l.ratedDone, l.until()-l.rated-l.lostBeside(l.until())+l.lostBeside(l.rated)
	return steps, seconds, !l.open && steps > 0 && seconds > 0
}

// until returns the time at which a life has done its last step.
func (l *life) until() float64 {
	if math.IsNaN(l.Asked) {
		return l.Left - l.exit
	}
	return min(l.Left-l.exit, l.Asked+l.useful)
}

// ran returns the seconds of a life until its last step in which its training ran.
func (l *life) ran() float64 { return l.until() - l.Start - l.Away }

// divideSaves measures for which part of the saves trainings still made progress: the median, over the lives that were asked to
// leave, of the time that the steps after the first measurement of the rate take beyond the request, relative to the save; none
// with fewer than fewestLives.
func (d *Day) divideSaves() {
	var shares []float64
	for _, j := range d.Jobs {
		for i, l := range j.Lives {
			if done, took, ok := l.steady(); ok && l.ratedDone > l.Before && l.Save > 0 && l.Asked <= l.Left && !j.lost(i) {
				shares = append(shares, (done/l.Seen-took)/l.Save)
			}
		}
	}
	if len(shares) >= fewestLives {
		share := min(max(stat.Median(shares), 0), 1)
		for _, l := range d.saved() {
			l.useful = share * l.Save
		}
	}
}

// divideFewSaves assumes of fewer saves than fewestLives that a training leaves after its step before one as after its last step of all.
func (r *rates) divideFewSaves() {
	if saved := r.day.saved(); len(saved) < fewestLives && r.exit > 0 {
		for _, l := range saved {
			l.useful = max(0, l.Save-r.exit)
		}
	}
}

// saved returns the lives that were asked to leave, and have.
func (d *Day) saved() (lives []*life) {
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			if l.Asked <= l.Left && l.Save > 0 {
				lives = append(lives, l)
			}
		}
	}
	return lives
}

// places returns the keys in a fixed order.
func places(m map[place]float64) []place {
	return slices.SortedFunc(maps.Keys(m), func(a, b place) int {
		return cmp.Or(a.gpus-b.gpus, strings.Compare(a.device, b.device))
	})
}

// at returns the rate of a job at a place; 0 if it cannot run there.
func (r *rates) at(j *job, p place) estimate {
	least := j.GPUs
	for _, k := range j.Shrinks {
		least = min(least, k.To)
	}
	if p.gpus < least || p.gpus > j.MaxGPUs {
		return estimate{}
	}
	if v, ok := r.seen[j.ID][p]; ok {
		return estimate{v, r.repeat / math.Sqrt(float64(max(r.lives[j.ID][p], 1))), measured}
	}
	return r.transferred(j, p, place{}, ofSameName)
}

// transferred estimates a rate from other places of the job: the median over other jobs that were at both places, else
// that of jobs of the same name at this one, else by the stated speeds of the types. Rates are proportional to the number of devices where nothing else is known.
// The place without is left out, and sources better than best are.
func (r *rates) transferred(j *job, p, without place, best rateSource) estimate {
	own := slices.DeleteFunc(places(r.seen[j.ID]), func(o place) bool { return o == without })
	for source := best; source <= ofOthers; source++ {
		var logs, absolute []float64
		for _, k := range r.day.Jobs {
			if k == j || (k.Name == j.Name) != (source == ofSameName) {
				continue
			}
			there, ok := r.seen[k.ID][p]
			if !ok {
				continue
			}
			absolute = append(absolute, math.Log(there))
			for _, o := range own {
				if here, ok := r.seen[k.ID][o]; ok {
					logs = append(logs, math.Log(r.seen[j.ID][o]*there/here))
				}
			}
		}
		if len(logs) == 0 && source == ofSameName {
			logs = absolute
		}
		if len(logs) > 0 {
			return estimate{math.Exp(stat.Median(logs)), r.transfer[source], source}
		}
	}
	if len(own) == 0 {
		return estimate{0, math.NaN(), assumed}
	}
	o := nearest(own, p)
	e := estimate{r.seen[j.ID][o] * float64(p.gpus) / float64(o.gpus), math.NaN(), assumed}
	if from, to := r.speed(o.device), r.speed(p.device); from > 0 && to > 0 && o.device != p.device {
		e.rate, e.source = e.rate*to/from, stated
	}
	return e
}

// nearest returns the place with the same type, else with the nearest number of devices.
func nearest(own []place, p place) place {
	best, cost := own[0], math.Inf(1)
	for _, o := range own {
		c := math.Abs(math.Log(float64(o.gpus) / float64(p.gpus)))
		if o.device != p.device {
			c += 10
		}
		if c < cost {
			best, cost = o, c
		}
	}
	return best
}

func (r *rates) speed(device string) float64 {
	for _, d := range r.day.Devices {
		if d.Name == device {
			return d.Speed
		}
	}
	return 0
}

// crossValidate returns the root mean square of the logarithm of estimated over seen rates, where each seen rate is
// estimated from a source as if it had not been seen; NaN where no rate can be.
func (r *rates) crossValidate(source rateSource) float64 {
	var squares []float64
	for _, j := range r.day.Jobs {
		for _, p := range places(r.seen[j.ID]) {
			if e := r.transferred(j, p, p, source); e.source == source {
				v := math.Log(e.rate / r.seen[j.ID][p])
				squares = append(squares, v*v)
			}
		}
	}
	return math.Sqrt(stat.Mean(squares))
}

// moves contains the seconds that starts and saves took.
type moves struct {
	samples [3][]sample
	means   [3]map[string]float64 // by kind of job
	all     [3]float64            // over all kinds of jobs; 0 without any
	// crowding is by how much a start takes longer, relative to one alone, for each other one at the same time.
	crowding struct{ value, sd float64 }
	assumed  bool // no save was measured
	// own is the median part of a start that is the start-up of the training itself: without the queue of an engine, and the agent.
	own float64
	// again is the mean of later starts relative to first ones of the same kinds of jobs.
	again float64
	// learned are the rates that the server measured in the first lives of jobs on their devices, one after the other, relative
	// to the last.
	learned [][]cluster.Measurement
}

// Indices of the costs of moves.
const (
	firstStart = iota // of a job
	laterStart
	saving
)

// sample is what one start or save of the day took.
type sample struct {
	of    *job
	life  *life
	taken float64
	// others is the mean number of other jobs that started during a start, and before that at its beginning.
	others, before float64
}

// alone returns what a start would have taken without others at the same time.
func (s *sample) alone(crowding float64) float64 { return s.taken / (1 + crowding*s.others) }

func newMoves(d *Day, r *rates) *moves {
	m := &moves{own: 1, again: 1}
	var own []float64
	add := func(cost int, j *job, l *life, taken float64) {
		if taken >= 0 && !j.silent {
			m.samples[cost] = append(m.samples[cost], sample{of: j, life: l, taken: taken})
		}
	}
	for _, j := range d.Jobs {
		before := map[place]bool{}
		for _, l := range j.Lives {
			p := place{l.Device, l.GPUs}
			if rate := r.seen[j.ID][p]; rate > 0 && len(l.Rates) > 0 && !before[p] {
				var learned []cluster.Measurement
				for _, v := range l.Rates {
					learned = append(learned, cluster.Measurement{After: v.After - l.Rates[0].After, PerSec: v.PerSec / rate})
				}
				m.learned = append(m.learned, learned)
			}
			before[p] = true
			start := laterStart
			if l.first {
				start = firstStart
			}
			add(start, j, l, l.Worked-l.Start)
			add(saving, j, l, l.Save)
			if v := l.Startup / (l.Worked - l.Start); v >= 0 {
				own = append(own, min(v, 1))
			}
		}
	}
	if len(own) > 0 {
		m.own = stat.Median(own)
	}
	m.crowd(d)
	if len(m.samples[laterStart]) < fewestLives { // first ones, without what is done once
		for _, s := range m.samples[firstStart] {
			if s.life.prepared > 0 {
				s.taken = max(s.taken-s.life.prepared, s.life.Startup)
			}
			m.samples[laterStart] = append(m.samples[laterStart], s)
		}
	}
	for cost := range m.samples {
		by := map[string][]float64{}
		for _, s := range m.samples[cost] {
			by[s.of.kind()] = append(by[s.of.kind()], s.alone(m.crowding.value))
		}
		m.means[cost], m.all[cost] = shrunk(by)
	}
	first, later := 0.0, 0.0
	for _, kind := range slices.Sorted(maps.Keys(m.means[laterStart])) { // sums depend on the order
		if v, ok := m.means[firstStart][kind]; ok {
			first, later = first+v, later+m.means[laterStart][kind]
		}
	}
	if first > 0 {
		m.again = later / first
	}
	m.assumed = len(m.samples[saving]) == 0
	return m
}

// crowd measures by how much starts at the same time slow each other, as they share the CPUs and the disk of a machine: of the
// starts of a kind of job, the slope over the number of others. Before the first evidence, a start is assumed to be slowed by
// none to all of the CPUs that another one may occupy.
func (m *moves) crowd(d *Day) {
	type edge struct {
		at float64
		n  int // of starts from then on: 1 more or less
		of *sample
	}
	var edges []edge
	kinds := map[string][]*sample{}
	for _, cost := range []int{firstStart, laterStart} {
		for i := range m.samples[cost] {
			if s := &m.samples[cost][i]; s.taken > 0 {
				edges = append(edges, edge{s.life.Start, 1, s}, edge{s.life.Start + s.taken, -1, s})
				kinds[s.of.kind()] = append(kinds[s.of.kind()], s)
			}
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	now, sum, last := 0, 0.0, 0.0 // starts, and their seconds so far
	for i, e := range edges {
		for k := i; e.n > 0 && k < len(edges) && edges[k].at == e.at; k++ { // at the same time
			e.of.before += float64(max(edges[k].n, 0))
		}
		e.of.before += float64((now - 1) * max(e.n, 0))
		sum += float64(now) * (e.at - last)
		now, last = now+e.n, e.at
		if e.of.others -= float64(e.n) * sum; e.n < 0 {
			e.of.others = max(0, e.of.others/e.of.taken-1)
		}
	}
	// The number at the beginning is the instrument: one that takes longer has fewer others in the end.
	zz, zx, zy, xx, xy, yy, mean, n, free := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0
	for _, key := range slices.Sorted(maps.Keys(kinds)) { // sums depend on the order
		took, others, before := 0.0, 0.0, 0.0
		for _, s := range kinds[key] {
			part := 1 / float64(len(kinds[key]))
			took, others, before = took+s.taken*part, others+s.others*part, before+s.before*part
		}
		for _, s := range kinds[key] {
			x, y, z := s.others-others, s.taken/took-1, s.before-before
			zz, zx, zy = zz+z*z, zx+z*x, zy+z*y
			xx, xy, yy, mean, n = xx+x*x, xy+x*y, yy+y*y, mean+s.others, n+1
		}
		free += float64(len(kinds[key]) - 1)
	}
	cpus := 0.0
	for _, t := range d.Devices {
		cpus += t.CPUs * float64(t.Count)
	}
	c := &m.crowding
	if cpus > 0 {
		c.value = 1 / (2 * cpus)
	}
	if c.sd = max(c.value, leastCrowding); free >= fewestLives && zx > 0 {
		slope := zy / zx // of the time relative to that with the mean number of others
		alone := 1 - slope*mean/n
		sd := math.Sqrt(max(yy-2*slope*xy+slope*slope*xx, 0)/free*zz) / zx / (alone * alone)
		if prior, seen := 1/(c.sd*c.sd), 1/(sd*sd); alone > 0 && sd > 0 {
			c.value, c.sd = (prior*c.value+seen*slope/alone)/(prior+seen), 1/math.Sqrt(prior+seen)
		}
	}
	c.value = max(c.value, 0)
}

// leastCrowding is the least standard deviation of the crowding that is assumed before any evidence.
const leastCrowding = 0.1

// mean returns the mean seconds of a start, from receiving devices to the first progress, or of a save, from the request to
// leave until the devices are free, of a job.
func (m *moves) mean(cost int, j *job) float64 {
	if v, ok := m.means[cost][j.kind()]; ok {
		return v
	}
	if v, ok := m.means[firstStart][j.kind()]; ok && cost == laterStart {
		return v * m.again
	}
	return m.all[cost]
}

// draw returns the costs of the n-th life of a job: those of lives of the day, relative to the means of their jobs. What was
// not measured is NaN. A start is one without others at the same time.
func (m *moves) draw(j *job, n int, crowding float64, random *rand.Rand) cluster.LifeCosts {
	nan := math.NaN()
	c := cluster.LifeCosts{Start: nan, Startup: nan, Keeps: nan, Save: nan, Measured: nan}
	start := laterStart
	if n == 1 {
		start = firstStart
	}
	if s, scale := m.pick(start, j, random); s != nil {
		scale *= s.alone(crowding) / s.taken
		c.Start, c.Startup, c.Measured = scale*s.taken, scale*s.life.Startup, max(0, s.life.Known-s.life.Worked)
		if n == 1 {
			c.Keeps = s.of.KeepsKnown - s.life.Start
		}
	}
	if s, scale := m.pick(saving, j, random); s != nil {
		c.Save, c.Useful = scale*s.taken, scale*s.life.useful
	}
	if n := len(m.learned); n > 0 {
		c.Rates = m.learned[random.IntN(n)]
	}
	return c
}

// pick returns one of the samples, and the cost of a job relative to that of the sampled job; nil without samples.
func (m *moves) pick(cost int, j *job, random *rand.Rand) (s *sample, scale float64) {
	if len(m.samples[cost]) == 0 {
		return nil, 1
	}
	s, scale = &m.samples[cost][random.IntN(len(m.samples[cost]))], 1
	if of := m.mean(cost, s.of); of > 0 {
		scale = m.mean(cost, j) / of
	}
	return s, scale
}

// kind names the jobs that cost and progress as a job does: those of the same command.
func (j *job) kind() string { return cmp.Or(j.Command, fmt.Sprint("job ", j.ID)) }

// within returns the variance of the values of one group, as the mean over all groups with several; NaN without any.
func within(groups map[string][]float64) float64 {
	var squares []float64
	for _, key := range slices.Sorted(maps.Keys(groups)) { // sums depend on the order
		mean, n := stat.Mean(groups[key]), float64(len(groups[key]))
		for _, x := range groups[key] {
			if n > 1 {
				squares = append(squares, (x-mean)*(x-mean)*n/(n-1))
			}
		}
	}
	return stat.Mean(squares)
}

// shrunk returns the means of groups, and their mean; 0 without groups. A group has few values: where those of one differ as
// those of different groups do, its mean is drawn towards that of all (James and Stein 1961, with moment estimates of both
// variances).
func shrunk(groups map[string][]float64) (means map[string]float64, all float64) {
	means = map[string]float64{}
	keys := slices.Sorted(maps.Keys(groups))
	for _, key := range keys {
		means[key] = stat.Mean(groups[key])
		all += means[key] / float64(len(keys))
	}
	inner, between := within(groups), 0.0 // variances; NaN: unknown
	for _, key := range keys {
		between += ((means[key]-all)*(means[key]-all) - inner/float64(len(groups[key]))) / float64(max(len(keys)-1, 1))
	}
	between = max(between, 0)
	for _, key := range keys {
		if noise := inner / float64(len(groups[key])); noise > 0 {
			means[key] = all + between/(between+noise)*(means[key]-all)
		}
	}
	return means, all
}

// about describes the estimates of rates for the notes of a report.
func (r *rates) about(n map[rateSource]int) []string {
	var out []string
	for s := ofSameName; s <= assumed; s++ {
		if n[s] > 0 {
			text := fmt.Sprintf("Rates of jobs on devices on which they never ran, %s: %d", s, n[s])
			if v, ok := r.transfer[s]; ok && !math.IsNaN(v) {
				text += fmt.Sprintf("; seen rates estimated in the same way are off by %.0f %% (root mean square)", 100*(math.Exp(v)-1))
			} else {
				text += ", with unknown error"
			}
			out = append(out, text+".")
		}
	}
	return out
}
