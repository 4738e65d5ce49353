package analysis

import (
	"fmt"
	"maps"
	"slices"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// Options configures the evaluation of runs. The zero value uses each run's own price and no limits.
type Options struct {
	// Rates price every run; nil keeps each run's own price.
	Rates *cost.Rates
	// Limits apply to every run; the zero value contains none.
	Limits sla.Spec
}

// Analyzer collects finished trainings. The zero value is not usable: see New.
type Analyzer struct {
	options Options
	entries map[string]history.Entry
	logs    []readLog
	notes   []string
}

// readLog summarises the reading of one log.
type readLog struct {
	Path     string   `json:"path"`
	Format   string   `json:"format"`
	Rows     int      `json:"rows"`
	Bad      int      `json:"bad"`
	FirstBad []string `json:"first_bad"`
	// Odd counts readable values and rows that are implausible, such as a negative time.
	Odd      int      `json:"odd"`
	FirstOdd []string `json:"first_odd"`
}

// New returns an empty analyzer.
func New(o Options) *Analyzer {
	return &Analyzer{options: o, entries: map[string]history.Entry{}}
}

// AddLog reads a training log of any framework and adds its trainings; a log read twice counts once. The error is
// that of history.ReadLog, or reports a log without usable rows; nothing is added on an error.
func (a *Analyzer) AddLog(path string, o history.LogOptions) error {
	log, err := history.ReadLog(path, o)
	if err != nil {
		return err
	}
	if len(log.Entries) == 0 {
		return fmt.Errorf("read training log %s: no row with the time or the progress of a training", path)
	}
	a.logs = append(a.logs, readLog{Path: path, Format: log.Format, Rows: log.Rows, Bad: log.Bad, FirstBad: append([]string{}, log.FirstBad...),
		Odd: log.Odd, FirstOdd: append([]string{}, log.FirstOdd...)})
	if log.Odd > 0 {
		a.Note(fmt.Sprintf("%s: %s, first: %s", path, page.Plural(log.Odd, "odd value"), log.FirstOdd[0]))
	}
	for _, e := range log.Entries {
		if before, ok := a.entries[e.ID]; ok && e.Parent == "" && before.Source != e.Source {
			a.Note(fmt.Sprintf("%s holds the same training as %s: counted once", path, before.Source))
		}
	}
	for _, n := range log.Notes {
		a.Note(path + ": " + n)
	}
	a.AddEntries(log.Entries)
	return nil
}

// AddEntries adds entries of the runs database. An entry replaces an earlier one with the same ID, so that a finished
// run updates its earlier state.
func (a *Analyzer) AddEntries(entries []history.Entry) {
	for _, e := range entries {
		a.entries[e.ID] = e
	}
}

// Note adds notes to the report, such as entries that the database rejected.
func (a *Analyzer) Note(words ...string) {
	for _, w := range words {
		a.notes = append(a.notes, page.Clean(w))
	}
}

// runs returns the runs of the given kinds (nil: all), priced and sorted.
func (a *Analyzer) runs(kinds []history.Kind) []run {
	var list []run
	for _, e := range a.entries {
		if kinds == nil || slices.Contains(kinds, e.Kind) {
			list = append(list, newRun(e, a.options.Rates))
		}
	}
	ordered(list)
	named(list)
	return list
}

// modelCharacteristics are the known properties of a model and its data, over all its runs.
type modelCharacteristics struct {
	Model    string   `json:"model"`
	Families []string `json:"families"`
	Datasets []string `json:"datasets"`
	// Frameworks and Scripts that trained it.
	Frameworks []string     `json:"frameworks"`
	Scripts    []string     `json:"scripts"`
	Params     valueSummary `json:"params"`       // trained parameters
	Layers     valueSummary `json:"layers"`       //
	DataCount  valueSummary `json:"data_count"`   // samples per epoch
	DataSizeMB valueSummary `json:"data_size_mb"` // MB
}

// characteristics groups runs by model and summarises the texts and numbers of each group.
func characteristics(runs []run) []modelCharacteristics {
	byModel := map[string][]run{}
	for _, r := range runs {
		byModel[r.model] = append(byModel[r.model], r)
	}
	var list []modelCharacteristics
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		c := modelCharacteristics{Model: model}
		texts := func(of func(history.Job) string) []string {
			seen := []string{}
			for _, r := range byModel[model] {
				if s := page.Clean(of(r.Job)); s != "" && !slices.Contains(seen, s) {
					seen = append(seen, s)
				}
			}
			slices.Sort(seen)
			return seen
		}
		numbers := func(of func(history.Job) float64) valueSummary {
			var v []float64
			for _, r := range byModel[model] {
				v = append(v, of(r.Job))
			}
			return summarize(v)
		}
		c.Families, c.Datasets = texts(func(j history.Job) string { return j.Family }), texts(func(j history.Job) string { return j.Dataset })
		c.Frameworks, c.Scripts = texts(func(j history.Job) string { return j.Framework }), texts(func(j history.Job) string { return j.Script })
		c.Params, c.Layers = numbers(func(j history.Job) float64 { return j.Params }), numbers(func(j history.Job) float64 { return j.Layers })
		c.DataCount, c.DataSizeMB = numbers(func(j history.Job) float64 { return j.DataCount }), numbers(func(j history.Job) float64 { return j.DataSizeMB })
		list = append(list, c)
	}
	return list
}
