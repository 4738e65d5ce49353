package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

// finding is money spent without progress, certain or suspected: the evidence, the amount and a remedy.
type finding struct {
	Model   string `json:"model"`
	Dataset string `json:"dataset"`
	// Cause is the cause of a cost.Diagnosis ("input-bound", "idle", "not-on-gpu", "no-device", "count-mismatch",
	// "columns-absent"), "flat-gpus", "flat-cpus" or "flat-batch" (speed does not follow the knob), or "failed".
	Cause    string   `json:"cause"`
	Evidence string   `json:"evidence"`
	Advice   string   `json:"advice"`
	RunIDs   []string `json:"run_ids"`
	// LostUSD is the amount, null when it cannot be computed; Basis describes the computation.
	LostUSD page.Number `json:"lost_usd"`
	Basis   string      `json:"basis"`
}

// flat is the speed-up up to which a knob counts as without effect when it was increased by a factor of at least
// raised.
const (
	flat   = 1.10
	raised = 2.0
)

// unused returns the diagnoses of runs that pay for GPUs, one per cause: the worst run is the evidence, the amount is
// the sum.
func unused(g *group, runs []run) []finding {
	type found struct {
		diagnosis cost.Diagnosis
		worst     *run
		runs      []*run
	}
	byCause := map[string]*found{}
	for i := range runs {
		r := &runs[i]
		for _, d := range evidence(r).Diagnose() {
			f := byCause[d.Cause]
			if f == nil {
				f = &found{diagnosis: d, worst: r}
				byCause[d.Cause] = f
			}
			if r.GPUUtil < f.worst.GPUUtil {
				f.diagnosis, f.worst = d, r
			}
			f.runs = append(f.runs, r)
		}
	}
	var list []finding
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		f := byCause[cause]
		n := finding{Model: g.Model, Dataset: g.Dataset, Cause: cause, Advice: f.diagnosis.Advice, LostUSD: none}
		n.Evidence = fmt.Sprintf("%d of %s: %s", len(f.runs), page.Plural(len(runs), "run"), f.diagnosis.Evidence)
		if cause != "columns-absent" && len(f.runs) > 1 {
			n.Evidence += " (the worst, " + f.worst.name + ")"
		}
		var lost []float64
		for _, r := range f.runs {
			n.RunIDs = append(n.RunIDs, r.ID)
			lost = append(lost, r.USD*r.GPUShare*(1-r.GPUUtil/100))
		}
		n.LostUSD = total(lost)
		n.Basis = lostWords("the price of the GPUs for the time that they were idle", knownOf(lost), len(f.runs), cause == "columns-absent")
		list = append(list, n)
	}
	return list
}

// lostWords describes the computation of an amount and its coverage of the runs.
func lostWords(how string, lost []float64, runs int, never bool) string {
	switch {
	case never:
		return ""
	case len(lost) == 0:
		return "cannot be computed: no price by resource"
	case len(lost) < runs:
		return fmt.Sprintf("%s, in %d of %d runs that have prices by resource", how, len(lost), runs)
	}
	return how
}

// evidence returns the measurements of a run's GPUs.
func evidence(r *run) cost.GPUEvidence {
	e := cost.GPUEvidence{Columns: -1, MemoryGiB: r.GPUMemoryGiB, CPUPct: r.CPUUtil, Processes: -1}
	if r.On.GPUs > 0 {
		e.Allocated = int(math.Ceil(r.On.GPUs))
	}
	if page.Known(r.GPUUtil) {
		e.Util = []float64{r.GPUUtil}
	}
	return e
}

// flatCurves returns the curves along which speed does not follow a knob that was at least doubled. A curve qualifies
// if the mean speed-up at its last point is at most flat and its interval does not exceed raised.
func flatCurves(g *group, runs []run) []finding {
	byID := map[string]*run{}
	for i := range runs {
		byID[runs[i].ID] = &runs[i]
	}
	var list []finding
	for _, c := range g.Curves {
		first, last := c.Points[0], c.Points[len(c.Points)-1]
		if last.At < raised*first.At || !(last.Speedup.Mean <= flat) || last.Speedup.Hi > raised {
			continue
		}
		if c.Knob == "batch_size" && !hasGPUs(last, byID) {
			continue // on CPUs, a larger batch is not expected to be faster
		}
		f := finding{Model: g.Model, Dataset: g.Dataset, Cause: flatCause[c.Knob], Advice: flatAdvice[c.Knob], LostUSD: none}
		f.Evidence = fmt.Sprintf("%s: %s at %s, %s at %s (%s)%s", knobNames[c.Knob], page.WithUnit(float64(first.Speed.Mean), c.Unit), page.Count(first.At),
			page.Significant(float64(last.Speed.Mean)), page.Count(last.At), c.Held, use(last, byID))
		f.RunIDs = slices.Clone(last.RunIDs)
		var lost []float64
		for _, id := range last.RunIDs {
			if r := byID[id]; r != nil && c.Knob != "batch_size" {
				lost = append(lost, overpaid(r, first, byID))
			}
		}
		f.LostUSD = total(lost)
		if f.LostUSD.Known() {
			f.Basis = lostWords(fmt.Sprintf("what they cost more for the same work than at %s", page.Count(first.At)), knownOf(lost), len(lost), false)
		}
		list = append(list, f)
	}
	return list
}

var (
	flatCause = map[string]string{"gpus": "flat-gpus", "cpus": "flat-cpus", "batch_size": "flat-batch"}
	knobNames = map[string]string{"gpus": "GPUs", "cpus": "CPUs", "batch_size": "batch"}

	flatAdvice = map[string]string{
		"gpus":       "more GPUs bought no speed: use fewer, or find what they wait for (input, a larger batch per GPU, the network between them)",
		"cpus":       "more CPUs bought no speed: use fewer, or let the script use them (threads, loader workers)",
		"batch_size": "the GPU is not the limit: look at the input (loader workers, decoding, storage) before a larger batch",
	}
)

func hasGPUs(p curvePoint, byID map[string]*run) bool {
	return slices.ContainsFunc(p.RunIDs, func(id string) bool { r := byID[id]; return r != nil && r.On.GPUs > 0 })
}

// use formats the known utilization of GPUs and CPUs at a point.
func use(p curvePoint, byID map[string]*run) string {
	var gpu, cpu []float64
	for _, id := range p.RunIDs {
		if r := byID[id]; r != nil {
			gpu, cpu = append(gpu, r.GPUUtil), append(cpu, r.CPUUtil)
		}
	}
	var parts []string
	if v := stat.Median(knownOf(gpu)); page.Known(v) {
		parts = append(parts, "GPU "+page.Percent(v))
	}
	if v := stat.Median(knownOf(cpu)); page.Known(v) {
		parts = append(parts, "CPU "+page.Percent(v))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}

// overpaid returns the cost of a run in excess of the same work at the speed and price of a point; unknown without
// prices, never negative.
func overpaid(r *run, at curvePoint, byID map[string]*run) float64 {
	var hourly []float64
	for _, id := range at.RunIDs {
		if o := byID[id]; o != nil {
			hourly = append(hourly, o.HourUSD)
		}
	}
	price := stat.Median(knownOf(hourly))
	seconds, _ := r.unitSeconds()
	speed := r.Speed
	if !page.Known(speed) {
		speed = 1 / seconds
	}
	there := price / float64(at.Speed.Mean)
	here := r.HourUSD / speed
	lost := r.USD * (1 - there/here)
	if !page.Known(lost) {
		return unknown()
	}
	return math.Max(0, lost)
}
