package run

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// projection predicts the end of the run; its fields are nil if it cannot be predicted.
type projection struct {
	seconds, cost *sla.Interval
}

// project predicts finish and cost at the current allocation, and evaluates the SLA.
func (r *run) project() {
	r.projected.seconds, r.projected.cost = nil, nil
	r.safely(r.projectToEnd)
	r.verdicts = sla.Evaluate(r.Config.SLA, r.measures(false))
	r.tellLimits(false)
}

// projectToEnd sets the projection. It refits the model first if that is due and the planning budget allows it.
func (r *run) projectToEnd() {
	if r.refitDue() && r.mayPlan() && !(r.elsewhere.known && r.elsewhereDue()) { // whose turn it is
		r.runPlanning(r.refit)
		r.modelAt = r.Clock.Monotonic()
	}
	if rest, ok := r.Progress.Remaining(); ok && r.model != nil {
		r.projected.seconds, r.projected.cost = r.projectFrom(rest)
	}
}

// refitEvery is the age from which a model is refitted to any new row.
const refitEvery = 15 * time.Second

// refitDue reports whether the rows since the last fit may change the model: a fifth more, or any after refitEvery.
func (r *run) refitDue() bool {
	rows := r.Progress.Rows - r.modelRows
	return rows > 0 && (rows >= r.modelRows/5 || r.Clock.Monotonic()-r.modelAt >= refitEvery)
}

// projectFrom projects the elapsed seconds and the cost in USD at the end of the run, given the remaining units of
// work, from the model's draws at the current allocation.
func (r *run) projectFrom(rest float64) (*sla.Interval, *sla.Interval) {
	now := r.elapsed()
	from := now
	if seg := r.Progress.Current(); seg != nil && seg.LastRowAt > 0 && r.job != nil {
		from = seg.LastRowAt // start of the unit in progress
	}
	rate, spent := float64(r.Rates.Hourly(r.Current)), r.spent()
	if rest == 0 && r.Progress.reachedAt > 0 { // the work after the last unit has begun
		from = r.Progress.reachedAt
	}
	draws := slices.Clone(r.model.Draws(r.Current))
	if seg := r.Progress.Current(); seg != nil && seg.Allocation.Same(r.Current) {
		seg.continueSlow(draws, r.Progress.Done, rest)
	}
	for i, d := range draws {
		draws[i] = from.Seconds() + rest*d
	}
	sec := overdue(r.ending().Extend(sla.Quantiles(draws), now.Seconds()), now.Seconds())
	money := func(s float64) float64 { return math.Max(0, spent+(s-now.Seconds())/3600*rate) }
	return &sec, &sla.Interval{P5: money(sec.P5), P50: money(sec.P50), P95: money(sec.P95)}
}

// slowdown returns the number of newest blocks that are all slower than the median of those before them by more than
// warmUpFactor, if they are more than any such series before: another program has started, a device is throttled, samples have
// become longer. A series of fewer than settledBlocks blocks is a pause.
func (s *Segment) slowdown() (n int) {
	steady, least := s.Blocks[s.warmUp():], math.Inf(1)
	for k := len(steady) - 1; k >= settledBlocks; k-- {
		if least = min(least, steady[k]); least <= warmUpFactor*slices.Min(steady[:k]) {
			break
		}
		if least > warmUpFactor*stat.Median(steady[:k]) {
			n = len(steady) - k
		}
	}
	if n < settledBlocks {
		return 0
	}
	before := steady[:len(steady)-n]
	slow, usual := 0, warmUpFactor*stat.Median(before)
	for _, b := range before {
		if slow++; b <= usual {
			slow = 0
		}
		if slow >= n {
			return 0
		}
	}
	return n
}

