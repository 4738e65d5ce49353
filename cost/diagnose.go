package cost

import (
	"fmt"
	"math"
	"strings"
)

// GPUEvidence is the evidence about a job whose GPUs appear unused. Unknown numbers are NaN, unknown counts −1.
type GPUEvidence struct {
	Allocated int       // GPUs that are paid for
	Columns   int       // gpu_utilization_… columns in the training log
	Util      []float64 // mean utilization of each GPU, %, from the sampler or the log; empty: not measured
	MemoryGiB float64   // GPU memory in use by the job
	Visible   *string   // CUDA_VISIBLE_DEVICES of the job; nil if unset or unknown
	CPUPct    float64   // utilization of the allocated CPUs, %
	Processes int       // processes of the job with a GPU context
}

// Diagnosis is one possible cause with its evidence and advice.
type Diagnosis struct {
	Cause    string // "columns-absent", "no-device", "not-on-gpu", "input-bound", "count-mismatch", "idle"
	Evidence string
	Advice   string
}

const (
	idleGPUPct = 5  // mean utilization below which a GPU counts as idle
	lowGPUPct  = 40 // below this, with busy CPUs, the GPU waits for its input
	busyCPUPct = 90
)

// Diagnose returns possible causes why allocated GPUs appear unused, the most certain first; nil if no GPU is
// allocated or all are busy. The causes are: the utilization was never measured (no column, as opposed to zero); no
// device is visible; the job uses no GPU memory, so that its model was never moved there; the CPUs are saturated and
// the GPU waits for input; more GPUs are allocated than visible or used; and, if none of these explains an idle GPU,
// idleness itself.
func (e GPUEvidence) Diagnose() []Diagnosis {
	if e.Allocated <= 0 {
		return nil
	}
	var list []Diagnosis
	add := func(cause, evidence, advice string) { list = append(list, Diagnosis{cause, evidence, advice}) }
	util, measured := meanKnown(e.Util)

	visible := -1
	if e.Visible != nil {
		visible = visibleDevices(*e.Visible)
	}
	if visible == 0 {
		add("no-device", fmt.Sprintf("CUDA_VISIBLE_DEVICES is %q", *e.Visible),
			"the job can see no GPU: allocate one, or remove the setting from the script and its environment")
	}
	if !measured && e.Columns <= 0 {
		add("columns-absent", "neither the log nor the sampler has GPU utilization",
			"this is no data, not zero: write gpu_utilization_0…n to the log, or install the NVIDIA library so that it can be sampled")
	}
	idle := measured && util < idleGPUPct
	if visible != 0 && (e.MemoryGiB == 0 || (e.Processes == 0 && !(e.MemoryGiB > 0))) && (idle || !measured) {
		add("not-on-gpu", "the job holds no GPU memory",
			"the model was never moved to the GPU: check .to(\"cuda\"), the framework's GPU build and its driver, or run with --gpus 0:0 and save the money")
	}
	waits := measured && util < lowGPUPct && e.CPUPct > busyCPUPct
	if waits {
		add("input-bound", fmt.Sprintf("GPU %.0f %%, CPU %.0f %%", util, e.CPUPct),
			"the GPU waits for its input: more CPUs and loader workers, cheaper decoding or a prepared data set, pinned memory; or fewer GPUs")
	}
	if evidence := mismatch(e, visible); evidence != "" {
		add("count-mismatch", evidence, "GPUs are paid for and not used: allocate fewer, or let the script use all of them (one process per GPU)")
	}
	if idle && len(list) == 0 {
		add("idle", fmt.Sprintf("GPU %.0f %%, memory in use, CPUs not saturated", util),
			"the GPU works in short bursts: larger batch, fewer synchronisations and checks per step, a look at storage and network; or a smaller GPU")
	}
	return list
}

// mismatch compares the known counts of GPUs with the allocation; empty if they agree.
func mismatch(e GPUEvidence, visible int) string {
	busy, measured := 0, 0
	for _, u := range e.Util {
		if !math.IsNaN(u) {
			measured++
			if u >= idleGPUPct {
				busy++
			}
		}
	}
	var parts []string
	if visible > 0 && visible != e.Allocated {
		parts = append(parts, fmt.Sprintf("%d visible", visible))
	}
	if e.Columns > 0 && e.Columns != e.Allocated {
		parts = append(parts, fmt.Sprintf("%d in the log", e.Columns))
	}
	if busy > 0 && busy < measured {
		parts = append(parts, fmt.Sprintf("%d of %d busy", busy, measured))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%d GPUs are allocated, but %s", e.Allocated, strings.Join(parts, ", "))
}

// visibleDevices counts the entries of CUDA_VISIBLE_DEVICES; like CUDA, it stops at the first −1 or empty entry.
func visibleDevices(value string) int {
	n := 0
	for _, id := range strings.Split(value, ",") {
		if id = strings.TrimSpace(id); id == "" || id == "-1" || id == "none" || id == "NoDevFiles" {
			break
		}
		n++
	}
	return n
}

// meanKnown returns the mean of the values that are not NaN; false without any.
func meanKnown(values []float64) (mean float64, ok bool) {
	n := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			mean += (v - mean) / float64(n)
		}
	}
	return mean, n > 0
}
