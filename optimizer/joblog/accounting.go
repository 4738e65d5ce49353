package joblog

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// What decides where the kernel does not report writers.
const (
	chanceSole     = 1e-3 // at most, that all growths fell into moments in which the job wrote, if it did not write the file
	chanceNamed    = 0.3  // the same for a file on the command line
	growthsAgainst = 2    // growths in moments in which the job wrote nothing: another process writes the file
)

// accounting compares when files grow with when the job writes. A growth between two looks, in which no process of the job
// wrote a byte, is another process's.
type accounting struct {
	proc     string
	counters map[int]uint64 // bytes written by each process of the job, ended ones included
	files    map[fileID]*growth
	known    bool // the counters could be read at the last look
	before   uint64
}

// growth is what was seen of one file.
type growth struct {
	size            int64
	with, denied    int // growths with and without a write of the job
	windows, active int // between two looks; those in which the job wrote
	// As of the first look: what the job had written, in all and to its output, and the size.
	firstWritten uint64
	firstOutput  int64
	firstSize    int64
	elsewhere    int64 // bytes that the job wrote since then, without its output
	seen         bool
}

func newAccounting() *accounting {
	return &accounting{proc: "/proc", counters: map[int]uint64{}, files: map[fileID]*growth{}}
}

// total is how many bytes the job has written so far; ok is false when a counter cannot be read.
func (a *accounting) total(pids []int) (sum uint64, ok bool) {
	ok = len(pids) > 0
	for _, pid := range pids {
		n, readable := writtenBytes(a.proc, pid)
		if !readable {
			if _, err := os.Stat(filepath.Join(a.proc, strconv.Itoa(pid))); err == nil {
				ok = false // it lives and its counter is hidden
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

// writtenBytes reads wchar of /proc/PID/io.
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

// observe takes one look at the sizes of files; output gives the size of what the job has printed. The counters are read
// before and after the sizes, so that a write which made a file grow between two looks lies between the first reading of
// the earlier and the second of the later one.
func (a *accounting) observe(pids []int, paths []string, output func() int64) {
	before, ok := a.total(pids)
	looks := make([]look, 0, len(paths))
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

// add takes one look; last is the counter before the look before, when that is known.
func (f *growth) add(size int64, last, before, after uint64, printed int64, known bool) {
	if !f.seen || printed < f.firstOutput { // output that shrinks was rotated: begin again
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

// verdict is the evidence for a file; excluded is true when another process writes it.
func (a *accounting) verdict(id fileID, named bool) (e Evidence, excluded bool) {
	f := a.files[id]
	switch {
	case f == nil || f.denied > 0 || f.with == 0:
		return NoEvidence, f != nil && f.denied >= growthsAgainst
	case f.elsewhere < f.size-f.firstSize:
		return NoEvidence, false // the job printed, but did not write so much to files
	}
	chance := math.Pow(float64(f.active)/float64(f.windows), float64(f.with))
	switch {
	case named && chance <= chanceNamed:
		return OnCommandLine, false
	case chance <= chanceSole:
		return SoleWriter, false
	}
	return NoEvidence, false
}

// grows reports whether a file was seen to grow.
func (a *accounting) grows(id fileID) bool {
	f := a.files[id]
	return f != nil && f.with+f.denied > 0
}
