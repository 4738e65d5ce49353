package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// Tree collects treeSample from /proc: the CPU time, memory and storage traffic of a process tree.
//
// CPUSeconds is the user and system time of the running processes, of the children they have waited for, and of
// processes that ended between two samples without being waited for inside the tree. It never decreases. The time
// that a process used between the last sample and its end is lost only if no process in the tree waits for it.
//
// MemoryGiB is anonymous and shared memory (RSS without page cache). Pages shared between processes are counted once
// if the kernel reports the proportional set size (/proc/PID/smaps_rollup). That file is slow to read for large
// processes, so the reads are spaced to cost less than 1/50 of a core; between two reads the growth of each process that was
// read is added. Without it, shared pages are counted in each process.
type Tree struct {
	// PIDs lists the current processes of the tree. ErrNoData or an empty list means that it has no process.
	PIDs func() ([]int, error)
	// Memory returns the exact memory of the tree in GiB, from its cgroup; nil or ok = false falls back to /proc.
	Memory func() (gib float64, ok bool)
	// Proc is the root of the proc file system; empty means /proc. Tests set it to recorded trees.
	Proc string

	procs   map[procKey]procState // as of the last sample
	goneCPU float64               // s, of ended processes that no process waited for
	goneIO  [2]float64            // bytes read and written by those processes
	lastCPU float64
	lastIO  [2]float64
	lastAt  time.Time
	shared  sharedMemory
	buf     []byte
}

var _ Collector = (*Tree)(nil)

// procKey identifies a process across PID reuse.
type procKey struct {
	pid   int
	start uint64 // clock ticks since boot
}

// procState is the reading of one process.
type procState struct {
	key    procKey
	parent int
	zombie bool
	self   float64 // s
	waited float64 // s, of children that were waited for
	rss    float64 // bytes, anonymous + shared
	io     [2]float64
	hasIO  bool
}

// Name returns "tree".
func (t *Tree) Name() string { return "tree" }

// Collect reads the process tree. Processes that end during the reading are skipped; after another error the
// remaining processes are still read and the first error is returned. Cost: O(processes).
func (t *Tree) Collect(ctx context.Context, s *Sample) error {
	pids, err := t.PIDs()
	if err != nil {
		return fmt.Errorf("list the processes of the job: %w", err)
	}
	var gib float64
	exact := false
	if t.Memory != nil {
		gib, exact = t.Memory()
	}
	now := make(map[procKey]procState, len(pids))
	var firstErr error
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %d processes: %w", len(pids), err)
		}
		p, err := t.readProc(pid, !exact)
		switch {
		case errors.Is(err, fs.ErrNotExist): // ended in the meantime
			continue
		case err != nil && firstErr == nil:
			firstErr = err
		}
		if err == nil {
			now[p.key] = p
		}
	}
	if len(now) == 0 {
		if firstErr != nil {
			return firstErr
		}
		return ErrNoData
	}
	t.accountEnded(now)
	t.cpu(now, s)
	t.traffic(now, s)
	if exact {
		s.Tree.MemoryGiB = gib
	} else {
		s.Tree.MemoryGiB = t.memory(now, s.At) / (1 << 30)
	}
	for _, p := range now {
		if !p.zombie {
			s.Tree.Procs++
		}
	}
	t.procs = now
	return firstErr
}

// accountEnded accounts for processes of the last sample that have ended. Their usage is charged to the nearest running
// ancestor. To the extent that the ancestor's counters of waited-for children have grown, they already include it;
// the remainder is added to goneCPU and goneIO.
func (t *Tree) accountEnded(now map[procKey]procState) {
	type debt struct{ cpu, read, written float64 }
	debts := map[procKey]debt{}
	before := make(map[int]procKey, len(t.procs))
	for key := range t.procs {
		before[key.pid] = key
	}
	for key, p := range t.procs {
		if _, lives := now[key]; lives {
			continue
		}
		ancestor := t.runningAncestor(p, now, before)
		d := debts[ancestor]
		d.cpu += p.self + p.waited
		d.read += p.io[0]
		d.written += p.io[1]
		debts[ancestor] = d
	}
	for ancestor, d := range debts {
		var got debt
		if a, ok := now[ancestor]; ok {
			b := t.procs[ancestor]
			got = debt{cpu: a.waited - b.waited, read: a.io[0] - b.io[0], written: a.io[1] - b.io[1]}
		}
		t.goneCPU += math.Max(0, d.cpu-got.cpu)
		t.goneIO[0] += math.Max(0, d.read-got.read)
		t.goneIO[1] += math.Max(0, d.written-got.written)
	}
}

