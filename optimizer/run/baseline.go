package run

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// compareWithBaseline predicts time and cost of the baseline for the work of this run, from the baseline's measured
// pace, and compares the run with it, probes and restarts included. Both are priced with the measured memory, so that
// memory that was never requested is no saving. The baseline waits for places as long as the run did, without charge.
// [journal.Record.Settle] decides which of the results a record may claim.
func (r *run) compareWithBaseline() {
	rec := r.rec
	if r.progressLost { // and with it the work for which both are compared
		rec.Baseline = nil
		return
	}
	first := r.FirstBaseline
	if !r.Left {
		first = r.measuredBaseline()
	}
	if first == nil || r.Progress.Done <= 0 {
		return
	}
	startup, rate := r.startup().P50, first.Hourly
	sec := sla.Interval{P5: r.inOneLaunch(startup, first.Unit.P5), P50: r.inOneLaunch(startup, first.Unit.P50), P95: r.inOneLaunch(startup, first.Unit.P95)}
	money := sla.Interval{P5: sec.P5 / 3600 * rate, P50: sec.P50 / 3600 * rate, P95: sec.P95 / 3600 * rate}
	sec = sla.Interval{P5: sec.P5 + r.QueuedS, P50: sec.P50 + r.QueuedS, P95: sec.P95 + r.QueuedS}
	b := &journal.Baseline{Allocation: first.Allocation, Seconds: sec, CostUSD: money, Throughput: first.Throughput, Compliance: journal.Unknown()}
	samples := math.NaN()
	if r.Progress.UnitSamples > 0 {
		samples = b.Throughput.P50
	}
	verdicts := sla.Evaluate(r.Config.SLA, map[sla.Objective]sla.Measure{
		sla.Time:       {Value: sec.P50, Final: true},
		sla.Cost:       {Value: money.P50, Final: true},
		sla.Throughput: {Value: samples, Final: true},
	})
	if share, ok := sla.Compliance(verdicts); ok {
		b.Compliance = journal.Number(share)
	}
	rec.Baseline = b
	rec.Comparison = compared(r.elapsed().Seconds(), r.spent(), b)
	rec.Comparison.ThroughputChangePct = journal.Number(100 * (float64(rec.Outcome.Throughput)/b.Throughput.P50 - 1))
	rec.Comparison.ComplianceChangePct = journal.Number(100 * (float64(rec.SLA.Compliance) - float64(b.Compliance)))
	switch change, steady := r.steadyMachine(); {
	case !r.sameConditions(r.sampler.machineCPUs):
		rec.Comparison.Basis = journal.BasisDisturbed
	case !steady:
		rec.Comparison.Basis = journal.BasisUnsteady
		if r.ended != nil {
			r.warnOnce(fmt.Sprintf("the speed changed by %.0f %% during the run, of the machine or of the training at one allocation: its parts are not compared", 100*change))
		}
	}
}

// inOneLaunch returns the seconds of the work of this run in one launch without changes, from the seconds of a start-up and of
// a unit.
func (r *run) inOneLaunch(startup, unit float64) float64 {
	seconds := startup + (r.Progress.Done-r.Progress.From)*unit
	if closing := r.closing(); closing != nil {
		seconds += float64(*closing)
	}
	return seconds
}

// firstBaseline is the measured baseline.
type firstBaseline struct {
	Allocation resources.Allocation `json:"allocation"`
	Unit       sla.Interval         `json:"unit_seconds"`
	Throughput sla.Interval         `json:"throughput"`
	Hourly     float64              `json:"usd_per_hour"`
}

