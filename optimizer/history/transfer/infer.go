package transfer

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// inferred is the prediction for a run from measurements of other trainings. Zero intervals and an empty Speed mean
// that nothing similar was measured.
type inferred struct {
	// Speed holds the predicted seconds per sample, one observation per allocation, all with one common effect of the
	// predicted width; UnitSamples is 1.
	Speed []perf.Observation
	Basis string // description of the measurements behind Speed
	// Startup and restart are seconds, of the user's own runs with the same framework; Memory is the peak on the host
	// in GiB.
	Startup, Restart, Memory sla.Interval
}

const (
	// leastBasis is the minimum share of a prediction that similar measurements must explain, and widestPrior the
	// largest ratio of P95 to P5: wider predictions have no influence.
	leastBasis, widestPrior = 0.2, 300
	// inferredLevel and inferredSlope are the minimum standard deviations of the log of an inferred speed, and of its
	// change per doubling of the GPUs or CPUs.
	inferredLevel, inferredSlope = 0.3, 0.1
)

// Infer predicts a run at the given allocations from entries of other trainings and the published measurements. batch
// is the number of samples per step over all GPUs at an allocation, NaN if unknown. CPU trainings are predicted from
// the user's own runs only.
func Infer(entries []history.Entry, job history.Job, at []resources.Allocation, c CarryTarget, batch func(resources.Allocation) float64) inferred {
	all := entries
	if job.Family != "" {
		all = slices.Concat(entries, history.Published())
	}
	if len(all) == 0 {
		return inferred{}
	}
	m := New(all, Options{})
	query := func(a resources.Allocation) Query {
		q := Query{Job: job, Config: c.Config(a)}
		q.Config.Batch = batch(a)
		return q
	}
	var out inferred
	own := query(c.Reference)
	for what, into := range map[Quantity]*sla.Interval{startup: &out.Startup, restart: &out.Restart, HostMemory: &out.Memory} {
		if e, err := m.Predict(own, what); err == nil && e.usable() {
			*into = e.Value
		}
	}
	reference, err := m.Predict(own, Throughput)
	if err != nil || !reference.usable() || c.Reference.GPUs == 0 && !slices.ContainsFunc(reference.Basis, ofCPUs(entries)) {
		return out
	}
	level := max(inferredLevel, math.Log(reference.Value.P95/reference.Value.P5)/2/intervalSigma)
	slope := inferredSlope
	for _, a := range at {
		e, err := m.Predict(query(a), Throughput)
		if err != nil {
			continue
		}
		if octaves := math.Abs(math.Log2(float64(wide(a)) / float64(wide(c.Reference)))); octaves > 0 {
			if r, err := m.Ratio(own, query(a)); err == nil {
				slope = max(slope, r.SD/octaves)
			}
		}
		out.Speed = append(out.Speed, perf.Observation{Allocation: a, UnitSeconds: []float64{1 / e.Value.P50}, UnitSamples: 1, PeakMemoryGiB: math.NaN(), Recalled: true, Inferred: true})
	}
	for i := range out.Speed {
		out.Speed[i].Effects = []perf.Effect{{Name: "other trainings", Level: level, Slope: slope, Reference: c.Reference}}
	}
	out.Basis = basisWords(reference.Basis)
	return out
}

// SamplesOf returns the samples in one epoch of a job, from published measurements on its data set; NaN if unknown.
func SamplesOf(job history.Job) float64 {
	for _, e := range history.Published() {
		if job.Dataset != "" && plain(e.Job.Dataset) == plain(job.Dataset) && e.Job.DataCount > 0 {
			return e.Job.DataCount
		}
	}
	return math.NaN()
}

// usable reports whether an estimate is narrow and based enough to inform a run.
func (e *Estimate) usable() bool {
	return e.Prior <= 1-leastBasis && e.Value.P95 <= widestPrior*e.Value.P5
}

// ofCPUs returns a function that reports whether a group contains a measurement on CPUs.
func ofCPUs(entries []history.Entry) func(BasisGroup) bool {
	return func(g BasisGroup) bool {
		return slices.ContainsFunc(entries, func(e history.Entry) bool { return e.Observed.GPUs == 0 && slices.Contains(g.Entries, e.ID) })
	}
}

// wide returns the number of GPUs, or of CPUs without a GPU, at least 1.
func wide(a resources.Allocation) int {
	if a.GPUs > 0 {
		return a.GPUs
	}
	return max(1, a.CPUs)
}

// basisWords names the most similar trainings and counts the others.
func basisWords(groups []BasisGroup) string {
	var names []string
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b BasisGroup) int { return cmp.Compare(b.Similarity, a.Similarity) })
	for _, g := range groups {
		name, _, _ := strings.Cut(g.Source, ",")
		if !g.published() {
			name = "own runs"
		}
		what := g.Job.Model
		if what == "" {
			what = filepath.Base(g.Job.Script)
		}
		if text := fmt.Sprintf("%s (%s)", what, name); !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	const shown = 2
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// published reports whether a group is of the published measurements, whose ids begin with the name of their source.
func (g *BasisGroup) published() bool {
	return len(g.Entries) > 0 && strings.Contains(g.Entries[0], "/") && !filepath.IsAbs(g.Source)
}
