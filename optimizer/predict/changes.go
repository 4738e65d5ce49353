package predict

import (
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// uncertainty decomposes the width of the chosen option's time and contains the expected effect of one measurement.
type uncertainty struct {
	// Work, Rate and Startup are shares of the variance of the (logarithm of the) undisturbed time and sum to 1.
	Work, Rate, Startup float64
	Probe               *probe // nil when no probe would help
}

// probe is a hypothetical short run of the job whose result equals its prediction.
type probe struct {
	Configuration configuration
	// Seconds is the prediction for the chosen configuration after the probe.
	Seconds sla.Interval
	// Slow and Fast are the positions of the options that would be chosen if the probe ran as slowly as P5 or as fast
	// as P95.
	Slow, Fast int
}

// Kinds of Change, by cause.
const (
	byProbe    = "probe"
	byDeadline = "deadline"
	byBudget   = "budget"
	byMarket   = "market"
	byEpochs   = "epochs"
	byBatch    = "batch"
)

// change is a change of the question or of the evidence that would select another option.
type change struct {
	Kind   string
	Option int // position of the option then chosen
	// Seconds and CostUSD are the prediction for that option under the change; Words contains the difference from the
	// choice.
	Seconds, CostUSD sla.Interval
	Words            string
}

// uncertainty decomposes the variance of the chosen option's time.
func (s *predictionContext) uncertainty(a *answer) *uncertainty {
	c := a.chosenConfiguration()
	u := &uncertainty{}
	work, rate := width(s.work.Amount), width(c.Rate.Value)
	u.Work, u.Rate = work*work, rate*rate
	if known(s.startup) {
		running := s.work.Amount.P50 / c.Rate.Value.P50
		part := s.startup.P50 / (running + s.startup.P50)
		start := width(s.startup) * part
		u.Work, u.Rate, u.Startup = u.Work*(1-part)*(1-part), u.Rate*(1-part)*(1-part), start*start
	}
	if total := u.Work + u.Rate + u.Startup; total > 0 {
		u.Work, u.Rate, u.Startup = u.Work/total, u.Rate/total, u.Startup/total
	}
	u.Probe = s.probe(a)
	return u
}

// imagined is the number of units that a hypothetical probe measures.
const imagined = 8

// narrower is the ratio of interval widths below which a probe is reported.
const narrower = 0.95

// probe returns a hypothetical probe of the job on one GPU of the chosen model if that narrows the prediction,
// otherwise on the chosen configuration. It returns nil when neither helps, and for whole trainings, which a probe
// cannot measure.
func (s *predictionContext) probe(a *answer) *probe {
	if s.work.Quantity == transfer.Trainings {
		return nil
	}
	chosen := *a.chosenConfiguration()
	small := chosen
	if small.GPUs > 0 {
		small.GPUs, small.Nodes = 1, 1
	}
	for _, c := range []configuration{small, chosen} {
		c, ok, err := s.repredict(s.predictor, c)
		if !ok || err != nil {
			continue
		}
		then, ok, err := s.repredict(s.learnWith(a, c, c.Rate.Value.P50), chosen)
		if ok && err == nil && width(then.Seconds) < narrower*width(chosen.Seconds) {
			return &probe{Configuration: c, Seconds: then.Seconds, Slow: s.chosenIf(a, c, c.Rate.Value.P5), Fast: s.chosenIf(a, c, c.Rate.Value.P95)}
		}
		if small.same(&chosen) {
			break
		}
	}
	return nil
}

// learnWith fits a predictor to the evidence of the reconsidered configurations and a hypothetical probe. Other
// measurements have little influence, and a fit to all of them would take as long as the first one.
func (s *predictionContext) learnWith(a *answer, c configuration, rate float64) Predictor {
	wanted := map[string]bool{}
	for _, i := range reconsidered(a) {
		for _, g := range s.configs[i].Rate.Basis {
			for _, id := range g.Entries {
				wanted[id] = true
			}
		}
	}
	var list []history.Entry
	for _, e := range s.entries {
		if wanted[e.ID] && (s.work.Quantity != transfer.UnitRate || e.Unit+"s" == s.work.Unit) {
			list = append(list, e)
		}
	}
	return s.learn(append(list, s.measuredAs(c, rate)))
}

// repredict predicts the speed and the time of a configuration again and keeps its memory peaks.
func (s *predictionContext) repredict(p Predictor, c configuration) (configuration, bool, error) {
	return predictConfiguration(p, s.question.Job, s.work, s.startup, c)
}

// measuredAs returns the entry of a probe that ran at the given rate, in units of work per second.
func (s *predictionContext) measuredAs(c configuration, rate float64) history.Entry {
	e := history.NewEntry(history.Probe, "imagined probe")
	e.Job, e.Observed = s.question.Job, c.query(s.question.Job).Config
	e.UnitCount, e.UnitSpread = imagined, 0.05
	if s.work.Quantity == transfer.Throughput {
		e.Throughput = rate
		return e
	}
	e.Unit, e.UnitTime = s.work.Unit[:len(s.work.Unit)-1], 1/rate
	if known(c.Throughput) {
		e.Throughput = c.Throughput.P50 * rate / c.Rate.Value.P50
	}
	return e
}

// mostReconsidered limits the configurations that are predicted again for a hypothetical change.
const mostReconsidered = 8

// reconsidered returns the configurations that a hypothetical change could select: those of the front and the chosen
// one.
func reconsidered(a *answer) []int {
	list := []int{a.Options[a.Chosen].Config}
	for _, o := range a.Options {
		if o.OnFront && !slices.Contains(list, o.Config) && len(list) < mostReconsidered {
			list = append(list, o.Config)
		}
	}
	return list
}

// chosenIf returns the option that would be chosen if a probe ran at this rate; the current choice when unknown.
func (s *predictionContext) chosenIf(a *answer, c configuration, rate float64) int {
	p := s.learnWith(a, c, rate)
	options, ok := s.again(a, func(c configuration) (configuration, bool, error) { return s.repredict(p, c) })
	if !ok {
		return a.Chosen
	}
	if at := selection(options, s.question.market(), s.question.limits(), s.question.Preference); at >= 0 {
		return a.like(options[at])
	}
	return a.Chosen
}

// like returns the position of the option on the same configuration, machine and market, or of the chosen one without
// a match.
func (a *answer) like(o option) int {
	for i, x := range a.Options {
		if x.Config == o.Config && x.Machine == o.Machine && x.Market == o.Market {
			return i
		}
	}
	return a.Chosen
}

// again returns the options with the reconsidered configurations predicted by otherwise; all others are excluded from
// the choice.
func (s *predictionContext) again(a *answer, otherwise func(configuration) (configuration, bool, error)) ([]option, bool) {
	t := *s
	t.configs = slices.Clone(s.configs)
	list := reconsidered(a)
	for _, i := range list {
		c, ok, err := otherwise(s.configs[i])
		if !ok || err != nil {
			return nil, false
		}
		t.configs[i] = c
	}
	options := t.options()
	for i := range options {
		if !slices.Contains(list, options[i].Config) {
			options[i].Fit = doesNotFit
		}
	}
	return options, true
}

// changes returns the changes that would select another option, each computed.
func (s *predictionContext) changes(a *answer) []change {
	var out []change
	for _, find := range []func(*answer) (change, bool){s.byProbe, s.byDeadline, s.byBudget, s.byMarket, s.byEpochs, s.byBatch} {
		if c, ok := find(a); ok {
			out = append(out, c)
		}
	}
	return out
}

// byProbe returns the change by the result of a probe.
func (s *predictionContext) byProbe(a *answer) (change, bool) {
	p := a.Uncertainty.Probe
	if p == nil || p.Slow == a.Chosen && p.Fast == a.Chosen {
		return change{}, false
	}
	words := func(at int) string {
		if at == a.Chosen {
			return "it stays"
		}
		return a.optionWords(&a.Options[at])
	}
	at := p.Slow
	if at == a.Chosen {
		at = p.Fast
	}
	o := &a.Options[at]
	return change{Kind: byProbe, Option: at, Seconds: o.Seconds, CostUSD: o.CostUSD,
		Words: fmt.Sprintf("a probe on %s: if it runs at %s %s/s (P5), %s; if at %s (P95), %s", p.Configuration.words(), page.Significant(p.Configuration.Rate.Value.P5), s.work.Unit,
			words(p.Slow), page.Significant(p.Configuration.Rate.Value.P95), words(p.Fast))}, true
}

// chosenWith returns the position of the option chosen under other limits.
func (s *predictionContext) chosenWith(a *answer, l limits) int {
	return selection(slices.Clone(a.Options), s.question.market(), l, s.question.Preference)
}

// byDeadline returns the change by the shortest longer deadline that selects a cheaper option.
func (s *predictionContext) byDeadline(a *answer) (change, bool) {
	l := s.question.limits()
	if l.seconds <= 0 || !a.Feasible {
		return change{}, false
	}
	was := a.Options[a.Chosen]
	for _, seconds := range ascending(a.Options, l.seconds, func(o option) float64 { return o.Seconds.P95 }) {
		at := s.chosenWith(a, limits{seconds, l.usd})
		if o := a.Options[at]; at != a.Chosen && o.CostUSD.P50 < was.CostUSD.P50*(1-tie) {
			return change{Kind: byDeadline, Option: at, Seconds: o.Seconds, CostUSD: o.CostUSD, Words: fmt.Sprintf("a deadline of %s instead of %s: %s, which saves %s (%s)",
				deadlineUp(seconds), page.Duration(l.seconds), a.optionWords(&o), page.USD(was.CostUSD.P50-o.CostUSD.P50), percent(o.CostUSD.P50, was.CostUSD.P50))}, true
		}
	}
	return change{}, false
}

// byBudget returns the change by the smallest larger budget that selects a faster option.
func (s *predictionContext) byBudget(a *answer) (change, bool) {
	l := s.question.limits()
	if l.usd <= 0 || !a.Feasible {
		return change{}, false
	}
	was := a.Options[a.Chosen]
	for _, budget := range ascending(a.Options, l.usd, func(o option) float64 { return o.CostUSD.P95 }) {
		at := s.chosenWith(a, limits{l.seconds, budget})
		if o := a.Options[at]; at != a.Chosen && o.Seconds.P50 < was.Seconds.P50*(1-tie) {
			return change{Kind: byBudget, Option: at, Seconds: o.Seconds, CostUSD: o.CostUSD, Words: fmt.Sprintf("a budget of %s instead of %s: %s, which saves %s (%s)",
				budgetUp(budget), page.USD(l.usd), a.optionWords(&o), page.Duration(was.Seconds.P50-o.Seconds.P50), percent(o.Seconds.P50, was.Seconds.P50))}, true
		}
	}
	return change{}, false
}

// ascending returns the values of the options above a limit, in order and without duplicates.
func ascending(options []option, above float64, value func(option) float64) []float64 {
	var out []float64
	for _, o := range options {
		if v := value(o); v > above && o.Fit != doesNotFit {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// byMarket returns the change to the other market if its choice is cheaper, or feasible when the present one is not.
func (s *predictionContext) byMarket(a *answer) (change, bool) {
	was := a.Options[a.Chosen]
	other := Spot
	if was.Market == Spot {
		other = marketOnDemand
	}
	options := slices.Clone(a.Options)
	at := selection(options, other, s.question.limits(), s.question.Preference)
	if at < 0 || options[at].Market != other {
		return change{}, false
	}
	o := options[at]
	cheaper, surer := o.Feasible == a.Feasible && o.CostUSD.P50 < was.CostUSD.P50*(1-tie), o.Feasible && !a.Feasible
	if !cheaper && !surer {
		return change{}, false
	}
	words := fmt.Sprintf("%s: %s: %s instead of %s, %s instead of %s", other, a.optionWords(&o), page.USD(o.CostUSD.P50), page.USD(was.CostUSD.P50), page.Duration(o.Seconds.P50), page.Duration(was.Seconds.P50))
	if o.Interruption > 0 {
		words += fmt.Sprintf("; of that %s for interruptions", page.USD(float64(o.Interruption)))
	}
	return change{Kind: byMarket, Option: at, Seconds: o.Seconds, CostUSD: o.CostUSD, Words: words}, true
}

// byEpochs returns the change by twice the work.
func (s *predictionContext) byEpochs(a *answer) (change, bool) {
	if s.work.Quantity == transfer.Trainings {
		return change{}, false
	}
	w := s.work
	w.Amount = scaled(w.Amount, 2)
	t := *s
	t.configs = slices.Clone(s.configs)
	for i := range t.configs {
		c := &t.configs[i]
		c.Seconds = ratio(w.Amount, c.Rate.Value)
		if known(s.startup) {
			c.Seconds = sum(c.Seconds, s.startup)
		}
	}
	return s.another(a, t.options(), byEpochs, "twice the epochs")
}

// byBatch returns the change by twice the batch size, if that is known.
func (s *predictionContext) byBatch(a *answer) (change, bool) {
	if math.IsNaN(s.question.Batch) {
		return change{}, false
	}
	options, ok := s.again(a, func(c configuration) (configuration, bool, error) {
		c.Batch *= 2
		c, ok, err := s.repredict(s.predictor, c)
		if ok {
			c.predictPeaks(s.all, s.question.Job, s.work)
		}
		return c, ok, err
	})
	if !ok {
		return change{}, false
	}
	return s.another(a, options, byBatch, fmt.Sprintf("a batch of %s instead of %s", page.Significant(2*s.question.Batch), page.Significant(s.question.Batch)))
}

// another returns the change to the option selected among modified ones, if it differs from the choice.
func (s *predictionContext) another(a *answer, options []option, kind, what string) (change, bool) {
	at := selection(options, s.question.market(), s.question.limits(), s.question.Preference)
	if at < 0 || a.like(options[at]) == a.Chosen {
		return change{}, false
	}
	o := options[at]
	words := fmt.Sprintf("%s: %s: %s, %s", what, a.optionWords(&o), page.Duration(o.Seconds.P50), page.USD(o.CostUSD.P50))
	if a.Feasible && !o.Feasible {
		words += fmt.Sprintf("; the limits would hold with %s only", chanceWords(o.Chance))
	}
	return change{Kind: kind, Option: a.like(o), Seconds: o.Seconds, CostUSD: o.CostUSD, Words: words}, true
}

// nearest describes what would be feasible when no option is, from the same predictions.
func nearest(a *answer) string { return page.PlainBlanks(nearestWords(a)) }

// nearestWords describes, in this order: the unmet requirement when no option fits, the absence of offers, or the
// deadline and the budget that would be met by the other limit alone.
func nearestWords(a *answer) string {
	l, market := a.Question.limits(), a.Question.market()
	if a.Chosen < 0 {
		fitting := slices.ContainsFunc(a.Options, func(o option) bool { return o.Fit != doesNotFit })
		for i := range a.Options {
			if o := &a.Options[i]; o.Fit == doesNotFit && !fitting {
				return fmt.Sprintf("none of the %d options fits; %s lacks: %s", len(a.Options), o.Machine, o.Lacks)
			}
		}
		if market == Spot && a.Endless > 0 {
			return "on spot capacity, at the assumed rate of interruptions, the job would hardly ever end: leave out --spot, or add --resumable if it resumes from a checkpoint"
		}
		if market == Spot && fitting {
			return "no machine that fits has a price of spot capacity: leave out --spot"
		}
		return fmt.Sprintf("nothing is offered %s", market)
	}
	best := func(value func(option) float64, ok func(option) bool) *option {
		var least *option
		for i := range a.Options {
			o := &a.Options[i]
			if o.among(market) && ok(*o) && (least == nil || value(*o) < value(*least)) {
				least = o
			}
		}
		return least
	}
	seconds, cost := func(o option) float64 { return o.Seconds.P95 }, func(o option) float64 { return o.CostUSD.P95 }
	inTime := func(o option) bool { return l.seconds <= 0 || o.Seconds.P95 <= l.seconds }
	inCost := func(o option) bool { return l.usd <= 0 || o.CostUSD.P95 <= l.usd }
	text := fmt.Sprintf("nothing keeps the %s with 95 %% probability", l.words())
	later, dearer := best(seconds, inCost), best(cost, inTime)
	if l.seconds > 0 && later != nil {
		text += fmt.Sprintf("; a deadline of %s would do (%s, at most %s)", deadlineUp(later.Seconds.P95), a.optionWords(later), page.USD(later.CostUSD.P95))
	}
	if l.usd > 0 && dearer != nil {
		text += fmt.Sprintf("; a budget of %s would do (%s, in at most %s)", budgetUp(dearer.CostUSD.P95), a.optionWords(dearer), page.Duration(dearer.Seconds.P95))
	}
	if later == nil && dearer == nil {
		all := func(option) bool { return true }
		fast, cheap := best(seconds, all), best(cost, all)
		text += fmt.Sprintf("; neither would one of them alone: the fastest needs %s and %s, the cheapest %s and %s", deadlineUp(fast.Seconds.P95), budgetUp(fast.CostUSD.P95),
			deadlineUp(cheap.Seconds.P95), budgetUp(cheap.CostUSD.P95))
	}
	return text
}
