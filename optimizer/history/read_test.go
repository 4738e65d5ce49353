package history

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// show formats the known fields of an entry on one line.
func show(e *Entry) string {
	var b strings.Builder
	text := func(name, v string) {
		if v != "" {
			fmt.Fprintf(&b, " %s=%s", name, v)
		}
	}
	number := func(name string, v float64) {
		if !math.IsNaN(v) {
			fmt.Fprintf(&b, " %s=%.4g", name, v)
		}
	}
	if e.Parent != "" {
		text("part", strings.TrimPrefix(e.ID, e.Parent))
	}
	fmt.Fprintf(&b, " rows=%d", e.Rows)
	if e.Bad > 0 {
		number("bad", float64(e.Bad))
	}
	if e.Restarts > 0 {
		number("restarts", float64(e.Restarts))
	}
	j, c := &e.Job, &e.Observed
	text("model", j.Model)
	text("family", j.Family)
	text("dataset", j.Dataset)
	text("framework", j.Framework)
	number("params", j.Params)
	number("layers", j.Layers)
	number("data", j.DataCount)
	number("mb", j.DataSizeMB)
	number("of", j.Epochs)
	text("gpu", c.GPU)
	number("gpus", c.GPUs)
	number("cpus", c.CPUs)
	number("host", c.MemoryGiB)
	number("batch", c.Batch)
	text("machine", c.Machine)
	number(e.Unit+"s", e.Units)
	number("s", e.Seconds)
	number("each", e.UnitTime)
	number("spread", e.UnitSpread)
	number("n", e.UnitCount)
	number("speed", e.Throughput)
	number("usd", e.CostUSD)
	number("gpu%", e.GPUUtil)
	number("cpu%", e.CPUUtil)
	number("mem", e.PeakMemoryGiB)
	number("gpumem", e.GPUMemoryGiB)
	number("loss", e.TrainLoss)
	number("acc", e.TestAccuracy)
	return strings.TrimSpace(b.String())
}

func shown(log trainingLog) []string {
	var out []string
	for i := range log.Entries {
		out = append(out, show(&log.Entries[i]))
	}
	return out
}

// lines joins lines, each with a line feed.
func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

// unchecked marks cases whose count of oddities is determined by package monitor.
const unchecked = -1

