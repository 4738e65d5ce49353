package resources

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEnclosingJob(t *testing.T) {
	cases := map[string]struct {
		env  string // entries separated by spaces
		want *BatchJob
	}{
		"outside a job":       {env: "PATH=/bin SLURM_CONF=/etc/slurm.conf"},
		"salloc on the login": {env: "SLURM_JOB_ID=7 SLURM_JOB_CPUS_PER_NODE=4"},
		"not a number":        {env: "SLURM_JOB_ID=-1 SLURMD_NODENAME=n0"},
		"batch script": {
			env:  "SLURM_JOB_ID=6 SLURM_CLUSTER_NAME=lab SLURMD_NODENAME=n0 SLURM_CPUS_ON_NODE=4 SLURM_CPUS_PER_TASK=2 SLURM_MEM_PER_NODE=500 SLURM_GPUS_ON_NODE=2 SLURM_JOB_GPUS=0,3 SLURM_TASK_PID=99",
			want: &BatchJob{ID: "6", Cluster: "lab", Node: "n0", CPUs: 4, Memory: GiB(500. / 1024), GPUs: 2, script: 99, devices: []int{0, 3}}},
		"second life": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_RESTART_COUNT=1",
			want: &BatchJob{ID: "6", Node: "n0", Restarts: 1}},
		"task of srun": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_STEP_ID=0 SLURM_CPUS_ON_NODE=8 SLURM_CPUS_PER_TASK=2 SLURM_MEM_PER_CPU=1024 SLURM_TASK_PID=99",
			want: &BatchJob{ID: "6", Node: "n0", CPUs: 2, Memory: 2}},
		"memory per GPU": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_GPUS_ON_NODE=2 SLURM_MEM_PER_GPU=2048 SLURM_STEP_GPUS=1-2",
			want: &BatchJob{ID: "6", Node: "n0", GPUs: 2, Memory: 4, devices: []int{1, 2}}},
		"several nodes": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_JOB_NUM_NODES=2 SLURM_CPUS_ON_NODE=8",
			want: &BatchJob{ID: "6", Node: "n0", CPUs: 8, Nodes: 2}},
		"one step on several nodes": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_STEP_ID=0 SLURM_JOB_NUM_NODES=2 SLURM_CPUS_ON_NODE=8",
			want: &BatchJob{ID: "6", Node: "n0", CPUs: 8}},
		"all memory, unreadable values": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_MEM_PER_NODE=0 SLURM_CPUS_ON_NODE=many SLURM_GPUS_ON_NODE=-2 SLURM_JOB_GPUS=GPU-a",
			want: &BatchJob{ID: "6", Node: "n0"}},
		"end": {
			env:  "SLURM_JOB_ID=6 SLURMD_NODENAME=n0 SLURM_JOB_END_TIME=1795412230",
			want: &BatchJob{ID: "6", Node: "n0", End: time.Unix(1795412230, 0)}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := EnclosingJob(strings.Fields(c.env)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// The allocation of a job limits the inventory where it is smaller than the machine.
func TestBatchJobLimitsHost(t *testing.T) {
	machine := Host{CPUs: 8, Memory: 64, GPUs: []GPU{{Index: 0, UUID: "a"}, {Index: 1, UUID: "b"}, {Index: 2, UUID: "c"}}}
	cases := map[string]struct {
		b     BatchJob
		cpus  float64
		mem   GiB
		gpus  string
		notes int
	}{
		"smaller":               {BatchJob{ID: "6", CPUs: 2, Memory: 4, GPUs: 1, devices: []int{2}}, 2, 4, "c", 3},
		"larger than the limit": {BatchJob{ID: "6", CPUs: 16, Memory: 128, GPUs: 4}, 8, 64, "abc", 0},
		"unknown":               {BatchJob{ID: "6"}, 8, 64, "abc", 0},
		"devices unknown":       {BatchJob{ID: "6", GPUs: 1}, 8, 64, "abc", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := machine
			h.GPUs = slices.Clone(machine.GPUs)
			c.b.limit(&h)
			gpus := ""
			for _, g := range h.GPUs {
				gpus += g.UUID
			}
			if h.CPUs != c.cpus || h.Memory != c.mem || gpus != c.gpus || len(h.Notes) != c.notes {
				t.Errorf("%g CPUs, %g GiB, GPUs %s, notes %q", h.CPUs, float64(h.Memory), gpus, h.Notes)
			}
		})
	}
}

// Discover applies the environment of the process, but not to a recorded machine.
func TestDiscoverInsideJob(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "6")
	t.Setenv("SLURMD_NODENAME", "n0")
	t.Setenv("SLURM_MEM_PER_NODE", "100")
	h, err := Discover(context.Background(), Roots{})
	if err != nil {
		t.Fatal(err)
	}
	if want := GiB(100. / 1024); h.Memory != want || !slices.ContainsFunc(h.Notes, func(n string) bool { return strings.Contains(n, "Slurm job 6 on n0") }) {
		t.Errorf("memory %g GiB, want %g; notes %q", float64(h.Memory), float64(want), h.Notes)
	}
}

func TestBatchFinding(t *testing.T) {
	if fs := checkBatch(nil); fs != nil {
		t.Errorf("outside a job: %+v", fs)
	}
	b := &BatchJob{ID: "6", Node: "n0", CPUs: 2, Memory: 0.5, GPUs: 1, End: time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)}
	want := []Finding{{Name: "allocation", Status: OK, Found: "Slurm job 6 on n0: 2 CPUs, " + b.Memory.size() + ", 1 GPU, until 2026-03-01 12:00:00"}}
	if got := checkBatch(b); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	b.script = os.Getpid()
	if b.UnderShell() {
		t.Error("the batch script itself runs under no shell")
	}
}

func FuzzEnclosingJob(f *testing.F) {
	f.Add("6", "4", "500", "0-3", "1795412230")
	f.Fuzz(func(t *testing.T, id, cpus, mem, gpus, end string) {
		b := EnclosingJob([]string{"SLURM_JOB_ID=" + id, "SLURMD_NODENAME=n0", "SLURM_CPUS_ON_NODE=" + cpus, "SLURM_MEM_PER_CPU=" + mem,
			"SLURM_JOB_GPUS=" + gpus, "SLURM_JOB_END_TIME=" + end})
		if b != nil && (b.CPUs < 0 || b.Memory < 0 || b.GPUs < 0 || !jobNumber.MatchString(b.ID)) {
			t.Errorf("%+v", b)
		}
	})
}
