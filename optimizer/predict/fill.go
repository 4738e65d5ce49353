package predict

import (
	"fmt"
	"math"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/inspect"
)

// fill sets the unknown fields of j from another job.
func fill(j *history.Job, from history.Job) {
	for _, t := range []struct {
		into *string
		from string
	}{{&j.Script, from.Script}, {&j.ScriptSHA256, from.ScriptSHA256}, {&j.Framework, from.Framework}, {&j.Model, from.Model}, {&j.Family, from.Family}, {&j.Dataset, from.Dataset}} {
		if *t.into == "" {
			*t.into = t.from
		}
	}
	for _, n := range []struct {
		into *float64
		from float64
	}{{&j.Params, from.Params}, {&j.Layers, from.Layers}, {&j.DataCount, from.DataCount}, {&j.DataSizeMB, from.DataSizeMB}, {&j.Epochs, from.Epochs}} {
		if math.IsNaN(*n.into) {
			*n.into = n.from
		}
	}
	if j.Family == "" {
		j.Family = inspect.Family(j.Model)
	}
}

// FillKnown sets unknown parameters, layers, samples and data size of a job from measurements of the same model or
// data set. The note describes the values and their sources; it is empty without any.
func FillKnown(j *history.Job, entries []history.Entry) (note string) {
	var taken []string
	take := func(into *float64, name, of string, same func(history.Job) bool, value func(history.Job) float64) {
		if !math.IsNaN(*into) || of == "" {
			return
		}
		for _, e := range entries {
			if v := value(e.Job); v > 0 && same(e.Job) {
				*into = v
				taken = append(taken, fmt.Sprintf("%s %s (%s)", count(v), name, named(e)))
				return
			}
		}
	}
	model := func(x history.Job) bool { return strings.EqualFold(x.Model, j.Model) }
	data := func(x history.Job) bool { return strings.EqualFold(x.Dataset, j.Dataset) }
	take(&j.Params, "parameters", j.Model, model, func(x history.Job) float64 { return x.Params })
	take(&j.Layers, "layers", j.Model, model, func(x history.Job) float64 { return x.Layers })
	take(&j.DataCount, "samples per epoch", j.Dataset, data, func(x history.Job) float64 { return x.DataCount })
	take(&j.DataSizeMB, "MB of data", j.Dataset, data, func(x history.Job) float64 { return x.DataSizeMB })
	if len(taken) == 0 {
		return ""
	}
	return "taken from measurements of the same model or data set: " + strings.Join(taken, ", ")
}