// TestRead compares the entries of small logs, and requires that they contain no other values.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		options    LogOptions
		want       []string
		notes      []string // substrings, one per note
		odd        int
	}{
		"the ancestor's log": {file: "log-cifar10-resnet50.csv", text: lines(
			"timestamp,epoch,model_name,model_params,model_layers,dataset,data_count,data_size_mb,data_dim,batch_size,device_type,cpu_count,gpu_count,train_loss,train_accuracy,test_loss,test_accuracy,epoch_time,time_so_far,throughput,gpu_memory_used_gb,cost_so_far,gpu_utilization_0,gpu_utilization_1,gpu_utilization_2,gpu_utilization_3",
			"2025-07-01 10:00:20,1,ResNet50,23520842,151,CIFAR10,50000,586,3x32x32,256,cuda,96,2,1.9,30,1.7,38,20,20,3000,4.1,0.10,80,60,0,0",
			"2025-07-01 10:00:30,2,ResNet50,23520842,151,CIFAR10,50000,586,3x32x32,256,cuda,96,2,1.5,45,1.4,48,10,30,6000,4.3,0.15,90,70,0,0",
			"2025-07-01 10:00:42,3,ResNet50,23520842,151,CIFAR10,50000,586,3x32x32,256,cuda,96,2,1.2,55,1.2,56,12,42,5000,4.2,0.21,85,65,0,0",
			"2025-07-01 10:00:42,SUMMARY,ResNet50,23520842,151,CIFAR10,50000,586,3x32x32,256,cuda,96,2,1.5,43,1.4,47,14,30.7,4666,4.2,0.15,85,65,0,0"),
			want:  []string{"rows=3 bad=1 model=ResNet50 family=resnet dataset=CIFAR10 params=2.352e+07 layers=151 data=5e+04 mb=586 gpus=2 cpus=96 batch=256 epochs=3 s=42 each=11 spread=0.1286 n=2 speed=5500 usd=0.21 gpu%=75 gpumem=4.3 loss=1.2 acc=56"},
			notes: []string{`1 of 4 rows skipped, first: line 5: epoch is not a number: "SUMMARY"`}},
		"GPUs by their use": {text: lines("epoch,epoch_time,device_type,gpu_utilization_0,gpu_utilization_1,gpu_utilization_2",
			"1,9,NVIDIA A100-SXM4-40GB,50,0,0", "2,5,NVIDIA A100-SXM4-40GB,90,0,70"),
			want: []string{"rows=2 gpu=A100 40GB gpus=2 epochs=2 s=14 each=5 n=1 gpu%=52.5"}},
		"idle GPUs are no proof of none": {text: lines("epoch,epoch_time,device_type,gpu_utilization_0", "1,9,cuda:0,0", "2,5,cuda:0,0"),
			want: []string{"rows=2 epochs=2 s=14 each=5 n=1 gpu%=0"}},
		"a CPU is no GPU": {text: lines("epoch,epoch_time,device_type", "1,9,cpu", "2,5,cpu"),
			want: []string{"rows=2 gpus=0 epochs=2 s=14 each=5 n=1"}},
		"two allocations": {text: lines("epoch,model_name,gpu_count,batch_size,time_so_far,cost_so_far,memory_used_gb,train_loss",
			"1,vgg16,1,64,20,0.2,2,5", "2,vgg16,1,64,30,0.3,4,4", "3,vgg16,1,64,40,0.4,3,3", "4,vgg16,4,256,50,0.8,9,2", "5,vgg16,4,256,53,0.9,8,1", "6,vgg16,4,256,56,1,8,0.5"),
			want: []string{
				"rows=6 model=vgg16 family=vgg epochs=6 s=56 usd=1 mem=9 loss=0.5",
				"part=/1 rows=3 model=vgg16 family=vgg gpus=1 batch=64 epochs=3 s=40 each=10 n=1 usd=0.4 mem=4 loss=3",
				"part=/2 rows=3 model=vgg16 family=vgg gpus=4 batch=256 epochs=3 s=16 each=3 spread=0 n=2 usd=0.6 mem=9 loss=0.5"}},
		"there and back": {text: lines("epoch,cpu_count,epoch_time", "1,4,20", "2,4,10", "3,8,30", "4,8,6", "5,4,25", "6,4,12"),
			want: []string{
				"rows=6 epochs=6 s=103",
				"part=/1 rows=4 cpus=4 epochs=4 s=67 each=11 spread=0.1286 n=2",
				"part=/2 rows=2 cpus=8 epochs=2 s=36 each=6 n=1"}},
		"the allocation is said late": {text: lines("epoch,epoch_time,gpu_count", "1,9,", "2,5,2", "3,5,2"),
			want: []string{"rows=3 gpus=2 epochs=3 s=19 each=5 spread=0 n=2"}},
		"restarted, the clock restored from the checkpoint": {text: lines("epoch,time_so_far,cost_so_far", "1,10,1", "2,20,2", "3,30,3", "2,21,2.1", "3,31,3.1", "4,41,4.1"),
			want:  []string{"rows=6 restarts=1 epochs=4 s=50 each=10 spread=0 n=2 usd=5"},
			notes: []string{"goes back"}, odd: 3},
		"restarted, the clock from zero": {text: lines("epoch,time_so_far", "1,10", "2,20", "3,30", "4,40", "4,9", "5,19", "6,29"),
			want:  []string{"rows=7 restarts=1 epochs=6 s=69 each=10 spread=0 n=3"},
			notes: []string{"goes back"}, odd: 2},
		"begun again before the end is the same training": {text: lines("epoch,total_epochs,epoch_time", "1,4,9", "2,4,5", "1,4,9.5", "2,4,6", "3,4,5", "4,4,5"),
			want:  []string{"rows=6 restarts=1 of=4 epochs=4 s=39.5 each=5.25 spread=0.09524 n=4"},
			notes: []string{"goes back"}, odd: 2},
		"begun again after the end is another": {text: lines("epoch,total_epochs,epoch_time", "1,2,9", "2,2,5", "1,2,8", "2,2,4"),
			want:  []string{"rows=2 of=2 epochs=2 s=14 each=5 n=1", "rows=2 of=2 epochs=2 s=12 each=4 n=1"},
			notes: []string{"holds 2 trainings"}, odd: 2},
		"several models": {text: lines("model_name,dataset,epoch,epoch_time", "resnet18,mnist,1,9", "resnet18,mnist,2,5", "vgg16,mnist,1,19", "vgg16,mnist,2,15", "rubbish", "vgg16,svhn,1,29"),
			want: []string{"rows=2 model=resnet18 family=resnet dataset=mnist epochs=2 s=14 each=5 n=1", "rows=2 bad=1 model=vgg16 family=vgg dataset=mnist epochs=2 s=34 each=15 n=1",
				"rows=1 model=vgg16 family=vgg dataset=svhn epochs=1 s=29 each=29 n=1"},
			notes: []string{"holds 3 trainings", "1 of 6 rows skipped"}, odd: 3},
		"two models in turns": {text: lines("model_name,epoch,epoch_time", "a,1,9", "b,1,19", "a,2,5", "b,2,15", "a,3,5", "b,3,15"),
			want:  []string{"rows=3 model=a epochs=3 s=19 each=5 spread=0 n=2", "rows=3 model=b epochs=3 s=49 each=15 spread=0 n=2"},
			notes: []string{"holds 2 trainings"}, odd: 3},
		"a pause is no steady state": {text: lines("epoch,epoch_time", "1,30", "2,10", "3,11", "4,9", "5,5000", "6,10"),
			want: []string{"rows=6 epochs=6 s=5070 each=10 spread=0.08165 n=4"}},
		"a longer unit now and then counts": {text: lines("epoch,epoch_time", "1,30", "2,10", "3,10", "4,20", "5,10", "6,10", "7,20"),
			want: []string{"rows=7 epochs=7 s=110 each=13.33 spread=0.3873 n=6"}},
		"an evaluation now and then counts": {text: lines("epoch,epoch_time", "1,30", "2,10", "3,10", "4,10", "5,90", "6,10", "7,10", "8,10", "9,95", "10,10", "11,10", "12,10", "13,85", "14,9000"),
			want: []string{"rows=14 epochs=14 s=9390 each=30 spread=1.208 n=12"}},
		"timestamps only": {text: lines("timestamp,epoch", "2025-07-01 10:00:20,1", "2025-07-01 10:00:30,2", "2025-07-01 10:00:42,3"),
			want:  []string{"rows=3 epochs=3 s=22 each=12 n=1"},
			notes: []string{"first row to its last"}},
		"one timestamp": {text: lines("timestamp,epoch,epoch_time", "2025-07-01 10:00:20,1,9", ",2,5", ",3,5.5"), want: []string{"rows=3 epochs=3 s=19.5 each=5.25 spread=0.06734 n=2"}},
		"many steps in a second": {text: lines("timestamp,step,batch_size", "1751364000,10,8", "1751364000,20,8", "1751364001,30,8", "1751364001,40,8", "1751364002,50,8", "1751364002,60,8", "1751364003,70,8"),
			want:  []string{"rows=7 batch=8 steps=70 s=3 each=0.05 spread=0 n=2 speed=160"},
			notes: []string{"first row to its last"}},
		"steps of two epochs": {text: lines("epoch,step,elapsed_s,batch_size", "1,0,1,32", "1,1,2,32", "1,2,3,32", "2,3,5,32", "2,4,6,32", "2,5,7,32", "3,6,9,32"),
			want: []string{"rows=7 batch=32 epochs=3 s=9 each=4 n=1 speed=22.86"}},
		"steps logged now and then, counted from 0":        {text: lines("step,elapsed_s", "49,5", "99,10", "149,15"), want: []string{"rows=3 steps=150 s=15 each=0.1 n=1"}},
		"steps logged now and then, told before the first": {text: lines("step,elapsed_s", "0,1", "50,6", "100,11"), want: []string{"rows=3 steps=100 s=11 each=0.1 n=1"}},
		"one step row": {text: lines("step,elapsed_s", "50,5"), want: []string{"rows=1 steps=50 s=5 each=0.1 n=50"}, notes: []string{"seconds per step are the mean of the whole run"}},
		"an epoch told by several rows counts once": {text: lines("epoch,step,epoch_time", "1,1,4", "1,2,9", "2,3,2", "2,4,5", "3,5,6"), want: []string{"rows=5 epochs=3 s=20 each=5.5 spread=0.1286 n=2"}},
		"steps begun again before the end": {text: lines("step,total_steps,elapsed_s", "10,40,1", "20,40,2", "10,40,1.5", "20,40,2.5", "30,40,3.5"),
			want: []string{"rows=5 restarts=1 steps=30 s=4 each=0.1 n=1"}, notes: []string{"goes back"}, odd: 3},
		"the clock goes back, the epoch goes on": {text: lines("epoch,time_so_far", "1,10", "2,20", "3,30", "4,11", "5,21"),
			want: []string{"rows=5 restarts=1 epochs=5 s=51 each=10 n=1"}, notes: []string{"goes back"}, odd: 1},
		"two writers": {text: lines("epoch,epoch_time,train_loss", "1,5,9", "2,5,8", "3,5,7", "2,5,7.5", "4,5,6", "3,5,6.5", "5,5,5", "4,5,5.5", "6,5,4", "5,5,4.5"),
			want: []string{"rows=10 restarts=4 epochs=6 s=50 each=5 spread=0 n=5 loss=4.5"}, notes: []string{"goes back", "two writers"}, odd: 4},
		"thirty bad lines": {text: lines("model_name,epoch,epoch_time", "a,1,9") + strings.Repeat("x\n", 30) + lines("b,1,8", "x"),
			want: []string{"rows=1 bad=20 model=a epochs=1 s=9 each=9 n=1", "rows=1 bad=11 model=b epochs=1 s=8 each=8 n=1"}, notes: []string{"31 of 33 rows skipped", "holds 2 trainings"}, odd: 1},
		"no GPU is assumed on a machine without one": {text: lines("epoch,epoch_time,gpu_count,model_name,cpu_count,data_count", "1,9,0,m,2,5"), options: LogOptions{Assume: assumed()},
			want: []string{"rows=1 model=m data=5 gpus=0 cpus=2 machine=node7 epochs=1 s=9 each=9 n=1 speed=0.5556"}, notes: []string{"does not record a machine"}},
		"no GPU may be assumed": {text: lines("epoch,epoch_time", "1,9"), options: LogOptions{Assume: Entry{Kind: Log}},
			want: []string{"rows=1 gpus=0 epochs=1 s=9 each=9 n=1"}, notes: []string{"does not record gpu_count: assumed to be 0"}},
		"nothing is assumed of zeros": {text: lines("epoch,epoch_time", "1,9"), options: LogOptions{Assume: Entry{}}, want: []string{"rows=1 epochs=1 s=9 each=9 n=1"}},
		"no times, no counts": {text: lines("epoch,loss", "1,0.5", "2,0.25"),
			want: []string{"rows=2 framework=keras epochs=2 loss=0.25"}, notes: []string{noTimes}},
		"neither epoch nor step": {text: lines("time_so_far,train_loss,throughput", "12,5,100", "20,4,210", "29,3,200"),
			want: []string{"rows=3 s=3 s=29 each=9 n=1 speed=205 loss=3"}},
		"begins in the middle": {text: lines("epoch,epoch_time", "29,9", "30,8"), want: []string{"rows=2 epochs=2 s=17 each=8 n=1"}, notes: []string{"begins in the middle"}},
		"impossible values are not taken": {text: lines("epoch,epoch_time,time_so_far,cpu_count,cpu_percent,gpu_utilization_0,cost_so_far,memory_used_gb",
			"1,-9,inf,0,250,101,-1,nan", "2,5,1e400,4,50,40,0.5,2", "3,0,nan,4,60,60,0.6,3"),
			want: []string{"rows=3 gpus=1 cpus=4 epochs=3 s=5 each=5 n=1 usd=0.6 gpu%=50 cpu%=55 mem=3"}, odd: 8},
		"samples of an epoch": {text: lines("epoch,epoch_time,data_count", "1,9,1000", "2,5,1000"), want: []string{"rows=2 data=1000 epochs=2 s=14 each=5 n=1 speed=200"}},
		"the user's names":    {text: lines("epoch,dauer,karten", "1,9,4", "2,5,4"), options: LogOptions{Aliases: map[string]string{"dauer": "epoch_time", "karten": "gpu_count"}}, want: []string{"rows=2 gpus=4 epochs=2 s=14 each=5 n=1"}},
		"what is assumed is said": {text: lines("epoch,epoch_time,gpu_count", "1,9,2", "2,5,2"), options: LogOptions{Assume: assumed()},
			want:  []string{"rows=2 model=bert-base family=bert data=100 gpu=T4 gpus=2 cpus=8 machine=node7 epochs=2 s=14 each=5 n=1 speed=20"},
			notes: []string{"does not record model_name: assumed to be bert-base", "does not record a GPU model: assumed to be T4", "does not record a machine: assumed to be node7", "does not record data_count: assumed to be 100", "does not record cpu_count: assumed to be 8"}},
		"hugging face": {file: "trainer_state.json", text: `{"log_history": [{"epoch": 0.5, "step": 5, "loss": 2}, {"epoch": 1.0, "step": 10, "loss": 1}, {"epoch": 1.0, "step": 10, "eval_accuracy": 0.7, "eval_loss": 1.5},
			{"epoch": 1.0, "step": 10, "train_loss": 1.5, "train_runtime": 40, "train_samples_per_second": 25}], "num_train_epochs": 1, "train_batch_size": 16}`,
			want:  []string{"rows=2 framework=huggingface of=1 batch=16 epochs=1 s=40 each=40 n=1 speed=25 loss=1 acc=0.7"},
			notes: []string{"mean of the whole run"}, odd: unchecked},
	} {
		t.Run(name, func(t *testing.T) {
			file := c.file
			if file == "" {
				file = "a.csv"
			}
			log, err := ReadLog(write(t, file, c.text), c.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(log); !slices.Equal(got, c.want) {
				t.Errorf("entries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if len(log.Notes) != len(c.notes) {
				t.Errorf("notes %q, want %d", log.Notes, len(c.notes))
			}
			for i, part := range c.notes {
				if i < len(log.Notes) && !slices.ContainsFunc(log.Notes, func(n string) bool { return strings.Contains(n, part) }) {
					t.Errorf("notes %q, want one with %q", log.Notes, part)
				}
			}
			if log.Odd != c.odd && c.odd != unchecked {
				t.Errorf("%d oddities %q, want %d", log.Odd, log.FirstOdd, c.odd)
			}
			check(t, log)
		})
	}
}

func assumed() Entry {
	a := NewEntry(Log, "")
	a.Job.Model, a.Job.DataCount = "bert-base", 100
	a.Observed = Config{GPU: "T4", GPUs: 4, CPUs: 8, MemoryGiB: math.NaN(), Batch: math.NaN(), Machine: "node7"}
	return a
}

// check verifies the invariants of a Log.
func check(t *testing.T, log trainingLog) {
	t.Helper()
	seen := map[string]bool{}
	rows, bad, parts := 0, 0, map[string]int{}
	for i := range log.Entries {
		e := &log.Entries[i]
		if len(e.ID) < 64 || seen[e.ID] || e.Kind != Log || e.Source != log.Path {
			t.Errorf("entry %q of %s is not unique, or not that of a log", e.ID, e.Source)
		}
		seen[e.ID] = true
		if e.Parent == "" {
			rows, bad = rows+e.Rows, bad+e.Bad
		} else if parts[e.Parent] += e.Rows; !seen[e.Parent] {
			t.Errorf("%s comes before the whole", e.ID)
		}
		for name, v := range map[string]float64{"seconds": e.Seconds, "units": e.Units, "time of a unit": e.UnitTime, "spread": e.UnitSpread, "count": e.UnitCount, "throughput": e.Throughput,
			"memory": e.PeakMemoryGiB, "GPU memory": e.GPUMemoryGiB, "GPU use": e.GPUUtil, "CPU use": e.CPUUtil, "cost": e.CostUSD, "GPUs": e.Observed.GPUs, "CPUs": e.Observed.CPUs, "batch": e.Observed.Batch} {
			if v < 0 || math.IsInf(v, 0) {
				t.Errorf("%s: %s is %g", e.ID, name, v)
			}
		}
		if e.UnitTime == 0 || e.Throughput == 0 || e.Observed.CPUs == 0 || e.Observed.Batch == 0 || e.UnitCount == 0 || e.GPUUtil > 100.000001 || e.CPUUtil > 100.000001 {
			t.Errorf("a number that cannot be: %s", show(e))
		}
	}
	for i := range log.Entries {
		if e := &log.Entries[i]; parts[e.ID] != 0 && parts[e.ID] != e.Rows {
			t.Errorf("%s has %d rows, its stretches %d", e.ID, e.Rows, parts[e.ID])
		}
	}
	if !slices.ContainsFunc(log.Notes, func(n string) bool { return strings.Contains(n, "same training twice") }) && (rows != log.Rows || bad != log.Bad) {
		t.Errorf("the trainings have %d rows and %d bad ones, the log %d and %d", rows, bad, log.Rows, log.Bad)
	}
	if log.Bad > 0 && len(log.FirstBad) == 0 || len(log.FirstBad) > maxWords || log.Odd > 0 && len(log.FirstOdd) == 0 || len(log.FirstOdd) > 2*maxWords {
		t.Errorf("%d bad lines and %d oddities, in words %q and %q", log.Bad, log.Odd, log.FirstBad, log.FirstOdd)
	}
}

// TestSameLog requires the same ID for a log under another name, with reordered columns, in another format or read in
// another time zone, and a different ID for another log.
func TestSameLog(t *testing.T) {
	read := func(name, text string) string {
		t.Helper()
		log, err := ReadLog(write(t, name, text), LogOptions{Format: map[string]string{".csv": "csv"}[filepath.Ext(name)]})
		if err != nil {
			t.Fatal(err)
		}
		return log.Entries[0].ID
	}
	first := read("a.csv", "timestamp,epoch,epoch_time,model_name\n2025-07-01 10:00:20,1,9.5,m\n2025-07-01 10:00:30,2,5,m\n")
	same := map[string]string{
		"b.csv":  "timestamp,epoch,epoch_time,model_name\n2025-07-01 10:00:20,1,9.5,m\n2025-07-01 10:00:30,2,5,m\n",
		"c.csv":  "Model;Epoch Time [s];epoch;timestamp\r\nm;9,50;1;2025-07-01 10:00:20\r\nm;5,0;2;2025-07-01T10:00:30\r\n",
		"d.json": `{"epoch": 1, "epoch_time": 9.5, "model": "m", "timestamp": "2025-07-01 10:00:20"}` + "\n" + `{"epoch": 2, "epoch_time": 5.0, "model": "m", "timestamp": "2025-07-01 10:00:30"}` + "\n",
	}
	for name, text := range same {
		if got := read(name, text); got != first {
			t.Errorf("%s is another log", name)
		}
	}
	for name, text := range map[string]string{
		"value": strings.Replace(same["b.csv"], "9.5", "9.25", 1), "row": same["b.csv"] + "2025-07-01 10:00:40,3,5,m\n",
		"model": strings.ReplaceAll(same["b.csv"], ",m\n", ",n\n"), "data set": strings.ReplaceAll(strings.ReplaceAll(same["b.csv"], ",m\n", ",m,d\n"), "name\n", "name,dataset\n"), "time": strings.ReplaceAll(same["b.csv"], "10:00:", "11:00:"),
	} {
		if got := read(name+".csv", text); got == first {
			t.Errorf("with another %s it is taken for the same log", name)
		}
	}
	was := time.Local
	defer func() { time.Local = was }()
	time.Local = time.FixedZone("far", 9*3600)
	if got := read("b.csv", same["b.csv"]); got != first {
		t.Error("in another zone it is another log")
	}
	log, _ := ReadLog(write(t, "b.csv", same["b.csv"]), LogOptions{})
	if want := time.Date(2025, 7, 1, 10, 0, 10, 5e8, time.Local); !log.Entries[0].At.Equal(want) {
		t.Errorf("started %v, want %v: timestamps without a zone are the machine's", log.Entries[0].At, want)
	}
}

// TestReadDamaged requires that damage affects only the damaged lines, and that these are counted.
func TestReadDamaged(t *testing.T) {
	good := lines("epoch,epoch_time,gpu_count,train_loss", "1,9,2,3", "2,5,2,2", "3,5.5,2,1.5", "4,5,2,1")
	utf16 := func(s string) string {
		b := []byte{0xff, 0xfe}
		for _, c := range []byte(s) {
			b = append(b, c, 0)
		}
		return string(b)
	}
	whole := "rows=4 gpus=2 epochs=4 s=24.5 each=5.167 spread=0.05587 n=3 loss=1"
	for name, c := range map[string]struct {
		text, want string
		bad        int
	}{
		"cut in a row":     {good[:len(good)-4], "rows=3 bad=1 gpus=2 epochs=3 s=19.5 each=5.25 spread=0.06734 n=2 loss=1.5", 1},
		"NUL at the end":   {good + strings.Repeat("\x00", 512), whole, -1},
		"NUL in between":   {strings.Replace(good, "2,5,2,2\n", strings.Repeat("\x00", 64)+"\n2,5,2,2\n", 1), whole, -1},
		"two headers":      {strings.Replace(good, "3,5.5", "epoch,epoch_time,gpu_count,train_loss\n3,5.5", 1), whole, 0},
		"another header":   {strings.Replace(good, "3,5.5,2,1.5\n4,5,2,1\n", "train_loss,epoch,epoch_time,gpu_count\n1.5,3,5.5,2\n1,4,5,2\n", 1), whole, 0},
		"wrong counts":     {strings.Replace(good, "2,5,2,2", "2,5,2\n2,5,2,2,9,9\n2,5,2,2", 1), "rows=4 bad=2 gpus=2 epochs=4 s=24.5 each=5.167 spread=0.05587 n=3 loss=1", 2},
		"decimal comma":    {strings.ReplaceAll(strings.ReplaceAll(good, ",", ";"), ".", ","), whole, 0},
		"byte order mark":  {"\ufeff" + good, whole, 0},
		"UTF-16":           {utf16(good), whole, 0},
		"CRLF":             {strings.ReplaceAll(good, "\n", "\r\n"), whole, 0},
		"nan, inf, 1e400":  {strings.Replace(good, "3,5.5,2,1.5", "3,5.5,2,nan", 1), whole, 0},
		"no number at all": {strings.Replace(good, "2,5,2,2", "x,y,z,w\n2,5,2,2", 1), "rows=4 bad=1 gpus=2 epochs=4 s=24.5 each=5.167 spread=0.05587 n=3 loss=1", 1},
		"the same rows":    {good + strings.SplitN(good, "\n", 2)[1], whole, 0},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := ReadLog(write(t, "a.csv", c.text), LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if c.bad < 0 && log.Bad > 0 { // package monitor determines whether NULs count as a line
				want = strings.Replace(want, " gpus", fmt.Sprintf(" bad=%d gpus", log.Bad), 1)
			}
			if got := shown(log); len(got) != 1 || got[0] != want || c.bad >= 0 && log.Bad != c.bad {
				t.Errorf("%d bad %q\n%s\nwant\n%s", log.Bad, log.FirstBad, strings.Join(got, "\n"), want)
			}
			check(t, log)
		})
	}
}

