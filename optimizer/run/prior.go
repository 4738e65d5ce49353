package run

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/chart"
	"trainopt/resources"
)

// prior is one source of measurements from before the run.
type prior struct {
	words        string // description: "run 2026… of the same script with other arguments (width 64, now 128)"
	runs         []string
	units        []string // of each observation: "epoch", "step"; "" if unknown
	observations []perf.Observation
	dropped      string // why its measurements no longer count; "" while they do

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
func (r *run) similarPrior(found history.Recalled) *prior {
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
	for i, o := range transfer.Carry(similar, transfer.CarryTarget{Config: r.configOf, Reference: r.baseline}) {
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
	text := false
	for i := range s.Changes {
		if text = text || s.Changes[i].Name == history.ScriptText; s.Changes[i].Name != history.ScriptText {
			differs = append(differs, s.Changes[i].Describe())
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
	if n := len(similar) - 1; n > 0 {
		words += fmt.Sprintf(" and %d more like it", n)
	}
	return words
}

// configOf returns the coordinates of an allocation of this machine in the runs database, which names GPUs by their model.
func (r *run) configOf(a resources.Allocation) history.Config {
	c := history.Config{GPUs: float64(a.GPUs), Nodes: 1, CPUs: float64(a.CPUs), MemoryGiB: float64(a.Memory), Batch: math.NaN(), Machine: r.host.Described}
	if a.GPUs > 0 && len(r.host.GPUs) > 0 {
		c.GPU = cost.GPUModel(r.host.GPUs[0].Name)
	}
	return c
}

// priorObservations returns the observations of the priors that count, the most relevant last.
func (r *run) priorObservations() []perf.Observation {
	var out []perf.Observation
	unit := cmp.Or(r.progress.Unit, r.recalledUnit)
	for _, p := range r.priors {
		if p.dropped == "" {
			out = append(out, p.in(unit)...)
		}
	}
	return out
}

// recalled returns the measurements of earlier runs of this very training, unless this run contradicts them.
func (r *run) recalled() []perf.Observation {
	if len(r.priors) == 0 {
		return nil
	}
	p := r.priors[len(r.priors)-1]
	if p.dropped != "" {
		return nil
	}
	return p.in(cmp.Or(r.progress.Unit, r.recalledUnit))
}

// weighPriors drops the priors that this run's own measurements contradict, and uses them again when they agree.
func (r *run) weighPriors() {
	own := r.shownPaces()
	if len(own) == 0 {
		return
	}
	for _, p := range r.priors {
		off, why := r.contradiction(p, own)
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

// shownPaces returns the paces of this run's sufficiently measured segments.
func (r *run) shownPaces() []pace {
	var out []pace
	for _, s := range r.progress.Segments {
		if len(s.Blocks) > 0 && r.measuredEnough(s) {
			out = append(out, pace{s.Allocation, median(s.Blocks[s.warmUp():])})
		}
	}
	return out
}

// contradiction returns the largest deviation of this run from the prediction of a prior alone, in standard
// deviations: for the first pace the absolute one, for the others relative to the first. It returns 0 if the prior
// makes no prediction.
func (r *run) contradiction(p *prior, own []pace) (off float64, why string) {
	unit := r.progress.Unit
	obs := p.in(unit)
	if len(obs) == 0 {
		return 0, ""
	}
	if in := fmt.Sprint(unit, r.progress.UnitSamples); p.alone == nil || p.aloneIn != in {
		m, err := perf.Fit(r.inOwnUnit(obs), perf.FitOptions{Seed: uint64(r.Config.Seed), Widen: r.widen})
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
		slices.Sort(draws)
		low, middle, high := quantile(draws, .05), quantile(draws, .5), quantile(draws, .95)
		sd := math.Log(high/middle) / 1.645
		if measured < middle {
			sd = math.Log(middle/low) / 1.645
		}
		if z := math.Abs(math.Log(measured/middle)) / math.Hypot(sd, ownDrift); z > off {
			off, why = z, fmt.Sprintf("predicted %s to %s at %s, measured %s", perUnit(low*x.seconds/measured, unit), perUnit(high*x.seconds/measured, unit), x.at, perUnit(x.seconds, unit))
		}
	}
	return off, why
}

func perUnit(seconds float64, unit string) string {
	return fmt.Sprintf("%.3g s per %s", seconds, cmp.Or(unit, "unit"))
}

// inOwnUnit converts observations to this run's samples per unit, if both are known.
func (r *run) inOwnUnit(obs []perf.Observation) []perf.Observation {
	if r.progress.UnitSamples <= 0 {
		return obs
	}
	out := slices.Clone(obs)
	for i := range out {
		if o := &out[i]; o.UnitSamples > 0 {
			o.UnitSeconds = slices.Clone(o.UnitSeconds)
			for k := range o.UnitSeconds {
				o.UnitSeconds[k] *= r.progress.UnitSamples / o.UnitSamples
			}
			o.UnitSamples = r.progress.UnitSamples
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
	if r.model == nil {
		return
	}
	unit := r.model.UnitSeconds(r.baseline)
	out := &journal.Prior{Unit: r.recalledUnit, Allocation: r.baseline, UnitSeconds: unit, Runs: []string{}, Dropped: []string{},
		Spread: journal.Number(math.Sqrt(unit.P95/unit.P5) - 1)}
	var words []string
	for _, p := range r.priors {
		if len(p.in(r.recalledUnit)) > 0 {
			words, out.Runs = append(words, p.words), append(out.Runs, p.runs...)
		}
	}
	slices.Reverse(words)
	out.Words = fmt.Sprintf("%s, ±%s", strings.Join(words, "; "), chart.PlainBlanks(chart.Share(float64(out.Spread))))
	r.rec.Prior = out
}

// announcePrior shows the prediction made before the first measurement.
func (r *run) announcePrior() {
	if r.rec.Prior == nil {
		return
	}
	r.event(Info, "prior: %s", r.rec.Prior.Words)
	if r.rec.Plan == nil || r.rec.Plan.Prediction == nil {
		return
	}
	p := r.rec.Plan.Prediction
	r.rec.Prior.Prediction = p
	r.event(Info, "predicted before the first measurement: %s (90 %% interval %s to %s), $%.3g", chart.PlainBlanks(chart.Duration(p.Seconds.P50)),
		chart.PlainBlanks(chart.Duration(p.Seconds.P5)), chart.PlainBlanks(chart.Duration(p.Seconds.P95)), p.CostUSD.P50)
}

// priorPlan records the prediction for a run that begins with the measurement of the baseline.
func (r *run) priorPlan() {
	if r.model == nil {
		return
	}
	p, _ := plan.Static{}.Decide(r.snapshot()) // the run begins there even if it is infeasible
	if !p.Predicted || !p.Allocation.SameShape(r.baseline) {
		return
	}
	p.Reason = "the baseline is measured first"
	r.rec.Plan = r.planRecord(p, 0)
	if r.Config.Explain {
		r.View.Planned(r.rec)
	}
}
