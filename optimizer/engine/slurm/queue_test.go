package slurm

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

// recordedAt is the time of the recordings in testdata/22.05/queue.
var recordedAt = time.Date(2026, 11, 23, 5, 52, 30, 0, time.UTC)

// recordedQueue returns an engine that answers with the recordings.
func recordedQueue(t testing.TB) *Engine {
	t.Helper()
	answers := map[string]string{}
	for _, name := range []string{"config", "partition", "node", "squeue"} {
		answers[name] = readFile(t, "22.05", "queue", name+".txt")
	}
	return &Engine{Run: func(_ context.Context, c Command) (Result, error) {
		return Result{Stdout: answers[strings.TrimSuffix(filepath.Base(c.Argv[len(c.Argv)-1]), "s")] + answers[c.Argv[0]]}, nil
	}}
}

// TestQueue checks a recorded queue of a cluster with GPUs of three types.
func TestQueue(t *testing.T) {
	q, err := recordedQueue(t).Queue(t.Context(), recordedAt)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := engine.Scheduler{Interval: 2 * time.Second, Depth: 500, Window: 24 * time.Hour, Resolution: time.Minute, WholeNodes: true, EndWindow: 30 * time.Second,
		DefaultMemory: 500. / 1024, Latency: reaction}
	if q.Scheduler != scheduler {
		t.Errorf("scheduler %+v, want %+v", q.Scheduler, scheduler)
	}
	if len(q.Nodes) != 4 || !reflect.DeepEqual(q.Nodes[0], engine.Node{Name: "n0", Partitions: []string{"gpu", "fast", "urgent"}, Features: []string{"a100"},
		CPUs: 4, Memory: 4000. / 1024, GPUs: map[string]int{"a100": 4}, Weight: 1}) {
		t.Errorf("nodes %+v", q.Nodes)
	}
	if want := []engine.Partition{{Name: "gpu", Default: true, Tier: 1}, {Name: "fast", Tier: 1, Limit: time.Hour}, {Name: "cheap", Tier: 1}, {Name: "urgent", Tier: 10}}; !slices.Equal(q.Partitions, want) {
		t.Errorf("partitions %+v, want %+v", q.Partitions, want)
	}
	submitted := recordedAt.Add(-50 * time.Second)
	jobs := map[string]engine.Job{}
	for _, j := range append(q.Running, q.Waiting...) {
		jobs[j.ID] = j
	}
	half := resources.GiB(500. / 1024)
	for id, want := range map[string]engine.Job{
		"1":   {Name: "train big", Place: engine.Place{GPUs: 4, GPUType: "a100"}, Limit: 5 * time.Minute},
		"2":   {Name: "wrap", Place: engine.Place{GPUs: 2, Nodes: 2, Memory: 1}, Limit: 10 * time.Minute, Nodes: []string{"n1", "n2"}, Started: submitted.Add(time.Second)},
		"4":   {Name: "odd|na#me", Place: engine.Place{GPUs: 1, GPUType: "a100"}, Limit: 3 * time.Minute},
		"5_1": {Name: "wrap", Place: engine.Place{GPUs: 1, GPUType: "k80"}, Limit: 4 * time.Minute, Held: true},
		"6":   {Name: "wrap", Exclusive: true, Limit: 5 * time.Minute},
		"7":   {Name: "wrap", Limit: 5 * time.Minute, Nodes: []string{"n2"}, Started: submitted.Add(time.Second)},
		"8":   {Name: "wrap", Place: engine.Place{CPUs: 4}, Features: []string{"a100"}, Limit: 5 * time.Minute},
		"9":   {Name: "wrap", Limit: 2 * time.Minute, Held: true},
		"10":  {Name: "wrap", Limit: 2 * time.Minute, NotBefore: submitted.Add(time.Hour)},
		"11":  {Name: "wrap", Place: engine.Place{Partition: "gpu,cheap", GPUs: 4, Nodes: 3, Memory: 4000. / 1024}, Limit: 26 * time.Hour, Held: true},
		"12":  {Name: "wrap", Held: true},
		"13":  {Name: "wrap", Place: engine.Place{Partition: "urgent", GPUs: 4, GPUType: "a100"}, Limit: 3 * time.Minute, Nodes: []string{"n0"}, Started: submitted},
	} {
		want.ID, want.User, want.Submitted, want.Priority = id, "ann", submitted, 1
		if id == "9" {
			want.Priority = 0
		}
		p := &want.Place
		p.Nodes, p.CPUs = max(p.Nodes, 1), max(p.CPUs, 1)
		if p.Memory == 0 {
			p.Memory = half
		}
		if p.Partition == "" {
			p.Partition = "gpu"
		}
		if got := jobs[id]; !reflect.DeepEqual(got, want) {
			t.Errorf("job %s is %+v,\nwant %+v", id, got, want)
		}
	}
	if len(q.Running) != 5 || len(q.Waiting) != 11 {
		t.Errorf("%d jobs run and %d wait, want 5 and 11", len(q.Running), len(q.Waiting))
	}
}

