package analysis

import (
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/report/chart"
)

// Work is the piece of work by which the runs of a model and data set are compared.
type Work struct {
	// Unit is "epoch", "step" or "million samples"; "" when no two runs can be compared by anything.
	Unit string `json:"unit"`
	// Comparable is the number of runs that did it, a stretch of a log at one allocation being one; Trainings that of whole
	// trainings among which they are; Left those that did other work or of which it is not known.
	Comparable int `json:"comparable"`
	Trainings  int `json:"trainings"`
	Left       int `json:"left"`
	// Longest is the largest over the smallest amount of it that a run did: start-up weighs on the shorter.
	Longest Number `json:"longest_over_shortest"`
	// Batches is the number of different batch sizes: an epoch at another batch does not learn the same.
	Batches int `json:"batch_sizes"`
	// WholeRun is the number of runs whose time per unit is the mean of the whole run, for want of a steady state.
	WholeRun int `json:"whole_run"`
}

const million = 1e6

// measured is a run with what one unit of the common work took and cost.
type measured struct {
	*Run
	seconds, usd float64 // NaN unknown
	perUSD       float64 // samples, or units where samples are unknown, for a dollar in steady state; NaN unknown
	amount       float64 // units of the common work that it did; NaN unknown
	steady       bool    // seconds are those of a steady state
}

// commonWork finds the unit of work that most runs of a model and data set have in common and gives those runs, in their order.
// Epochs are the same work when they have equally many samples, steps when they have the same batch. Where all say how many
// samples a unit has but the units differ, samples are the work; else the units of the largest class are, and the others are
// left out.
func commonWork(runs []Run) (Work, []measured) {
	w := Work{Longest: Number(unknown())}
	classes := map[string][]*Run{}
	samples := true
	var timed []*Run
	for i := range runs {
		r := &runs[i]
		if s, _ := r.unitSeconds(); !known(s) || r.Unit == "" {
			continue
		}
		timed, samples = append(timed, r), samples && known(r.PerUnit)
		key := r.Unit
		if r.Unit == "step" || known(r.Job.DataCount) {
			key = fmt.Sprintf("%s of %v", r.Unit, math.Round(r.PerUnit))
		}
		classes[key] = append(classes[key], r)
	}
	same := timed
	scale := func(*Run) float64 { return 1 }
	if len(classes) > 1 && samples {
		w.Unit, scale = "million samples", func(r *Run) float64 { return million / r.PerUnit }
	} else if len(classes) > 0 {
		keys := sortedKeys(classes)
		slices.SortStableFunc(keys, func(a, b string) int { return len(classes[b]) - len(classes[a]) })
		same = classes[keys[0]]
		w.Unit = same[0].Unit
	}
	w.Comparable, w.Left = len(same), len(runs)-len(same)
	list := make([]measured, len(same))
	for i, r := range same {
		list[i] = measure(r, scale(r))
	}
	w.describe(list)
	return w, list
}

// measure is what a unit of work took and cost a run, of which it has so many of its own units.
func measure(r *Run, units float64) measured {
	seconds, steady := r.unitSeconds()
	m := measured{Run: r, seconds: seconds * units, usd: r.unitUSD() * units, amount: positive(r.Units / units), steady: steady}
	m.perUSD = positive(3600 / (m.seconds * r.HourUSD))
	if known(r.Speed) {
		m.perUSD = positive(r.Speed * 3600 / r.HourUSD)
	}
	return m
}

// describe fills in what differs between the runs that did the work.
func (w *Work) describe(list []measured) {
	origins, batches := map[string]bool{}, map[float64]bool{}
	var amounts []float64
	for _, m := range list {
		origins[origin(m.Entry)] = true
		if known(m.On.Batch) {
			batches[m.On.Batch] = true
		}
		if !m.steady {
			w.WholeRun++
		}
		amounts = append(amounts, m.amount)
	}
	w.Trainings, w.Batches = len(origins), len(batches)
	if amounts = knownOf(amounts); len(amounts) > 0 {
		w.Longest = Number(amounts[len(amounts)-1] / amounts[0])
	}
}

// words say what is compared and what that leaves out.
func (w Work) words() string {
	if w.Unit == "" {
		return "No run says how long a unit of its work takes: nothing can be compared."
	}
	s := fmt.Sprintf("Compared per %s, %s", w.Unit, chart.Plural(w.Comparable, "run"))
	if w.Trainings < w.Comparable {
		s = fmt.Sprintf("Compared per %s, %d stretches at one allocation each in %s", w.Unit, w.Comparable, chart.Plural(w.Trainings, "training"))
	}
	if w.Left > 0 {
		s += fmt.Sprintf(" (%d left out: other work, or no times)", w.Left)
	}
	if w.Batches > 1 {
		s += fmt.Sprintf("; %d batch sizes, and the same work at another batch does not learn the same", w.Batches)
	}
	if w.WholeRun > 0 {
		s += fmt.Sprintf("; %d without a steady state: their mean over the whole run, start-up included", w.WholeRun)
	}
	if w.Longest >= 2 {
		s += fmt.Sprintf("; the longest did %s times the work of the shortest, on which start-up weighs more", chart.Significant(float64(w.Longest)))
	}
	return s + "."
}