// continueSlow sets the draws of the mean seconds per unit over the rest of the work if the training has become slower. What has lasted n units lasts as long again with even odds: x more units with probability
// n/(n+x), as for an unknown beginning and end (J. R. Gott, Nature 363, 1993).
func (s *Segment) continueSlow(draws []float64, done, rest float64) {
	slow := s.slowdown()
	switch {
	case slow == 0:
		s.SlowFrom = 0
		return
	case s.SlowFrom == 0: // later, older blocks may have been merged
		s.SlowFrom = max(s.StartDone, done-float64(slow)*s.BlockUnits)
	}
	steady := s.Blocks[s.warmUp():]
	before, since := stat.Mean(steady[:len(steady)-slow]), stat.Mean(steady[len(steady)-slow:])
	lasted := done - s.SlowFrom
	if lasted <= 0 || rest <= 0 {
		return
	}
	for i := range draws {
		_, odds := math.Modf(float64(i+1) * math.Phi) // evenly distributed
		share := math.Min(1, lasted*(1/odds-1)/rest)
		draws[i] = before + share*(since-before)
	}
}

// overdue returns an interval of the end of a run at a time at which it has not ended. Work that takes longer than predicted
// has no known length: half of the delay so far is expected, up to twice of it possible.
func overdue(end sla.Interval, now float64) sla.Interval {
	late := math.Max(0, now-end.P50)
	return sla.Interval{P5: math.Max(end.P5, now), P50: math.Max(end.P50, now+late/2), P95: math.Max(end.P95, now+2*late)}
}

// Terms that the prediction of the whole run adds to that of its units of work. The model represents the scatter
// between observed units and segments; a short measurement shows neither the slow drift of a machine nor the end of
// the process.
const (
	driftShare  = 0.03 // of the remaining time: 5 and 95 % quantiles of slow drift
	loadChange  = 0.5  // of the other programs' load: 5 and 95 % quantiles of its change
	endShare    = 0.12 // of the start-up: median time from the last unit of work to the exit (final save, interpreter exit)
	endShareMax = 0.6  // its 95 % quantile: evaluation, export, flushing of metrics
	endLeast    = 0.3  // seconds added to that quantile, for polling and for a process without start-up

	closingSpread = 0.6 // relative error of the observer's estimate of the work after the last epoch

	// 95 % quantiles of work that no measured unit contains, as shares of an epoch: a final test, and evaluation and saving
	// after each epoch, before the first one of them is measured.
	finalShare   = 0.5
	betweenShare = 0.25
)

// ending returns what the run needs after its last unit of work: as in earlier runs, otherwise what the
// framework expects and a share of the start-up.
func (r *run) ending() plan.Ending {
	if len(r.ClosingS) > 0 {
		exit := plan.MeasuredInterval(r.ClosingS)
		exit.P95 += endLeast
		return plan.Ending{Drift: driftShare, Load: r.loadDrift(), Exit: exit}
	}
	startup, closing := r.startup().P50, 0.0
	if r.observer != nil {
		closing = r.observer.facts.Closing.Seconds()
	}
	return plan.Ending{Drift: driftShare, Load: r.loadDrift(), Unseen: r.Progress.unseen(), Exit: sla.Interval{P5: closing * (1 - closingSpread),
		P50: closing + endShare*startup, P95: closing*(1+closingSpread) + endShareMax*startup + endLeast}}
}

// unseen returns plan.Ending.Unseen of a training in epochs; 0 without a pace or a total.
func (p *Progress) unseen() float64 {
	epoch, rest := p.pace().UnitSeconds, p.Total-p.Done
	if p.Unit != "epoch" || rest < 0 || math.IsNaN(epoch) {
		return 0
	}
	between := func(s *Segment) bool { return s.Reached > math.Max(math.Ceil(s.FirstDone), 1) }
	if slices.ContainsFunc(p.Segments, between) {
		return finalShare * epoch
	}
	return (finalShare + betweenShare*rest) * epoch
}

