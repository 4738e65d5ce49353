package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// ownKinds are the cases of a job of the user's own after n own measurements. Published measurements of the same model
// are hidden; all others in the program are visible, and none that is not in the program.
var ownKinds = []string{"batch", "GPU count", "GPU type"}

const mostOwn = 3

func ownKind(kind string, n int) string { return fmt.Sprintf("%s, %d own", kind, n) }

// ownHidings lists the cases of the user's own jobs: for each asked measurement, the same one after one, two and three
// own measurements, each set containing the one before. Own measurements are drawn by their ids:
//
//	batch      other batch sizes on the same GPUs
//	GPU count  other counts of the same GPU type at the same batch per GPU
//	GPU type   other GPU types at the same batch per GPU, on at most one machine
//
// At most perHiding measurements are asked for of each model, GPU and, for batch sizes and counts, GPU count.
func ownHidings(entries []history.Entry, perHiding int) []hiding {
	type place struct {
		source, model, gpu string
		gpus               float64
	}
	irregular, peaks := history.IrregularCurves(entries), history.Peaks()
	kin := map[string][]int{}
	kinOf := func(e *history.Entry) string { return fmt.Sprint(e.Source, "/", e.Job.Model, "/", e.Job.Dataset) }
	for i := range entries {
		if e := &entries[i]; e.Throughput > 0 && peaks[e.Observed.GPU].Name != "" && !irregular[e.ID] {
			kin[kinOf(e)] = append(kin[kinOf(e)], i)
		}
	}
	for k := range kin {
		kin[k] = drawHidden(entries, kin[k], len(entries))
	}
	asked := map[string]int{}
	var out []hiding
	for _, i := range slices.Concat(slices.Collect(maps.Values(kin))...) {
		e := &entries[i]
		for _, kind := range ownKinds {
			at := fmt.Sprint(kind, place{sourceOf(e), e.Job.Model, e.Observed.GPU, e.Observed.GPUs})
			if asked[at] == perHiding {
				continue
			}
			var own []int
			for _, k := range kin[kinOf(e)] {
				if len(own) < mostOwn && elsewhere(kind, e, &entries[k]) && !slices.ContainsFunc(own, func(o int) bool { return sameConfig(&entries[o], &entries[k]) }) {
					own = append(own, k)
				}
			}
			if len(own) < mostOwn {
				continue
			}
			asked[at]++
			for n := 1; n <= mostOwn; n++ {
				out = append(out, hiding{kind: ownKind(kind, n), name: e.ID, asked: []int{i}, own: own[:n]})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b hiding) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	return out
}

func sameConfig(a, b *history.Entry) bool {
	x, y := a.Observed, b.Observed
	return x.GPU == y.GPU && x.GPUs == y.GPUs && x.Nodes == y.Nodes && x.Batch == y.Batch
}

// elsewhere reports whether a measurement of the same job may be an own one when e is asked for.
func elsewhere(kind string, e, own *history.Entry) bool {
	a, b := e.Observed, own.Observed
	alike := math.Abs(math.Log2(a.Batch/a.GPUs*b.GPUs/b.Batch)) < 0.3
	switch kind {
	case "batch":
		return a.GPU == b.GPU && a.GPUs == b.GPUs && a.Nodes == b.Nodes && math.Abs(math.Log2(a.Batch/b.Batch)) > 0.3
	case "GPU count":
		return a.GPU == b.GPU && a.GPUs != b.GPUs && alike
	}
	return a.GPU != b.GPU && alike && a.Nodes <= 1 && b.Nodes <= 1
}

// mine returns a published measurement as one that the user made at home.
func mine(e history.Entry) history.Entry {
	e.Kind, e.Source, e.ID, e.Observed.Machine = history.Probe, "", "own/"+e.ID, "home, "+e.Observed.GPU
	return e
}

// askOwn predicts the asked measurement of a user's job from the own ones and the published ones of other models.
func askOwn(entries []history.Entry, h hiding, options transfer.Options) []outcome {
	e := &entries[h.asked[0]]
	visible := slices.DeleteFunc(history.Published(), func(x history.Entry) bool { return x.Job.Model == e.Job.Model })
	for _, i := range h.own {
		visible = append(visible, mine(entries[i]))
	}
	asked := mine(*e)
	o := outcome{kind: h.kind, source: sourceOf(e), id: e.ID, truth: e.Throughput}
	if est, err := transfer.New(visible, options).Predict(transfer.Query{Job: asked.Job, Config: asked.Observed}, transfer.Throughput); err == nil {
		o.basis, o.answer = true, est.Value
	}
	return []outcome{o}
}
