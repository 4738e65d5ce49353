package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"trainopt/optimizer/report/page"
)

// workTotals is the unit of work by which the runs of a model and data set are compared.
type workTotals struct {
	// Unit is "epoch", "step" or "million samples"; "" when no runs are comparable.
	Unit string `json:"unit"`
	// Comparable is the number of runs that did this work, with a segment of a log as one run; Trainings is the
	// number of trainings that contain them; Left counts the runs with other or unknown work.
	Comparable int `json:"comparable"`
	Trainings  int `json:"trainings"`
	Left       int `json:"left"`
	// Longest is the ratio of the largest to the smallest amount of work in a run; start-up has more weight in short
	// runs.
	Longest page.Number `json:"longest_over_shortest"`
	// Batches is the number of different batch sizes; the learning progress of an epoch depends on the batch size.
	Batches int `json:"batch_sizes"`
	// WholeRun is the number of runs without a steady state, whose time per unit is the mean over the whole run.
	WholeRun int `json:"whole_run"`
}

const million = 1e6

// measured is a run with its time and cost per unit of the common work.
type measured struct {
	*run
	seconds, usd float64 // NaN when unknown
	perUSD       float64 // samples per dollar in steady state, or units if samples are unknown; NaN when unknown
	amount       float64 // units of the common work done; NaN when unknown
	steady       bool    // seconds is measured in steady state
}

// commonWork returns the unit of work shared by most runs of a model and data set, and those runs in their order.
// Epochs are the same work if their numbers of samples are equal, steps if their batch sizes are. If the units differ
// but all runs have known samples per unit, samples are the unit; otherwise the largest class of units is, and the
// other runs are omitted.
func commonWork(runs []run) (workTotals, []measured) {
	w := workTotals{Longest: none}
	classes := map[string][]*run{}
	samples := true
	var timed []*run
	for i := range runs {
		r := &runs[i]
		if s, _ := r.unitSeconds(); !page.Known(s) || r.Unit == "" {
			continue
		}
		timed, samples = append(timed, r), samples && page.Known(r.PerUnit)
		key := r.Unit
		if r.Unit == "step" || page.Known(r.Job.DataCount) {
			key = fmt.Sprintf("%s of %v", r.Unit, math.Round(r.PerUnit))
		}
		classes[key] = append(classes[key], r)
	}
	same := timed
	scale := func(*run) float64 { return 1 }
	if len(classes) > 1 && samples {
		w.Unit, scale = "million samples", func(r *run) float64 { return million / r.PerUnit }
	} else if len(classes) > 0 {
		keys := slices.Sorted(maps.Keys(classes))
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

// measure returns time and cost per unit of the common work, of which units of the run's own make up one.
func measure(r *run, units float64) measured {
	seconds, steady := r.unitSeconds()
	m := measured{run: r, seconds: seconds * units, usd: r.unitUSD() * units, amount: positive(r.Units / units), steady: steady}
	m.perUSD = positive(3600 / (m.seconds * r.HourUSD))
	if page.Known(r.Speed) {
		m.perUSD = positive(r.Speed * 3600 / r.HourUSD)
	}
	return m
}

// describe sets the counts of trainings, batch sizes and runs without a steady state, and Longest.
func (w *workTotals) describe(list []measured) {
	origins, batches := map[string]bool{}, map[float64]bool{}
	var amounts []float64
	for _, m := range list {
		origins[origin(m.Entry)] = true
		if page.Known(m.On.Batch) {
			batches[m.On.Batch] = true
		}
		if !m.steady {
			w.WholeRun++
		}
		amounts = append(amounts, m.amount)
	}
	w.Trainings, w.Batches = len(origins), len(batches)
	if amounts = knownOf(amounts); len(amounts) > 0 {
		w.Longest = page.Number(amounts[len(amounts)-1] / amounts[0])
	}
}

// words describes the comparison and the omissions.
func (w workTotals) words() string {
	if w.Unit == "" {
		return "No run has a measured time per unit of work: nothing can be compared."
	}
	s := fmt.Sprintf("Compared per %s, %s", w.Unit, page.Plural(w.Comparable, "run"))
	if w.Trainings < w.Comparable {
		s = fmt.Sprintf("Compared per %s, %d segments at one allocation each in %s", w.Unit, w.Comparable, page.Plural(w.Trainings, "training"))
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
		s += fmt.Sprintf("; the longest did %s times the work of the shortest, on which start-up weighs more", page.Significant(float64(w.Longest)))
	}
	return s + "."
}