// loadDrift returns the relative change of pace over the remaining time that a change of the load by other programs
// causes: that of the latest measured segment, less what idle CPUs absorb.
func (r *run) loadDrift() float64 {
	if r.sampler == nil || r.sampler.machineCPUs <= 0 {
		return 0
	}
	machine := r.sampler.machineCPUs
	for _, s := range slices.Backward(r.Progress.Segments) {
		if s.CPUN > 0 {
			foreign, own := mean(s.Foreign, s.CPUN), mean(s.CPUSum, s.CPUN)/100*s.cpus()
			idle := math.Max(0, machine-foreign-own)
			return math.Max(0, loadChange*math.Min(foreign, machine)-idle) / machine
		}
	}
	return 0
}

// measures returns the values on which the SLA is evaluated.
func (r *run) measures(final bool) map[sla.Objective]sla.Measure {
	var cpuSum, gpuSum float64
	var cpuN, gpuN int
	for _, s := range r.Progress.Segments {
		cpuSum, cpuN = cpuSum+s.CPUSum, cpuN+s.CPUN
		gpuSum, gpuN = gpuSum+s.GPUSum, gpuN+s.GPUN
	}
	peak, bound := r.Progress.peakMemory()
	if limit := r.Config.SLA.MemoryMaxGiB; final && peak <= limit && bound > limit {
		peak = math.NaN() // it may have been higher
	}
	m := map[sla.Objective]sla.Measure{
		sla.Time:       {Value: r.elapsed().Seconds(), Projected: r.projected.seconds, Final: final},
		sla.Cost:       {Value: r.spent(), Projected: r.projected.cost, Final: final},
		sla.Throughput: {Value: r.throughput(), Final: final},
		sla.Memory:     {Value: peak, Final: final},
		sla.GPUUtil:    {Value: mean(gpuSum, gpuN), Final: final},
		sla.CPUUtil:    {Value: mean(cpuSum, cpuN), Final: final},
	}
	return m
}

// throughput returns the samples per second of the timed work of the whole run; NaN if the samples are unknown.
func (r *run) throughput() float64 {
	if r.Progress.UnitSamples == 0 {
		return math.NaN()
	}
	rate, _ := r.Progress.throughput()
	return rate
}

// mean returns the mean of utilization samples; NaN if there are no samples.
func mean(sum float64, n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// forecastWithin limits the time for a forecast before a launch.
const forecastWithin = 5 * time.Second

// forecast records when the engine would start a job at an allocation, and with it the end of the run, its cost and the
// chance to keep the deadline. words describes the start at the first place; empty without a forecast.
func (r *run) forecast(ctx context.Context, a resources.Allocation, others int, seconds, costs *sla.Interval) (words string) {
	if r.site.Forecast == nil {
		return ""
	}
	var runs time.Duration
	if seconds != nil {
		runs = time.Duration(seconds.P95 * float64(time.Second))
	}
	list, err := r.site.Forecast(ctx, r.enforced(a), runs, others) // memory follows at each place
	if err != nil {
		r.event(Info, "start not predicted: %v", err)
		return ""
	}
	r.rec.Starts = nil
	for _, f := range list {
		rates := r.Rates
		if f.Rates != nil {
			rates = *f.Rates
		}
		paid := resources.Allocation{GPUs: f.Place.GPUs, CPUs: f.Place.CPUs, Memory: f.Place.Memory}
		s := journal.Start{Place: f.Place, Wait: f.Wait, ByLimits: journal.Number(f.ByLimits), Ahead: f.Ahead, Observed: f.Observed,
			HourlyUSD: journal.Number(rates.Hourly(paid)), DeadlineMet: journal.Unknown()}
		if f.Same && seconds != nil {
			s.End, s.CostUSD = addIntervals(f.Wait, *seconds), costs
			if d := r.Config.SLA.TimeMax.Seconds(); d > 0 {
				s.DeadlineMet = journal.Number(chanceWithin(f.Wait, *seconds, d))
			}
		}
		r.rec.Starts = append(r.rec.Starts, s)
	}
	return list[0].Words // the chosen place is always predicted
}

// forecastFirst predicts the start of the first launch, so that the prediction can be compared with the start. With a lease there is
// nothing to predict: its devices are free.
func (r *run) forecastFirst(ctx context.Context, a resources.Allocation) {
	if r.Lease != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forecastWithin)
	defer cancel()
	var seconds, costs *sla.Interval
	if p := r.rec.Plan; p != nil && p.Prediction != nil {
		seconds, costs = &p.Prediction.Seconds, &p.Prediction.CostUSD
	}
	if words := r.forecast(ctx, a, 0, seconds, costs); words != "" {
		r.event(Info, "predicted: %s", words)
	}
}

