package observe

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/internal/regular"
)

// Limits for the files examined before the job starts.
const (
	headBytes  = 64 << 10
	maxOld     = 200   // files whose beginning is read
	maxEntries = 20000 // directory entries
	lookBudget = 100 * time.Millisecond
)

// old is a log as it was before the job started: its rows do not belong to this run.
type old struct {
	id   fileID
	size int64
	head [sha256.Size]byte // of the first headBytes
}

// earlierLogs contains the logs that existed before the job started, by path, with size, time and a hash of the
// beginning of each: reading whole files would delay the start.
type earlierLogs struct {
	files map[string]old
	read  int64 // bytes, for tests
	seen  int   // number of directory entries
}

// recordEarlierLogs examines the logs below the directories and the named ones.
func recordEarlierLogs(named []string, dirs []string) earlierLogs {
	p := earlierLogs{files: map[string]old{}}
	for _, path := range named {
		p.add(path)
	}
	began := time.Now()
	for _, dir := range dirs {
		walk(dir, 4, func(path string) bool {
			if p.seen++; mayBeLog(path) {
				p.add(path)
			}
			return p.seen < maxEntries && len(p.files) < maxOld && time.Since(began) < lookBudget
		})
	}
	return p
}

func (p *earlierLogs) add(path string) {
	l, err := lookAt(path)
	if err != nil || l.size == 0 || path == "" {
		return
	}
	if head, n, err := headOf(path, l.size); err == nil {
		p.files[path] = old{id: l.id, size: l.size, head: head}
		p.read += int64(n)
	}
}

// headOf returns the hash of the first headBytes of the first size bytes.
func headOf(path string, size int64) (sum [sha256.Size]byte, n int, err error) {
	f, err := regular.Open(path, regular.NoLimit)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	buf := make([]byte, min(headBytes, size))
	if n, err = io.ReadFull(f, buf); err != nil {
		return sum, n, err
	}
	return sha256.Sum256(buf), n, nil
}

// offset returns where the rows of this run begin in a file: after its earlier content, or at 0 if the file was
// created or rewritten since the start. ok is false if the file is unchanged, or is older than the start and was not
// recorded.
func (p *earlierLogs) offset(path string, l fileMeta, start time.Time) (at int64, ok bool) {
	o, known := p.files[path]
	switch {
	case l.size == 0:
		return 0, false
	case !known:
		return 0, l.id.birth == 0 && l.modified.After(since(start)) || l.bornSince(since(start))
	case l.size < o.size:
		return 0, true
	}
	if head, _, err := headOf(path, o.size); err != nil || head != o.head {
		return 0, err == nil
	}
	return o.size, l.size > o.size
}

// walk calls each with every file below a directory, down to a depth, until it returns false. It follows neither
// symbolic links nor hidden directories. Directories are read in pieces, so that a large one is not listed as a
// whole.
func walk(root string, depth int, each func(path string) bool) bool {
	f, err := os.Open(root)
	if err != nil {
		return true
	}
	defer f.Close()
	var below []string
	for {
		entries, err := f.ReadDir(512)
		for _, e := range entries {
			path := filepath.Join(root, e.Name())
			switch {
			case e.IsDir() && !strings.HasPrefix(e.Name(), "."):
				below = append(below, path)
			case !e.IsDir():
				if !each(path) {
					return false
				}
			}
		}
		if err != nil {
			break
		}
	}
	if depth <= 1 {
		return true
	}
	return !slices.ContainsFunc(below, func(dir string) bool { return !walk(dir, depth-1, each) })
}
