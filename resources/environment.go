package resources

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// JobEnvironment contains the values passed to a job in its environment. An unknown field (empty, nil, or zero where
// zero is not a value) leaves the user's variable unchanged, never 0.
type JobEnvironment struct {
	RunID      string
	Allocation Allocation
	// Threads is the size of the thread pools of each process; 0 means the number of CPUs of Allocation, less than 0 what the
	// libraries choose. Thread variables that base sets are kept unless ThreadsChosen.
	Threads       int
	ThreadsChosen bool
	// KeepsDevices leaves CUDA_VISIBLE_DEVICES as in base, because no devices were chosen.
	KeepsDevices bool
	Epochs       int   // 0: the script's own
	PinMemory    *bool // nil: the script's own
	Seed         *int64
	Dataset      string // path
	Log          string // path of a CSV file that the script may write
	Checkpoint   string // directory
	Resume       bool   // a restart that continues from the checkpoint
	// Prices in USD per GPU, CPU and GiB and hour; nil means unknown, 0 free.
	GPUHour, CPUHour, GiBHour *float64
}

// Environ returns the complete environment of the job: base with the variables of j set and all others unchanged.
// CUDA_VISIBLE_DEVICES contains the devices by UUID and is empty for no GPU. If the devices are not chosen, it
// contains as many of the user's devices as are allocated, or the first indices.
func (j JobEnvironment) Environ(base []string) []string {
	set := j.variables(base)
	out := make([]string, 0, len(base)+len(set))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		ours := slices.ContainsFunc(set, func(v variable) bool { return v.name == name })
		// May originate from an agent around this one rather than from the user.
		stale := name == "OPTIMIZER_RESUME"
		if !ours && !stale {
			out = append(out, kv)
		}
	}
	for _, v := range set {
		out = append(out, v.name+"="+v.value)
	}
	return out
}

// variable is one environment variable.
type variable struct{ name, value string }

// variables returns the variables to set, in their documented order.
func (j JobEnvironment) variables(base []string) []variable {
	var out []variable
	set := func(name, value string, known bool) {
		if known {
			out = append(out, variable{name, value})
		}
	}
	a := j.Allocation
	set("CUDA_VISIBLE_DEVICES", j.visible(base), !j.KeepsDevices)
	threads := cmp.Or(j.Threads, a.CPUs)
	own := UserThreads(base)
	for _, name := range threadVariables {
		set(name, strconv.Itoa(threads), threads > 0 && (j.ThreadsChosen || len(own) == 0))
	}
	set("PYTHONUNBUFFERED", "1", !has(base, "PYTHONUNBUFFERED"))
	set("OPTIMIZER_BATCH_SIZE", strconv.Itoa(a.BatchSize), a.BatchSize > 0)
	set("OPTIMIZER_EPOCHS", strconv.Itoa(j.Epochs), j.Epochs > 0)
	set("OPTIMIZER_NUM_WORKERS", strconv.Itoa(a.NumWorkers), a.NumWorkers > 0)
	if j.PinMemory != nil {
		set("OPTIMIZER_PIN_MEMORY", map[bool]string{true: "1", false: "0"}[*j.PinMemory], true)
	}
	if j.Seed != nil {
		set("OPTIMIZER_RANDOM_SEED", strconv.FormatInt(*j.Seed, 10), true)
	}
	set("OPTIMIZER_MEMORY_GB", formatNumber(float64(a.Memory)), a.Memory > 0)
	set("OPTIMIZER_DATASET_PATH", j.Dataset, j.Dataset != "")
	set("OPTIMIZER_LOG", j.Log, j.Log != "")
	set("OPTIMIZER_CHECKPOINT_DIR", j.Checkpoint, j.Checkpoint != "")
	set("OPTIMIZER_RESUME", "1", j.Resume)
	set("OPTIMIZER_RUN_ID", j.RunID, j.RunID != "")
	prices := []struct {
		name  string
		value *float64
	}{{"COST_PER_GPU_HOUR", j.GPUHour}, {"COST_PER_CPU_HOUR", j.CPUHour}, {"COST_PER_GB_HOUR", j.GiBHour}}
	for _, p := range prices {
		if p.value != nil && !math.IsNaN(*p.value) {
			set(p.name, formatNumber(*p.value), true)
		}
	}
	return out
}

// threadVariables set the sizes of the thread pools of OpenMP, MKL, OpenBLAS and NumExpr.
var threadVariables = []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"}

// UserThreads returns the thread variables that an environment already sets, as NAME=VALUE in a fixed order. If the user
// sets one of them, the others keep the defaults of their libraries, which follow OMP_NUM_THREADS.
func UserThreads(environ []string) []string {
	var set []string
	for _, name := range threadVariables {
		if i := slices.IndexFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }); i >= 0 {
			set = append(set, environ[i])
		}
	}
	return set
}

func has(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// ThreadsPerCore returns the number of logical CPUs of one physical core; 1 if unknown. Many numerical libraries run one
// thread per physical core by default.
func ThreadsPerCore() int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
	ids, _ := ParseCPUList(string(text))
	return max(1, len(ids))
}

// visible returns the value of CUDA_VISIBLE_DEVICES.
func (j JobEnvironment) visible(base []string) string {
	a := j.Allocation
	if a.GPUs <= 0 {
		return ""
	}
	if len(a.GPUIDs) > 0 {
		return strings.Join(a.GPUIDs, ",")
	}
	for _, kv := range slices.Backward(base) { // the last one takes effect
		if list, ok := strings.CutPrefix(kv, "CUDA_VISIBLE_DEVICES="); ok {
			entries := strings.Split(list, ",")
			return strings.Join(entries[:min(a.GPUs, len(entries))], ",")
		}
	}
	var entries []string
	for i := range a.GPUs {
		entries = append(entries, strconv.Itoa(i))
	}
	return strings.Join(entries, ",")
}

// formatNumber returns the shortest notation without an exponent that parses to the same number.
func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
