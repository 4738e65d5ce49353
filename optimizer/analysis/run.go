package analysis

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
)

// run is one training, or one segment of it, with derived values.
type run struct {
	history.Entry
	// On is the observed configuration, completed by the requested one.
	On history.Config
	// USD is the cost, HourUSD the hourly price of On, GPUShare the share of GPUs in that price, 0…1; NaN when
	// unknown.
	USD, HourUSD, GPUShare float64
	// Price is the price behind USD; the zero value when the log contains the cost itself or no price is known.
	Price cost.Rates
	// PerUnit is the number of samples per unit of work, Speed is samples/s in steady state; NaN when unknown.
	PerUnit, Speed float64

	name     string
	model    string // display name of the model
	computed bool   // USD is time at Price rather than a recorded cost
}

// newRun derives the values of a run from an entry. Rates, if given, price every run; otherwise the recorded cost
// applies.
func newRun(e history.Entry, rates *cost.Rates) run {
	r := run{Entry: e, On: configOf(e), USD: e.CostUSD, HourUSD: unknown(), GPUShare: unknown(), Price: e.Rates}
	r.price(rates)
	r.PerUnit = r.samplesPerUnit()
	r.Speed = e.Throughput
	if !(r.Speed > 0) {
		r.Speed = r.PerUnit / e.UnitTime
	}
	if !page.Known(r.Speed) || r.Speed <= 0 {
		r.Speed = unknown()
	}
	return r
}

// configOf returns the observed configuration, completed by the requested one.
func configOf(e history.Entry) history.Config {
	on, asked := e.Observed, e.Requested
	on.GPU, on.Machine, on.Nodes = cmp.Or(on.GPU, asked.GPU), cmp.Or(on.Machine, asked.Machine), cmp.Or(on.Nodes, asked.Nodes)
	for _, f := range []struct{ into, from *float64 }{{&on.GPUs, &asked.GPUs}, {&on.CPUs, &asked.CPUs}, {&on.MemoryGiB, &asked.MemoryGiB}, {&on.Batch, &asked.Batch}} {
		if !page.Known(*f.into) {
			*f.into = *f.from
		}
	}
	if on.GPUs == 0 {
		on.GPU = ""
	}
	return on
}

// price sets Price, USD, HourUSD and GPUShare. Rates override the recorded cost and price. Without any price, HourUSD
// is derived from the recorded cost and the time.
func (r *run) price(rates *cost.Rates) {
	if rates != nil {
		r.Price, r.USD = *rates, unknown()
	}
	if r.Price != (cost.Rates{}) {
		a, complete := allocation(r.On)
		all := r.Price
		all.Instance *= cost.USD(max(1, r.On.Nodes))
		split := all.HourlySplit(a)
		switch {
		case all.Instance > 0:
			r.HourUSD = float64(all.Instance)
		case complete:
			r.HourUSD = float64(split.Sum())
		}
		if complete && split.Sum() > 0 {
			r.GPUShare = float64(split.GPU / split.Sum())
		}
		if rates != nil || !page.Known(r.USD) {
			r.USD, r.computed = r.HourUSD*r.Seconds/3600, true
		}
	}
	if r.On.GPUs == 0 {
		r.GPUShare = 0
	}
	if !page.Known(r.HourUSD) && r.Seconds > 0 {
		r.HourUSD = r.USD / r.Seconds * 3600
	}
}

// allocation converts a configuration for package cost. complete is false when the GPUs or CPUs are unknown. Unknown
// memory counts as 0.
func allocation(c history.Config) (a resources.Allocation, complete bool) {
	if page.Known(c.GPUs) {
		a.GPUs = int(c.GPUs)
	}
	if page.Known(c.CPUs) {
		a.CPUs = int(c.CPUs)
	}
	if page.Known(c.MemoryGiB) {
		a.Memory = resources.GiB(c.MemoryGiB)
	}
	return a, page.Known(c.GPUs) && page.Known(c.CPUs)
}

// samplesPerUnit returns the samples per unit of work; NaN when unknown.
func (r *run) samplesPerUnit() float64 {
	switch {
	case r.Unit == "epoch" && r.Job.DataCount > 0:
		return r.Job.DataCount
	case r.Unit == "step" && r.On.Batch > 0:
		return r.On.Batch
	case r.Throughput > 0 && r.UnitTime > 0:
		return r.Throughput * r.UnitTime
	}
	return unknown()
}

// unitSeconds returns the time of one unit of work in steady state, or else the mean over the whole run.
func (r *run) unitSeconds() (seconds float64, steady bool) {
	if r.UnitTime > 0 {
		return r.UnitTime, true
	}
	if r.Units > 0 && r.Seconds > 0 {
		return r.Seconds / r.Units, false
	}
	return unknown(), false
}

