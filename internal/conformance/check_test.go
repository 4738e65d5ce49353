package conformance

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// rateTolerance is the accepted relative error of a reported rate.
const rateTolerance = 0.02

// cell is one judgement: correct, wrong, or not applicable with a reason.
type cell struct {
	text  string
	wrong bool
}

func right(format string, args ...any) cell { return cell{text: fmt.Sprintf(format, args...)} }
func wrong(format string, args ...any) cell {
	return cell{text: fmt.Sprintf(format, args...), wrong: true}
}

// judgement is one row of the table.
type judgement struct {
	training                                          training
	end, progress, total, rate, predicted, checkpoint cell
	log, stop                                         cell
	note                                              string
	predictionShown, predictionHeld                   bool
}

// cells returns the judgements with their names, in column order.
func (j *judgement) cells() []namedCell {
	return []namedCell{{"end", j.end}, {"progress", j.progress}, {"total", j.total}, {"rate", j.rate}, {"predicted", j.predicted},
		{"log", j.log}, {"checkpoint", j.checkpoint}, {"stop and resume", j.stop}}
}

type namedCell struct {
	name string
	cell
}

// judge compares the record of an uninterrupted training with the training's own counts.
func judge(t training, length int, code int, r *record, tr truth) judgement {
	j := judgement{training: t}
	whole := t.expected(length)
	if len(tr) > 0 {
		last := tr.last()
		if last.steps != whole.steps {
			j.end = wrong("the training counted %g steps, want %g", last.steps, whole.steps)
			return j
		}
		whole = last
	}
	j.end = judgeEnd(code, r)
	j.progress = judgeCount(t, r.Training.Unit, r.done(), whole, t.visible.hidden)
	j.total = judgeCount(t, r.Training.Unit, r.Training.TotalUnits, whole, t.visible.hidden)
	j.rate = judgeRate(t, r, tr)
	j.predicted = judgePrediction(r)
	j.log = judgeLog(t, r)
	j.checkpoint = judgeCheckpoint(t, r)
	if p := r.Plan; p != nil && p.Prediction != nil {
		j.predictionShown = true
		j.predictionHeld = within(r.Outcome.Seconds, p.Prediction.Seconds)
	}
	if n := r.moves(); n > 0 {
		j.note = fmt.Sprintf("allocation changed %d×", n)
	}
	return j
}

func within(v float64, i interval) bool { return i.P5 <= v && v <= i.P95 }

func judgeEnd(code int, r *record) cell {
	switch {
	case code != 0:
		return wrong("exit %d", code)
	case r.State != "done":
		return wrong("state %s", r.State)
	case r.Exit == nil || r.Exit.Code == nil || *r.Exit.Code != 0:
		return wrong("exit of the training is not recorded as 0")
	case r.verdict() != "met":
		return wrong("deadline kept, verdict %q", r.verdict())
	}
	return right("0, met")
}

// judgeCount compares a count in the record's unit with the truth. For a training without epochs the record may report
// steps as epochs.
func judgeCount(t training, unit string, got *float64, whole mark, unknown bool) cell {
	switch {
	case unknown && got == nil:
		return right("unknown, rightly")
	case unknown:
		return wrong("%g, cannot be known", *got)
	case got == nil:
		return wrong("unknown")
	}
	want := whole.steps
	if unit == "epoch" && whole.epochs > 0 {
		want = whole.epochs
	}
	if math.Abs(*got-want) > 1e-6*want {
		return wrong("%g of %g %ss", *got, want, unit)
	}
	return right("%g %ss", *got, unit)
}

// judgeRate compares the reported throughput with the truth in the reported unit, within rateTolerance. Trainings whose
// samples are countable must be reported in samples/s, hidden ones without a rate. If epochs are not counted, an epoch
// rate is compared with the step rate.
func judgeRate(t training, r *record, tr truth) cell {
	got, unit := r.Outcome.Throughput, r.Outcome.ThroughputUnit
	if unit == "" {
		unit = "samples/s"
	}
	switch {
	case t.visible.hidden && got == nil:
		return right("unknown, rightly")
	case t.visible.hidden:
		return wrong("%.4g %s, cannot be known", *got, unit)
	case got == nil:
		return wrong("unknown")
	case !t.visible.noSamples && unit != "samples/s":
		return wrong("%.4g %s, samples are countable", *got, unit)
	}
	count := map[string]func(mark) float64{"samples/s": countSamples, "steps/s": countSteps, "epochs/s": countEpochs}[unit]
	if count == nil {
		return wrong("unit %q", unit)
	}
	want, ok := tr.rate(count)
	if !ok && unit == "epochs/s" {
		want, ok = tr.rate(countSteps)
	}
	switch {
	case !ok:
		return wrong("%.4g %s, no truth", *got, unit)
	case math.Abs(*got/want-1) > rateTolerance:
		return wrong("%.4g %s, truth %.4g", *got, unit, want)
	}
	return right("%.4g %s", *got, unit)
}

