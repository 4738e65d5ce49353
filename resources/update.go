package resources

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Update changes the CPU and memory allocation of the running job: quota, cpuset, the affinity of every thread of
// every pid, and the soft memory limit. pids are the job's processes; empty means those of its cgroup. notApplied
// contains one line for each part that remains unchanged, with the reason. An error means that the request is invalid
// and nothing was changed.
//
// Under cgroup v2 a memory limit below the current usage is not set, because it would throttle the job to a
// standstill; under v1, where it takes effect only when the machine runs out of memory, it is set and reported. GPUs,
// batch size and workers are fixed when a process starts and require a restart.
func (e *enforcer) Update(a Allocation, pids []int) (notApplied []string, err error) {
	if len(pids) == 0 {
		pids, _ = e.PIDs()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := enforceable(a, Limits{}); err != nil {
		return nil, fmt.Errorf("change run %q to %v: %w", e.s.RunID, a, err)
	}
	was := e.s.Allocation
	if a.GPUs != was.GPUs || (len(a.GPUIDs) > 0 && !slices.Equal(a.GPUIDs, was.GPUIDs)) {
		notApplied = append(notApplied, "GPUs: a running process keeps the devices that it was started with; a restart is needed")
	}
	if a.BatchSize != was.BatchSize || a.NumWorkers != was.NumWorkers {
		notApplied = append(notApplied, "batch size and workers: the script reads them when it starts; a restart is needed")
	}
	notApplied = append(notApplied, e.updateCPU(a.CPUs, pids)...)
	if a.Memory != was.Memory {
		if said := e.updateMemory(a.Memory); said != "" {
			notApplied = append(notApplied, said)
		}
	}
	return notApplied, nil
}

// updateCPU sets quota, cpuset and affinity. It also runs if the number is unchanged, so that new processes get the
// mask.
func (e *enforcer) updateCPU(cpus int, pids []int) (notApplied []string) {
	if len(e.s.Allowed) > 0 && cpus > len(e.s.Allowed) {
		return []string{fmt.Sprintf("CPUs: %d requested, only %d may be used here; stays at %d", cpus, len(e.s.Allowed), e.s.Allocation.CPUs)}
	}
	old := e.s.CPUIDs
	next := old
	if cpus != len(old) {
		var release func()
		next, release = e.choose(cpus)
		defer release()
	}
	was := e.s.Allocation.CPUs
	switch { // a quota only without a CPU set
	case cpus == was:
	case !e.s.Quota.available():
		e.addQuota(cpus)
	default:
		if err := e.writeQuota(e.s.Quota, cpus); err != nil {
			return []string{fmt.Sprintf("CPUs: stay at %d: quota: %v", was, err)}
		}
	}
	if e.s.Cpuset.available() && !slices.Equal(old, next) {
		if err := e.writeCpuset(e.s.Cpuset, next); err != nil {
			return []string{fmt.Sprintf("CPUs: stay at %d: CPU set: %v", was, err)}
		}
	}
	if len(next) > 0 {
		refused := setAffinity(e.s.Roots, pids, old, next)
		for _, pid := range slices.Sorted(maps.Keys(refused)) {
			notApplied = append(notApplied, fmt.Sprintf("affinity of process %d: %v", pid, refused[pid]))
		}
	}
	e.s.CPUIDs, e.s.Allocation.CPUs = next, cpus
	return notApplied
}

// updateMemory sets the soft limit, or returns the reason why it does not.
func (e *enforcer) updateMemory(m GiB) (notApplied string) {
	was := e.s.Allocation.Memory
	hard := e.s.Limits.MemoryMax
	if !e.s.Memory.available() {
		if len(e.s.Rlimits) > 0 {
			return fmt.Sprintf("memory: without a memory cgroup only the limit of %.4g GiB per process holds, from its start", float64(hard))
		}
		return "memory: nothing here can limit it (" + e.s.Memory.Why + ")"
	}
	if hard > 0 && m > hard {
		return fmt.Sprintf("memory: %.4g GiB is above the hard limit of %.4g GiB; stays at %.4g GiB", float64(m), float64(hard), float64(was))
	}
	use, known := e.memoryUse()
	below := known && m > 0 && m.Bytes() < use
	if below && e.s.Memory.Version == 2 {
		return fmt.Sprintf("memory: the job uses %.4g GiB now, more than the %.4g GiB requested; stays at %.4g GiB", float64(gib(use)), float64(m), float64(was))
	}
	if err := e.writeSoft(e.s.Memory, m); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return fmt.Sprintf("memory: the job uses more than the %.4g GiB requested; stays at %.4g GiB", float64(m), float64(was))
		}
		return fmt.Sprintf("memory: %v", err)
	}
	e.s.Allocation.Memory = m
	if below {
		return fmt.Sprintf("memory: the job uses %.4g GiB now, more than the %.4g GiB requested; that is only set as the soft limit, which acts when the machine runs short", float64(gib(use)), float64(m))
	}
	return ""
}

