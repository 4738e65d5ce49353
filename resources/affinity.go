package resources

import (
	"cmp"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// choose selects n CPUs for the job by leastLoaded; if there is a choice, no other job chooses them until release.
func (e *enforcer) choose(n int) (ids []int, release func()) {
	if n >= len(e.s.Allowed) { // no need to read every process
		return leastLoaded(e.s.Allowed, e.s.CPUIDs, nil, n), func() {}
	}
	release = reserve(nameOn("cpus", e.s.Roots.proc()), func(reserved []string) []string {
		ids = leastLoaded(e.s.Allowed, e.s.CPUIDs, pinnedLoad(e.s.Roots, len(e.s.Allowed), reserved), n)
		return strings.Split(formatCPUList(ids), ",")
	})
	return ids, release
}

// leastLoaded selects n of the allowed CPUs: first those already held, so that a running job keeps its caches, then those
// with the least load, then the lowest ids. It returns all if there are fewer. The result is in ascending order.
func leastLoaded(allowed, held []int, load map[int]int, n int) []int {
	key := func(id int) int {
		if slices.Contains(held, id) {
			return load[id] - math.MaxInt32
		}
		return load[id]
	}
	ids := slices.Clone(allowed)
	slices.SortFunc(ids, func(a, b int) int { return cmp.Or(key(a)-key(b), a-b) })
	ids = ids[:min(max(n, 0), len(ids))]
	slices.Sort(ids)
	return ids
}

// pinnedLoad counts, for each CPU, the lists of jobs that do not run yet and the processes pinned to fewer CPUs than are
// allowed here: jobs that selected theirs in the same way. Kernel threads and unreadable entries are skipped.
func pinnedLoad(r Roots, allowed int, lists []string) map[int]int {
	processes, _ := filepath.Glob(r.proc("[0-9]*", "status"))
	for _, path := range processes {
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), "\nVmSize:") {
			continue // ended, or a kernel thread, which has no memory of its own
		}
		_, after, _ := strings.Cut(string(b), "\nCpus_allowed_list:")
		list, _, _ := strings.Cut(after, "\n")
		lists = append(lists, list)
	}
	load := map[int]int{}
	for _, list := range lists {
		ids, err := ParseCPUList(list)
		if err != nil || len(ids) >= allowed {
			continue
		}
		for _, id := range ids {
			load[id]++
		}
	}
	return load
}

// setAffinity sets the mask of the threads of all pids and returns the pids for which this failed. A thread that the
// job has itself pinned more narrowly than the old mask is left unchanged if its mask lies in the new one. The scan
// is repeated up to five times to include threads created in the meantime.
func setAffinity(r Roots, pids, old, next []int) (refused map[int]error) {
	refused = map[int]error{}
	done := map[int]bool{}
	for round := 0; round < 5; round++ { // new threads inherit their parent's mask
		fresh := false
		for _, pid := range pids {
			for _, tid := range threads(r, strconv.Itoa(pid)) {
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

// setThread sets the mask of one thread unless the job has pinned it within the new mask.
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

// threads returns the thread ids of a process; nil if it has ended.
func threads(r Roots, pid string) (tids []int) {
	entries, _ := os.ReadDir(r.proc(pid, "task"))
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// members returns the CPUs of a set in ascending order.
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
	return !slices.ContainsFunc(a, func(id int) bool { return !slices.Contains(b, id) })
}
