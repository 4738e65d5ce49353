package joblog

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of what is kept and looked at.
const (
	maxRecords     = 4096 // files with a known writer
	maxPending     = 4096 // reports whose process could not be classified yet
	maxProcesses   = 256  // processes of the job whose descriptors are looked at
	maxDescriptors = 1024 // of one process
)

// written is what is known of the writers of one file.
type written struct {
	path     string // where it was when it was last seen
	evidence Evidence
	foreign  bool // another process wrote it too
}

// writers collects which files the job writes, from the descriptors of its processes and, where permitted, from the
// kernel's reports. Its methods may be called by several goroutines.
type writers struct {
	proc string // /proc

	mu      sync.Mutex
	pids    func() ([]int, error) // of the job; nil before its start
	job     map[int]bool          // processes that were seen in the job
	foreign map[int]bool          // processes that were seen outside of it; forgotten at each scan, as numbers are used again
	files   map[fileID]*written
	pending []closed  // reports that wait for the next reading of the job's processes
	notify  *fanotify // nil where it is not permitted
	done    chan struct{}
}

// newWriters begins to collect. Reports are wanted for the file systems of the directories.
func newWriters(dirs []string, reports bool) *writers {
	w := &writers{proc: "/proc", job: map[int]bool{}, foreign: map[int]bool{}, files: map[fileID]*written{}, done: make(chan struct{})}
	if reports {
		w.listen(dirs)
	}
	if w.notify == nil {
		close(w.done)
	}
	return w
}

func (w *writers) listen(dirs []string) {
	f, err := openFanotify(w.report)
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if f.watch(dir) != nil { // evidence for some directories only would be read as evidence against others
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

// reports tells whether the kernel reports writers.
func (w *writers) reports() bool { return w.notify != nil }

// attach names the processes of the job that runs from now on.
func (w *writers) attach(pids func() ([]int, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids = pids
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

// report takes one report of the kernel. It reads the job's processes only for a file that may be a log, while the writer
// may still live; other reports of unknown processes wait for the next scan.
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

// settle classifies the reports that wait.
func (w *writers) settle() {
	for _, c := range w.pending {
		w.classify(c)
	}
	w.pending = w.pending[:0]
}

// classify stores a report. A process that has ended and was never seen says nothing about the file.
func (w *writers) classify(c closed) {
	switch {
	case w.job[c.pid]:
		w.note(c.id, c.path, Wrote)
	case c.pid == 0, w.foreign[c.pid], w.alive(c.pid): // 0: in another namespace
		w.foreign[c.pid] = true
		if f := w.files[c.id]; f != nil || mayBeLog(c.path) {
			w.note(c.id, c.path, NoEvidence)
			w.files[c.id].foreign = true
		}
	}
}

func (w *writers) alive(pid int) bool {
	_, err := os.Stat(filepath.Join(w.proc, strconv.Itoa(pid)))
	return err == nil
}

func (w *writers) note(id fileID, path string, e Evidence) {
	f := w.files[id]
	if f == nil {
		if len(w.files) >= maxRecords {
			w.forget()
		}
		f = &written{}
		w.files[id] = f
	}
	f.path = path
	f.evidence = max(f.evidence, e)
}

// forget makes room for as many files again, so that its cost does not come with each report: what is no log by its name goes
// first, then what the job was not seen to write.
func (w *writers) forget() {
	for _, kept := range []func(f *written) bool{
		func(f *written) bool { return mayBeLog(f.path) },
		func(f *written) bool { return f.evidence > NoEvidence },
		func(*written) bool { return false },
	} {
		for id, f := range w.files {
			if len(w.files) > maxRecords/2 && !kept(f) {
				delete(w.files, id)
			}
		}
	}
}

// scan brings the evidence up to date, and returns the processes of the job.
func (w *writers) scan() []int {
	if w.notify != nil {
		w.notify.drain()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.refresh()
	w.settle()
	clear(w.foreign)
	for _, pid := range list[:min(len(list), maxProcesses)] {
		eachWritable(w.proc, pid, func(path string, l look) { w.note(l.id, path, OpenForWriting) })
	}
	return list
}

// heldElsewhere reports whether a process outside of the job has a file open for writing, as far as may be seen.
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
		eachWritable(w.proc, pid, func(_ string, l look) { held = held || l.id == id })
	}
	if f := w.files[id]; held && f != nil {
		f.foreign = true
	}
	return held
}

// eachWritable calls each with every regular file that a process has open for writing.
func eachWritable(proc string, pid int, each func(path string, l look)) {
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

// writable reads the access mode of a descriptor: the line "flags:\t0100001" of /proc/PID/fdinfo/FD, octal.
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

// of returns what is known of the writers of one file.
func (w *writers) of(id fileID) (e Evidence, foreign bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.files[id]; f != nil {
		return f.evidence, f.foreign
	}
	return NoEvidence, false
}

// candidate is a file that the job writes and that may be its log.
type candidate struct {
	path     string
	look     look
	evidence Evidence
	foreign  bool
}

// candidates lists the files that the job was seen to write, where they are now.
func (w *writers) candidates() []candidate {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []candidate
	renamed := map[string]bool{}
	for id, f := range w.files {
		if f.evidence == NoEvidence {
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

// moved finds files of a directory that were written under another name.
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
		if r := w.files[l.id]; err == nil && r != nil && r.path != path && r.evidence > NoEvidence {
			r.path = path
			out = append(out, candidate{path: path, look: l, evidence: r.evidence, foreign: r.foreign})
		}
	}
	return out
}

// since is a file's age limit against clocks that differ: kernel times come from the tick, a few milliseconds late.
func since(start time.Time) time.Time { return start.Add(-50 * time.Millisecond) }