// judgePrediction requires that a prediction exists only where the total is known. Coverage is judged over the whole
// suite.
func judgePrediction(r *record) cell {
	shown := r.Plan != nil && r.Plan.Prediction != nil
	switch {
	case shown && r.Training.TotalUnits == nil:
		return wrong("predicted without a total")
	case !shown && r.Training.TotalUnits == nil:
		return right("none, rightly")
	case !shown:
		return right("none")
	}
	p := r.Plan.Prediction.Seconds
	verb := "held"
	if !within(r.Outcome.Seconds, p) {
		verb = "missed"
	}
	return right("%.3g–%.3g s, took %.3g: %s", p.P5, p.P95, r.Outcome.Seconds, verb)
}

// judgeLog requires the followed log to be the run's own stream or a log that this training writes.
func judgeLog(t training, r *record) cell {
	path := r.Log.Path
	if path == "" || strings.HasPrefix(path, r.dir+string(filepath.Separator)) || !strings.Contains(path, "/") {
		if path == "" && !t.visible.hidden && r.Log.Format == "" {
			return wrong("none")
		}
		return right("own %s", r.Log.Format)
	}
	if t.logs != "" && matches(t.logs, path) {
		return right("%s", filepath.Base(path))
	}
	return wrong("%s", filepath.Base(path))
}

func judgeCheckpoint(t training, r *record) cell {
	switch {
	case t.checkpoint == "" && r.Checkpoint == nil:
		return right("none, rightly")
	case r.Checkpoint != nil && t.saves != "" && matches(t.saves, r.Checkpoint.Path):
		return right("%s", filepath.Base(r.Checkpoint.Path))
	case t.checkpoint == "":
		return wrong("%s is none", filepath.Base(r.Checkpoint.Path))
	case r.Checkpoint == nil:
		return wrong("not seen")
	case !matches(t.checkpoint, r.Checkpoint.Path):
		return wrong("%s", filepath.Base(r.Checkpoint.Path))
	}
	return right("%s", filepath.Base(r.Checkpoint.Path))
}

// matches reports whether the end of a path matches a pattern with brace alternatives.
func matches(pattern, path string) bool {
	for _, p := range alternatives(pattern) {
		depth := strings.Count(p, "/") + 1
		parts := strings.Split(filepath.ToSlash(path), "/")
		for end := len(parts); end >= depth && end > len(parts)-3; end-- { // a checkpoint may be a folder
			if ok, _ := filepath.Match(p, strings.Join(parts[end-depth:end], "/")); ok {
				return true
			}
		}
	}
	return false
}

func alternatives(pattern string) []string {
	if inner, ok := strings.CutPrefix(pattern, "{"); ok {
		return strings.Split(strings.TrimSuffix(inner, "}"), ",")
	}
	return []string{pattern}
}

// judgeResume compares the record after a stop and a resume with the truth.
func judgeResume(t training, length, code int, r *record, tr truth) cell {
	interval := float64(t.every) * t.stepsPer
	lives := tr.lives()
	switch {
	case code != 0 || r.State != "done":
		return wrong("resumed: exit %d, state %s", code, r.State)
	case tr.last().steps != t.expected(length).steps:
		return wrong("resumed: the training counted %g steps, want %g", tr.last().steps, t.expected(length).steps)
	case len(lives) < 2:
		return wrong("resumed: no second process trained")
	case tr.lost() > interval+1:
		return wrong("lost %g steps, checkpoints every %g", tr.lost(), interval)
	}
	if c := judgeCount(t, r.Training.Unit, r.done(), tr.last(), t.visible.hidden); c.wrong {
		return wrong("resumed: %s", c.text)
	}
	return right("lost %g of %g steps", max(0, tr.lost()), interval)
}