// TestQueuePredicts predicts from the recording: by the limits, four GPUs of type a100 are free when the urgent job
// reaches its limit, as Slurm itself had estimated.
func TestQueuePredicts(t *testing.T) {
	q, err := recordedQueue(t).Queue(t.Context(), recordedAt)
	if err != nil {
		t.Fatal(err)
	}
	q.Waiting = nil
	p, err := engine.Predict(q, engine.Job{User: "ann", Place: engine.Place{GPUs: 4, GPUType: "a100"}, Limit: 5 * time.Minute}, engine.History{}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 23, 5, 54, 40, 0, time.UTC); !p.ByLimits.Equal(want) {
		t.Errorf("starts %v by the limits, want %v", p.ByLimits, want)
	}
	if p.P5.Before(recordedAt) || p.P95.After(p.ByLimits.Add(time.Minute)) {
		t.Errorf("predicted %v to %v", p.P5, p.P95)
	}
}

// TestHistory checks the jobs that a prediction learns from.
func TestHistory(t *testing.T) {
	const header = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NodeList|AllocTRES|JobName\n"
	f, e := newFake(map[string]string{"sacct": header +
		"1|ann|gpu|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|3600|240|2|n[0-1]|cpu=8,mem=16G,gres/gpu=4,gres/gpu:a100=4|train\n" +
		"2|ann|gpu|CANCELLED by 7|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T10:05:00|0|240|1|None assigned|cpu=1|never started\n" +
		"3|bob|gpu|RUNNING|2026-03-01T10:00:00|2026-03-01T10:05:00|Unknown|600|240|1|n0|cpu=1|still runs\n" +
		"4|bob|gpu|TIMEOUT|2026-02-20T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|3600|60|1|n0|cpu=1|submitted before\n" +
		"broken line\n" +
		"5|bob|cpu|TIMEOUT|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|3600|Partition_Limit|1|n0|cpu=3|without limit\n"})
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	h, err := e.History(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	at := func(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }
	want := engine.History{Since: since, Jobs: []engine.Job{
		{ID: "1", User: "ann", Name: "train", Place: engine.Place{Partition: "gpu", Nodes: 2, CPUs: 4, Memory: 8, GPUs: 2, GPUType: "a100"}, Limit: 4 * time.Hour,
			Submitted: at(10, 0), Started: at(10, 5), Ended: at(11, 5)},
		{ID: "5", User: "bob", Name: "without limit", Place: engine.Place{Partition: "cpu", Nodes: 1, CPUs: 3}, Submitted: at(10, 0), Started: at(10, 5), Ended: at(11, 5)},
	}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("history %+v,\nwant %+v", h, want)
	}
	if call := f.lines()[0]; !strings.Contains(call, "--starttime=2026-03-01T00:00:00") || !strings.Contains(call, "--duplicates") {
		t.Errorf("called %s", call)
	}
}

// TestReadConfig checks the parameters of the scheduler and the memory of jobs without a request.
func TestReadConfig(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		want   engine.Scheduler
		counts bool
	}{
		"defaults": {"SchedulerParameters = (null)\nSelectTypeParameters = CR_CORE\n",
			engine.Scheduler{Interval: 30 * time.Second, Depth: 500, Window: 24 * time.Hour, Resolution: time.Minute, WholeNodes: true, EndWindow: 30 * time.Second, Latency: reaction}, false},
		"set": {"SchedulerParameters = bf_interval=60,bf_continue,bf_window=2880,bf_max_job_test=100,bf_resolution=300\nSelectTypeParameters=CR_CORE_MEMORY\nDefMemPerNode = UNLIMITED\n",
			engine.Scheduler{Interval: time.Minute, Depth: 100, Window: 48 * time.Hour, Resolution: 5 * time.Minute, WholeNodes: true, EndWindow: 30 * time.Second, Latency: reaction, DefaultMemory: resources.GiB(math.Inf(1))}, true},
		"no backfilling": {"SchedulerType = sched/builtin\n",
			engine.Scheduler{Interval: 1000 * 24 * time.Hour, Depth: 500, Window: 24 * time.Hour, Resolution: time.Minute, WholeNodes: true, EndWindow: 30 * time.Second, Latency: reaction}, false},
	} {
		var q snapshot
		if err := readConfig(c.text, &q); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if q.Scheduler != c.want || q.countsMemory != c.counts {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, q.Scheduler, q.countsMemory, c.want, c.counts)
		}
	}
	if err := readConfig("", new(snapshot)); err == nil {
		t.Error("an empty configuration is accepted")
	}
}

