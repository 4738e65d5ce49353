package observe

import (
	"bytes"
	"cmp"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// CheckpointFile is one checkpoint: a file, or a directory of files.
type CheckpointFile struct {
	Path  string
	Kind  kind
	Time  time.Time // of the last modification
	Bytes int64     // of a directory: sum over its files
	// Step and Epoch are the progress in the checkpoint, from its name or trainer_state.json; NaN if unknown.
	Step, Epoch float64
	// Complete is false while the checkpoint is being written: it changed within Options.Settle and is not one that its writer
	// replaces, or a part of it is missing.
	Complete bool
	// Reported is true if the observer reported the save.
	Reported bool

	cut bool // the end of its format is missing
}

// CheckpointOptions configures a Finder. The zero value searches nothing.
type CheckpointOptions struct {
	Roots  []string      // directories to search
	Ignore []string      // directories to skip, such as the state directory
	Names  []string      // patterns of base names that may be those of checkpoints whatever their extension
	Settle time.Duration // time without change after which a file is complete; 0: 2 s
	Depth  int           // depth of the search below a root; 0: 4
	// MaxEntries bounds the number of directory entries of one search, over all roots; 0: 20,000. Opening a directory
	// counts as 20 entries, which take about as long.
	MaxEntries int
}

// CheckpointFinder finds the checkpoints written since its start. It is not safe for concurrent use. A search costs one stat
// per entry whose name may be that of a checkpoint.
type CheckpointFinder struct {
	o        CheckpointOptions
	before   map[string]stamp
	seen     map[string]history
	reported map[string]time.Time // time of the last report, by path
	above    map[string]bool      // directories above the reported paths, as of the last Find
	known    map[string]bool      // found by an earlier Finder of the same training, or confirmed
	confirm  time.Time            // of Confirm, until the next Find
}

// stamp distinguishes states of a file.
type stamp struct {
	modified int64
	bytes    int64
	inode    uint64 // of a file
}

// history is the result of earlier searches for a path.
type history struct {
	last     stamp
	since    time.Time // time of the first search that saw last
	changes  int       // number of changes since the first search
	replaced bool      // by another file: each state of it is complete
	cut      bool      // the last state lacks the end of its format
}

const (
	defaultSettle     = 2 * time.Second
	defaultDepth      = 4
	defaultMaxEntries = 20_000
	directoryCost     = 20   // of opening a directory, in entries
	maxParts          = 1000 // files in a checkpoint directory
	stateHead         = 16 << 10
	stateFile         = "trainer_state.json"
	randomStates      = "random_states_0.pkl" // the last file of a checkpoint by accelerate

	reportSlack = 20 * time.Millisecond // tolerance between file times and times of reports
)

// skipped contains directories without checkpoints of a training.
var skipped = map[string]bool{".git": true, ".hg": true, "__pycache__": true, "node_modules": true, ".venv": true, "venv": true, "site-packages": true, ".cache": true, ".mypy_cache": true, ".ipynb_checkpoints": true}

// NewCheckpointFinder returns a Finder. Call Start before the training starts.
func NewCheckpointFinder(o CheckpointOptions) *CheckpointFinder {
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if o.Depth == 0 {
		o.Depth = defaultDepth
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = defaultMaxEntries
	}
	f := &CheckpointFinder{o: o, before: map[string]stamp{}, seen: map[string]history{}, reported: map[string]time.Time{}, known: map[string]bool{}}
	for i, p := range f.o.Ignore {
		f.o.Ignore[i] = filepath.Clean(p)
	}
	return f
}

// Start records the existing files, so that only later writes count. Without Start, all files count.
func (f *CheckpointFinder) Start() {
	for _, c := range f.search() {
		f.before[c.path] = c.stamp
	}
}

// Report adds a path whose save the training completed at the given time. It counts regardless of its name and
// location.
func (f *CheckpointFinder) Report(path string, at time.Time) {
	if !settings(filepath.Base(path)) {
		f.reported[filepath.Clean(path)] = at
	}
}

// Known adds a path that an earlier Finder of the same training has found, by a report or because it saw the file
// change. It counts regardless of its name and location, but not as reported.
func (f *CheckpointFinder) Known(path string) { f.known[filepath.Clean(path)] = true }

// Confirm lets the next Find add the files with a name of CheckpointOptions.Names that were modified since a time, after which
// the training has ended.
func (f *CheckpointFinder) Confirm(from time.Time) { f.confirm = from }

// literal returns the patterns that name something: one such as *.json may match other files.
func literal(patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(p string) bool {
		return !strings.ContainsFunc(strings.TrimSuffix(p, filepath.Ext(p)), unicode.IsLetter)
	})
}

