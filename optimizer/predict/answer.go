package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// ErrNoMachine is returned when no machine satisfies the bounds of the question.
var ErrNoMachine = errors.New("no machine")

// answer is the prediction for a question.
type answer struct {
	Question *Question
	Work     work
	// Startup is the time from launch to the first work; unknown without a measurement, and then counted as zero.
	Startup sla.Interval
	// Configurations contains only configurations with a prediction; the notes contain the number of the others.
	Configurations []configuration
	Options        []option
	Endless        int // number of spot options omitted because they would practically never finish
	// Chosen is the position of the option that the preference selects, −1 when no option fits. Feasible reports that
	// it meets the limits. When it does not, no option does, and Nearest describes the deadline or budget that would
	// be met.
	Chosen   int
	Feasible bool
	Nearest  string
	// OnDemand and SpotCapacity are the positions of the cheapest options that fit.
	OnDemand, SpotCapacity []int
	Interruptions          cost.Interruptions // of one spot machine, as assumed in the prediction
	Basis                  []groundEntry      // of the chosen configuration, in order of weight
	Uncertainty            *uncertainty       // of the chosen option; nil without one
	Changes                []change
	Notes                  []string
}

// Ask answers a question from measurements. The error wraps [transfer.ErrNoBasis] when no measurement resembles the
// question, and [ErrNoMachine] when no machine satisfies its bounds. The cost is one prediction for each of at most
// mostConfigurations configurations, and further predictions of some of them with hypothetical measurements.
func Ask(q *Question, entries []history.Entry, learn learner) (*answer, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	same := sameTraining(q, entries)
	configs, places, notes := enumerateConfigurations(q, same)
	if len(configs) == 0 {
		return nil, fmt.Errorf("%w %s: widen --gpus, --cpus, --gpu, --cloud or --instance", ErrNoMachine, q.boundsWords())
	}
	s := &predictionContext{question: q, entries: entries, learn: learn, startup: startUp(same), least: cost.Need{CPUs: leastCPUs(q, same), Arch: q.Arch}, interruptions: interruptionsOf(q, same)}
	left, err := s.predict(works(q, same), configs, places, same)
	if err != nil {
		return nil, err
	}
	a := &answer{Question: q, Work: s.work, Startup: s.startup, Configurations: s.configs, Options: s.options(), Interruptions: s.interruptions}
	a.Notes = append(append(a.Notes, q.Notes...), notes...)
	if left > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d of %d configurations are left out: their speed cannot be predicted from any measurement", left, left+len(s.configs)))
	}
	if a.Endless = s.endless(a.Options); a.Endless > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%s on spot capacity left out: interrupted as often as is assumed, the job would hardly ever end", page.Plural(a.Endless, "option")))
	}
	a.Chosen = selection(a.Options, q.market(), q.limits(), q.Preference)
	a.OnDemand, a.SpotCapacity = cheapest(a.Options, marketOnDemand, q.top()), cheapest(a.Options, Spot, q.top())
	if a.Chosen >= 0 {
		a.Feasible = a.Options[a.Chosen].Feasible
		a.Basis = grounds(q, entries, s.configs[a.Options[a.Chosen].Config].Rate)
		a.Uncertainty = s.uncertainty(a)
		a.Changes = s.changes(a)
	}
	if !a.Feasible {
		a.Nearest = nearest(a)
	}
	a.remark()
	return a, nil
}

// predictionContext is the common input of all options.
type predictionContext struct {
	question      *Question
	entries       []history.Entry
	learn         learner
	startup       sla.Interval
	least         cost.Need // requirements of any machine, independent of the configuration
	interruptions cost.Interruptions
	all           Predictor // fitted to all entries
	predictor     Predictor // of the speed: fitted to all entries, or to those in the unit of the work
	work          work
	configs       []configuration
	places        []place
}

// clearly is the ratio of interval widths below which a less certain measure of the work replaces a more certain one.
const clearly = 0.75

// predict predicts all configurations, with the measure of the work that has a basis for most of them. Among measures
// with the same number it uses the most certain, unless the intervals of another are clearly narrower. It returns the
// number of configurations without a basis.
func (s *predictionContext) predict(ways []work, configs []configuration, places []place, same []history.Entry) (left int, err error) {
	all := s.learn(s.entries)
	var moved map[int]int
	for _, w := range ways {
		if w.Quantity == transfer.Trainings && len(s.configs) > 0 {
			break // only as the last resort
		}
		p := all
		if w.Quantity == transfer.UnitRate {
			p = s.learn(inUnit(same, w))
		}
		found, to, err := predictConfigurations(p, s.question.Job, w, s.startup, configs)
		if err != nil {
			return 0, err
		}
		if len(found) > len(s.configs) || len(found) == len(s.configs) && len(found) > 0 && meanWidth(found) < clearly*meanWidth(s.configs) {
			s.work, s.configs, s.predictor, moved = w, found, p, to
		}
	}
	if len(s.configs) == 0 {
		return 0, fmt.Errorf("%w: %s", transfer.ErrNoBasis, s.question.whatToGive(s.speedMissing(all, configs)))
	}
	forEachParallel(len(s.configs), func(i int) { s.configs[i].predictPeaks(all, s.question.Job, s.work) })
	for _, p := range places {
		if at, ok := moved[p.config]; ok {
			s.places = append(s.places, place{p.machine, at})
		}
	}
	s.all = all
	return len(configs) - len(s.configs), nil
}