// TestIsClosed checks states of scontrol show node.
func TestIsClosed(t *testing.T) {
	for state, want := range map[string]bool{
		"IDLE": false, "MIXED": false, "ALLOCATED": false, "IDLE+PLANNED": false, "IDLE+CLOUD+POWERED_DOWN": false, "MIXED+COMPLETING": false,
		"DOWN": true, "DOWN*": true, "IDLE*": true, "MIXED+DRAIN": true, "IDLE+MAINTENANCE+RESERVED": true, "ALLOCATED+DRAIN": true, "IDLE+NOT_RESPONDING": true,
	} {
		if got := isClosed(state); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
}

// FuzzReadJobs requires that no output of squeue makes the reader panic, and that what it reads can be simulated or is
// refused.
func FuzzReadJobs(f *testing.F) {
	f.Add(readFile(f, "22.05", "queue", "squeue.txt"))
	q, err := recordedQueue(f).Queue(f.Context(), recordedAt)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := snapshot{Queue: q}
		s.Running, s.Waiting = nil, nil
		if err := readJobs(text, &s); err != nil || len(s.Running)+len(s.Waiting) > 100 {
			return
		}
		_, _ = engine.Predict(s.Queue, engine.Job{Limit: time.Hour}, engine.History{}, engine.Options{Draws: 2, Horizon: time.Hour})
	})
}

// FuzzReadNodes requires the same of the other commands.
func FuzzReadNodes(f *testing.F) {
	for _, name := range []string{"config", "partition", "node"} {
		f.Add(readFile(f, "22.05", "queue", name+".txt"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s snapshot
		for _, read := range []func(string, *snapshot) error{readConfig, readPartitions, readNodes} {
			_ = read(text, &s)
		}
	})
}

// TestRunsOfOneTrainingAreAlike checks that the jobs of all runs of a training have one name in the history, which differ
// otherwise.
func TestRunsOfOneTrainingAreAlike(t *testing.T) {
	for key, want := range map[string]string{"optimize.20261123-083304-hf_small-9e4668.12": "hf_small", "optimize.sweep.a.0.0": "optimize.sweep.a.0.0", "train": "train"} {
		if got := engine.TrainingOf(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
