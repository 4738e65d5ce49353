package history

import (
	"fmt"
	"math"
	"strconv"

	"trainopt/optimizer/inspect"
)

// assumptionNotes completes entries with assumed values and collects notes. Each distinct note is listed once, with the
// number of trainings that it applies to if a log contains several.
type assumptionNotes struct {
	assume Entry
	said   map[string]int
	order  []string
	thisIs int            // number of the current training
	of     map[string]int // text → last training that the note applied to
}

// note adds a note to the current training, at most once per training.
func (a *assumptionNotes) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if last, ok := a.of[text]; ok && last == a.thisIs {
		return
	}
	if a.said[text] == 0 {
		a.order = append(a.order, text)
	}
	a.of[text] = a.thisIs
	a.said[text]++
}

// notes lists the notes in order of first occurrence; trainings is the number of trainings in the log.
func (a *assumptionNotes) notes(trainings int) []string {
	var out []string
	for _, text := range a.order {
		if n := a.said[text]; n < trainings {
			text = fmt.Sprintf("%s (%d of %d trainings)", text, n, trainings)
		}
		out = append(out, text)
	}
	return out
}

// fill completes an entry with the assumed values and notes each of them. In an assumption that was not created by
// history.NewEntry (no Kind), every 0 means unknown. Values in the log always take precedence.
func (a *assumptionNotes) fill(e *Entry) {
	s := &a.assume
	for _, f := range []struct {
		name     string
		to, from *string
	}{
		{"a script", &e.Job.Script, &s.Job.Script}, {"the script's SHA-256", &e.Job.ScriptSHA256, &s.Job.ScriptSHA256},
		{"a framework", &e.Job.Framework, &s.Job.Framework}, {"model_name", &e.Job.Model, &s.Job.Model}, {"dataset", &e.Job.Dataset, &s.Job.Dataset},
		{"a GPU model", &e.Observed.GPU, &s.Observed.GPU}, {"a machine", &e.Observed.Machine, &s.Observed.Machine},
	} {
		if *f.to == "" && *f.from != "" && !(f.to == &e.Observed.GPU && e.Observed.GPUs == 0) {
			*f.to = *f.from
			a.note("does not record %s: assumed to be %s", f.name, *f.from)
		}
	}
	if e.Job.Family = inspect.Family(e.Job.Model); e.Job.Family == "" {
		e.Job.Family = s.Job.Family
	}
	if e.Observed.Nodes == 0 && s.Observed.Nodes > 0 {
		e.Observed.Nodes = s.Observed.Nodes
		a.note("does not record the number of nodes: assumed to be %d", s.Observed.Nodes)
	}
	for _, f := range []struct {
		name     string
		to, from *float64
	}{
		{"model_params", &e.Job.Params, &s.Job.Params}, {"model_layers", &e.Job.Layers, &s.Job.Layers}, {"data_count", &e.Job.DataCount, &s.Job.DataCount},
		{"data_size_mb", &e.Job.DataSizeMB, &s.Job.DataSizeMB}, {"total_epochs", &e.Job.Epochs, &s.Job.Epochs},
		{"gpu_count", &e.Observed.GPUs, &s.Observed.GPUs}, {"cpu_count", &e.Observed.CPUs, &s.Observed.CPUs},
		{"the host's memory", &e.Observed.MemoryGiB, &s.Observed.MemoryGiB}, {"batch_size", &e.Observed.Batch, &s.Observed.Batch},
	} {
		none := *f.from == 0 && f.from == &s.Observed.GPUs && s.Kind != ""
		if math.IsNaN(*f.to) && (*f.from > 0 || none) && !math.IsInf(*f.from, 0) {
			*f.to = *f.from
			a.note("does not record %s: assumed to be %s", f.name, strconv.FormatFloat(*f.from, 'g', -1, 64))
		}
	}
}
