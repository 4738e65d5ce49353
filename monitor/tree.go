package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// Tree collects TreeSample from /proc: the CPU time, memory and storage traffic of a process tree.
//
// CPUSeconds counts user and system time of the living processes, of the children that they have waited for, and
// of processes that ended between two samples without being waited for inside of the tree. It never goes back. What
// a process did between the last sample and its end is lost only when nobody in the tree waits for it.
//
// MemoryGiB is anonymous and shared memory (RSS without page cache). Pages that processes share are counted once
// where the kernel tells (proportional set size, /proc/PID/smaps_rollup). That file is slow for large processes, so
// it is read seldom enough to cost less than 1/200 of a core; between two readings the growth of the resident size
// is added. Where the kernel does not tell, shared pages count in each process.
type Tree struct {
	// PIDs lists the processes of the tree now. ErrNoData or an empty list means that there is none.
	PIDs func() ([]int, error)
	// Memory gives the exact memory of the tree in GiB, from its cgroup; nil or ok = false reads /proc instead.
	Memory func() (gib float64, ok bool)
	// Proc is where /proc is; empty means /proc. For recorded trees.
	Proc string

	procs   map[procKey]procState // as of the last sample
	goneCPU float64               // s, of processes that ended unseen
	goneIO  [2]float64            // bytes read, written, likewise
	lastCPU float64
	lastIO  [2]float64
	lastAt  time.Time
	shared  sharedMemory
	buf     []byte
}

var _ Collector = (*Tree)(nil)

// procKey names a process for good: a pid alone may be used again.
type procKey struct {
	pid   int
	start uint64 // clock ticks since boot
}

// procState is what was read of one process.
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

// Name is "tree".
func (t *Tree) Name() string { return "tree" }

// Collect reads the process tree.
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
	byPID := make(map[int]procKey, len(pids))
	var firstErr error
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %d processes: %w", len(pids), err)
		}
		p, err := t.readProc(pid, !exact)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended meanwhile
			continue
		case err != nil && firstErr == nil:
			firstErr = err
		}
		if err == nil {
			now[p.key], byPID[pid] = p, p.key
		}
	}
	if len(now) == 0 {
		if firstErr != nil {
			return firstErr
		}
		return ErrNoData
	}
	t.bury(now, byPID)
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

// bury accounts for processes that were there at the last sample and are not now. What such a process had used goes
// to its nearest ancestor that still lives, where it counts as far as that one's account of waited-for children has
// not grown by as much: it has ended, and nobody in the tree has taken its time over.
func (t *Tree) bury(now map[procKey]procState, byPID map[int]procKey) {
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
		heir := t.heir(p, now, before)
		d := debts[heir]
		d.cpu += p.self + p.waited
		d.read += p.io[0]
		d.written += p.io[1]
		debts[heir] = d
	}
	for heir, d := range debts {
		var got debt
		if a, ok := now[heir]; ok {
			b := t.procs[heir]
			got = debt{cpu: a.waited - b.waited, read: a.io[0] - b.io[0], written: a.io[1] - b.io[1]}
		}
		t.goneCPU += math.Max(0, d.cpu-got.cpu)
		t.goneIO[0] += math.Max(0, d.read-got.read)
		t.goneIO[1] += math.Max(0, d.written-got.written)
	}
}

// heir finds the nearest ancestor that lives and was there before; the zero key when there is none.
func (t *Tree) heir(p procState, now map[procKey]procState, before map[int]procKey) procKey {
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

// traffic sums the bytes read from and written to storage; unknown when one process does not tell.
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
	pss, rss float64   // bytes, of the same moment; rss is 0 when there is none
	next     time.Time // not to be read before
}

// pssShare is how much longer than a reading took the pause after it is; after one that failed it is pssRetry.
const (
	pssShare = 200
	pssRetry = 30 * time.Second
)

// memory gives anonymous + shared bytes of the tree.
func (t *Tree) memory(now map[procKey]procState, at time.Time) float64 {
	rss := 0.0
	for _, p := range now {
		rss += p.rss
	}
	if len(now) < 2 { // nothing is shared inside of the tree
		return rss
	}
	if !at.Before(t.shared.next) {
		began := time.Now() // measures what the reading itself costs
		pss, ok := t.pss(now)
		if ok {
			t.shared = sharedMemory{pss: pss, rss: rss, next: at.Add(pssShare * time.Since(began))}
			return pss
		}
		t.shared = sharedMemory{next: at.Add(pssRetry)}
	}
	if t.shared.rss == 0 {
		return rss
	}
	return math.Max(0, math.Min(rss, t.shared.pss+rss-t.shared.rss))
}

// pss sums the proportional set sizes; false when one process does not tell.
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