// Statement describes, one line each, the enforced limits with their means, and those not enforced with the reason.
func (e *enforcer) Statement() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := []string{e.sayCPUTime(), e.sayCPUSet(), e.sayMemory(), e.sayGroup()}
	switch {
	case e.s.KeepsDevices:
		lines = append(lines, "GPUs: those of its environment, CUDA_VISIBLE_DEVICES is unchanged; device memory is not limited")
	case e.s.Allocation.GPUs > 0:
		lines = append(lines, "GPUs: chosen by CUDA_VISIBLE_DEVICES; a script that sets it again can reach other devices, and device memory is not limited")
	default:
		lines = append(lines, "GPUs: hidden by an empty CUDA_VISIBLE_DEVICES; a script that sets it again can reach them")
	}
	return append(lines, e.s.Notes...)
}

func (e *enforcer) sayCPUTime() string {
	if q := e.s.Quota; q.available() {
		return fmt.Sprintf("CPU time: at most %s, by the quota of cgroup v%d %s", plural(e.s.Allocation.CPUs, "CPU"), q.Version, q.Dir)
	}
	if e.s.Cpuset.available() {
		return fmt.Sprintf("CPU time: at most %s, by the CPU set, which its processes cannot leave", plural(e.s.Allocation.CPUs, "CPU"))
	}
	if e.wholeMachine() {
		return "CPU time: not bounded, the job may use all CPUs"
	}
	return "CPU time: no quota (" + e.s.Quota.Why + "); affinity alone bounds it"
}

func (e *enforcer) sayCPUSet() string {
	ids := formatCPUList(e.s.CPUIDs)
	if len(e.s.CPUIDs) == 0 {
		return "CPU set: not enforced, the CPUs to choose from are unknown"
	}
	few := ""
	if n := e.s.Allocation.CPUs; len(e.s.CPUIDs) < n {
		few = fmt.Sprintf(" (%d requested, %d may be used)", n, len(e.s.CPUIDs))
	}
	if c := e.s.Cpuset; c.available() {
		return fmt.Sprintf("CPU set: CPUs %s%s, by cgroup v%d %s and by affinity", ids, few, c.Version, c.Dir)
	}
	return fmt.Sprintf("CPU set: CPUs %s%s, by affinity alone, which new threads and processes inherit and may undo (%s)", ids, few, e.s.Cpuset.Why)
}

// sayMemory describes the limits on memory: by cgroup, by RLIMIT_DATA per process, or the reason why none exists.
func (e *enforcer) sayMemory() string {
	hard, soft := e.s.Limits.MemoryMax, e.s.Allocation.Memory
	m := e.s.Memory
	switch {
	case m.available():
		parts := []string{}
		if hard > 0 {
			parts = append(parts, fmt.Sprintf("hard limit %.4g GiB", float64(hard)))
		}
		if soft > 0 && (m.Version == 1 || hard == 0 || soft < hard) {
			effect := "above it the job is slowed"
			if m.Version == 1 {
				effect = "acts when the machine runs short"
			}
			parts = append(parts, fmt.Sprintf("soft limit %.4g GiB (%s)", float64(soft), effect))
		}
		if len(parts) == 0 {
			return "memory: no limit requested"
		}
		return fmt.Sprintf("memory: %s, by cgroup v%d %s", strings.Join(parts, ", "), m.Version, m.Dir)
	case len(e.s.Rlimits) > 0:
		return fmt.Sprintf("memory: each process is held to %.4g GiB of private data (RLIMIT_DATA); the sum over processes, shared memory and the soft limit are not held (%s)", float64(hard), m.Why)
	case e.s.Allocation.GPUs > 0:
		return "memory: not enforced (" + m.Why + "); a limit per process is not set for a GPU job, because CUDA reserves far more address space than it uses and fails under one"
	}
	return "memory: not enforced (" + m.Why + ")"
}

func (e *enforcer) sayGroup() string {
	g := e.s.Group
	switch {
	case !g.available():
		return "processes: no cgroup holds the job (" + g.Why + "); its processes are followed by parent and session"
	case g.Version == 2:
		return "processes: held by cgroup v2 " + g.Dir + ", killed together"
	}
	return "processes: held by cgroup v1 " + g.Dir + ", killed one by one"
}