// renameSlack is the tolerance of modification times in Final: the end of a save is reported before the file is closed, and
// some file systems store whole seconds.
const renameSlack = time.Second

// FinalCheckpoint returns the present path of a checkpoint whose save to path ended at the given time. A file saved under a temporary
// name has been renamed: without its suffix if that exists, or to the checkpoint of the same directory that was modified
// during the save. Without such a file, path is returned. A checkpoint that has not changed since its last save under its own name,
// the end of which saved returns, is not another one renamed.
func FinalCheckpoint(path string, at time.Time, took time.Duration, saved func(path string) time.Time) string {
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	for _, suffix := range []string{".tmp", ".temp", ".part", ".partial", ".new", "~"} {
		if final, ok := strings.CutSuffix(path, suffix); ok {
			if _, err := os.Lstat(final); err == nil {
				return final
			}
		}
	}
	final, nearest := path, took+renameSlack
	for _, e := range list(filepath.Dir(path), maxRenamed) {
		info, err := e.Info()
		if _, named := recognise(e.Name(), e.IsDir()); err != nil || named == none || !info.Mode().IsRegular() {
			continue
		}
		sibling := filepath.Join(filepath.Dir(path), e.Name())
		if d := info.ModTime().Sub(at).Abs(); d < nearest && info.ModTime().After(saved(sibling).Add(renameSlack)) {
			final, nearest = sibling, d
		}
	}
	return final
}

// maxRenamed is the maximum number of directory entries that Final compares.
const maxRenamed = 2000

// Find returns the checkpoints written since the start. The order is: incomplete before complete, files without the end of
// their format before others, names with "best" before others (they need not be the newest state), then time, step and path.
// The last file is therefore the newest one to resume from, if it is complete.
func (f *CheckpointFinder) Find(now time.Time) []CheckpointFile {
	var out []CheckpointFile
	found := f.search()
	var removed []string
	for _, p := range f.unnamed(found) {
		if c, ok := look(p); ok {
			found = append(found, c)
		} else {
			removed = append(removed, p)
		}
	}
	f.forget(removed)
	f.above = map[string]bool{}
	for p := range f.reported {
		for dir := range parents(p) {
			if f.above[dir] {
				break // and so are those above it
			}
			f.above[dir] = true
		}
	}
	var names []string // to confirm
	from := since(f.confirm).UnixNano()
	if !f.confirm.IsZero() {
		names, f.confirm = literal(f.o.Names), time.Time{}
	}
	for _, c := range found {
		old, known := f.before[c.path]
		if known && old == c.stamp {
			continue
		}
		if c.stamp.modified >= from && matches(names, filepath.Base(c.path)) {
			f.known[c.path] = true
		}
		h, again := f.seen[c.path]
		switch {
		case !again:
			h = history{last: c.stamp, since: now, cut: cut(c)}
		case h.last != c.stamp:
			h = history{c.stamp, now, h.changes + 1, h.replaced || h.last.inode != c.stamp.inode, cut(c)}
		}
		f.seen[c.path] = h
		if c.strength < strong && !f.isReported(c.path) && !f.known[c.path] && h.changes == 0 {
			continue
		}
		out = append(out, f.file(c, h, now))
	}
	slices.SortFunc(out, func(a, b CheckpointFile) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Time.Compare(b.Time), cmp.Compare(step(a), step(b)), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// rank orders checkpoints by their use: one that is being written, that was not completed, that is kept for its score, any other.
func rank(f CheckpointFile) int {
	switch {
	case !f.Complete:
		return 0
	case f.cut:
		return 1
	case strings.Contains(strings.ToLower(filepath.Base(f.Path)), "best"):
		return 2
	}
	return 3
}

func step(f CheckpointFile) float64 {
	if math.IsNaN(f.Step) {
		return -1
	}
	return f.Step
}

// LatestCheckpoint returns the newest complete checkpoint whose base name matches one of the patterns (path.Match), or any name
// if no pattern is given; ok is false if no checkpoint matches. files must be in the order of Find.
func LatestCheckpoint(files []CheckpointFile, names ...string) (latest CheckpointFile, ok bool) {
	for _, c := range slices.Backward(files) {
		if c.Complete && (len(names) == 0 || matches(names, filepath.Base(c.Path))) {
			return c, true
		}
	}
	return CheckpointFile{}, false
}

// matches reports whether a name matches one of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := filepath.Match(pattern, name)
		return ok
	})
}

