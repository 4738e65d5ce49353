package run

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/internal/wording"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// earlier is what earlier runs say about this one.
type earlier struct {
	priors       []*prior // sources of measurements: similar runs, then runs of this very training
	recalledUnit string   // unit of the recalled observations: "epoch" or "step"
	recurrences  []plan.Recurrence
	widen        float64 // factor on the width of intervals, from the coverage of past predictions; 0 means 1
}

// recall finds earlier runs of the same and of similar trainings, and offline logs; it derives priors, total,
// start-up times and memory from them and fits the model.
func (r *run) recall() {
	r.planner() // so that a damaged agent file is reported at the start
	key := history.Key{ScriptSHA256: r.ins.SHA256, Likeness: r.ins.Likeness, FilesDigest: r.command.FilesDigest, Script: r.ins.Path, Command: launch.Redact(r.Argv), Dir: r.Config.Dir, Shared: r.Config.Shared, Handed: handed(r.Config, r.Environ), CPUs: r.Host.CPUs, CPUModel: r.Host.CPUModel, Described: r.Host.Described, Nodes: r.Host.Nodes}
	if file, err := os.Stat(r.ins.Path); err == nil && r.ins.SHA256 == "" {
		key.Built = file.ModTime()
	}
	if r.dir != nil {
		key.ExcludeRun = r.dir.ID()
	}
	for _, g := range r.Host.GPUs {
		key.GPUs = append(key.GPUs, g.Name)
	}
	found, notes := history.Recall(r.Config.StateDir, key)
	if len(found.Runs) == 0 && r.Host.Described != "" {
		key.AnyMachine = true
		if found, notes = history.Recall(r.Config.StateDir, key); len(found.Runs) > 0 {
			r.event(Warning, "this training was measured on another machine than %s: the difference in speed is unknown and not part of the intervals", r.Host.Described)
		}
	}
	for _, n := range notes {
		r.warn(n)
	}
	offline := history.RecallLogs(r.Config.Offline, history.LogOptions{Aliases: r.Config.Columns}, r.Baseline)
	for _, n := range offline.Notes {
		r.event(Warning, "%s", n)
	}
	r.priors = []*prior{r.similarPrior(found), exactPrior(found, offline.Observations)}
	r.RestartS, r.StartupS, r.ClosingS, r.recurrences = found.RestartSeconds, found.StartupSeconds, found.ClosingSeconds, found.Recurrences
	r.suggestLengths(&r.facts, &found)
	r.recalledUnit = cmp.Or(found.Unit, found.MeasuredUnit)
	if found.Total == 0 && len(offline.Observations) > 0 {
		r.Progress.Suggest("epoch", hint{Units: offline.Epochs, Source: "offline logs"})
		r.recalledUnit = cmp.Or(r.recalledUnit, "epoch")
	}
	for i := range found.Similar {
		r.recalledUnit = cmp.Or(r.recalledUnit, found.Similar[i].Unit)
	}
	if len(r.StartupS) == 0 && len(found.Similar) > 0 {
		r.StartupS = found.Similar[0].StartupSeconds
	}
	if len(found.Runs) > 0 {
		if r.Progress.UnitSamples == 0 && len(found.Observations) > 0 {
			r.Progress.UnitSamples = found.Observations[0].UnitSamples
		}
		where := ""
		if dir := found.Elsewhere[found.Runs[0]]; dir != "" {
			where = " in " + dir
		}
		r.event(Info, "recalled %d earlier run%s of this training (newest %s%s)", len(found.Runs), plural(len(found.Runs)), found.Runs[0], where)
	}
	if !math.IsNaN(found.PeakMemoryGiB) {
		r.learnMemory(found.PeakMemoryGiB)
	}
	if len(found.Baselines) > 0 && len(r.Config.SLA.Agreed()) == 0 {
		if spec, _, err := sla.Forecast(found.Baselines); err == nil {
			digits := max(2, 2-int(math.Floor(math.Log10(spec.CostMaxUSD)))) // three significant ones of small amounts
			r.event(Info, "no SLA set; realistic limits by earlier runs: --deadline %s --budget %.*f", (spec.TimeMax + time.Second - 1).Truncate(time.Second), digits, spec.CostMaxUSD)
		}
	}
	r.learnCalibration(found.Newest)
	r.infer(found.Newest, len(r.priorObservations()) > 0)
	r.refit()
}