// quantileOf returns a quantile of the distribution that an interval stands for: linear between its three values, with a
// short lower and a longer upper tail.
func quantileOf(v sla.Interval, p float64) float64 {
	points := [][2]float64{{0, math.Max(0, v.P5-(v.P50-v.P5)*0.1)}, {0.05, v.P5}, {0.5, v.P50}, {0.95, v.P95}, {1, v.P95 + (v.P95-v.P50)*0.5}}
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; p <= b[0] {
			return a[1] + (b[1]-a[1])*(p-a[0])/(b[0]-a[0])
		}
	}
	return points[len(points)-1][1]
}

// sums returns the sorted sums of two independent distributions at a grid of quantiles.
func sums(a, b sla.Interval) []float64 {
	const n = 40
	out := make([]float64, 0, n*n)
	for i := range n {
		for j := range n {
			out = append(out, quantileOf(a, (float64(i)+0.5)/n)+quantileOf(b, (float64(j)+0.5)/n))
		}
	}
	slices.Sort(out)
	return out
}

func addIntervals(a, b sla.Interval) *sla.Interval {
	s := sums(a, b)
	at := func(p float64) float64 { return s[int(p*float64(len(s)-1)+0.5)] }
	return &sla.Interval{P5: at(0.05), P50: at(0.5), P95: at(0.95)}
}

// chanceWithin returns the probability that two independent times together take at most limit seconds.
func chanceWithin(a, b sla.Interval, limit float64) float64 {
	s := sums(a, b)
	n, _ := slices.BinarySearch(s, limit)
	return float64(n) / float64(len(s))
}

// Remaining returns the remaining units of work; ok is false if the total is unknown.
func (p *Progress) Remaining() (float64, bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return math.Max(0, p.Total-p.Done), true
}

// Observations returns those of all timed segments, oldest first. Segments of the same allocation stay separate: each
// has its own drift.
func (p *Progress) Observations() []perf.Observation {
	var out []perf.Observation
	for _, s := range p.Segments {
		if o, ok := s.Observation(p.UnitSamples); ok {
			out = append(out, o)
		}
	}
	return out
}

// Trials returns the segments in the form required by the planner's rules for moves.
func (p *Progress) Trials() []plan.Trial {
	out := make([]plan.Trial, len(p.Segments))
	for i, s := range p.Segments {
		out[i] = plan.Trial{Allocation: s.Allocation, UnitSeconds: s.Blocks, Units: s.Units}
	}
	return out
}

// RestartSeconds returns the measured seconds of each restart: from the request to exit, or from the last row if the
// job first finished its unit, to the first row after it, less the work of this row (the rest of the interrupted
// unit). Work that was lost and done again counts as part of the restart.
func (p *Progress) RestartSeconds() []float64 {
	var out []float64
	for i := range p.Segments {
		if took, ok := p.restartInto(i); ok {
			out = append(out, took)
		}
	}
	return out
}

