package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/history"
)

// thin returns the entries to embed:
//
//	pollux       one node, or nodes with 1, 2 or 4 GPUs each, on 1, 2, 4, 8 or 16 nodes; of each such placement the smallest
//	             and largest batch per GPU, and batches between them spaced by a factor of about 2
//	gavel        all but irregular curves (history.IrregularCurves)
//	elasticflow  all on A100; on T4, where the values were computed from the tables of Pollux, only the model absent there
//	mlperf       of v5.0, the median over submitters for each benchmark, accelerator, number of nodes and accelerators, and batch
//
// Tables without a licence (Sia, MLPerf v4.1) are omitted.
func thin(entries []history.Entry) []history.Entry {
	irregular := history.IrregularCurves(entries)
	polluxModels := map[string]bool{}
	places := map[string][]history.Entry{}
	submissions := map[string][]history.Entry{}
	var out []history.Entry
	for _, e := range entries {
		part := strings.Split(e.ID, "/")
		switch part[0] {
		case "pollux":
			polluxModels[part[1]] = true
			if alike(e.Observed) && !strings.Contains(part[3], "+") {
				place := strings.Join(part[:4], "/")
				places[place] = append(places[place], e)
			}
		case "gavel":
			if !irregular[e.ID] {
				out = append(out, e)
			}
		case "mlperf-v5.0":
			id := configID(part[1], e.Observed)
			submissions[id] = append(submissions[id], e)
		}
	}
	for _, e := range entries {
		part := strings.Split(e.ID, "/")
		if part[0] == "elasticflow" && (part[2] == "a100" || !polluxModels[part[1]]) {
			out = append(out, e)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		out = append(out, thinBatchSizes(places[place])...)
	}
	for _, id := range slices.Sorted(maps.Keys(submissions)) {
		out = append(out, medianEntry(id, submissions[id]))
	}
	return out
}

// alike reports whether the placement of a configuration is kept: one node, or 2 to 16 nodes with 1, 2 or 4 GPUs each.
func alike(c history.Config) bool {
	perNode := int(c.GPUs) / c.Nodes
	return c.Nodes == 1 || int(c.GPUs)%c.Nodes == 0 && slices.Contains([]int{1, 2, 4}, perNode) && slices.Contains([]int{2, 4, 8, 16}, c.Nodes)
}

// thinBatchSizes thins the batch sizes of entries to a geometric grid with a factor of about 2 and keeps both ends. It
// sorts entries by batch size.
func thinBatchSizes(entries []history.Entry) []history.Entry {
	slices.SortFunc(entries, func(a, b history.Entry) int { return int(a.Observed.Batch - b.Observed.Batch) })
	var out []history.Entry
	for i, e := range entries {
		if i == 0 || i == len(entries)-1 || e.Observed.Batch >= 1.9*out[len(out)-1].Observed.Batch {
			out = append(out, e)
		}
	}
	return out
}

// configID returns the entry id of a benchmark on a configuration.
func configID(benchmark string, c history.Config) string {
	place := fmt.Sprintf("r%.0fn%d", c.GPUs, c.Nodes)
	if int(c.GPUs)%c.Nodes == 0 {
		place = fmt.Sprintf("%dx%d", int(c.GPUs)/c.Nodes, c.Nodes)
	}
	return fmt.Sprintf("mlperf/%s/%s/%s/g%.0f", benchmark, strings.ToLower(strings.ReplaceAll(c.GPU, " ", "-")), place, c.Batch)
}

// medianEntry returns the entry of a configuration: the median over submitters of the median over each submitter's systems.
// UnitCount is the number of submitters and UnitSpread their relative standard deviation; the framework is unknown if
// they differ.
func medianEntry(id string, submissions []history.Entry) history.Entry {
	bySubmitter := map[string][]float64{}
	out := history.NewEntry(history.Table, id)
	out.Job, out.Observed = submissions[0].Job, submissions[0].Observed
	for _, e := range submissions {
		submitter := strings.Split(e.ID, "/")[2]
		bySubmitter[submitter] = append(bySubmitter[submitter], e.Seconds)
		if e.Job.Framework != out.Job.Framework {
			out.Job.Framework = ""
		}
	}
	var each []float64
	for _, seconds := range bySubmitter {
		each = append(each, stat.Median(seconds))
	}
	slices.Sort(each) // a fixed order of summation below
	out.Seconds, out.UnitCount = stat.Median(each), float64(len(each))
	if len(each) > 1 {
		mean, squares := 0.0, 0.0
		for _, s := range each {
			mean += s / float64(len(each))
		}
		for _, s := range each {
			squares += (s - mean) * (s - mean)
		}
		out.UnitSpread = math.Sqrt(squares/float64(len(each)-1)) / mean
	}
	return out
}
