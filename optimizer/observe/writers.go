package observe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits.
const (
	maxRecords      = 4096 // files with a known writer
	maxPending      = 4096 // reports whose process could not be classified
	maxJobProcesses = 256  // processes of the job whose descriptors are read
	maxDescriptors  = 1024 // per process
)

// bytesWritten is the evidence about the writers of one file.
type bytesWritten struct {
	path     string // last known path
	evidence evidenceLine
	foreign  bool // another process wrote the file too
}

// writers collects the files that the job writes, from the descriptors of its processes and, where permitted, from
// the kernel's reports. Its methods are safe for concurrent use.
type writers struct {
	proc string // /proc

	mu      sync.Mutex
	pids    func() ([]int, error) // of the job; nil before its start
	job     map[int]bool          // processes observed in the job
	foreign map[int]bool          // processes observed outside the job; cleared at each scan, because pids are reused
	files   map[fileID]*bytesWritten
	pending []closed  // reports waiting for the next reading of the job's processes
	notify  *fanotify // nil if not permitted
	done    chan struct{}
}

// newWriters starts collecting. If reports is set, the kernel's reports for the file systems of the directories are
// used.
func newWriters(dirs []string, reports bool) *writers {
	w := &writers{proc: "/proc", job: map[int]bool{}, foreign: map[int]bool{}, files: map[fileID]*bytesWritten{}, done: make(chan struct{})}
	if reports {
		w.listen(dirs)
	}
	if w.notify == nil {
		close(w.done)
	}
	return w
}

// listen opens fanotify for the file systems of all directories, or for none.
func (w *writers) listen(dirs []string) {
	f, err := openFanotify(w.report)
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if f.watch(dir) != nil { // partial evidence would count as evidence against files in the other directories
			f.Close()
			return
		}
	}
	w.notify = f
	go func() {
		defer close(w.done)
		f.read()
	}()
}

func (w *writers) close() {
	if w.notify != nil {
		w.notify.Close()
	}
	<-w.done
}

// attach sets the processes of the job. Its first one, if known, belongs to the job even if it has ended.
func (w *writers) attach(pids func() ([]int, error), first int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids = pids
	if first > 0 {
		w.job[first] = true
		delete(w.foreign, first)
	}
	w.refresh()
	w.settle()
}

// refresh reads the processes of the job.
func (w *writers) refresh() []int {
	if w.pids == nil {
		return nil
	}
	list, err := w.pids()
	if err != nil {
		return nil
	}
	for _, pid := range list {
		w.job[pid] = true
		delete(w.foreign, pid)
	}
	return list
}

// report processes one report of the kernel. It reads the job's processes only for a file that may be a log, while
// the writer may still live; other reports of unknown processes wait for the next scan.
func (w *writers) report(c closed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, relevant := w.files[c.id]
	relevant = relevant || mayBeLog(c.path)
	known := w.job[c.pid] || w.foreign[c.pid]
	switch {
	case w.foreign[c.pid] && !relevant:
	case w.pids != nil && known:
		w.classify(c)
	case w.pids != nil && relevant:
		w.refresh()
		w.classify(c)
	case len(w.pending) < maxPending/2, relevant && len(w.pending) < maxPending:
		w.pending = append(w.pending, c)
	}
}

// settle classifies the pending reports.
func (w *writers) settle() {
	for _, c := range w.pending {
		w.classify(c)
	}
	w.pending = w.pending[:0]
}

// classify stores a report. A process that has ended and was never observed is no evidence for either side.
func (w *writers) classify(c closed) {
	switch {
	case w.job[c.pid]:
		w.note(c.id, c.path, wrote)
	case c.pid == 0, w.foreign[c.pid], w.alive(c.pid): // 0: a process in another namespace
		w.foreign[c.pid] = true
		if f := w.files[c.id]; f != nil || mayBeLog(c.path) {
			w.note(c.id, c.path, noEvidence)
			w.files[c.id].foreign = true
		}
	}
}

func (w *writers) alive(pid int) bool {
	_, err := os.Stat(filepath.Join(w.proc, strconv.Itoa(pid)))
	return err == nil
}

// note records evidence for a file. Evidence never decreases.
func (w *writers) note(id fileID, path string, e evidenceLine) {
	f := w.files[id]
	if f == nil {
		if len(w.files) >= maxRecords {
			w.forget()
		}
		f = &bytesWritten{}
		w.files[id] = f
	}
	f.path = path
	f.evidence = max(f.evidence, e)
}