// fileCandidate is a path that may be a checkpoint by its name or by a report.
type fileCandidate struct {
	path     string
	kind     kind
	strength strength
	dir      bool
	stamp    stamp
	parts    map[string]bool // names of the files in a directory
}

// file returns the File of a candidate, with completeness and progress.
func (f *CheckpointFinder) file(c fileCandidate, h history, now time.Time) CheckpointFile {
	modified := time.Unix(0, c.stamp.modified)
	out := CheckpointFile{Path: c.path, Kind: c.kind, Time: modified, Bytes: c.stamp.bytes, Reported: f.isReported(c.path), cut: h.cut}
	out.Step, out.Epoch = progress(c.path)
	saved, ok := f.reported[c.path]
	untouched := ok && !modified.After(saved.Add(reportSlack))
	out.Complete = c.stamp.bytes > 0 && (untouched || h.replaced || now.Sub(h.since) >= f.o.Settle || now.Sub(modified) >= f.o.Settle)
	if c.dir && c.kind == HuggingFace && checkpointDir.MatchString(filepath.Base(c.path)) {
		out.Complete = out.Complete && (c.parts[stateFile] || c.parts[randomStates])
		if s, e := stateProgress(head(filepath.Join(c.path, stateFile), stateHead)); !math.IsNaN(s) {
			out.Step, out.Epoch = s, e
		}
	}
	return out
}

// isReported reports whether a path, or a file below it, was reported.
func (f *CheckpointFinder) isReported(path string) bool {
	_, ok := f.reported[path]
	return ok || f.above[path]
}

// forget drops the reports of removed files except for the latest maxCheckpoints: a training may save under a new name each time.
func (f *CheckpointFinder) forget(removed []string) {
	slices.SortStableFunc(removed, func(a, b string) int { return f.reported[a].Compare(f.reported[b]) })
	for _, p := range removed[:max(0, len(removed)-maxCheckpoints)] {
		delete(f.reported, p)
		delete(f.seen, p)
	}
}

// parents returns the directories above a path, the nearest one first.
func parents(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := filepath.Dir(path); dir != path && yield(dir); path, dir = dir, filepath.Dir(dir) {
		}
	}
}

// unnamed returns the reported and known paths that a search did not find.
func (f *CheckpointFinder) unnamed(found []fileCandidate) []string {
	paths := maps.Clone(f.known)
	for p := range f.reported {
		paths[p] = true
	}
	directory := make(map[string]bool, len(found)) // by path of a candidate
	for _, c := range found {
		directory[c.path] = c.dir
	}
	maps.DeleteFunc(paths, func(p string, _ bool) bool {
		_, ok := directory[p]
		for dir := range parents(p) {
			if ok {
				break
			}
			ok = directory[dir]
		}
		return ok
	})
	return slices.Sorted(maps.Keys(paths))
}

