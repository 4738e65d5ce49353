package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/report/chart"
	"trainopt/sla"
)

// Work is how much there is to do, in the unit in which its rate can be predicted.
type Work struct {
	Quantity transfer.Quantity // whose inverse is the time of one unit
	Amount   sla.Interval
	Unit     string // "samples", "epochs", "steps", "trainings"
	Words    string // where the amount comes from
}

// works lists the ways to measure the work, the surest first: units of the training's own log, samples, whole trainings.
func works(q *Question, same []history.Entry) []Work {
	var out []Work
	if w, ok := ownUnits(q, same); ok {
		out = append(out, w)
	}
	if n := q.Job.Epochs * q.Job.DataCount; n > 0 {
		out = append(out, Work{transfer.Throughput, exactly(n), "samples", fmt.Sprintf("%s of %s samples", plural(q.Job.Epochs, "epoch"), count(q.Job.DataCount))})
	}
	return append(out, wholeTraining(q, same))
}

// wholeTraining is one training as the measured ones went: the user's own where one finished, scaled to the epochs that are
// asked for, else published ones to their target.
func wholeTraining(q *Question, same []history.Entry) Work {
	w := Work{transfer.Trainings, exactly(1), "trainings", "one training to its target, as the published ones went"}
	for _, e := range same {
		if e.Kind != history.Run || e.State != "done" {
			continue
		}
		w.Words = "one training, as " + named(e) + " went"
		if e.Unit == "epoch" && e.Units > 0 && q.Job.Epochs > 0 && q.Job.Epochs != e.Units {
			w.Amount = exactly(q.Job.Epochs / e.Units)
			w.Words = fmt.Sprintf("%s; %s did %s", plural(q.Job.Epochs, "epoch"), named(e), count(e.Units))
		}
		break
	}
	return w
}

// ownUnits is the work in units of the log of earlier runs of the same training, scaled to the epochs and samples that are
// asked for. Where these are not given, finished runs that differ in length make it uncertain.
func ownUnits(q *Question, same []history.Entry) (Work, bool) {
	var w Work
	unit := commonUnit(same)
	var logs []float64
	for _, e := range same {
		if !(e.Units > 0) || e.Unit != unit || e.Kind == history.Probe || e.Parent != "" {
			continue
		}
		amount, exact, words := asked(q, e)
		quantity, what := transfer.UnitRate, unit+"s"
		if batch := e.Observed.Batch; unit == "step" && batch > 0 { // steps of another batch are other steps
			quantity, what, amount, words = transfer.Throughput, "samples", amount*batch, words+", each of "+chart.Significant(batch)+" samples"
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
	if w.Unit == "" {
		return w, false
	}
	if sd := deviation(logs); sd > 0 {
		w.Amount = around(w.Amount.P50, sd*math.Sqrt(1+1/float64(len(logs))))
		w.Words += fmt.Sprintf("; %d finished runs differ by %.0f %%", len(logs), 100*sd)
	}
	return w, true
}

// commonUnit is the unit that most entries are in, as package transfer takes it: "epoch", "step"; "" where none says.
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

// asked is the work of an earlier run scaled to what is asked for; exact when the epochs are given.
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
		words += fmt.Sprintf(", times %s for %s samples instead of %s", chart.Significant(more), chart.Significant(q.Job.DataCount), chart.Significant(e.Job.DataCount))
	}
	return amount, exact, words
}

// deviation is the standard deviation of a sample; 0 for fewer than two.
func deviation(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	var mean, squares float64
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(squares / float64(len(v)-1))
}

// sameTraining are the entries of the very training that is asked about, the newest first: those that are named, and those
// of the user's own that are the same job.
func sameTraining(q *Question, entries []history.Entry) []history.Entry {
	var out []history.Entry
	for _, e := range entries {
		if e.Kind != history.Table && sameJob(q.Job, e.Job) || slices.Contains(q.Same, e.ID) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Entry) int { return b.At.Compare(a.At) })
	return out
}

// sameJob reports whether two jobs are the same training: of the same script, and where one of the scripts is not known of
// the same model and data set.
func sameJob(a, b history.Job) bool {
	if a.ScriptSHA256 != "" && b.ScriptSHA256 != "" {
		return a.ScriptSHA256 == b.ScriptSHA256
	}
	return a.Model != "" && a.Dataset != "" && strings.EqualFold(a.Model, b.Model) && strings.EqualFold(a.Dataset, b.Dataset)
}

// startSpread is the least spread of a start-up time: a single one says nothing about the next better than this.
const startSpread = 0.3

// startUp is the time from launch to the first unit of work, as earlier runs of the training took; unknown where none says.
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

// busyCPUs is how many CPUs the newest run that says kept busy; NaN where none does.
func busyCPUs(same []history.Entry) float64 {
	for _, e := range same {
		if busy := e.CPUUtil / 100 * e.Observed.CPUs; busy > 0 {
			return busy
		}
	}
	return math.NaN()
}

// restartSeconds is what the newest run that says took for a restart; NaN where none does.
func restartSeconds(same []history.Entry) float64 {
	for _, e := range same {
		if e.Restart > 0 {
			return e.Restart
		}
	}
	return math.NaN()
}
