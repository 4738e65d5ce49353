package observe

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/monitor/trainlog"
)

// maxTrials bounds the number of candidates that are read.
const maxTrials = 8

// trial is a candidate that is being evaluated: it is read, and its rows are held until it is chosen.
type trial struct {
	candidate
	tail *trainlog.Tail
	rows []trainlog.Row
	seen extent
	// others are the remaining candidates, set when this one is chosen.
	others []string
}

// finder searches for the log among the files that the job writes.
type finder struct {
	options   *LogOptions
	start     time.Time // on the file system's clock
	past      earlierLogs
	writers   *writers
	account   *accounting
	states    stateDirs
	trials    map[string]*trial
	refused   map[fileID]string // why a file is not the log
	noted     map[string]bool   // folders and reasons of the files that Notes has named
	notes     []string          // messages not yet returned by Notes
	notBefore time.Time         // if set, only files created after it are candidates
}

// look updates the evidence and returns the candidates that may be the log, best first: files with training results,
// then by evidence, then by modification time.
func (f *finder) look(now time.Time, out *output, took time.Duration, last bool) []*trial {
	found := f.gather(out)
	if len(found) > maxTrials {
		slices.SortFunc(found, func(a, b candidate) int { return b.look.modified.Compare(a.look.modified) })
		found = found[:maxTrials]
	}
	var ready []*trial
	for _, c := range found {
		if t := f.judge(c, now, out.reached(), took, last); t != nil {
			ready = append(ready, t)
		}
	}
	slices.SortFunc(ready, func(a, b *trial) int {
		if isDocument(a.path) && isDocument(b.path) { // locations of one log: the newest, regardless of the evidence
			return b.look.modified.Compare(a.look.modified)
		}
		return cmp.Or(boolean(isText(a.path), isText(b.path)), boolean(b.seen.results, a.seen.results), int(b.evidence-a.evidence), b.look.modified.Compare(a.look.modified), strings.Compare(a.path, b.path))
	})
	return ready
}

// boolean compares booleans as cmp.Compare compares numbers, with false before true.
func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// sharedWords is the reason for refusing a file with several writers.
const sharedWords = "other processes write it too"

// gather returns the files with evidence, without refused ones.
func (f *finder) gather(out *output) []candidate {
	pids := f.writers.scan()
	found := f.writers.candidates()
	if f.writers.notify == nil {
		found = append(found, f.accounted(pids, out, found)...)
	}
	return slices.DeleteFunc(found, func(c candidate) bool {
		if f.refused[c.look.id] != "" || f.states.contain(c.path) || !f.notBefore.IsZero() && !c.look.bornSince(f.notBefore) {
			return true
		}
		if c.foreign {
			f.refuse(c, sharedWords)
			return true
		}
		return false
	})
}

// accounted adds the candidate that write accounting identifies: a file on the command line, or the only one not
// excluded. It is used where the kernel does not report writers.
func (f *finder) accounted(pids []int, out *output, known []candidate) []candidate {
	var paths []string
	entries := 0
	began := time.Now()
	for _, dir := range f.options.dirs() {
		walk(dir, 4, func(path string) bool {
			if entries++; mayBeLog(path) && !f.states.contain(path) {
				if l, err := lookAt(path); err == nil && l.modified.After(since(f.start)) {
					paths = append(paths, path)
				}
			}
			return entries < maxEntries && len(paths) < maxOld && time.Since(began) < lookBudget
		})
	}
	f.account.observe(pids, paths, out.size)
	var fit []candidate
	rivals := 0
	for _, path := range paths {
		l, err := lookAt(path)
		if err != nil || slices.ContainsFunc(known, func(c candidate) bool { return c.look.id == l.id }) {
			continue
		}
		e, excluded := f.account.verdict(l.id, f.onCommandLine(path))
		if !excluded && f.account.grows(l.id) {
			rivals++
		}
		if e > noEvidence {
			fit = append(fit, candidate{path: path, look: l, evidence: e})
		}
	}
	if rivals != 1 || len(fit) != 1 || f.writers.heldElsewhere(fit[0].look.id) {
		return nil
	}
	return fit
}