// infer derives priors from other trainings: of the start-up, of a restart and of the memory where no run of this
// script measured them, and of the speed unless the script has measurements.
func (r *run) infer(entries []history.Entry, measured bool) {
	job := history.NewEntry(history.Run, "").Job
	job.Script, job.ScriptSHA256, job.Framework = r.ins.Path, r.ins.SHA256, r.ins.Framework.Value
	job.Family, job.Dataset = r.ins.Model.Value, cmp.Or(launch.RedactText(r.Config.Dataset), r.ins.Dataset.Value)
	most := r.Limits.GPUs.Max
	if most == 0 {
		most = r.Limits.CPUs.Max
	}
	var at []resources.Allocation
	for n := 1; n <= most && !measured; n *= 2 {
		at = append(at, r.baselineWith(min(n, most)))
	}
	if len(at) > 0 && most&(most-1) != 0 {
		at = append(at, r.baselineWith(most))
	}
	found := transfer.Infer(entries, job, at, transfer.CarryTarget{Config: r.configOf, Reference: r.Baseline}, r.samplesPerStep)
	r.Predicted = &overheads{Startup: found.Startup, Restart: found.Restart, MemoryGiB: found.Memory}
	if len(found.Speed) == 0 {
		return
	}
	unit := r.unit()
	if lengths := r.command.Lengths(); unit == "" && r.Config.Epochs == 0 && (r.Config.Steps > 0 || len(lengths) > 0 && lengths[0].Unit == "step") {
		unit = "step"
	}
	r.recalledUnit = cmp.Or(unit, "epoch")
	p := &prior{words: "other trainings: " + found.Basis, samples: transfer.SamplesOf(job)}
	if r.recalledUnit == "step" {
		p.samples = r.samplesPerStep(r.Baseline)
	}
	p.add("", found.Speed...)
	r.priors = append([]*prior{p}, r.priors...)
}

// samplesPerStep returns the samples of a step over all GPUs of all machines at an allocation; NaN if the batch size is unknown.
func (r *run) samplesPerStep(a resources.Allocation) float64 {
	batch, _ := strconv.ParseFloat(r.ins.BatchSize.Value, 64)
	switch gpus := r.configOf(a).GPUs; {
	case !(batch > 0):
		return math.NaN()
	case gpus > 1 && r.command.Distributed():
		return batch * gpus
	}
	return batch
}

// baselineWith returns the baseline with n GPUs, or n CPUs if it has no GPU.
func (f *facts) baselineWith(n int) resources.Allocation {
	a := f.Baseline
	if a.GPUs > 0 {
		a.GPUs, a.GPUIDs = n, nil
	} else {
		a.CPUs = n
	}
	return a
}

// overheads are predictions from other trainings: seconds, and GiB; zero where nothing similar was measured.
type overheads struct{ Startup, Restart, MemoryGiB sla.Interval }

// learnCalibration sets the width of intervals from the coverage of earlier predictions for this family of models.
func (r *run) learnCalibration(entries []history.Entry) {
	if len(entries) == 0 {
		return // no run has ended here yet, or recall has reported why none is readable
	}
	scored := history.Calibrate(entries)
	family := r.ins.Model.Value
	r.widen = scored.Widen(family)
	if s := scored.All.ByQuantity[history.QuantitySeconds]; math.Abs(r.widen-1) >= notableWiden {
		how := "widened"
		if r.widen < 1 {
			how = "narrowed"
		}
		r.event(Info, "intervals %s by a factor of %.2f: %d of %d earlier outcomes were inside their 90 %% interval", how, math.Max(r.widen, 1/r.widen), s.Inside, s.N)
	}
}

// notableWiden is the change of the width of intervals from which it is reported.
const notableWiden = 0.1