// restartInto returns the seconds of the requested restart that began a segment; false if none did or it was not timed.
func (p *Progress) restartInto(i int) (seconds float64, ok bool) {
	s := p.Segments[i]
	if s.RestartFrom == 0 || s.FirstRowAt == 0 || i == 0 {
		return 0, false
	}
	before := p.Segments[i-1]
	if i > 1 && !before.Launch && before.FirstRowAt == 0 { // the measurement of another job
		before = p.Segments[i-2]
	}
	if len(before.timed()) == 0 || len(s.timed()) == 0 || before.LastRowAt == 0 {
		return 0, false
	}
	from := max(s.RestartFrom, before.LastRowAt)
	part := math.Min(1, (from-before.LastRowAt).Seconds()/stat.Median(before.timed()))
	units := 1.0
	if !whole(s.FirstDone) || !whole(before.Reached) {
		units = math.Max(0, s.FirstDone-before.Reached)
	}
	return math.Max(0, (s.FirstRowAt-from).Seconds()-math.Max(0, units-part)*stat.Median(s.timed())), true
}

// overhead returns the seconds that the launches after the first took until work resumed, and their cost; NaN if one of
// them is unknown. After a failure they begin with the launch: the pause before it costs nothing. A launch without a row
// has resumed no work.
func (p *Progress) overhead(now time.Duration) (seconds, usd float64) {
	pace, launches := math.NaN(), 0
	for i, s := range p.Segments {
		if blocks := s.timed(); len(blocks) > 0 { // otherwise that of an earlier segment
			pace = stat.Median(blocks)
		}
		if s.Launch {
			launches++
		}
		if !s.Launch || launches == 1 {
			continue
		}
		end := cmp.Or(s.EndedAt, now)
		took, timed := p.restartInto(i)
		if !timed {
			took = (s.LaunchedAt - cmp.Or(s.RestartFrom, s.LaunchedAt)).Seconds()
			if s.FirstRowAt > 0 {
				took += s.startup(pace)
			} else {
				took += (end - s.LaunchedAt).Seconds()
			}
		}
		if math.IsNaN(took) {
			return took, took
		}
		seconds += took
		if began := s.began(); end > began {
			usd += max(0, took-(began-s.LaunchedAt).Seconds()) * s.Spent / (end - began).Seconds()
		}
	}
	return seconds, usd
}

// timed returns the blocks of a segment, also after the run has left its kind of node.
func (s *Segment) timed() []float64 {
	if len(s.Blocks) == 0 {
		return s.Left
	}
	return s.Blocks
}

// startup returns the seconds from the launch to the first row, less the part of a unit done by then.
func (s *Segment) startup(unitSeconds float64) float64 {
	part := 1.0
	if !whole(s.FirstDone) || s.FirstDone == 0 {
		part = s.FirstDone - math.Floor(s.FirstDone)
	}
	return math.Max(0, (s.FirstRowAt-s.LaunchedAt).Seconds()-part*unitSeconds)
}

// whole reports whether a position is at the end of a unit; a source that counts within units reports others.
func whole(position float64) bool { return position == math.Floor(position) }

// closing returns the seconds from the last unit of work of a finished run to its end; nil if no row dates that unit.
func (r *run) closing() *journal.Number {
	p, s := &r.Progress, r.Progress.Current()
	if r.ended == nil || r.ended.state != journal.Done || s == nil || p.reachedAt == 0 || p.Backwards > 0 || s.Reached != p.Done || p.Total > p.Done {
		return nil
	}
	seconds := journal.Number(math.Max(0, (r.endedAt - p.reachedAt).Seconds()))
	return &seconds
}

// StartupSeconds returns the measured seconds from each launch to its first row, less the work of this row at its pace:
// process start, imports, data loading, warm-up.
func (p *Progress) StartupSeconds() []float64 {
	var out []float64
	for _, s := range p.Segments {
		if s.Launch && s.RestartFrom == 0 && s.FirstRowAt > 0 && len(s.timed()) > 0 {
			out = append(out, s.startup(stat.Median(s.timed())))
		}
	}
	return out
}