// search searches the roots breadth first, so that MaxEntries cuts off the deepest entries.
func (f *CheckpointFinder) search() []fileCandidate {
	type place struct {
		path  string
		depth int
	}
	var found []fileCandidate
	var queue []place
	for _, r := range f.o.Roots {
		queue = append(queue, place{filepath.Clean(r), 0})
	}
	entered := map[string]bool{}
	left := f.o.MaxEntries
	for len(queue) > 0 && left > 0 {
		p := queue[0]
		queue = queue[1:]
		if entered[p.path] || slices.Contains(f.o.Ignore, p.path) {
			continue
		}
		entered[p.path] = true
		left -= directoryCost
		for _, e := range list(p.path, left) {
			left--
			path := filepath.Join(p.path, e.Name())
			if _, strength := recognise(path, e.IsDir()); (strength > none || !e.IsDir() && matches(f.o.Names, e.Name())) && !slices.Contains(f.o.Ignore, path) {
				if c, ok := look(path); ok && (!c.dir || c.strength == strong) {
					found = append(found, c)
					left -= len(c.parts)
					continue
				}
			}
			if e.IsDir() && p.depth < f.o.Depth && !skipped[e.Name()] {
				queue = append(queue, place{path, p.depth + 1})
			}
		}
	}
	return found
}

// list returns at most limit entries of a directory, sorted by name.
func list(dir string, limit int) []fs.DirEntry {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(max(limit, 1)) // 0 would mean all
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// look stats a regular file, or a directory and its files. Symbolic links are followed to files, never to
// directories.
func look(path string) (c fileCandidate, ok bool) {
	c = fileCandidate{path: path}
	c.kind, c.strength = recognise(path, false)
	if c.kind == "" {
		c.kind = snapshot
	}
	st, err := os.Lstat(path)
	if err == nil && st.Mode()&fs.ModeSymlink != 0 {
		st, err = os.Stat(path)
		if err == nil && st.IsDir() {
			return c, false
		}
	}
	switch {
	case err != nil:
		return c, false
	case st.Mode().IsRegular():
		c.stamp = stamp{modified: st.ModTime().UnixNano(), bytes: st.Size()}
		if s, ok := st.Sys().(*syscall.Stat_t); ok {
			c.stamp.inode = s.Ino
		}
		return c, true
	case !st.IsDir():
		return c, false // a pipe or a device
	}
	c.dir, c.parts = true, map[string]bool{}
	c.kind, c.strength = recognise(path, true)
	c.stamp.modified = st.ModTime().UnixNano()
	for _, e := range list(path, maxParts) {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			c.parts[e.Name()] = true
			c.stamp.bytes += info.Size()
			c.stamp.modified = max(c.stamp.modified, info.ModTime().UnixNano())
			if c.strength == weak && strings.HasPrefix(e.Name(), "random_states_") {
				c.strength = strong
			}
		}
	}
	return c, true
}

// maxEnding is the largest size of the end of a format: that of a zip archive with the longest comment.
const maxEnding = 22 + 1<<16

// cut reports whether a file lacks the end of its format, because the process that wrote it was killed: that of a zip archive
// (PyTorch, NumPy, Keras), a pickle, or an object in JSON. It is false for any other format.
func cut(c fileCandidate) bool {
	if c.dir {
		return false
	}
	begin := head(c.path, 4)
	ending := func() []byte { return bytes.TrimSpace(section(c.path, max(0, c.stamp.bytes-maxEnding), maxEnding)) }
	switch {
	case bytes.HasPrefix(begin, []byte("PK\x03\x04")):
		return !bytes.Contains(ending(), []byte("PK\x05\x06"))
	case bytes.HasPrefix(begin, []byte("\x80\x02\x8a\x0a")): // PyTorch before 1.6: raw data follow the pickle
		return false
	case len(begin) > 1 && begin[0] == 0x80 && begin[1] >= 2 && begin[1] <= 5:
		return !bytes.HasSuffix(ending(), []byte("."))
	case len(begin) > 0 && begin[0] == '{':
		return !bytes.HasSuffix(ending(), []byte("}"))
	}
	return false
}

// head returns at most the first size bytes of a regular file, nil on an error.
func head(path string, size int) []byte { return section(path, 0, size) }

// section returns at most size bytes of a regular file from an offset on, nil on an error. A file that was replaced by a pipe
// does not block it.
func section(path string, from int64, size int) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	b := make([]byte, size)
	n, _ := f.ReadAt(b, from)
	return b[:n]
}