// prior is one source of measurements from before the run.
type prior struct {
	words        string // description: "run 2026… of the same script with other arguments (width 64, now 128)"
	runs         []string
	units        []string // of each observation: "epoch", "step"; "" if unknown
	observations []perf.Observation
	dropped      string // why its measurements no longer count; "" while they do
	// samples is the expected number of samples in a unit of work, for observations of other trainings, whose unit is
	// one sample, until this run reports it; 0 for other priors, NaN if unknown.
	samples float64

	alone   *perf.Model // model of its observations alone; nil until required
	aloneIn string      // unit, and samples per unit, of alone
}

// add appends observations in a unit of work.
func (p *prior) add(unit string, obs ...perf.Observation) {
	for _, o := range obs {
		p.observations, p.units = append(p.observations, o), append(p.units, unit)
	}
}

// in returns the observations in a unit of work; those of unknown unit are included.
func (p *prior) in(unit string) []perf.Observation {
	var out []perf.Observation
	for i, o := range p.observations {
		if unit == "" || p.units[i] == "" || p.units[i] == unit {
			out = append(out, o)
		}
	}
	return out
}

const (
	// contradicts is the number of standard deviations between a measurement of this run and a prior's prediction
	// above which the prior is dropped; agrees is the number below which a dropped one counts again, because the
	// first epochs of a run are not its steady pace.
	contradicts, agrees = 3, 2
	// ownDrift is the relative standard deviation between a brief measurement of this run and its long-run pace.
	ownDrift = 0.05
)

// exactPrior returns the measurements of earlier runs of this very training, and of the logs that the user named.
func exactPrior(found history.Recalled, offline []perf.Observation) *prior {
	p := &prior{runs: found.Runs}
	p.add(found.MeasuredUnit, found.Observations...)
	p.add("epoch", offline...)
	switch n := len(found.Runs); {
	case n == 1:
		p.words = "run " + found.Runs[0] + " of this training"
	case n > 1:
		p.words = fmt.Sprintf("%d runs of this training (newest %s)", n, found.Runs[0])
	}
	if len(offline) > 0 {
		p.words = strings.TrimPrefix(p.words+" and offline logs", " and ")
	}
	return p
}

// similarPrior returns the measurements of runs of the same script with other arguments, or of earlier versions of
// it, transferred to this run.
func (f *facts) similarPrior(found history.Recalled) *prior {
	similar := found.Similar
	if len(similar) == 0 {
		return &prior{}
	}
	p := &prior{}
	var units []string
	for _, s := range similar {
		p.runs = append(p.runs, s.Run)
		for range s.Observations {
			units = append(units, s.Unit)
		}
	}
	for i, o := range transfer.Carry(similar, transfer.CarryTarget{Config: f.configOf, Reference: f.Baseline}) {
		p.add(units[i], o)
	}
	slices.Reverse(p.observations) // nearest last: a fit with too many observations omits the first ones
	slices.Reverse(p.units)
	p.words = similarWords(similar)
	return p
}

// similarWords describes the most similar run, its differing arguments, and the number of further ones.
func similarWords(similar []history.Similar) string {
	s := &similar[0]
	var differs []string
	text, machine := false, ""
	for i := range s.Changes {
		switch c := &s.Changes[i]; {
		case c.Name == history.ScriptText:
			text = true
		case c.OfMachine():
			machine = " on another machine (" + c.Describe() + ")"
		default:
			differs = append(differs, c.Describe())
		}
	}
	script := "the same script"
	if text {
		script = "another version of the script"
	}
	words := fmt.Sprintf("run %s of %s", s.Run, script)
	if len(differs) > 0 {
		words += " with other arguments (" + strings.Join(differs, ", ") + ")"
	}
	words += machine
	if n := len(similar) - 1; n > 0 {
		words += fmt.Sprintf(" and %d more like it", n)
	}
	return words
}

// configOf returns the coordinates of an allocation, which is that of each machine, in the runs database, which has the amounts of
// all machines and names GPUs by their model.
func (f *facts) configOf(a resources.Allocation) history.Config {
	nodes := max(1, f.Host.Nodes)
	c := history.Config{GPUs: float64(a.GPUs * nodes), Nodes: nodes, CPUs: float64(a.CPUs * nodes), MemoryGiB: float64(a.Memory) * float64(nodes), Batch: math.NaN(), Machine: f.Host.Described}
	if a.GPUs > 0 && len(f.Host.GPUs) > 0 {
		c.GPU = cost.GPUModel(f.Host.GPUs[0].Name)
	}
	return c
}