// unitUSD returns the cost per unit of work: the whole cost of the run divided by its units.
func (r *run) unitUSD() float64 {
	if r.Units > 0 && r.USD >= 0 {
		return r.USD / r.Units
	}
	return unknown()
}

// origin returns the id of the training to which a probe or segment belongs.
func origin(e history.Entry) string { return cmp.Or(e.Parent, e.ID) }

// named sets the display name of every run: its ID; for a log its file name, with the folder if several logs share
// the file name, and for a segment its number.
func named(runs []run) {
	folders := map[string]map[string]bool{} // by file name
	for i := range runs {
		if source := runs[i].Source; runs[i].Kind == history.Log && source != "" {
			file := filepath.Base(source)
			if folders[file] == nil {
				folders[file] = map[string]bool{}
			}
			folders[file][source] = true
		}
	}
	for i := range runs {
		r := &runs[i]
		r.name = page.Clean(r.ID)
		if r.Kind != history.Log || r.Source == "" {
			r.model = modelName(r.Job, page.Clean(origin(r.Entry)))
			continue
		}
		if r.name = filepath.Base(r.Source); len(folders[r.name]) > 1 {
			r.name = r.Source
		}
		r.model = modelName(r.Job, page.Clean(r.name))
		if _, number, ok := strings.Cut(r.ID, "/"); ok && r.Parent != "" {
			r.name += " " + number
		}
		r.name = page.Clean(r.name)
	}
}

// unknownModel is the display name of a model without any known property.
const unknownModel = "unknown model"

// modelName returns the display name of a run's model, or else of its script. If the data set is unknown too, the
// source of the run is part of the name, since runs from two sources are not known to be the same work.
func modelName(j history.Job, place string) string {
	switch {
	case j.Model != "":
		return page.Clean(j.Model)
	case j.Script != "":
		return "script " + page.Clean(j.Script[strings.LastIndexByte(j.Script, '/')+1:])
	case j.Dataset != "":
		return unknownModel
	case j.ScriptSHA256 != "":
		return "script " + page.Clean(j.ScriptSHA256[:min(12, len(j.ScriptSHA256))])
	}
	return unknownModel + " in " + place
}

// configWords formats a configuration: "4× A100 40GB, 32 CPU, 128 GiB, batch 512".
func configWords(c history.Config) string {
	var parts []string
	switch {
	case !page.Known(c.GPUs):
		parts = append(parts, "GPUs unknown")
	case c.GPUs == 0:
		parts = append(parts, "no GPU")
	case c.GPU == "":
		parts = append(parts, page.Count(c.GPUs)+" GPU")
	default:
		parts = append(parts, page.Count(c.GPUs)+"× "+page.Clean(c.GPU))
	}
	if c.Nodes > 1 {
		parts = append(parts, fmt.Sprintf("%d nodes", c.Nodes))
	}
	if page.Known(c.CPUs) {
		parts = append(parts, page.Count(c.CPUs)+" CPU")
	}
	if page.Known(c.MemoryGiB) {
		parts = append(parts, page.Count(c.MemoryGiB)+" GiB")
	}
	if page.Known(c.Batch) {
		parts = append(parts, "batch "+page.Count(c.Batch))
	}
	if c.Machine != "" {
		parts = append(parts, page.Clean(c.Machine))
	}
	return strings.Join(parts, ", ")
}

// configKey returns a key that is the same for equal configurations only; unknown equals unknown.
func configKey(c history.Config) string {
	return fmt.Sprintf("%q %v %d %v %v %v %q", c.GPU, c.GPUs, c.Nodes, c.CPUs, c.MemoryGiB, c.Batch, c.Machine)
}

// training is a run, or a training in a log.
type training struct {
	Whole run
	// Parts are its segments, or the whole training when it has none.
	Parts []run
}

// trainings assigns the segments of logs to their trainings. A segment of an unknown training becomes a training
// itself. The order is that of the runs.
func trainings(runs []run) []training {
	at := map[string]int{}
	for _, r := range runs {
		at[r.ID] = -1
	}
	var list []training
	var stretches []run
	for _, r := range runs {
		if _, ok := at[r.Parent]; ok && r.Parent != "" {
			stretches = append(stretches, r)
			continue
		}
		at[r.ID] = len(list)
		list = append(list, training{Whole: r})
	}
	for _, r := range stretches {
		if i := at[r.Parent]; i >= 0 {
			list[i].Parts = append(list[i].Parts, r)
		}
	}
	for i := range list {
		if len(list[i].Parts) == 0 {
			list[i].Parts = []run{list[i].Whole}
		}
	}
	return list
}

// ordered sorts runs by start and then by ID, so that the order of additions does not matter.
func ordered(runs []run) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
}