// measuredBaseline returns the baseline on the present nodes; nil if its pace was not measured.
func (r *run) measuredBaseline() *firstBaseline {
	measured := false
	for _, s := range r.Progress.Segments {
		measured = measured || len(s.Blocks) > 0 && r.atBaseline(s)
	}
	for _, o := range r.recalled() {
		measured = measured || !o.LiveCut && o.Allocation.SameShape(r.Baseline)
	}
	if !measured || r.model == nil {
		return nil
	}
	return &firstBaseline{r.withMemory(r.Baseline), r.model.UnitSeconds(r.Baseline), r.model.Throughput(r.Baseline), float64(r.Rates.Hourly(r.withMemory(r.Baseline)))}
}

// keepBaseline keeps the baseline of the nodes on which the run began.
func (r *run) keepBaseline() {
	if !r.Left {
		r.FirstBaseline = r.measuredBaseline()
	}
}

// compared returns the relative change of time and cost against the baseline. Its intervals contain the uncertainty
// of the baseline only.
func compared(seconds, usd float64, b *journal.Baseline) journal.Comparison {
	name := "baseline (" + b.Allocation.String() + ")"
	change := func(now float64, before sla.Interval) *sla.Interval {
		pct := func(v float64) float64 { return 100 * (now/v - 1) }
		return &sla.Interval{P5: pct(before.P95), P50: pct(before.P50), P95: pct(before.P5)}
	}
	c := journal.Blank[journal.Comparison]()
	c.Against, c.SecondsChange, c.CostChange = &name, change(seconds, b.Seconds), change(usd, b.CostUSD)
	c.SecondsChangePct, c.CostChangePct = journal.Number(c.SecondsChange.P50), journal.Number(c.CostChange.P50)
	c.Quality = string(judged(*c.SecondsChange, *c.CostChange))
	return c
}

// judged returns the judgement of the trade of time against cost that holds everywhere within the two intervals of
// change, in percent; Undecided if the ends are judged differently. Time and cost move together at a fixed price, so
// the lower ends form a pair, and so do the upper ends.
func judged(seconds, usd sla.Interval) cost.Quality {
	at := func(c, t float64) cost.Quality { return cost.Judge(1+c/100, 1+t/100) }
	low, high := at(usd.P5, seconds.P5), at(usd.P95, seconds.P95)
	if low != high {
		return cost.Undecided
	}
	return low
}

// foreignTolerance is the largest difference in load by other programs, in CPUs, between two comparable measurements.
const foreignTolerance = 0.5

// sameConditions reports whether other programs loaded the machine about equally during the measurements of the
// baseline and of the other allocations, or left the job its CPUs in both cases.
func (f *facts) sameConditions(machineCPUs float64) bool {
	var foreign, samples, short [2]float64
	for _, s := range f.Progress.Segments {
		k := 1
		if f.atBaseline(s) {
			k = 0
		}
		if s.CPUN > 0 && len(s.Blocks) > 0 {
			foreign[k], samples[k] = foreign[k]+s.Foreign, samples[k]+float64(s.CPUN)
			free := machineCPUs - s.Foreign/float64(s.CPUN)
			short[k] = math.Max(short[k], s.cpus()-foreignSlack-free)
		}
	}
	if samples[0] == 0 || samples[1] == 0 || short[0] <= 0 && short[1] <= 0 {
		return true
	}
	return math.Abs(foreign[0]/samples[0]-foreign[1]/samples[1]) <= foreignTolerance
}

// foreignSlack is the number of CPUs by which the free CPUs may fall short of the allocation before the job counts as
// disturbed.
const foreignSlack = 0.25

// speedTolerance and paceTolerance are the largest relative changes between two comparable measurements: of the machine's
// speed, and of the training's pace at one allocation.
const speedTolerance, paceTolerance = 0.05, 0.1

// maxSpeeds bounds the number of measurements of the machine's speed in a run.
const maxSpeeds = 64

