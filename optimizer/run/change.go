package run

import (
	"fmt"
	"math"
	"strconv"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/resources"
)

// growMemory raises the memory of a job that has nearly used its allocation, up to limits.MemoryMax: the estimate was
// too low, and the training must not suffer for it.
func (r *run) growMemory() {
	used := r.sampler.last.Tree.MemoryGiB
	if math.IsNaN(used) || used < 0.9*float64(r.current.Memory) || r.current.Memory >= r.limits.MemoryMax {
		return
	}
	to := r.current
	to.Memory = min(roundMemory(resources.GiB(used)*memoryMargin), r.limits.MemoryMax)
	if to.Memory > r.current.Memory {
		r.applyLive(to, fmt.Sprintf("uses %.2f of %.2f GiB", used, float64(r.current.Memory)))
	}
}

// memoryMargin is the ratio of allocated memory to the measured peak.
const memoryMargin = 1.25

// roundMemory rounds up to a quarter of a GiB.
func roundMemory(g resources.GiB) resources.GiB {
	return resources.GiB(math.Max(0.25, math.Ceil(float64(g)*4-1e-9)/4))
}

// enforced returns the part of an allocation that is enforced on the job. Memory is enforced only if the user limited
// it: any other limit would slow a training that reads much data, because cached files count, or kill one that would
// otherwise survive.
func (r *run) enforced(a resources.Allocation) resources.Allocation {
	if r.Config.Memory == "" {
		a.Memory = 0
	}
	return a
}

func (r *run) enforcedLimits() resources.Limits {
	l := r.limits
	if r.Config.Memory == "" {
		l.MemoryMin, l.MemoryMax = 0, 0
	}
	return l
}

// applyLive changes the allocation of the running tree without a restart.
func (r *run) applyLive(to resources.Allocation, why string) {
	to.GPUs, to.GPUIDs = r.current.GPUs, r.current.GPUIDs
	notApplied, err := r.job.Apply(r.enforced(to))
	if err != nil {
		r.event(Warning, "change the running job to %s: %v", to, err)
		return
	}
	for _, n := range notApplied {
		if !r.advised[n] {
			r.advised[n] = true
			r.warn(n)
		}
	}
	now := r.elapsed()
	r.meter.Change(now, cost.Label(r.progress.Current().Label), to)
	if to.CPUs != r.current.CPUs || to.BatchSize != r.current.BatchSize {
		r.beginSegment(now, to, "run", false)
	} else {
		r.progress.Current().Allocation = to
	}
	r.act(to, why, "live")
	r.current = to
	if err := r.job.SetStopAfter(r.deadMan()); err != nil {
		r.warn(fmt.Sprintf("move the supervisor's time limit: %v", err))
	}
}

// act records a change of allocation, or the recommendation of one.
func (r *run) act(to resources.Allocation, why, applied string) {
	r.checkBatch(to)
	index, ok := r.actions().IndexOf(r.current, to)
	if !ok {
		index = -1
	}
	a := journal.Action{AtS: journal.Number(r.elapsed().Seconds()), Action: index, From: r.current, To: to, Reason: why, Applied: applied,
		Description: describeChange(r.current, to)}
	r.rec.Actions = append(r.rec.Actions, a)
	r.lastAction = a.Description
	r.event(Info, "%s (%s): %s", a.Description, applied, why)
	r.writeDecision(a)
	if applied == "live" {
		r.noteAllocation(to, applied, why)
	}
}

// stay records the decision to change nothing.
func (r *run) stay(why string) {
	r.writeDecision(journal.Action{Action: r.actions().Stay(), Description: "no change", From: r.current, To: r.current, Reason: why})
}

func (r *run) actions() resources.ActionSpace {
	return resources.ActionSpace{Limits: r.limits, WithMemory: true}
}

func threadCount(n int) string {
	if n == 0 {
		return "default"
	}
	return strconv.Itoa(n)
}

// describeChange lists the differing resources of two allocations, such as "CPUs 4 → 2"; "no change" if they are
// equal.
func describeChange(from, to resources.Allocation) string {
	parts := ""
	add := func(name string, a, b float64, unit string) {
		if a != b {
			if parts != "" {
				parts += ", "
			}
			parts += fmt.Sprintf("%s %g → %g%s", name, a, b, unit)
		}
	}
	add("GPUs", float64(from.GPUs), float64(to.GPUs), "")
	add("CPUs", float64(from.CPUs), float64(to.CPUs), "")
	add("memory", float64(from.Memory), float64(to.Memory), " GiB")
	if from.Threads != to.Threads {
		if parts != "" {
			parts += ", "
		}
		parts += "threads " + threadCount(from.Threads) + " → " + threadCount(to.Threads)
	}
	add("loader workers", float64(from.NumWorkers), float64(to.NumWorkers), "")
	add("batch", float64(from.BatchSize), float64(to.BatchSize), "")
	if parts == "" {
		return "no change"
	}
	return parts
}