// speedMissing returns the reason why the speed of the first configuration has no basis, in samples/s; "" if that of some
// configuration has one.
func (s *predictionContext) speedMissing(p Predictor, configs []configuration) (why string) {
	for i := range configs {
		e, err := p.Predict(configs[i].query(s.question.Job), transfer.Throughput)
		switch {
		case err == nil && known(e.Value):
			return ""
		case err != nil && why == "": // "predict throughput of JOB: reason: no basis"
			_, why, _ = strings.Cut(strings.TrimSuffix(err.Error(), ": "+transfer.ErrNoBasis.Error()), ": ")
		}
	}
	return cmp.Or(why, "no speed is known")
}

// inUnit returns the entries of the training in the unit of the work; rates in other units are not comparable.
func inUnit(same []history.Entry, w work) []history.Entry {
	var out []history.Entry
	for _, e := range same {
		if e.Unit+"s" == w.Unit {
			out = append(out, e)
		}
	}
	return out
}

// meanWidth returns the mean width of the predicted rates.
func meanWidth(configs []configuration) float64 {
	var sum float64
	for i := range configs {
		sum += width(configs[i].Rate.Value) / float64(len(configs))
	}
	return sum
}

// predictConfigurations predicts all configurations. It returns those with a basis and the mapping from old to new
// positions.
func predictConfigurations(p Predictor, job history.Job, w work, start sla.Interval, configs []configuration) (found []configuration, moved map[int]int, err error) {
	type one struct {
		c   configuration
		ok  bool
		err error
	}
	all := make([]one, len(configs))
	forEachParallel(len(configs), func(i int) { all[i].c, all[i].ok, all[i].err = predictConfiguration(p, job, w, start, configs[i]) })
	moved = map[int]int{}
	for i, a := range all {
		if a.err != nil {
			return nil, nil, a.err
		}
		if a.ok {
			moved[i] = len(found)
			found = append(found, a.c)
		}
	}
	return found, moved, nil
}

// forEachParallel runs do for 0…n−1 on all processors and returns when all calls have completed.
func forEachParallel(n int, do func(i int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wait.Wait()
}

// endless returns the number of options omitted because they would practically never finish.
func (s *predictionContext) endless(options []option) int {
	n := -len(options)
	for _, p := range s.places {
		n += len(p.machine.markets())
	}
	return n
}

// options returns all options that finish, in the order of the machines.
func (s *predictionContext) options() []option {
	most := 0
	for i := range s.configs {
		most = max(most, s.configs[i].devices())
	}
	var out []option
	for _, p := range s.places {
		c := &s.configs[p.config]
		for _, market := range p.machine.markets() {
			if o, ok := price(c, p.config, p.machine, market, s.interruptions, s.least); ok {
				o.Resource = float64(c.devices()) / float64(most)
				out = append(out, o)
			}
		}
	}
	return out
}

// markets returns the markets in which the machine has a price.
func (m *machine) markets() []market {
	var out []market
	if m.Rates != nil {
		return []market{marketOwned}
	}
	if m.Offer.OnDemand > 0 {
		out = append(out, marketOnDemand)
	}
	if m.Offer.Spot > 0 {
		out = append(out, Spot)
	}
	return out
}

// Assumptions about a job on spot capacity without measurements, in hours: one restart, and the interval between two
// checkpoints.
const (
	assumedRestart    = 5. / 60
	assumedCheckpoint = 0.5
)

// interruptionsOf returns the expected effect of spot interruptions on the job.
func interruptionsOf(q *Question, same []history.Entry) cost.Interruptions {
	restart := restartSeconds(same) / 3600
	if math.IsNaN(restart) {
		restart = assumedRestart
	}
	return cost.AssumedSpot(restart, assumedCheckpoint/2, q.Resumable != nil && *q.Resumable)
}

// remark appends notes about assumptions and omissions.
func (a *answer) remark() {
	note := func(format string, args ...any) { a.Notes = append(a.Notes, fmt.Sprintf(format, args...)) }
	q := a.Question
	if !known(a.Startup) && a.Work.Quantity != transfer.Trainings {
		note("the time from launch to the first work is not known and not counted")
	}
	if !math.IsNaN(q.Batch) && a.Work.Quantity != transfer.Trainings {
		note("the batch is %s samples over all %s, whatever their number", page.Significant(q.Batch), map[bool]string{true: "CPUs", false: "GPUs"}[q.CPUOnly])
	}
	if len(a.SpotCapacity) > 0 || q.market() == Spot {
		note("%s", a.spotWords())
	} else if slices.ContainsFunc(a.Options, func(o option) bool { return o.Market == Spot }) {
		note("spot capacity is expected to cost more than on demand: %s", a.spotWords())
	}
	lacking := stat.Count(a.Options, func(o option) bool { return o.Fit == doesNotFit })
	if lacking > 0 {
		note("%d of %d options do not fit and are left out", lacking, len(a.Options))
	}
	if c := a.chosenConfiguration(); c != nil && len(c.Rate.Extrapolates) > 0 {
		note("beyond what was measured: %s", strings.Join(c.Rate.Extrapolates, "; "))
	}
	if q.CPUOnly {
		note("a CPU of any machine is taken to be as fast as those that were measured")
	} else {
		note("the CPUs beside the GPUs are taken to keep them fed")
	}
}

func (a *answer) chosenConfiguration() *configuration {
	if a.Chosen < 0 {
		return nil
	}
	return &a.Configurations[a.Options[a.Chosen].Config]
}
