package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"trainopt/internal/stat"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/sla"
)

// Cases: the hidden points, and the queried ones among them.
const (
	interpolation = "GPU count, between" // a model on a GPU at one count, between visible counts
	extrapolation = "GPU count, beyond"  // the same, below or above all visible counts
	newDevice     = "GPU type"           // a model on a GPU
	profiled      = "GPU type, 1 known"  // all but the runs on one GPU of the type; queries are for more GPUs
	newModel      = "model"              // a model, everywhere
)

var cases = caseOrder()

func caseOrder() []string {
	out := []string{interpolation, extrapolation, newDevice, profiled, newModel}
	for _, kind := range ownKinds {
		for n := 1; n <= mostOwn; n++ {
			out = append(out, ownKind(kind, n))
		}
	}
	return out
}

// hiding is one set of entries that is left out.
type hiding struct {
	kind   string
	name   string
	hidden []int // entries that are removed
	asked  []int // queried entries among them
	own    []int // the user's own measurements of an otherwise unknown job; nil if the job is a published one
}

// outcome is the prediction for one hidden entry.
type outcome struct {
	kind, source, id string
	truth            float64
	answer           sla.Interval
	basis            bool // a prediction was possible
}

// sourceOf returns the first part of the id of a published entry.
func sourceOf(e *history.Entry) string {
	s, _, _ := strings.Cut(e.ID, "/")
	return s
}

// asks returns the quantity that an entry can verify, and its value.
func asks(e *history.Entry) (transfer.Quantity, float64) {
	if e.Throughput > 0 {
		return transfer.Throughput, e.Throughput
	}
	return transfer.Trainings, 1 / e.Seconds
}

// hidings lists all sets to leave out in turn, sorted by kind and name. At most perHiding entries of each are queried
// (twice as many for a GPU type, four times for a model), drawn by their ids. It first indexes the entries by model,
// GPU and count; a count is interpolated if smaller and larger counts remain visible.
func hidings(entries []history.Entry, perHiding int) []hiding {
	type onDevice struct{ model, gpu, quantity string }
	type count struct {
		onDevice
		gpus float64
	}
	counts, devices, models := map[count][]int{}, map[onDevice][]int{}, map[string][]int{}
	widths := map[onDevice]map[float64]bool{}
	kinds := map[string]map[string]bool{}
	for i := range entries {
		e := &entries[i]
		q, _ := asks(e)
		d := onDevice{e.Job.Model, e.Observed.GPU, string(q)}
		counts[count{d, e.Observed.GPUs}] = append(counts[count{d, e.Observed.GPUs}], i)
		devices[d] = append(devices[d], i)
		models[e.Job.Model] = append(models[e.Job.Model], i)
		if widths[d] == nil {
			widths[d] = map[float64]bool{}
		}
		widths[d][e.Observed.GPUs] = true
		if kinds[e.Job.Model] == nil {
			kinds[e.Job.Model] = map[string]bool{}
		}
		kinds[e.Job.Model][e.Observed.GPU] = true
	}
	var out []hiding
	for c, hidden := range counts {
		below, above := false, false
		for w := range widths[c.onDevice] {
			below, above = below || w < c.gpus, above || w > c.gpus
		}
		kind := extrapolation
		switch {
		case below && above:
			kind = interpolation
		case !below && !above:
			continue
		}
		out = append(out, hiding{kind: kind, name: fmt.Sprint(c), hidden: hidden, asked: drawHidden(entries, hidden, perHiding)})
	}
	for d, hidden := range devices {
		if len(kinds[d.model]) > 1 {
			out = append(out, hiding{kind: newDevice, name: fmt.Sprint(d), hidden: hidden, asked: drawHidden(entries, hidden, 2*perHiding)})
		}
		wider := slices.DeleteFunc(slices.Clone(hidden), func(i int) bool { return entries[i].Observed.GPUs == 1 })
		if len(wider) > 0 && len(wider) < len(hidden) {
			out = append(out, hiding{kind: profiled, name: fmt.Sprint(d), hidden: wider, asked: drawHidden(entries, wider, 2*perHiding)})
		}
	}
	for m, hidden := range models {
		out = append(out, hiding{kind: newModel, name: m, hidden: hidden, asked: drawHidden(entries, hidden, 4*perHiding)})
	}
	slices.SortFunc(out, func(a, b hiding) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	return out
}

// drawHidden returns at most n of the entries, ordered by the hash of their ids, hence the same ones in every run.
func drawHidden(entries []history.Entry, from []int, n int) []int {
	out := slices.Clone(from)
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(hashID(entries[a].ID), hashID(entries[b].ID)) })
	return out[:min(n, len(out))]
}

