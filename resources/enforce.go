package resources

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Rlimit is one resource limit of a process (RLIMIT_… number, soft and hard value).
type Rlimit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// Recipe is what a process does to itself just before it becomes the job, so that nothing of the
// job ever runs unlimited. It is plain data and travels between processes as JSON.
type Recipe struct {
	// Join lists the cgroup.procs (v1, v2) files to which the process writes its own pid.
	Join []string `json:"join,omitempty"`
	// CPUIDs is the affinity mask to take; empty leaves it.
	CPUIDs  []int    `json:"cpu_ids,omitempty"`
	Rlimits []Rlimit `json:"rlimits,omitempty"`
}

// Apply puts the calling process under the recipe: cgroups first, then affinity, then resource
// limits. It goes on after a failure and returns one line for each; none means all of it holds.
//
// The process must exec the job at once, from the same goroutine: Apply locks it to its thread, and
// a data limit meant for the job also binds the Go runtime until the exec.
func (r Recipe) Apply() (failed []string) {
	runtime.LockOSThread()
	for _, procs := range r.Join {
		// "0" is the writing process, whatever its pid is called in that cgroup's pid namespace.
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

// setOwnAffinity sets every thread of the calling process, so that the job has the mask whichever
// thread execs it.
func setOwnAffinity(cpus []int) error {
	set := cpuSet(cpus)
	err := unix.SchedSetaffinity(0, &set)
	tasks, dirErr := os.ReadDir(procRoot + "/self/task")
	if dirErr != nil {
		return err
	}
	for _, t := range tasks {
		tid, convErr := strconv.Atoi(t.Name())
		if convErr != nil {
			continue
		}
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

// lowerRlimit sets a limit; a hard limit that is already lower stays.
func lowerRlimit(l Rlimit) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &now); err != nil {
		return err
	}
	hard := min(l.Hard, now.Max)
	return unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: min(l.Soft, hard), Max: hard})
}
