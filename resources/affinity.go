package resources

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// chooseCPUs picks n of the allowed CPUs: those already held first, so that a running job keeps its
// caches, then those that the fewest other pinned processes hold, then the lowest. It returns all of
// them when there are not n. The result is ascending.
func chooseCPUs(allowed, held []int, load map[int]int, n int) []int {
	ids := slices.Clone(allowed)
	slices.SortStableFunc(ids, func(a, b int) int {
		ha, hb := slices.Contains(held, a), slices.Contains(held, b)
		switch {
		case ha && !hb:
			return -1
		case hb && !ha:
			return 1
		case load[a] != load[b]:
			return load[a] - load[b]
		}
		return a - b
	})
	if n < len(ids) {
		ids = ids[:max(n, 0)]
	}
	slices.Sort(ids)
	return ids
}

// pinnedLoad counts, for each CPU, the processes that are pinned to fewer CPUs than we may use: jobs
// that share the machine and chose their CPUs as we do. Kernel threads do not count. What cannot be
// read counts as nothing.
func pinnedLoad(r Roots, allowed int) map[int]int {
	load := map[int]int{}
	entries, err := os.ReadDir(r.proc())
	if err != nil {
		return load
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		b, err := os.ReadFile(r.proc(entry.Name(), "status"))
		if err != nil || !strings.Contains(string(b), "\nVmSize:") {
			continue // ended, or without memory of its own: a kernel thread
		}
		_, after, _ := strings.Cut(string(b), "\nCpus_allowed_list:")
		list, _, _ := strings.Cut(after, "\n")
		ids, err := parseCPUList(list)
		if err != nil || len(ids) >= allowed {
			continue
		}
		for _, id := range ids {
			load[id]++
		}
	}
	return load
}

// setAffinity gives the threads of all pids the new mask and returns the pids that refused. A thread
// that the job itself pinned more narrowly than the old mask keeps its place if it lies in the new.
func setAffinity(r Roots, pids, old, next []int) (refused map[int]error) {
	refused = map[int]error{}
	done := map[int]bool{}
	for round := 0; round < 5; round++ { // threads are born meanwhile, with their parent's mask
		fresh := false
		for _, pid := range pids {
			for _, tid := range threads(r, pid) {
				if done[tid] {
					continue
				}
				done[tid], fresh = true, true
				if err := setThread(tid, old, next); err != nil && !errors.Is(err, unix.ESRCH) {
					refused[pid] = err
				}
			}
		}
		if !fresh {
			break
		}
	}
	return refused
}

func setThread(tid int, old, next []int) error {
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &now); err != nil {
		return err
	}
	mine := members(now)
	own := len(mine) < len(old) && subset(mine, old) // pinned by the job itself
	if own && subset(mine, next) {
		return nil
	}
	set := cpuSet(next)
	return unix.SchedSetaffinity(tid, &set)
}

func threads(r Roots, pid int) []int {
	entries, err := os.ReadDir(r.proc(strconv.Itoa(pid), "task"))
	if err != nil {
		return nil // ended
	}
	var tids []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

func members(set unix.CPUSet) []int {
	var ids []int
	for id := range len(set) * 64 {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func subset(a, b []int) bool {
	for _, id := range a {
		if !slices.Contains(b, id) {
			return false
		}
	}
	return true
}
