package cluster

import (
	_ "embed"
	"encoding/csv"
	"strconv"
	"strings"
	"sync"
)

// publishedLines contains the values of figures of the paper and of its repository: figure, policy, group, metric, hours. They
// were extracted from the vector paths of the PDF figures (makespan: from the notebook's output) in
// github.com/stanford-futuredata/gavel at c4fa4009 of 2022-01-15, MIT licence. Markers that only indicate the continuation of
// a line are omitted. The lines of the figure "runtime" (figure 12, solver_scaling/multi_gpu_las and multi_gpu_hierarchical)
// contain seconds per decision for 16, 32, 64, … jobs on a quarter as many devices of each of three types.
//
//go:embed published.csv
var publishedLines string

// linesOf returns the published lines of a figure.
func linesOf(figure string) (lines []figureLine) {
	r := csv.NewReader(strings.NewReader(publishedLines))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		panic(err)
	}
	for _, row := range rows {
		if row[0] != figure {
			continue
		}
		line := figureLine{Policy: row[1], Group: row[2], Metric: row[3]}
		for _, cell := range row[4:] {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				panic(err)
			}
			line.Hours = append(line.Hours, v)
		}
		lines = append(lines, line)
	}
	return lines
}

// runtimes returns the lines of figure 12.
var runtimes = sync.OnceValue(func() []figureLine { return linesOf(solverRuntime) })

// published returns the figures. A new one is an entry here, and its lines in published.csv.
var published = sync.OnceValue(func() []figure {
	figures := []figure{
		{Name: "8", Also: "single-las", About: "least attained service, jobs on one device", file: "continuous_jobs/single_gpu_las_v100=36_p100=36_k80=36", first: 0.4, step: 0.4, Best: "best_match_packed", Against: "max_min_fairness_packed"},
		{Name: "9", Also: "multi-las", About: "least attained service, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_las_v100=36_p100=36_k80=36", first: 0.2, step: 0.2, multi: true, Best: "best_match_packed", Against: "max_min_fairness_packed"},
		{Name: "10", Also: "multi-ftf", About: "finish-time fairness, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_ftf_v100=36_p100=36_k80=36", first: 0.2, step: 0.2, multi: true},
		{Name: "single-ftf", About: "finish-time fairness, jobs on one device", file: "continuous_jobs/single_gpu_ftf_v100=36_p100=36_k80=36", first: 0.4, step: 0.4},
		{Name: "single-fifo", About: "first in, first out, jobs on one device", file: "continuous_jobs/single_gpu_fifo_v100=36_p100=36_k80=36", first: 0.4, step: 0.4, Best: "best_match_packed", Against: "fifo_packed"},
		{Name: "multi-fifo", About: "first in, first out, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_fifo_v100=36_p100=36_k80=36", first: 0.2, step: 0.2, multi: true, Best: "best_match_packed", Against: "fifo_packed"},
		{Name: "priorities", About: "two priorities, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_las_priorities_v100=36_p100=36_k80=36", first: 0.2, step: 0.2, multi: true, priorities: true},
		{Name: "ideal", Also: "13a", About: "rounds against ideal shares, jobs on one device", file: "continuous_jobs/single_gpu_las_ideal_v100=36_p100=36_k80=36", first: 0.4, step: 0.4},
		{Name: "multi-ideal", About: "rounds against ideal shares, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_las_ideal_v100=36_p100=36_k80=36", first: 0.2, step: 0.2, multi: true},
		{Name: "rounds", Also: "13b", About: "lengths of rounds, jobs on one device", file: "continuous_jobs/single_gpu_las_perf_round_sweep_v100=36_p100=36_k80=36", first: 0.4, step: 0.4},
		{Name: "rounds-packed", About: "lengths of rounds, pairs of jobs on one device", file: "continuous_jobs/single_gpu_las_packed_round_sweep_v100=36_p100=36_k80=36", first: 0.4, step: 0.4},
		{Name: "14", Also: "estimation", About: "measured and estimated rates of pairs, jobs on one device", file: "throughput_estimation/profiling_percentage=0.20_v100=4_p100=4_k80=4", first: 0.05, step: 0.6 / 11, cluster: "v100=4,p100=4,k80=4",
			note: "the published figure does not name its lines: which is which is inferred from their order; a fifth of the pairs is measured, with 16 reference models"},
		{Name: "makespan", About: "makespan of jobs that all come at once, on 1 to 8 devices", file: "makespan/multi_gpu_v100=36_p100=36_k80=36", first: 100, step: 100, multi: true, static: true, Best: "min_total_duration_packed", Against: "min_total_duration_packed"},
	}
	for i := range figures {
		figures[i].Lines = linesOf(figures[i].Name)
	}
	return figures
})
