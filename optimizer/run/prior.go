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

// prior is one source of what was known of a training before it ran.
type prior struct {
	words        string // in words: "run 2026… of the same script with other arguments (width 64, now 128)"
	runs         []string
	units        []string // of each observation: "epoch", "step"; "" unknown
	observations []perf.Observation
	dropped      string // why its measurements no longer count; "" while they do

	alone   *perf.Model // of its observations alone, nil before it was needed
	aloneIn string      // unit of alone, with its samples
}

// add appends observations in a unit of work.
func (p *prior) add(unit string, obs ...perf.Observation) {
	for _, o := range obs {
		p.observations, p.units = append(p.observations, o), append(p.units, unit)
	}
}

// in are the observations in a unit of work.
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
	// contradicts is how many standard deviations a measurement of this run may be off what a prior predicts of it before the
	// prior is dropped, agrees where one that was dropped counts again: the first epochs of a run are not its pace.
	contradicts, agrees = 3, 2
	// ownDrift is the relative standard deviation of a brief measurement of this run against its long run.
	ownDrift = 0.05
)

// exactPrior is what earlier runs of this very training, and logs that the user named, measured.
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

// similarPrior is what runs of the same script with other arguments, or of earlier versions of it, measured.
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
	slices.Reverse(p.observations) // the nearest last: a fit leaves out the first ones when there are too many
	slices.Reverse(p.units)
	p.words = similarWords(similar)
	return p
}

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

// configOf returns an allocation of this machine as the runs database names it: transfer finds the figures of a GPU by its model.
func (r *run) configOf(a resources.Allocation) history.Config {
	c := history.Config{GPUs: float64(a.GPUs), Nodes: 1, CPUs: float64(a.CPUs), MemoryGiB: float64(a.Memory), Batch: math.NaN(), Machine: r.host.Described}
	if a.GPUs > 0 && len(r.host.GPUs) > 0 {
		c.GPU = cost.GPUModel(r.host.GPUs[0].Name)
	}
	return c
}

// priorObservations are what still counts of what was known before, the surest last.
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

// recalled is what earlier runs of this very training measured, unless this run contradicts it.
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

// weighPriors drops what this run's own measurements contradict, and takes it up again when they no longer do: what was
// measured wins.
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

// pace is the measured seconds per unit at an allocation of this run.
type pace struct {
	at      resources.Allocation
	seconds float64
}

// shownPaces are the paces of this run where it was measured long enough.
func (r *run) shownPaces() []pace {
	var out []pace
	for _, s := range r.progress.Segments {
		if len(s.Blocks) > 0 && r.measuredEnough(s) {
			out = append(out, pace{s.Allocation, median(s.Blocks[s.warmUp():])})
		}
	}
	return out
}

// contradiction is by how many standard deviations this run is off what a prior alone predicts, at most: of the first pace,
// and of the others relative to it. 0 where the prior says nothing.
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

// inOwnUnit converts observations to this run's samples per unit, where both are known.
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

// recordDropped keeps in the record what no longer counts.
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

// recordPrior notes where the model of a run that has not begun comes from, and how wide it is.
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

// announcePrior shows what is predicted of a run before it is measured.
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

// priorPlan is the plan of a run that begins at the user's own configuration to measure it.
func (r *run) priorPlan() {
	if r.model == nil {
		return
	}
	p, _ := plan.Static{}.Decide(r.snapshot()) // infeasible or not, this is where it begins
	if !p.Predicted || !p.Allocation.SameShape(r.baseline) {
		return
	}
	p.Reason = "the baseline is measured first"
	r.rec.Plan = r.planRecord(p, 0)
	if r.Config.Explain {
		r.View.Planned(r.rec)
	}
}
