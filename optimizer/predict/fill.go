package predict

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"trainopt/optimizer/history"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/report/page"
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
	j.Family = cmp.Or(j.Family, inspect.Family(j.Model))
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
				taken = append(taken, fmt.Sprintf("%s %s (%s)", page.Count(v), name, named(e)))
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
	if len(taken) > 0 {
		note = "taken from measurements of the same model or data set: " + strings.Join(taken, ", ")
	}
	if n := namedParams(j.Model); n > 0 && math.IsNaN(j.Params) {
		j.Params = n
		note = strings.TrimPrefix(note+"; "+page.Count(n)+" parameters by the name of the model", "; ")
	}
	return note
}

// sizeInName matches a number of parameters in the name of a model: "llama2-70b", "opt_350m", "gpt2 1.5B".
var sizeInName = regexp.MustCompile(`(?i)(?:^|[-_ ])(\d+(?:\.\d+)?)([mb])(?:$|[-_ ])`)

// parameters are the lines "model,parameters" of published models.
//
//go:embed parameters.csv
var parameters string

var publishedParams = sync.OnceValue(func() map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(parameters) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), ",")
		if n, err := strconv.ParseFloat(count, 64); err == nil {
			out[plainName(name)] = n
		}
	}
	return out
})

// plainName returns the name of a model without owner, extension, case and punctuation: "google-bert/BERT-base-uncased" is
// "bertbase".
func plainName(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	return strings.NewReplacer("-", "", "_", "", " ", "", "uncased", "", "cased", "", ".pt", "", ".yaml", "").Replace(model)
}

// namedParams returns the number of parameters that the name of a model states, or that a published model of this name
// has; 0 without either.
func namedParams(model string) float64 {
	m := sizeInName.FindStringSubmatch(model)
	if m == nil {
		return publishedParams()[plainName(model)]
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	if strings.EqualFold(m[2], "b") {
		return n * 1e9
	}
	return n * 1e6
}
