package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// work is the total amount of work, in a unit whose rate can be predicted.
type work struct {
	Quantity transfer.Quantity // quantity whose inverse is the time of one unit
	Amount   sla.Interval
	Unit     string // "samples", "epochs", "steps", "trainings"
	Words    string // source of the amount
}

// works returns the measures of the work, most certain first: units of the training's own log, samples, whole
// trainings.
func works(q *Question, same []history.Entry) []work {
	var out []work
	if w, ok := ownUnits(q, same); ok {
		out = append(out, w)
	}
	if n := q.Job.Epochs * q.Job.DataCount; n > 0 {
		out = append(out, work{transfer.Throughput, exactly(n), "samples", fmt.Sprintf("%s of %s samples", plural(q.Job.Epochs, "epoch"), page.Count(q.Job.DataCount))})
	}
	return append(out, wholeTraining(q, same))
}

// wholeTraining returns the work as one measured training: the user's own if one finished, scaled to the requested
// epochs, otherwise a published one to its target.
func wholeTraining(q *Question, same []history.Entry) work {
	w := work{transfer.Trainings, exactly(1), "trainings", "one training to its target, as the published ones went"}
	for _, e := range same {
		if e.Kind != history.Run || e.State != "done" {
			continue
		}
		w.Words = "one training, as " + named(e) + " went"
		if e.Unit == "epoch" && e.Units > 0 && q.Job.Epochs > 0 && q.Job.Epochs != e.Units {
			w.Amount = exactly(q.Job.Epochs / e.Units)
			w.Words = fmt.Sprintf("%s; %s did %s", plural(q.Job.Epochs, "epoch"), named(e), page.Count(e.Units))
		}
		break
	}
	return w
}

// ownUnits returns the work in units of the log of earlier runs of the same training: of those listed in Same, or else
// of all of them. Epochs that are requested of listed runs without any are those of the others, where these have them.
func ownUnits(q *Question, same []history.Entry) (work, bool) {
	listed := slices.DeleteFunc(slices.Clone(same), func(e history.Entry) bool { return !slices.Contains(q.Same, e.ID) })
	w, exact := unitsOf(q, listed)
	if w.Unit == "" || q.Job.Epochs > 0 && !exact {
		if all, exact := unitsOf(q, same); w.Unit == "" || exact {
			w = all
		}
	}
	return w, w.Unit != ""
}

// unitsOf returns the work in units of the log of the given runs, scaled to the requested epochs and samples; exact if
// these are given. Otherwise finished runs of different length make it uncertain. Its unit is "" if the runs have none.
func unitsOf(q *Question, same []history.Entry) (w work, exact bool) {
	unit := commonUnit(same)
	var logs []float64
	for _, e := range same {
		if !(e.Units > 0) || e.Unit != unit || e.Kind == history.Probe || e.Parent != "" {
			continue
		}
		if e.Kind == history.Run && e.State != "done" && !(unit == "epoch" && q.Job.Epochs > 0) { // it did a part of the work
			continue
		}
		amount, exact, words := asked(q, e)
		quantity, what := transfer.UnitRate, unit+"s"
		if batch := e.Observed.Batch; unit == "step" && batch > 0 { // steps with another batch size are not comparable
			quantity, what, amount, words = transfer.Throughput, "samples", amount*batch, words+", each of "+page.Significant(batch)+" samples"
		}
		if w.Unit == "" {
			w.Quantity, w.Unit, w.Amount, w.Words = quantity, what, exactly(amount), words
			if exact {
				return w, true
			}
		}
		if e.State == "done" && w.Unit == what {
			logs = append(logs, math.Log(amount))
		}
	}
	if sd := deviation(logs); sd > 0 {
		w.Amount = around(w.Amount.P50, sd*math.Sqrt(1+1/float64(len(logs))))
		w.Words += fmt.Sprintf("; %d finished runs differ by %.0f %%", len(logs), 100*sd)
	}
	return w, false
}

