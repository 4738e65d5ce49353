package observe

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// Thresholds of the decision where the kernel does not report writers.
const (
	chanceSole     = 1e-3 // largest probability that all growths coincide by chance with writes of the job
	chanceNamed    = 0.3  // the same for a file on the command line
	growthsAgainst = 2    // growths while the job wrote nothing that show another writer
)

// accounting compares the growth of files with the bytes written by the job. A growth between two observations in
// which no process of the job wrote a byte is caused by another process.
type accounting struct {
	proc     string
	counters map[int]uint64 // bytes written by each process of the job, including ended ones
	files    map[fileID]*growth
	known    bool // the counters were readable at the last observation
	before   uint64
}

// growth is the observed growth of one file.
type growth struct {
	size            int64
	with, denied    int // growths with and without a write of the job
	windows, active int // intervals between two observations; those in which the job wrote
	// At the first observation: bytes written by the job, in total and to its output, and the size of the file.
	firstWritten uint64
	firstOutput  int64
	firstSize    int64
	elsewhere    int64 // bytes that the job wrote since then, without its output
	seen         bool
}

func newAccounting() *accounting {
	return &accounting{proc: "/proc", counters: map[int]uint64{}, files: map[fileID]*growth{}}
}

// total returns the number of bytes the job has written so far; ok is false if a counter cannot be read.
func (a *accounting) total(pids []int) (sum uint64, ok bool) {
	ok = len(pids) > 0
	for _, pid := range pids {
		n, readable := writtenBytes(a.proc, pid)
		if !readable {
			if _, err := os.Stat(filepath.Join(a.proc, strconv.Itoa(pid))); err == nil {
				ok = false // it lives, but its counter is not readable
			}
			continue
		}
		a.counters[pid] = max(a.counters[pid], n)
	}
	for _, n := range a.counters {
		sum += n
	}
	return sum, ok
}

// writtenBytes returns wchar of /proc/PID/io.
func writtenBytes(proc string, pid int) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "io"))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(data) {
		if v, ok := bytes.CutPrefix(line, []byte("wchar:")); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(v)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// observe observes the sizes of files once; output returns the size of the job's output. The counters are read before
// and after the sizes, so that a write that made a file grow between two observations lies between the first reading
// of the earlier and the second reading of the later one.
func (a *accounting) observe(pids []int, paths []string, output func() int64) {
	before, ok := a.total(pids)
	looks := make([]fileMeta, 0, len(paths))
	for _, path := range paths {
		if l, err := lookAt(path); err == nil {
			looks = append(looks, l)
		}
	}
	after, ok2 := a.total(pids)
	printed := output()
	ok = ok && ok2
	for _, l := range looks {
		f := a.files[l.id]
		if f == nil {
			f = &growth{}
			a.files[l.id] = f
		}
		if ok {
			f.add(l.size, a.before, before, after, printed, a.known)
		}
	}
	a.known, a.before = ok, before
}

// add adds one observation; last is the counter before the previous observation, if known.
func (f *growth) add(size int64, last, before, after uint64, printed int64, known bool) {
	if !f.seen || printed < f.firstOutput { // shrinking output was rotated: start over
		*f = growth{size: size, denied: f.denied, firstWritten: before, firstOutput: printed, firstSize: size, seen: true}
		return
	}
	f.elsewhere = int64(after-f.firstWritten) - (printed - f.firstOutput)
	if !known {
		f.size = size
		return
	}
	f.windows++
	if after > last {
		f.active++
	}
	switch {
	case size <= f.size:
	case after > last:
		f.with++
	default:
		f.denied++
	}
	f.size = size
}

// verdict returns the evidence for a file; excluded is true if another process writes it. The probability of a
// coincidence is the share of intervals in which the job wrote, to the power of the number of growths.
func (a *accounting) verdict(id fileID, named bool) (e evidenceLine, excluded bool) {
	f := a.files[id]
	switch {
	case f == nil || f.denied > 0 || f.with == 0:
		return noEvidence, f != nil && f.denied >= growthsAgainst
	case f.elsewhere < f.size-f.firstSize:
		return noEvidence, false // the job printed, but wrote fewer bytes than this to files
	}
	chance := math.Pow(float64(f.active)/float64(f.windows), float64(f.with))
	switch {
	case named && chance <= chanceNamed:
		return onCommandLine, false
	case chance <= chanceSole:
		return soleWriter, false
	}
	return noEvidence, false
}

// grows reports whether a file was observed to grow.
func (a *accounting) grows(id fileID) bool {
	f := a.files[id]
	return f != nil && f.with+f.denied > 0
}