// measureSpeed begins to measure the speed of this machine, if it runs the job, while no job runs: before each launch
// and after the last one. The returned function waits for the result and records it.
func (r *run) measureSpeed() (record func()) {
	if r.Config.Planner == "static" || r.Config.elsewhere() || len(r.Speeds) >= maxSpeeds {
		return func() {}
	}
	speed := make(chan float64, 1)
	go func() {
		defer r.watchdog.raise()
		defer close(speed)
		speed <- r.Speed()
	}()
	return func() {
		if v, ok := <-speed; ok {
			r.Speeds = append(r.Speeds, v)
		}
	}
}

func (f *facts) atBaseline(s *Segment) bool { return !s.LiveCut && s.Allocation.SameShape(f.Baseline) }

// steadyMachine reports whether the baseline and the other allocations were measured under equal conditions: the speeds
// of the machine before and after them agree, and so do the halves of each segment; or segments at the baseline enclose
// the others. It returns the largest relative change.
func (f *facts) steadyMachine() (change float64, steady bool) {
	var timed []*Segment
	pace := 0.0
	for _, s := range f.Progress.Segments {
		if len(s.Blocks) > 0 {
			timed = append(timed, s)
		}
		if b := s.Blocks[s.warmUp():]; len(b) >= 2*settledBlocks {
			pace = math.Max(pace, math.Expm1(math.Abs(math.Log(stat.Median(b[:len(b)/2])/stat.Median(b[len(b)/2:])))))
		}
	}
	if len(f.Speeds) > 1 {
		change = slices.Max(f.Speeds)/slices.Min(f.Speeds) - 1
	}
	steady = change <= speedTolerance && pace <= paceTolerance
	return math.Max(change, pace), steady || len(timed) > 0 && f.atBaseline(timed[0]) && f.atBaseline(timed[len(timed)-1])
}

// cpuSpeed returns the speed of one CPU in MB/s of a hash, the best of many short parts, so that other programs disturb
// it little.
func cpuSpeed() float64 {
	data, best := make([]byte, 64<<10), 0.0
	for began := time.Now(); time.Since(began) < 15*time.Millisecond; {
		part := time.Now()
		sum := sha256.Sum256(data)
		best = math.Max(best, float64(len(data))/1e6/time.Since(part).Seconds())
		data[0] = sum[0]
	}
	return best
}

// throughputUnit returns the factor from units of work to the unit of throughput, and that unit: samples/s if the
// samples per unit are known, otherwise steps/s or epochs/s; empty if the unit of work is unknown.
func (p *Progress) throughputUnit() (per float64, unit string) {
	switch {
	case p.UnitSamples > 0:
		return p.UnitSamples, journal.SamplesPerSecond
	case p.Unit == "":
		return math.NaN(), ""
	}
	return 1, p.Unit + "s/s"
}

// throughput returns the throughput of all work between the ends of the first and of the last step of each launch,
// with its unit. Pauses between steps for evaluation and saving count; time after the last step does not. Without an
// observer, log rows replace the steps. NaN if nothing was timed.
func (p *Progress) throughput() (rate float64, unit string) {
	var units, seconds float64
	var counted countedSteps
	for _, s := range p.Segments {
		units, seconds = units+s.Units, seconds+s.Timed
		counted.add(s.Counted)
	}
	per, unit := p.throughputUnit()
	switch {
	case counted.Samples > 0 && p.UnitSamples > 0:
		return counted.Samples / counted.Seconds, unit
	case counted.Steps > 0 && p.Unit == "step":
		return counted.Steps / counted.Seconds * per, unit
	case counted.Steps > 0 && p.UnitSteps > 0:
		return counted.Steps / counted.Seconds / p.UnitSteps * per, unit
	case seconds == 0:
		return math.NaN(), unit
	}
	return units * per / seconds, unit
}

// knownTotal returns the total amount of work, 0 if unknown. unit is the expected unit of work, used while the log
// has not shown it: a number of epochs does not apply to a job that counts steps.
func (p *Progress) knownTotal(unit string) float64 {
	if p.Total > 0 {
		return p.Total
	}
	return p.Hints[cmp.Or(p.Unit, unit)].Units
}