// runningAncestor returns the nearest ancestor that was in the last sample and is still running; the zero key if none
// exists.
func (t *Tree) runningAncestor(p procState, now map[procKey]procState, before map[int]procKey) procKey {
	for range len(t.procs) {
		key, ok := before[p.parent]
		if !ok {
			return procKey{}
		}
		if _, lives := now[key]; lives {
			return key
		}
		p = t.procs[key]
	}
	return procKey{}
}

// cpu sets the CPU time, and the CPU usage since the previous sample.
func (t *Tree) cpu(now map[procKey]procState, s *Sample) {
	total := t.goneCPU
	for _, p := range now {
		total += p.self + p.waited
	}
	total = math.Max(total, t.lastCPU)
	s.Tree.CPUSeconds = total
	if wall := s.At.Sub(t.lastAt).Seconds(); !t.lastAt.IsZero() && wall > 0 {
		s.Tree.CPUPercent = 100 * (total - t.lastCPU) / wall
	}
	t.lastCPU, t.lastAt = total, s.At
}

// traffic sums the bytes read from and written to storage; the sums stay unknown if one process has no I/O counters.
func (t *Tree) traffic(now map[procKey]procState, s *Sample) {
	sum := t.goneIO
	for _, p := range now {
		if !p.hasIO && !p.zombie {
			return
		}
		sum[0] += p.io[0]
		sum[1] += p.io[1]
	}
	for i := range sum {
		t.lastIO[i] = math.Max(sum[i], t.lastIO[i])
	}
	s.Tree.ReadBytes, s.Tree.WriteBytes = t.lastIO[0], t.lastIO[1]
}

// sharedMemory is the last reading of proportional set sizes.
type sharedMemory struct {
	pss  float64             // bytes
	of   map[procKey]float64 // resident memory of each process at the same time; nil without a reading
	next time.Time           // earliest time of the next reading
}

// pssPause returns the time from the beginning of a reading that took the given time to the next one: 200 times it, but with a pause of
// more than 15 s only 50 times it.
func pssPause(took time.Duration) time.Duration {
	return took + min(pssShare*took, max(pssMost, pssLeast*took))
}

// pssRetry is the pause after a failed reading.
const (
	pssShare = 200
	pssLeast = 50
	pssMost  = 15 * time.Second
	pssRetry = 30 * time.Second
)

// memory returns the anonymous and shared memory of the tree in bytes.
func (t *Tree) memory(now map[procKey]procState, at time.Time) float64 {
	rss := 0.0
	for _, p := range now {
		rss += p.rss
	}
	if len(now) < 2 { // no pages are shared inside the tree
		return rss
	}
	if !at.Before(t.shared.next) {
		began := time.Now() // to measure the cost of the reading
		pss, ok := t.pss(now)
		if ok {
			of := make(map[procKey]float64, len(now))
			for key, p := range now {
				of[key] = p.rss
			}
			t.shared = sharedMemory{pss: pss, of: of, next: at.Add(pssPause(time.Since(began)))}
			return pss
		}
		t.shared = sharedMemory{next: at.Add(pssRetry)}
	}
	if t.shared.of == nil {
		return rss
	}
	return t.shared.estimate(now, rss)
}

// estimate returns the memory of a tree with the given resident memory since the reading. What its processes have gained or released
// counts. Processes that have ended or joined, as the workers of a loader in each epoch, are taken to share their pages with
// the others.
func (m *sharedMemory) estimate(now map[procKey]procState, rss float64) float64 {
	sum, largest := m.pss, 0.0
	for key, p := range now {
		if before, ok := m.of[key]; ok {
			sum += p.rss - before
		}
		largest = max(largest, p.rss)
	}
	return min(rss, max(sum, largest))
}

// pss sums the proportional set sizes; false if one process does not report it.
func (t *Tree) pss(now map[procKey]procState) (float64, bool) {
	sum := 0.0
	for key := range now {
		b, ok := t.readPSS(key.pid)
		if !ok {
			return 0, false
		}
		sum += b
	}
	return sum, true
}