// priorObservations returns the observations of the priors that count, the most relevant last.
func (r *run) priorObservations() []perf.Observation {
	var out []perf.Observation
	for _, p := range r.priors {
		if p.dropped == "" {
			out = append(out, p.scaled(&r.Progress, p.in(r.unit()))...)
		}
	}
	return out
}

// scaled converts observations per sample of other trainings to a run's unit of work; nil if the samples in it are
// unknown. Other observations are returned as they are.
func (p *prior) scaled(progress *Progress, obs []perf.Observation) []perf.Observation {
	if p.samples == 0 {
		return obs
	}
	per := Progress{UnitSamples: progress.UnitSamples}
	if per.UnitSamples <= 0 {
		per.UnitSamples = p.samples
	}
	if !(per.UnitSamples > 0) {
		return nil
	}
	return per.inOwnUnit(obs)
}

// recalled returns the measurements of earlier runs of this very training, unless this run contradicts them.
func (r *run) recalled() []perf.Observation {
	if n := len(r.priors); n > 0 && r.priors[n-1].dropped == "" {
		return r.priors[n-1].in(r.unit())
	}
	return nil
}

// unit returns the unit of work: that of the log, otherwise that of earlier runs; empty if unknown.
func (r *run) unit() string { return cmp.Or(r.Progress.Unit, r.recalledUnit) }

// total returns the units of the whole job, 0 if unknown.
func (r *run) total() float64 { return r.Progress.knownTotal(r.recalledUnit) }

// weighPriors drops the priors that this run's own measurements contradict, and uses them again when they agree.
func (r *run) weighPriors() {
	own := r.Progress.measuredPaces()
	if len(own) == 0 {
		return
	}
	for _, p := range r.priors {
		off, why := p.contradiction(own, &r.Progress, perf.FitOptions{Seed: uint64(r.Config.Seed), Widen: r.widen})
		switch {
		case p.dropped == "" && off > contradicts:
			p.dropped = why
			r.event(Info, "prior dropped, the measurements of this run count alone: %s: %s", p.words, why)
		case p.dropped != "" && off < agrees:
			p.dropped = ""
			r.event(Info, "prior used again: %s", p.words)
		}
	}
	r.recordDropped()
}

// pace is the measured number of seconds per unit at an allocation of this run.
type pace struct {
	at      resources.Allocation
	seconds float64
}

// measuredPaces returns the paces of this run's sufficiently measured segments.
func (p *Progress) measuredPaces() []pace {
	var out []pace
	for _, s := range p.Segments {
		if len(s.Blocks) > 0 && p.MeasuredEnough(s) {
			out = append(out, pace{s.Allocation, stat.Median(s.Blocks[s.warmUp():])})
		}
	}
	return out
}

// contradiction returns the largest deviation of this run from the prediction of a prior alone, in standard
// deviations: for the first pace the absolute one, for the others relative to the first. It returns 0 if the prior
// makes no prediction.
func (p *prior) contradiction(own []pace, progress *Progress, o perf.FitOptions) (off float64, why string) {
	unit := progress.Unit
	obs := p.in(unit)
	if len(obs) == 0 {
		return 0, ""
	}
	if in := fmt.Sprint(unit, progress.UnitSamples); p.alone == nil || p.aloneIn != in {
		m, err := perf.Fit(progress.inOwnUnit(p.scaled(progress, obs)), o)
		if err != nil {
			return 0, ""
		}
		p.alone, p.aloneIn = m, in
	}
	first := p.alone.Draws(own[0].at)
	for i, x := range own {
		draws, measured := slices.Clone(first), x.seconds
		if i > 0 {
			measured /= own[0].seconds
			for k, d := range p.alone.Draws(x.at) {
				draws[k] = d / first[k]
			}
		}
		predicted := sla.Quantiles(draws)
		sd := math.Log(predicted.P95/predicted.P50) / 1.645
		if measured < predicted.P50 {
			sd = math.Log(predicted.P50/predicted.P5) / 1.645
		}
		if z := math.Abs(math.Log(measured/predicted.P50)) / math.Hypot(sd, ownDrift); z > off {
			span, high := perUnit(predicted.P5*x.seconds/measured, unit), perUnit(predicted.P95*x.seconds/measured, unit)
			if high != span {
				span += " to " + high
			}
			off, why = z, fmt.Sprintf("predicted %s at %s, measured %s", span, x.at, perUnit(x.seconds, unit))
		}
	}
	return off, why
}