// TestManyAllocations requires totals and a bounded number of segments for a log whose batch size changes
// constantly.
func TestManyAllocations(t *testing.T) {
	var b strings.Builder
	b.WriteString("step,batch_size,elapsed_s\n")
	for i := range 500 {
		fmt.Fprintf(&b, "%d,%d,%d\n", i+1, 100+i%100, 2*(i+1))
	}
	log, err := ReadLog(write(t, "a.csv", b.String()), LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, log)
	whole, last := &log.Entries[0], &log.Entries[len(log.Entries)-1]
	if len(log.Entries) != 1+maxStretches+1 || whole.Rows != 500 || whole.Seconds != 1000 || whole.Units != 500 || !slices.ContainsFunc(log.Notes, func(n string) bool { return strings.Contains(n, "not distinguished") }) {
		t.Errorf("%d entries, notes %q, the whole %s", len(log.Entries), log.Notes, show(whole))
	}
	if want := "part=/65 rows=180 steps=180 s=360"; show(last) != want {
		t.Errorf("the others are %s, want %s", show(last), want)
	}
}

// TestReadRefused requires a one-line error with path and reason for files that are not training logs.
func TestReadRefused(t *testing.T) {
	var many strings.Builder
	many.WriteString("model_name,epoch\n")
	for i := range maxTrainings + 1 {
		fmt.Fprintf(&many, "m%d,1\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "no data in it"},
		"a header alone":     {"epoch,loss\n", "no data in it"},
		"too many trainings": {many.String(), "more than 4096 trainings"},
	} {
		path := write(t, "a.csv", c.text)
		if _, err := ReadLog(path, LogOptions{}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q of %s", name, err, c.want, path)
		}
	}
	if _, err := ReadLog(filepath.Join(t.TempDir(), "absent.csv"), LogOptions{}); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("absent: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}
