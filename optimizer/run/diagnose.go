package run

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/inspect"
	"trainopt/resources"
)

// diagnosis is the state of the checks outside the SLA: pace and price relative to the beginning of the segment, and
// the use of the allocated GPUs.
type diagnosis struct {
	efficiency *cost.EfficiencyMonitor
	seen       int // number of blocks already observed
	of         *Segment
	gpuAt      time.Duration // elapsed time of the last check of the GPUs
}

// gpuGrace is the time that a job is given to use its devices; gpuEvery is the interval of the checks.
const (
	gpuGrace = 60 * time.Second
	gpuEvery = 10 * time.Second
)

// watchEfficiency reports when a unit of work becomes slower or more expensive than before at this allocation.
func (r *run) watchEfficiency() {
	seg := r.Progress.Current()
	if r.Phase != working || len(seg.Blocks) == 0 {
		return
	}
	w := &r.diagnosis
	if w.of != seg {
		*w = diagnosis{efficiency: cost.NewEfficiencyMonitor(cost.Work{}, cost.EfficiencyOptions{}), of: seg, gpuAt: w.gpuAt}
	}
	if len(seg.Blocks) < w.seen { // older blocks were merged
		w.seen = len(seg.Blocks)
	}
	for ; w.seen < len(seg.Blocks); w.seen++ {
		took := seg.Blocks[w.seen]
		rate := float64(r.Rates.Hourly(r.Current))
		for _, d := range w.efficiency.Observe(cost.Work{Units: 1, Time: time.Duration(took * float64(time.Second)), Cost: cost.USD(took / 3600 * rate)}) {
			if d.Kind == "dearer" && r.Rates.Instance > 0 {
				continue // equivalent to slower
			}
			level := Warning
			if d.Over {
				level = Info
			}
			r.eventOnce(level, fmt.Sprint("pace ", d.Kind, d.Over), "%s", d.Words)
		}
	}
}

// watchGPUs validates the devices and diagnoses idle ones.
func (r *run) watchGPUs() {
	now := r.elapsed()
	if r.Current.GPUs == 0 || r.Host.Described != "" || r.job == nil || now-r.diagnosis.gpuAt < gpuEvery {
		return
	}
	r.diagnosis.gpuAt = now
	seg := r.Progress.Current()
	settled := now-seg.LaunchedAt > gpuGrace
	var pids []int
	if r.tree != nil {
		pids, _ = r.tree.PIDs()
	}
	check := resources.GPUCheck{Host: r.Host, Allocation: r.Current, Visible: strings.Join(r.Current.GPUIDs, ","), VisibleSet: true, Running: settled, JobPIDs: pids}
	memory, processes := 0.0, 0
	for _, g := range r.sampler.last.GPUs {
		for _, p := range g.PIDs {
			check.Processes = append(check.Processes, resources.GPUProcess{PID: p, UUID: g.UUID})
			processes++
		}
		memory += g.MemoryGiB
	}
	for _, p := range resources.ValidateGPUs(check) {
		r.eventOnce(Warning, "gpu "+p.Code, "GPUs: %s; %s", p.What, p.Advice)
	}
	if !settled || !(mean(seg.GPUSum, seg.GPUN) < 1 || seg.GPUN == 0) {
		return
	}
	visible := check.Visible
	evidence := cost.GPUEvidence{Allocated: r.Current.GPUs, Columns: -1, MemoryGiB: memory, Visible: &visible, CPUPct: mean(seg.CPUSum, seg.CPUN), Processes: processes}
	for _, g := range r.sampler.last.GPUs {
		if !math.IsNaN(g.UtilPercent) {
			evidence.Util = append(evidence.Util, g.UtilPercent)
		}
	}
	for _, d := range cost.DiagnoseZeroGPU(evidence) {
		r.eventOnce(Warning, "idle gpu "+d.Cause, "GPUs do nothing: %s; %s", d.Evidence, d.Advice)
	}
}

// checkBatch warns of a change of GPUs and batch size that changes the training result.
func (r *run) checkBatch(to resources.Allocation) {
	for _, p := range cost.CheckGPUBatch(r.Current, to) {
		r.eventOnce(Warning, "batch "+fmt.Sprint(p), "%s", p.Words)
	}
}

// stateBatch warns once, if a job is launched with a batch size other than its own, that the result of the training
// changes, and states the rule for the learning rate: proportional to the batch size for SGD (Goyal et al.,
// "Accurate, Large Minibatch SGD", 2017), to its square root for adaptive optimizers (Malladi et al., "On the SDEs
// and Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022).
func (r *run) stateBatch(a resources.Allocation) {
	k, _ := r.mapping.Knob(inspect.KnobBatchSize)
	own, err := strconv.Atoi(cmp.Or(k.Present, r.ins.BatchSize.Value))
	if a.BatchSize <= 0 || err == nil && own == a.BatchSize {
		return
	}
	rate := "in proportion to the batch size with SGD, to its square root with an adaptive optimizer such as Adam"
	if err == nil && own > 0 {
		by := float64(a.BatchSize) / float64(own)
		rate = fmt.Sprintf("by %.3g with SGD, by %.3g with an adaptive optimizer such as Adam (own batch size %d)", by, math.Sqrt(by), own)
	}
	r.eventOnce(Warning, fmt.Sprint("batch size ", a.BatchSize), "batch size %d changes the result of the training; optimize leaves the learning rate alone: scale it %s",
		a.BatchSize, rate)
}
