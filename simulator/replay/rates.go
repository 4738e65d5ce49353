package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/internal/stat"
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
	// repeat is the standard deviation of the logarithm of the rate of a job between its lives on the same devices;
	// NaN without such lives. transfer is that of rates estimated from other jobs, by source.
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
	r.leave()
	var within []float64
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
			}
		}
		for p := range steps {
			r.seen[j.ID][p] = steps[p] / time[p]
		}
		for p, l := range logs {
			r.seen[j.ID][p] = math.Exp(l[len(l)-1])
		}
		for _, p := range places(r.seen[j.ID]) {
			mean, n := stat.Mean(logs[p]), float64(len(logs[p]))
			for _, v := range logs[p] {
				if n > 1 {
					within = append(within, (v-mean)*(v-mean)*n/(n-1))
				}
			}
		}
	}
	for _, j := range d.Jobs {
		r.fit(j)
	}
	for _, j := range d.Jobs {
		r.fitUnmeasured(j)
	}
	r.repeat = math.Sqrt(stat.Mean(within))
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
// policies have more lives or fewer. It is by how much the time that the steps of last lives do not explain exceeds that of
// other lives, median against median; that of the others is the part of starts that the server does not measure, which would
// make lives without a measured rate appear slow.
func (r *rates) leave() {
	var last, others []float64
	for _, j := range r.day.Jobs {
		for i, l := range j.Lives {
			done, took, ok := l.progress()
			if !ok || !(l.Seen > 0) {
				continue
			}
			if rest := took - done/l.Seen; j.ended() && i == len(j.Lives)-1 {
				last = append(last, rest)
			} else {
				others = append(others, rest)
			}
		}
	}
	if min(len(last), len(others)) < fewestLives {
		return
	}
	r.late = max(0, stat.Median(others))
	r.exit = max(0, stat.Median(last)-r.late)
	for _, j := range r.day.Jobs {
		if n := len(j.Lives); n > 0 && j.ended() {
			l := j.Lives[n-1]
			l.exit = max(0, min(r.exit, (l.until()-l.Start)/2))
		}
	}
}

const fewestLives = 5 // of each kind

// unexplained is the share of a life that may be spent on what neither the server's start-up nor its rate contains, such
// as the start of the agent and the exit of the script. If it is more, the job was slower than its rate: it also
// evaluated, or saved.
const unexplained = 0.1

// fit sets the times at which the lives of a job began to make progress so that its steps at the measured rate fill the
// rest of each life; where that cannot be, the rate is that of the whole lives.
func (r *rates) fit(j *Job) {
	for _, l := range j.Lives { // a life is no shorter than its steps at the rate
		p := place{l.Device, l.GPUs}
		if rate, least := r.seen[j.ID][p], (l.Done-l.Before)/(l.until()-l.Start); rate > 0 && least > rate && least < rate*(1+unexplained) {
			r.seen[j.ID][p] = least
		}
	}
	for _, l := range j.Lives {
		p := place{l.Device, l.GPUs}
		done, took, ok := l.progress()
		rate := r.seen[j.ID][p]
		if math.IsNaN(l.Worked) && rate > 0 && l.Done > l.Before { // it left before its rate was measured
			l.Worked = max(l.Start, l.until()-(l.Done-l.Before)/rate)
			continue
		}
		if !ok || !(rate > 0) {
			continue
		}
		rest := took - done/rate
		if rest > max(3, unexplained*took) {
			l.slow = true
			continue
		}
		l.Worked = max(l.Start, l.Worked+rest)
	}
	steps, time := map[place]float64{}, map[place]float64{}
	slow := map[place]bool{}
	for _, l := range j.Lives {
		if done, took, ok := l.progress(); ok {
			p := place{l.Device, l.GPUs}
			steps[p] += done
			time[p] += took
			slow[p] = slow[p] || l.slow
		}
	}
	for p := range steps {
		if slow[p] {
			r.seen[j.ID][p] = steps[p] / time[p]
		}
	}
}

// fitUnmeasured gives the lives that ended before anything was measured the rate of similar jobs, or the one that fills them.
func (r *rates) fitUnmeasured(j *Job) {
	for _, l := range j.Lives {
		p := place{l.Device, l.GPUs}
		steps, whole := l.Done-l.Before, l.until()-l.Start
		if !math.IsNaN(l.Worked) || !(steps > 0 && whole > 0) {
			continue
		}
		rate := r.seen[j.ID][p]
		if !(rate > 0) {
			rate = max(r.at(j, p).rate, steps/whole)
			r.seen[j.ID][p], r.lives[j.ID][p] = rate, 1
		}
		l.Worked = max(l.Start, l.until()-steps/rate)
	}
}