// forget removes half of the records, so that its cost is not incurred with each report: first files whose name is
// not that of a log, then files that the job was not observed to write, then any.
func (w *writers) forget() {
	for _, kept := range []func(f *bytesWritten) bool{
		func(f *bytesWritten) bool { return mayBeLog(f.path) },
		func(f *bytesWritten) bool { return f.evidence > noEvidence },
		func(*bytesWritten) bool { return false },
	} {
		for id, f := range w.files {
			if len(w.files) > maxRecords/2 && !kept(f) {
				delete(w.files, id)
			}
		}
	}
}

// scan updates the evidence and returns the processes of the job.
func (w *writers) scan() []int {
	if w.notify != nil {
		w.notify.drain()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.refresh()
	w.settle()
	clear(w.foreign)
	for _, pid := range list[:min(len(list), maxJobProcesses)] {
		eachWritable(w.proc, pid, func(path string, l fileMeta) { w.note(l.id, path, openForWriting) })
	}
	return list
}

// heldElsewhere reports whether a process outside the job has a file open for writing, as far as /proc is readable.
func (w *writers) heldElsewhere(id fileID) bool {
	entries, err := os.ReadDir(w.proc)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh()
	held := false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || w.job[pid] {
			continue
		}
		eachWritable(w.proc, pid, func(_ string, l fileMeta) { held = held || l.id == id })
	}
	if f := w.files[id]; held && f != nil {
		f.foreign = true
	}
	return held
}

// eachWritable calls each for every regular file that a process has open for writing.
func eachWritable(proc string, pid int, each func(path string, l fileMeta)) {
	root := filepath.Join(proc, strconv.Itoa(pid))
	dir, err := os.Open(filepath.Join(root, "fd"))
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxDescriptors)
	for _, name := range names {
		path, err := os.Readlink(filepath.Join(root, "fd", name))
		if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/dev/") {
			continue
		}
		if !writable(filepath.Join(root, "fdinfo", name)) {
			continue
		}
		if l, err := lookAt(filepath.Join(root, "fd", name)); err == nil {
			each(strings.TrimSuffix(path, " (deleted)"), l)
		}
	}
}

// writingWithin is the time since its last change within which an open checkpoint is still being written.
const writingWithin = 2 * time.Second

// WritesCheckpoint reports whether one of the processes of this machine is writing a file that is named as a checkpoint, or
// matches one of the patterns: it is open for writing and has just changed.
func WritesCheckpoint(pids []int, patterns []string) bool {
	writes, patterns := false, literal(patterns)
	for _, pid := range pids {
		eachWritable("/proc", pid, func(path string, l fileMeta) {
			_, s := recognise(path, false)
			writes = writes || (s == strong || matches(patterns, filepath.Base(path))) && time.Since(l.modified) < writingWithin
		})
	}
	return writes
}

// writable reports whether a descriptor is open for writing, from the line "flags:\t0100001" (octal) of
// /proc/PID/fdinfo/FD.
func writable(fdinfo string) bool {
	data, err := os.ReadFile(fdinfo)
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(data), "flags:")
	if !ok {
		return false
	}
	flags, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 8, 64)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
}

// of returns the evidence about the writers of one file.
func (w *writers) of(id fileID) (e evidenceLine, foreign bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.files[id]; f != nil {
		return f.evidence, f.foreign
	}
	return noEvidence, false
}

// candidate is a file that the job writes and that may be its log.
type candidate struct {
	path     string
	look     fileMeta
	evidence evidenceLine
	foreign  bool
}

// candidates returns the files that the job was observed to write, at their current paths.
func (w *writers) candidates() []candidate {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []candidate
	renamed := map[string]bool{}
	for id, f := range w.files {
		if f.evidence == noEvidence {
			continue
		}
		if l, err := lookAt(f.path); err == nil && l.id == id {
			if mayBeLog(f.path) {
				out = append(out, candidate{path: f.path, look: l, evidence: f.evidence, foreign: f.foreign})
			}
			continue
		}
		if dir := filepath.Dir(f.path); !renamed[dir] { // written under another name, then renamed
			renamed[dir] = true
			out = append(out, w.moved(dir)...)
		}
	}
	return out
}

// moved returns the files of a directory that were written under another name.
func (w *writers) moved(dir string) (out []candidate) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxDescriptors)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if !mayBeLog(path) {
			continue
		}
		l, err := lookAt(path)
		if r := w.files[l.id]; err == nil && r != nil && r.path != path && r.evidence > noEvidence {
			r.path = path
			out = append(out, candidate{path: path, look: l, evidence: r.evidence, foreign: r.foreign})
		}
	}
	return out
}

// since returns the lower bound for times of files created since start, allowing for the few milliseconds by which
// kernel file times, taken from the tick, lag behind.
func since(start time.Time) time.Time { return start.Add(-50 * time.Millisecond) }
