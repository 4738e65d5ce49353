package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DiscoverOptions says where a training log is looked for.
type DiscoverOptions struct {
	// Dirs are looked through; none means the current directory.
	Dirs []string
	// Since leaves out files that were last changed before; the zero time takes all.
	Since time.Time
	// Ignore are files and directories that are left out, such as our own run directory.
	Ignore []string
	// Depth is how many directories deep; 0 means 4 (lightning_logs/version_0/metrics.csv is 2).
	Depth int
	// Tail is how a candidate is recognised (aliases, forced format).
	Tail TailOptions
}

// maxEntries bounds how many directory entries Discover looks at.
const maxEntries = 50000

// candidate is a file that may be the log.
type candidate struct {
	path  string
	known bool
	time  time.Time
}

// Discover finds the training log that a script writes: among the files *.csv, *.tsv, *.jsonl, *.ndjson and
// trainer_state.json that were changed since the start, the newest one whose beginning is that of a known format,
// else the newest table. The error wraps ErrNoData when there is none.
func Discover(o DiscoverOptions) (string, error) {
	if len(o.Dirs) == 0 {
		o.Dirs = []string{"."}
	}
	setDefault(&o.Depth, 4)
	ignore := map[string]bool{}
	for _, path := range o.Ignore {
		ignore[absolute(path)] = true
	}
	var found []candidate
	entries := 0
	for _, dir := range o.Dirs {
		root := absolute(dir)
		// Errors inside the walk are directories that cannot be read: nothing is to be found there.
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || ignore[path] {
				return skip(e)
			}
			if entries++; entries > maxEntries {
				return fs.SkipAll
			}
			if e.IsDir() {
				if path != root && (hidden(e.Name()) || depth(root, path) > o.Depth) {
					return fs.SkipDir
				}
				return nil
			}
			if c, ok := o.consider(path, ignore); ok {
				found = append(found, c)
			}
			return nil
		})
	}
	if len(found) == 0 {
		return "", fmt.Errorf("look for a training log in %s: %w", strings.Join(o.Dirs, ", "), ErrNoData)
	}
	best := slices.MaxFunc(found, func(a, b candidate) int {
		switch {
		case a.known != b.known && a.known:
			return 1
		case a.known != b.known:
			return -1
		}
		if c := a.time.Compare(b.time); c != 0 {
			return c
		}
		return strings.Compare(b.path, a.path)
	})
	return best.path, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}

// skip leaves out an entry and what is below it.
func skip(e fs.DirEntry) error {
	if e != nil && e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// hidden names directories in which no training log is written.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || name == "__pycache__" || name == "node_modules" || name == "site-packages"
}

func depth(root, path string) int {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == "." {
		return 0
	}
	return strings.Count(rel, string(filepath.Separator)) + 1
}

// consider looks at one file by name, time and beginning.
func (o *DiscoverOptions) consider(path string, ignore map[string]bool) (candidate, bool) {
	name := strings.ToLower(filepath.Base(path))
	ext := filepath.Ext(name)
	if name != "trainer_state.json" && ext != ".csv" && ext != ".tsv" && ext != ".jsonl" && ext != ".ndjson" {
		return candidate{}, false
	}
	fi, err := os.Stat(path) // through a symlink: latest.csv
	if err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 {
		return candidate{}, false
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && ignore[real] {
		return candidate{}, false
	}
	// File times come from the kernel's tick, which may be a few milliseconds behind the clock.
	if !o.Since.IsZero() && fi.ModTime().Before(o.Since.Add(-10*time.Millisecond)) {
		return candidate{}, false
	}
	return candidate{path: path, known: recognise(path, o.Tail), time: fi.ModTime()}, true
}

// recognise reports whether the beginning of a file is that of a training log.
func recognise(path string, o TailOptions) bool {
	o.Resume, o.MaxBytes = nil, headBytes
	t, err := Open(path, o)
	if err != nil {
		return false
	}
	defer t.Close()
	t.name, t.lp, t.doc = "", nil, nil
	if err := t.step(); err != nil && !errors.Is(err, errNotDocument) {
		return false
	}
	return t.name != "" && t.name != "stdout" && (t.doc == nil || len(t.rows) > 0) && !(t.name == "csv" && t.lp.(*table).cells == nil)
}
