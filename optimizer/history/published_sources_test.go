package history

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mlperfHeader = "mlperf_training_version,submitter,system,benchmark,accelerator,nodes,accelerators_total,framework,runs_success," +
	"time_to_train_min_olympic_mean,time_to_train_min_stdev,global_batch_size\n"

// TestLoadRefusesDamage requires an error with file and line for malformed tables.
func TestLoadRefusesDamage(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"placement": {"pollux-profiles/bert/placements.csv", "placement,local_bsz,step_time\n1,4,0.4\nx,4,0.4\n", `placements.csv: line 3: placement "x"`},
		"step time": {"sia-profiles/bert/placements-rtx.csv", "placement,local_bsz,step_time\n1,4,fast\n", `placements-rtx.csv: line 2: step_time "fast"`},
		"replicas": {"sia-profiles/bert/scalability-rtx.csv", "num_nodes,num_replicas,local_bsz,step_time\n4,2,8,0.1\n",
			"scalability-rtx.csv: line 2: 2 replicas on 4 nodes"},
		"half a batch": {"pollux-profiles/ncf/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time\n1,2,8.5,0.1\n", `line 2: num_nodes, num_replicas, local_bsz, step_time: "8.5"`},
		"no column":    {"pollux-profiles/ncf/scalability.csv", "nodes\n1\n", `no column "num_nodes"`},
		"empty":        {"pollux-profiles/ncf/scalability.csv", "", "scalability.csv: empty"},
		"cut short":    {"pollux-profiles/ncf/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time\n1,1,8,0.1\n1,2,", "line 3: wrong number of fields"},
		"no gzip":      {"pollux-profiles/ncf/scalability.csv.gz", "\x1f\x8bnum_nodes,num_replicas", "scalability.csv.gz: unpack: gzip: invalid header"},
		"rate": {"elasticflow/throughputs_A100/bert.csv", "global_batch_size,1,2,4,8,16,32,64\n64,6,8,,0,nan,1,-3\n",
			`bert.csv: line 2: rate on 64 GPUs "-3"`},
		"new model": {"elasticflow/throughputs_A100/gpt9.csv", "global_batch_size,1,2,4,8,16,32,64\n64,6,,,,,,\n", `gpt9.csv: elasticflow/gpt9/a100/1/g64: model "gpt9" of elasticflow is not known`},
		"gavel":     {"gavel/simulation_throughputs.json", `{"v100": 3}`, "simulation_throughputs.json: read Gavel throughputs"},
		"minutes":   {"mlperf/training_results_v4.1_v5.0.csv", mlperfHeader + "5.0,A,s,bert,H100,1,8,PyTorch,10,0,0,768\n", "line 2: 0 minutes to train"},
		"accelerators": {"mlperf/training_results_v4.1_v5.0.csv", mlperfHeader + "5.0,A,s,bert,H100,1,,PyTorch,10,3,0,768\n",
			`line 2: "", want a whole number from 1`},
		"version": {"mlperf/training_results_v4.1_v5.0.csv", mlperfHeader + "9.9,A,s,bert,H100,1,8,PyTorch,10,3,0,768\n", `source "mlperf-v9.9" is not known`},
		"twice": {"mlperf/training_results_v4.1_v5.0.csv", mlperfHeader + "5.0,A,s,bert,H100,1,8,PyTorch,10,3,0,768\n" +
			"5.0,A,s,bert,H100,1,8,PyTorch,10,4,0,768\n", `"mlperf-v5.0/bert/A/s" occurs twice`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadPublished(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := LoadPublished(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to read: %v, want one that wraps fs.ErrNotExist", err)
	}
}

// TestWhatWasNotMeasuredIsLeftOut requires that empty cells yield no entry, that rows of one measurement are averaged into
// one entry, and that a measurement in both tables of steps counts once.
func TestWhatWasNotMeasuredIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"elasticflow/throughputs_A100/bert.csv": "global_batch_size,1,2,4,8,16,32,64\n64,6,8,,0,nan,1,2\n",
		"pollux-profiles/bert/placements.csv":   "placement,local_bsz,step_time\n44,4,1\n44,4,3\n14,4,2\n41,4,4\n1,4,0\n",
		"pollux-profiles/bert/scalability.csv":  "num_nodes,num_replicas,local_bsz,step_time\n2,8,4,1\n2,8,4.0,5\n2,5,4,9\n",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := LoadPublished(dir)
	if err != nil {
		t.Fatal(err)
	}
	type figures struct{ throughput, count float64 }
	got := map[string]figures{}
	for _, e := range entries {
		got[e.ID] = figures{e.Throughput, e.UnitCount}
	}
	want := map[string]figures{
		"pollux/bert/t4/4x2/b4": {8 * 4 / 3., 3}, "pollux/bert/t4/1+4/b4": {5 * 4 / 3., 2}, "pollux/bert/t4/r5n2/b4": {5 * 4 / 9., 1},
	}
	for id, w := range want {
		if got[id] != w {
			t.Errorf("%s: got %v, want %v", id, got[id], w)
		}
	}
	if len(got) != len(want)+4 {
		t.Errorf("got %v", got)
	}
}