// commonUnit returns the unit of most entries, as package transfer does: "epoch", "step"; "" without any.
func commonUnit(same []history.Entry) string {
	units := map[string]int{}
	for _, e := range same {
		if e.Unit != "" {
			units[e.Unit]++
		}
	}
	var best string
	for u, n := range units {
		if best == "" || n > units[best] || n == units[best] && u < best {
			best = u
		}
	}
	return best
}

// asked returns the work of an earlier run scaled to the question; exact when the epochs are given.
func asked(q *Question, e history.Entry) (amount float64, exact bool, words string) {
	amount, words = e.Units, fmt.Sprintf("%s, as %s did", plural(e.Units, e.Unit), named(e))
	switch {
	case q.Job.Epochs > 0 && e.Unit == "epoch":
		amount, exact, words = q.Job.Epochs, true, plural(q.Job.Epochs, "epoch")+" of its log"
	case q.Job.Epochs > 0 && e.Job.Epochs > 0:
		amount, exact = amount*q.Job.Epochs/e.Job.Epochs, true
		words = fmt.Sprintf("%s for %s, at the %s of %s", plural(amount, e.Unit), plural(q.Job.Epochs, "epoch"), plural(e.Units, e.Unit), named(e))
	}
	if more := q.Job.DataCount / e.Job.DataCount; more > 0 && math.Abs(more-1) > 1e-9 {
		amount *= more
		words += fmt.Sprintf(", times %s for %s samples instead of %s", page.Significant(more), page.Significant(q.Job.DataCount), page.Significant(e.Job.DataCount))
	}
	return amount, exact, words
}

// deviation returns the sample standard deviation; 0 for fewer than two values.
func deviation(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	return stat.StdDev(v, nil)
}

// sameTraining returns the entries of the training in question: those listed in Same, then the user's own entries of
// the same job, each newest first.
func sameTraining(q *Question, entries []history.Entry) []history.Entry {
	var out []history.Entry
	for _, e := range entries {
		if e.Kind != history.Table && sameJob(q.Job, e.Job) || slices.Contains(q.Same, e.ID) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Entry) int {
		if listed := slices.Contains(q.Same, a.ID); listed != slices.Contains(q.Same, b.ID) {
			return map[bool]int{true: -1, false: 1}[listed]
		}
		return b.At.Compare(a.At)
	})
	return out
}

// sameJob reports whether two jobs are the same training: the same script or, if one of the scripts is unknown, the
// same model and data set.
func sameJob(a, b history.Job) bool {
	if a.ScriptSHA256 != "" && b.ScriptSHA256 != "" {
		return a.ScriptSHA256 == b.ScriptSHA256
	}
	return a.Model != "" && a.Dataset != "" && strings.EqualFold(a.Model, b.Model) && strings.EqualFold(a.Dataset, b.Dataset)
}

// startSpread is the minimum spread of a start-up time, since a single one is no better estimate of the next.
const startSpread = 0.3

// startUp returns the time from launch to the first unit of work in earlier runs of the training; unknown without
// any.
func startUp(same []history.Entry) sla.Interval {
	var logs []float64
	for _, e := range same {
		if e.Startup > 0 && !math.IsInf(e.Startup, 0) {
			logs = append(logs, math.Log(e.Startup))
		}
	}
	if len(logs) == 0 {
		return unknown
	}
	sd := max(deviation(logs), startSpread)
	slices.Sort(logs)
	return around(math.Exp(logs[len(logs)/2]), sd)
}

// leastCPUs returns the number of CPUs that a machine needs: those that were busy beside GPUs in the first run with that
// measurement, because the speed of GPUs is predicted without regard to the CPUs; NaN without any. The speed of a job
// without GPUs is predicted by the number of CPUs: it needs none.
func leastCPUs(q *Question, same []history.Entry) float64 {
	if q.CPUOnly {
		return 0
	}
	for _, e := range same {
		if busy := e.CPUUtil / 100 * e.Observed.CPUs / float64(max(1, e.Observed.Nodes)); busy > 0 {
			return busy
		}
	}
	return math.NaN()
}

// restartSeconds returns the restart time of the first run with that measurement; NaN without any.
func restartSeconds(same []history.Entry) float64 {
	for _, e := range same {
		if e.Restart > 0 {
			return e.Restart
		}
	}
	return math.NaN()
}