func hashID(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// leaveOut predicts all queried entries of each hiding from the visible entries, on two goroutines at most.
func leaveOut(entries []history.Entry, list []hiding, o transfer.Options) []outcome {
	out := make([][]outcome, len(list))
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := range next {
				out[i] = hideOne(entries, list[i], o)
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wait.Wait()
	return slices.Concat(out...)
}

// hideOne builds a model of the entries that are visible and predicts the queried ones.
func hideOne(entries []history.Entry, h hiding, options transfer.Options) []outcome {
	if h.own != nil {
		return askOwn(entries, h, options)
	}
	hidden := make(map[int]bool, len(h.hidden))
	for _, i := range h.hidden {
		hidden[i] = true
	}
	visible := make([]history.Entry, 0, len(entries))
	for i := range entries {
		if !hidden[i] {
			visible = append(visible, entries[i])
		}
	}
	m := transfer.New(visible, options)
	var out []outcome
	for _, i := range h.asked {
		e := &entries[i]
		q, truth := asks(e)
		o := outcome{kind: h.kind, source: sourceOf(e), id: e.ID, truth: truth}
		c := e.Observed
		c.Machine = e.Source // query the machines of that publication
		if est, err := m.Predict(transfer.Query{Job: e.Job, Config: c}, q); err == nil {
			o.basis, o.answer = true, est.Value
		}
		out = append(out, o)
	}
	return out
}

// row is one line of the result table.
type row struct {
	kind, source          string
	points, silent        int     // predicted; without a basis
	median, ninety        float64 // of |predicted / measured - 1|
	medianLow, medianHigh float64 // 95 % interval of the median, as if the points were independent
	coverage              float64
	low, high             float64 // 95 % interval of the coverage (Wilson), as if the points were independent
	wide                  float64 // median of P95 / P5
}

// tabulate returns one row per case and source, and one per case over all sources.
func tabulate(outcomes []outcome) []row {
	type key struct{ kind, source string }
	by := map[key][]outcome{}
	for _, o := range outcomes {
		for _, s := range []string{o.source, "all"} {
			by[key{o.kind, s}] = append(by[key{o.kind, s}], o)
		}
	}
	var out []row
	for k, list := range by {
		r := row{kind: k.kind, source: k.source}
		var errs, wide []float64
		covered := 0
		for _, o := range list {
			if !o.basis {
				r.silent++
				continue
			}
			errs = append(errs, math.Abs(o.answer.P50/o.truth-1))
			wide = append(wide, o.answer.P95/o.answer.P5)
			if o.truth >= o.answer.P5 && o.truth <= o.answer.P95 {
				covered++
			}
		}
		if r.points = len(errs); r.points > 0 {
			slices.Sort(errs)
			r.wide = stat.Median(wide)
			r.median, r.ninety = errs[len(errs)/2], errs[len(errs)*9/10]
			r.coverage = float64(covered) / float64(len(errs))
			r.low, r.high = stat.Wilson(covered, len(errs))
			least, most := stat.Wilson(len(errs)/2, len(errs)) // ranks of the median, as shares
			r.medianLow, r.medianHigh = stat.Quantile(errs, least), stat.Quantile(errs, most)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b row) int {
		return cmp.Or(cmp.Compare(slices.Index(cases, a.kind), slices.Index(cases, b.kind)), cmp.Compare(a.source, b.source))
	})
	return out
}
