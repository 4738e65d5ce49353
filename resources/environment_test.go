package resources

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEnvironOfAWholeJob(t *testing.T) {
	pin, seed := true, int64(0)
	gpu, cpu, mem := 3.06, 0.0, 0.0054
	j := JobEnvironment{
		RunID:      "r1",
		Allocation: Allocation{GPUs: 2, GPUIDs: []string{"GPU-a", "MIG-b"}, CPUs: 6, Memory: 22.25, BatchSize: 256, NumWorkers: 4},
		Epochs:     20, PinMemory: &pin, Seed: &seed, Dataset: "/data/a b", Log: "/run/log.csv", Checkpoint: "/run/ckpt", Resume: true,
		GPUHour: &gpu, CPUHour: &cpu, GiBHour: &mem,
	}
	got := j.Environ([]string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=0,1,2", "ODD", "EMPTY=", "X=a=b"})
	diff(t, "environment", got, []string{
		"PATH=/bin", "ODD", "EMPTY=", "X=a=b",
		"CUDA_VISIBLE_DEVICES=GPU-a,MIG-b",
		"OMP_NUM_THREADS=6", "MKL_NUM_THREADS=6", "OPENBLAS_NUM_THREADS=6", "NUMEXPR_NUM_THREADS=6", "PYTHONUNBUFFERED=1",
		"OPTIMIZER_BATCH_SIZE=256", "OPTIMIZER_EPOCHS=20", "OPTIMIZER_NUM_WORKERS=4", "OPTIMIZER_PIN_MEMORY=1",
		"OPTIMIZER_RANDOM_SEED=0", "OPTIMIZER_MEMORY_GB=22.25", "OPTIMIZER_DATASET_PATH=/data/a b",
		"OPTIMIZER_LOG=/run/log.csv", "OPTIMIZER_CHECKPOINT_DIR=/run/ckpt", "OPTIMIZER_RESUME=1", "OPTIMIZER_RUN_ID=r1",
		"COST_PER_GPU_HOUR=3.06", "COST_PER_CPU_HOUR=0", "COST_PER_GB_HOUR=0.0054",
	})
}

func TestEnvironLeavesTheUnknownUnset(t *testing.T) {
	unknown := math.NaN()
	got := JobEnvironment{Allocation: Allocation{CPUs: 2}, GPUHour: &unknown}.Environ([]string{"OPTIMIZER_EPOCHS=7", "OPTIMIZER_RESUME=1"})
	diff(t, "environment", got, []string{
		"OPTIMIZER_EPOCHS=7", // the user's setting is kept; the restart mark of an outer agent is not
		"CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2", "OPENBLAS_NUM_THREADS=2", "NUMEXPR_NUM_THREADS=2",
		"PYTHONUNBUFFERED=1",
	})
}

// Thread counts, buffering and devices chosen by the user are kept, unless a plan replaces them.
func TestEnvironKeepsTheUsersSettings(t *testing.T) {
	base := []string{"OMP_NUM_THREADS=1", "PYTHONUNBUFFERED=", "CUDA_VISIBLE_DEVICES=3"}
	a := Allocation{CPUs: 4}
	cases := map[string]struct {
		j    JobEnvironment
		base []string
		want []string
	}{
		"own thread variable": {j: JobEnvironment{Allocation: a, KeepsDevices: true}, base: base, want: base},
		"chosen threads": {j: JobEnvironment{Allocation: a, Threads: 1, ThreadsChosen: true, KeepsDevices: true}, base: []string{"OMP_NUM_THREADS=4", "PYTHONUNBUFFERED=1"},
			want: []string{"PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1"}},
		"threads of the libraries": {j: JobEnvironment{Allocation: a, Threads: -1, KeepsDevices: true}, base: []string{"PYTHONUNBUFFERED=1"}, want: []string{"PYTHONUNBUFFERED=1"}},
		"threads of one rank": {j: JobEnvironment{Allocation: a, Threads: 2, KeepsDevices: true}, base: []string{"PYTHONUNBUFFERED=1"},
			want: []string{"PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2", "OPENBLAS_NUM_THREADS=2", "NUMEXPR_NUM_THREADS=2"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { diff(t, "environment", c.j.Environ(c.base), c.want) })
	}
}

func TestVisibleDevicesOfAJob(t *testing.T) {
	cases := map[string]struct {
		a    Allocation
		base []string
		want string
	}{
		"CPU job":                          {a: Allocation{}, base: []string{"CUDA_VISIBLE_DEVICES=0"}, want: ""},
		"chosen devices":                   {a: Allocation{GPUs: 1, GPUIDs: []string{"GPU-b"}}, base: []string{"CUDA_VISIBLE_DEVICES=0"}, want: "GPU-b"},
		"not chosen: the first indices":    {a: Allocation{GPUs: 2}, want: "0,1"},
		"not chosen: of those one may use": {a: Allocation{GPUs: 2}, base: []string{"CUDA_VISIBLE_DEVICES=5,3,1"}, want: "5,3"},
		"the last setting counts":          {a: Allocation{GPUs: 1}, base: []string{"CUDA_VISIBLE_DEVICES=5", "CUDA_VISIBLE_DEVICES=7"}, want: "7"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := JobEnvironment{Allocation: c.a}.Environ(c.base)
			mine := slices.DeleteFunc(got, func(kv string) bool { return !strings.HasPrefix(kv, "CUDA_VISIBLE_DEVICES=") })
			diff(t, "setting", mine, []string{"CUDA_VISIBLE_DEVICES=" + c.want})
		})
	}
}

// contractNames are all variables documented for scripts.
var contractNames = strings.Fields(`CUDA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS PYTHONUNBUFFERED
	OPTIMIZER_BATCH_SIZE OPTIMIZER_EPOCHS OPTIMIZER_NUM_WORKERS OPTIMIZER_PIN_MEMORY OPTIMIZER_RANDOM_SEED OPTIMIZER_MEMORY_GB
	OPTIMIZER_DATASET_PATH OPTIMIZER_LOG OPTIMIZER_CHECKPOINT_DIR OPTIMIZER_RESUME OPTIMIZER_RUN_ID
	COST_PER_GPU_HOUR COST_PER_CPU_HOUR COST_PER_GB_HOUR`)

// No variable of the user's environment is lost, only documented names are added, and none occurs twice.
func TestEnvironLosesAndLeaksNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SliceOf(rapid.SampledFrom([]string{"A=1", "B=", "C", "=C:=x", "OPTIMIZER_LOG=x", "OMP_NUM_THREADS=9", "LONG=" + strings.Repeat("y", 99), "OPTIMIZER_OTHER=1"})).Draw(t, "base")
		j := JobEnvironment{Allocation: drawAllocation(t), Epochs: rapid.IntRange(-1, 3).Draw(t, "epochs"),
			Log: rapid.SampledFrom([]string{"", "/l"}).Draw(t, "log"), Resume: rapid.Bool().Draw(t, "resume")}
		got := j.Environ(slices.Clone(base))
		var kept []string
		seen := map[string]int{}
		for _, kv := range got {
			name, _, _ := strings.Cut(kv, "=")
			if slices.Contains(contractNames, name) {
				seen[name]++
			}
			if !slices.Contains(contractNames, name) {
				kept = append(kept, kv)
			}
		}
		for _, kv := range base {
			name, _, _ := strings.Cut(kv, "=")
			if slices.Contains(contractNames, name) && seen[name] == 0 {
				t.Fatalf("%s was lost", kv)
			}
		}
		others := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(contractNames, name)
		})
		if !slices.Equal(kept, others) {
			t.Fatalf("beside the contract's variables %q became %q", others, kept)
		}
	})
}
