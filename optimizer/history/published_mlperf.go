package history

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
)

// loadMLPerf reads the submissions, newest version first.
func loadMLPerf(dir string) ([]Entry, error) {
	name := filepath.Join(dir, "mlperf", "training_results_v4.1_v5.0.csv")
	points, err := readTable(name, readSubmissions)
	if err != nil {
		return nil, present(err)
	}
	slices.SortStableFunc(points, func(a, b measurement) int { return strings.Compare(b.id, a.id) })
	return entriesOf(name, points)
}

var submissionColumns = []string{"mlperf_training_version", "submitter", "system", "benchmark", "accelerator", "nodes", "accelerators_total",
	"framework", "runs_success", "time_to_train_min_olympic_mean", "time_to_train_min_stdev", "global_batch_size"}

// readSubmissions reads the table of submissions, one measurement per row.
func readSubmissions(r io.Reader) ([]measurement, error) {
	var out []measurement
	err := regular.EachRow(csv.NewReader(r), submissionColumns, func(v []string) error {
		nodes, err1 := parseWhole(v[5])
		gpus, err2 := parseWhole(v[6])
		runs, err3 := parseWhole(v[8])
		minutes, err4 := parseNumber(v[9])
		deviation, err5 := parseNumber(v[10])
		batch, err6 := parseWhole(v[11])
		if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
			return err
		}
		if !(minutes > 0) || deviation < 0 {
			return fmt.Errorf("%g minutes to train, deviation %g: want more than 0, and 0 or more", minutes, deviation)
		}
		out = append(out, measurement{
			id:  fmt.Sprintf("mlperf-v%s/%s/%s/%s", v[0], v[3], v[1], strings.ReplaceAll(v[2], "/", "_")),
			gpu: gpuName(v[4]), gpus: gpus, nodes: nodes, batch: float64(batch), framework: mlperfFramework(v[3], v[7]), machine: v[2],
			seconds: 60 * minutes, count: float64(runs), spread: deviation / minutes,
		})
		return nil
	})
	return out, err
}

// mlperfFramework returns the framework of a benchmark, given a list that often covers all benchmarks of a submitter;
// "" if it is ambiguous.
func mlperfFramework(benchmark, list string) string {
	list = strings.ToLower(list)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(list, w) })
	}
	switch {
	case benchmark == "dlrm_dcnv2" && has("hugectr"):
		return "hugectr"
	case (benchmark == "gnn" || benchmark == "rgat") && has("dgl"):
		return "dgl"
	case has("tinygrad"):
		return "tinygrad"
	case has("maxtext", "maxdiffusion"):
		return "jax"
	case has("pytorch", "nemo") && !has("mxnet"):
		return "pytorch"
	}
	return ""
}