// progress returns the steps of a life and the seconds in which it made them, or would have made them without another job on
// its devices. ok is false if it made none.
func (l *life) progress() (steps, seconds float64, ok bool) {
	steps, seconds = l.Done-l.Before, l.until()-l.Worked-l.lostBeside(l.until())
	return steps, seconds, steps > 0 && seconds > 0
}

// until returns the time at which a life was asked to leave, or had done its last step.
func (l *life) until() float64 {
	if math.IsNaN(l.Asked) {
		return l.Left - l.exit
	}
	return min(l.Left-l.exit, l.Asked)
}

// places returns the keys in a fixed order.
func places(m map[place]float64) []place {
	out := make([]place, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b place) int {
		if a.gpus != b.gpus {
			return a.gpus - b.gpus
		}
		return strings.Compare(a.device, b.device)
	})
	return out
}

// at returns the rate of a job at a place; 0 if it cannot run there.
func (r *rates) at(j *Job, p place) estimate {
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
func (r *rates) transferred(j *Job, p, without place, best rateSource) estimate {
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
	first, again, save map[int]float64 // by job
	all                [3]float64      // over all jobs, for jobs without measurements; 0 without any
	assumed            bool            // no save was measured: one is assumed to take as long as a start
	spread             float64         // standard deviation of the logarithm of the seconds of later starts of one job; NaN: unknown
}

func newMoves(d *Day) *moves {
	m := &moves{}
	samples := [3]map[int][]float64{{}, {}, {}}
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			if start := l.Worked - l.Start; start >= 0 {
				k := 1
				if l.first {
					k = 0
				}
				samples[k][j.ID] = append(samples[k][j.ID], start)
			}
			if l.Save >= 0 {
				samples[2][j.ID] = append(samples[2][j.ID], l.Save)
			}
		}
	}
	var within [3]float64
	for k, into := range []*map[int]float64{&m.first, &m.again, &m.save} {
		*into, m.all[k], within[k] = shrunk(d.Jobs, samples[k])
	}
	if len(m.again) == 0 {
		m.all[1] = m.all[0]
	}
	if m.assumed = len(m.save) == 0; m.assumed { // as the live scheduler assumes it
		m.all[2] = m.all[1]
	}
	m.spread = within[1]
	if v := within[1]; v > 0 {
		m.spread = math.Sqrt(math.Log1p(v * v))
	}
	return m
}

// shrunk returns the means of the samples of each job and of all jobs. A job has few samples: where those of one job
// differ as those of different jobs do, its mean is drawn towards that of all (James and Stein 1961, with moment
// estimates of both variances). within is the standard deviation of the samples of one job relative to the mean of all;
// NaN: no job has two.
func shrunk(jobs []*Job, samples map[int][]float64) (own map[int]float64, all, within float64) {
	own = map[int]float64{}
	var means, squares, sizes []float64
	var ids []int
	for _, j := range jobs {
		v := samples[j.ID]
		if len(v) == 0 {
			continue
		}
		mean, n := stat.Mean(v), float64(len(v))
		ids, means, sizes = append(ids, j.ID), append(means, mean), append(sizes, n)
		for _, x := range v {
			if n > 1 {
				squares = append(squares, (x-mean)*(x-mean)*n/(n-1))
			}
		}
	}
	if len(means) == 0 {
		return own, 0, math.NaN()
	}
	inner, between := stat.Mean(squares), 0.0 // variances; NaN: unknown
	all = stat.Mean(means)
	for i, v := range means {
		between += ((v-all)*(v-all) - inner/sizes[i]) / float64(max(len(means)-1, 1))
	}
	between = max(between, 0)
	for i, v := range means {
		keep := 1.0
		if inner > 0 {
			keep = between / (between + inner/sizes[i])
		}
		own[ids[i]] = all + keep*(v-all)
	}
	return own, all, math.Sqrt(inner) / all
}

// start returns the seconds from receiving devices to the first progress, save those from the request to leave until
// the devices are free.
func (m *moves) start(job int, first bool) float64 {
	own, k := m.again, 1
	if first {
		own, k = m.first, 0
	}
	if v, ok := own[job]; ok {
		return v
	}
	if v, ok := m.first[job]; ok && !first {
		return v
	}
	return m.all[k]
}

func (m *moves) leave(job int) float64 {
	if v, ok := m.save[job]; ok {
		return v
	}
	return m.all[2]
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
