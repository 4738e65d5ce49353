package resources

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// rlimit is one resource limit of a process (RLIMIT_… number, soft and hard value).
type rlimit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// Recipe contains the limits that a process applies to itself just before it execs the job, so that no part of the
// job ever runs without them. It is plain data and is passed between processes as JSON.
type Recipe struct {
	// Join lists the cgroup.procs files (v1 and v2) to which the process writes its pid.
	Join []string `json:"join,omitempty"`
	// CPUIDs is the affinity mask; empty leaves the mask unchanged.
	CPUIDs  []int    `json:"cpu_ids,omitempty"`
	Rlimits []rlimit `json:"rlimits,omitempty"`
}

// Apply applies the recipe to the calling process: cgroups first, then affinity, then resource limits. It continues
// after a failure and returns one line for each; an empty result means that all of it applies.
//
// The process must then exec the job immediately, from the same goroutine: Apply locks it to its thread, and a data
// limit meant for the job also applies to the Go runtime until the exec.
func (r Recipe) Apply() (failed []string) {
	runtime.LockOSThread()
	for _, procs := range r.Join {
		// "0" is the writing process, regardless of its pid in the pid namespace of that cgroup.
		if err := (osTree{}).write(procs, "0"); err != nil {
			failed = append(failed, fmt.Sprintf("join the job's cgroup: %v", err))
		}
	}
	if len(r.CPUIDs) > 0 {
		if err := setOwnAffinity(r.CPUIDs); err != nil {
			failed = append(failed, fmt.Sprintf("set the CPU affinity to %s: %v", formatCPUList(r.CPUIDs), err))
		}
	}
	for _, l := range r.Rlimits {
		if err := lowerRlimit(l); err != nil {
			failed = append(failed, fmt.Sprintf("set resource limit %d to %d: %v", l.Resource, l.Soft, err))
		}
	}
	return failed
}

// setOwnAffinity sets the mask of every thread of the calling process, so that the job has it no matter which thread
// execs it.
func setOwnAffinity(cpus []int) error {
	set := cpuSet(cpus)
	err := unix.SchedSetaffinity(0, &set)
	for _, tid := range threads(Roots{}, "self") {
		if e := unix.SchedSetaffinity(tid, &set); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func cpuSet(cpus []int) unix.CPUSet {
	var set unix.CPUSet
	for _, id := range cpus {
		set.Set(id)
	}
	return set
}

// lowerRlimit sets a limit; a lower hard limit already in force is kept.
func lowerRlimit(l rlimit) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &now); err != nil {
		return err
	}
	hard := min(l.Hard, now.Max)
	return unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: min(l.Soft, hard), Max: hard})
}
