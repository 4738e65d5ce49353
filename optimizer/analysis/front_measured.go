package analysis

import (
	"fmt"
	"math"
	"path/filepath"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// Finished is the measurement of one finished training.
type Finished struct {
	Name       string
	Allocation resources.Allocation
	Seconds    float64
	CostUSD    float64 // NaN: unknown, to be priced
	Units      float64 // work done: epochs, or else steps, or else rows
	Notes      []string
}

// ReadFinishedLog reads the training log of a finished run, in any format that monitor reads. Time is the largest
// time_so_far, or else the sum of epoch_time. The allocation is the largest gpu_count and cpu_count and the peak of
// memory_used_gb, with fallback for missing values. Cost is the largest cost_so_far. The error wraps
// trainlog.ErrNoData for an empty log, and errNoPoint for one without times, or without cpu_count when fallback has no
// CPUs.
func ReadFinishedLog(path string, aliases map[string]string, fallback resources.Allocation) (Finished, error) {
	rows, stats, err := trainlog.ReadLog(path, trainlog.TailOptions{Aliases: aliases})
	if err != nil {
		return Finished{}, err
	}
	f := Finished{Name: filepath.Base(path), CostUSD: math.NaN()}
	if stats.Bad > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s: %d of %d rows skipped, first: %s", f.Name, stats.Bad, stats.Rows+stats.Bad, stats.FirstBad[0]))
	}
	most := func(c trainlog.Column) float64 {
		v := math.NaN()
		for i := range rows {
			if x, ok := rows[i].Value(c); ok && !math.IsInf(x, 0) && !(x <= v) {
				v = x
			}
		}
		return v
	}
	if f.Seconds = most(trainlog.TimeSoFar); !(f.Seconds > 0) {
		f.Seconds = 0
		for i := range rows {
			if x, ok := rows[i].Value(trainlog.EpochTime); ok && x > 0 && !math.IsInf(x, 0) {
				f.Seconds += x
			}
		}
	}
	if f.Seconds == 0 {
		return f, fmt.Errorf("read training log %s: no column with times (time_so_far or epoch_time): %w", path, errNoPoint)
	}
	f.CostUSD = most(trainlog.CostSoFar)
	f.Units = float64(len(rows))
	for _, c := range []trainlog.Column{trainlog.Epoch, trainlog.Step} {
		if v := most(c); !math.IsNaN(v) {
			f.Units = v
			break
		}
	}
	f.Allocation = fallback
	if v := most(trainlog.GPUCount); v >= 0 {
		f.Allocation.GPUs, f.Allocation.GPUIDs = int(v), nil
	}
	if v := most(trainlog.CPUCount); v >= 1 {
		f.Allocation.CPUs = int(v)
	} else if fallback.CPUs < 1 {
		return f, fmt.Errorf("read training log %s: it has no cpu_count: give --cpus N (and --gpus N): %w", path, errNoPoint)
	} else {
		f.Notes = append(f.Notes, fmt.Sprintf("%s does not record cpu_count: %d CPU assumed", f.Name, fallback.CPUs))
	}
	if v := most(trainlog.MemoryUsed); v > 0 && fallback.Memory <= 0 {
		f.Allocation.Memory = resources.GiB(v)
	}
	if v := most(trainlog.BatchSize); v >= 1 {
		f.Allocation.BatchSize = int(v)
	}
	return f, nil
}

// ReadFinishedRun reads the outcome of a finished run. The error wraps errNoPoint for an unfinished one.
func ReadFinishedRun(dir string) (Finished, error) {
	rec, err := journal.ReadVerified(dir)
	if err != nil {
		return Finished{}, fmt.Errorf("read run %s: %w", filepath.Base(dir), err)
	}
	if rec.State != journal.Done || rec.Plan == nil || !rec.Outcome.Seconds.Known() {
		return Finished{}, fmt.Errorf("read run %s: state %s, and only a finished run is a measured point: %w", rec.RunID, rec.State, errNoPoint)
	}
	f := Finished{Name: rec.RunID, Allocation: rec.Plan.Allocation, Seconds: float64(rec.Outcome.Seconds), CostUSD: float64(rec.Outcome.CostUSD)}
	for _, n := range []journal.Number{rec.Outcome.Epochs, rec.Outcome.Steps, journal.Number(rec.Outcome.Rows)} {
		if n.Known() {
			f.Units = float64(n)
			break
		}
	}
	if rec.Outcome.Restarts > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s changed its allocation on the way (%s): it is shown at its last", f.Name, page.Plural(rec.Outcome.Restarts, "restart")))
	}
	f.Units -= rec.Outcome.FromUnits
	return f, nil
}

// AssumedRates returns the default prices for trainings on unknown machines, with or without GPUs of an unknown
// model.
func AssumedRates(gpus bool) cost.Rates {
	if gpus {
		return cost.Default("unknown")
	}
	return cost.Default("")
}

// FromFinished returns one measured point per finished training. With rates, every point is priced by them; otherwise
// by its recorded cost, or else by AssumedRates. Resources are a share of the maximum over all trainings. Different
// amounts of work are noted.
func FromFinished(list []Finished, rates *cost.Rates) FrontPoints {
	set := FrontPoints{Subject: page.Plural(len(list), "finished run"), Source: "measured", Share: "the maximum over all of them"}
	set.Basis = "measured: the whole time and cost of each finished run"
	var most resources.Limits
	for _, f := range list {
		most.GPUs.Max, most.CPUs.Max = max(most.GPUs.Max, f.Allocation.GPUs), max(most.CPUs.Max, f.Allocation.CPUs)
		most.MemoryMax = max(most.MemoryMax, f.Allocation.Memory)
	}
	for _, f := range list {
		if f.Allocation.Memory <= 0 && most.MemoryMax > 0 {
			most.MemoryMax = 0
			set.Notes = append(set.Notes, f.Name+" does not record memory_used_gb: memory is not counted among the resources, and is not in its price")
		}
	}
	assumed := AssumedRates(most.GPUs.Max > 0)
	priced := false
	for i, f := range list {
		set.Notes = append(set.Notes, f.Notes...)
		usd := f.CostUSD
		switch {
		case rates != nil:
			usd = f.Seconds / 3600 * float64(rates.Hourly(f.Allocation))
		case math.IsNaN(usd):
			usd, priced = f.Seconds/3600*float64(assumed.Hourly(f.Allocation)), true
		}
		same := func(v float64) sla.Interval { return sla.Interval{P5: v, P50: v, P95: v} }
		set.Points = append(set.Points, point{Name: page.PlainBlanks(page.Clean(f.Name)) + ", " + given(f.Allocation), Allocation: f.Allocation, Seconds: same(f.Seconds), CostUSD: same(usd),
			Resource: perf.ResourceShare(f.Allocation, most), Feasible: true})
		if first := list[0]; i > 0 && f.Units != first.Units {
			set.Notes = append(set.Notes, fmt.Sprintf("%s did %g units of work and %s %g: their times and costs are not of the same work", first.Name, first.Units, f.Name, f.Units))
		}
	}
	switch {
	case rates != nil:
		set.Basis += fmt.Sprintf("; prices: %s, %s", rates.Source, rates.Dated)
	case priced:
		set.Notes = append(set.Notes, fmt.Sprintf("trainings without a recorded cost are priced at %s per GPU, %s per CPU and %s per GiB and hour (%s, %s): give --rates, --instance or --cpu-hour",
			usd(float64(assumed.GPUHour)), usd(float64(assumed.CPUHour)), usd(float64(assumed.GiBHour)), assumed.Source, assumed.Dated))
	}
	return set
}