// onCommandLine reports whether the job's arguments name a file, alone or after "=".
func (f *finder) onCommandLine(path string) bool {
	for _, arg := range f.options.Args {
		if _, value, ok := strings.Cut(arg, "="); ok && absolute(f.options.Dir, value) == path {
			return true
		}
		if absolute(f.options.Dir, arg) == path {
			return true
		}
	}
	return false
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// judge continues reading a candidate; it returns nil while the candidate has no row, or if it is not the log.
func (f *finder) judge(c candidate, now time.Time, printed extent, took time.Duration, last bool) *trial {
	t := f.trials[c.path]
	if t == nil {
		tail, err := f.open(c.path, c.look)
		if err != nil {
			return nil
		}
		t = &trial{tail: tail}
		f.trials[c.path] = t
	}
	t.candidate = c
	if len(t.rows) < maxHeld {
		rows, err := read(t.tail, now, last)
		if err != nil {
			f.drop(c.path)
			return nil
		}
		t.rows = append(t.rows, rows...)
		t.seen.add(rows)
	}
	if t.seen.rows == 0 {
		if t.tail.Stats().Bytes > maxSilent {
			f.refuse(c, "it has no row of a training log in its beginning")
		}
		return nil
	}
	switch {
	case isText(c.path):
		if !t.seen.results || !(t.seen.epoch > 0 || t.seen.step > 0) || printed.advances() {
			return nil
		}
	case t.tail.Stats().Format == "stdout":
		f.refuse(c, "it is no table")
		return nil
	}
	if why := rejectReason(t.seen, printed, took); why != "" {
		f.refuse(c, why)
		return nil
	}
	return t
}

// Limits for reading a candidate: rows before it is chosen, and bytes without a row.
const (
	maxHeld   = 1 << 14
	maxSilent = 4 << 20
)

// open opens a file after the content that predates the start.
func (f *finder) open(path string, l fileMeta) (*trainlog.Tail, error) {
	at, ok := f.past.offset(path, l, f.start)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return openAt(path, f.options.tail(), at)
}

// openAt follows a log from an offset; the content before it is only used for the header.
func openAt(path string, o trainlog.TailOptions, at int64) (*trainlog.Tail, error) {
	if at > 0 {
		s, err := trainlog.StateAt(path, o, at)
		if err != nil && !errors.Is(err, trainlog.ErrNoData) {
			return nil, err
		}
		if err == nil {
			o.Resume = &s
		}
	}
	return trainlog.Open(path, o)
}

func (f *finder) refuse(c candidate, why string) {
	f.refused[c.look.id] = why
	if at := filepath.Dir(c.path) + ": " + why; !f.noted[at] && !isText(c.path) && !f.temporary(c.path) { // d3rlpy writes a table for each layer
		f.noted[at] = true
		f.notes = append(f.notes, c.path+" is not used as the log: "+why)
	}
	f.drop(c.path)
}

// temporary reports whether a file is in a folder for temporary files, where a library has written it: the chains of Stan. The
// directory of the job may itself be in one.
func (f *finder) temporary(path string) bool {
	below := func(dir string) bool { return strings.HasPrefix(path, filepath.Clean(dir)+string(filepath.Separator)) }
	return below(os.TempDir()) && !below(f.options.Dir)
}

func (f *finder) drop(path string) {
	if t := f.trials[path]; t != nil {
		t.tail.Close()
		delete(f.trials, path)
	}
}

// take removes a trial from the finder and returns it with its tail, which the caller then owns.
func (f *finder) take(path string) *trial {
	t := f.trials[path]
	delete(f.trials, path)
	return t
}

func (f *finder) close() {
	for path := range f.trials {
		f.drop(path)
	}
	f.writers.close()
}