func perUnit(seconds float64, unit string) string {
	return wording.Duration(seconds) + " per " + cmp.Or(unit, "unit")
}

// inOwnUnit converts observations to this run's samples per unit, if both are known.
func (p *Progress) inOwnUnit(obs []perf.Observation) []perf.Observation {
	if p.UnitSamples <= 0 {
		return obs
	}
	out := slices.Clone(obs)
	for i := range out {
		if o := &out[i]; o.UnitSamples > 0 {
			o.UnitSeconds = slices.Clone(o.UnitSeconds)
			for k := range o.UnitSeconds {
				o.UnitSeconds[k] *= p.UnitSamples / o.UnitSamples
			}
			o.UnitSamples = p.UnitSamples
		}
	}
	return out
}

// recordDropped records the dropped priors and the reasons.
func (r *run) recordDropped() {
	if r.rec.Prior == nil {
		return
	}
	r.rec.Prior.Dropped = []string{}
	for _, p := range r.priors {
		if p.dropped != "" {
			r.rec.Prior.Dropped = append(r.rec.Prior.Dropped, p.words+": "+p.dropped)
		}
	}
}

// recordPrior records the sources and the width of the model of a run that has not begun.
func (r *run) recordPrior() {
	out := &journal.Prior{Unit: r.recalledUnit, Allocation: r.Baseline, Runs: []string{}, Dropped: []string{}, Spread: journal.Unknown(),
		Startup: known(r.Predicted.Startup, len(r.StartupS) > 0), Restart: known(r.Predicted.Restart, len(r.RestartS) > 0), MemoryGiB: known(r.Predicted.MemoryGiB, r.NeedMemory > 0)}
	if r.model == nil {
		if out.Startup != nil || out.Restart != nil || out.MemoryGiB != nil {
			out.Words, r.rec.Prior = "no similar training was measured for the speed", out
		}
		return
	}
	unit := r.model.UnitSeconds(r.Baseline)
	out.UnitSeconds, out.Spread = unit, journal.Number(math.Sqrt(unit.P95/unit.P5)-1)
	var words []string
	for _, p := range r.priors {
		if len(p.scaled(&r.Progress, p.in(r.recalledUnit))) > 0 {
			words, out.Runs = append(words, p.words), append(out.Runs, p.runs...)
		}
	}
	slices.Reverse(words)
	out.Words = fmt.Sprintf("%s, ±%s", strings.Join(words, "; "), page.PlainBlanks(page.Share(float64(out.Spread))))
	r.rec.Prior = out
}

// known returns an inferred interval, nil if nothing similar was measured or runs of the script measured it themselves.
func known(v sla.Interval, measured bool) *sla.Interval {
	if v == (sla.Interval{}) || measured {
		return nil
	}
	return &v
}

// announcePrior shows the prediction made before the first measurement.
func (r *run) announcePrior() {
	if r.rec.Prior == nil || r.rec.Prior.UnitSeconds == (sla.Interval{}) {
		return
	}
	r.event(Info, "prior: %s", r.rec.Prior.Words)
	if r.rec.Plan == nil || r.rec.Plan.Prediction == nil {
		return
	}
	p := r.rec.Plan.Prediction
	r.rec.Prior.Prediction = p
	r.event(Info, "predicted before the first measurement: %s (90 %% interval %s to %s), %s", wording.Duration(p.Seconds.P50), wording.Duration(p.Seconds.P5),
		wording.Duration(p.Seconds.P95), page.USD(p.CostUSD.P50))
}
