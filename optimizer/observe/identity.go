package observe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileID identifies a file permanently: an inode number alone may be reused.
type fileID struct {
	major, minor uint32
	inode        uint64
	birth        int64 // ns since 1970; 0 if the file system does not record it
}

// fileMeta is the metadata of a regular file.
type fileMeta struct {
	id       fileID
	size     int64
	modified time.Time
}

var errNotRegular = errors.New("not a regular file")

// lookAt returns the metadata of the file at a path, following symbolic links. It does not open the file.
func lookAt(path string) (fileMeta, error) { return lookAtFD(unix.AT_FDCWD, path, 0) }

func lookAtFD(fd int, path string, flags int) (fileMeta, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, path, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return fileMeta{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileMeta{}, errNotRegular
	}
	l := fileMeta{id: fileID{major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino}, size: int64(st.Size), modified: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))}
	if st.Mask&unix.STATX_BTIME != 0 {
		l.id.birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return l, nil
}

// bornSince reports whether the file was created at or after t; false if the file system does not record it.
func (l fileMeta) bornSince(t time.Time) bool { return l.id.birth != 0 && l.id.birth >= t.UnixNano() }

// maxRunsChecked bounds the number of runs that are checked to recognise a state directory.
const maxRunsChecked = 64

// stateDirs recognises state directories: those that contain runs/*/run.json. known caches positive results.
type stateDirs struct{ known map[string]bool }

// contain reports whether a file is below a state directory.
func (s *stateDirs) contain(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if s.is(dir) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// is reports whether dir is a state directory. Only positive results are cached: a directory may become one.
func (s *stateDirs) is(dir string) bool {
	if s.known[dir] {
		return true
	}
	f, err := os.Open(filepath.Join(dir, "runs"))
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxRunsChecked)
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(dir, "runs", name, "run.json")); err == nil && info.Mode().IsRegular() {
			if s.known == nil {
				s.known = map[string]bool{}
			}
			s.known[dir] = true
			return true
		}
	}
	return false
}

// mayBeLog reports whether a path may be that of a training log: by its name, and outside directories of installed
// packages.
func mayBeLog(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	switch filepath.Ext(name) {
	case ".csv", ".tsv", ".jsonl", ".ndjson":
	default:
		if name != "trainer_state.json" && !isText(name) {
			return false
		}
	}
	return !slices.ContainsFunc(strings.Split(filepath.Dir(path), string(filepath.Separator)), func(part string) bool {
		return part == "site-packages" || part == "node_modules" || part == "__pycache__"
	})
}

// isText reports whether the name of a file is that of messages in lines, "train.log", "log.txt". They are those of a training
// only as long as it prints no progress itself.
func isText(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return filepath.Ext(name) == ".log" || filepath.Ext(name) == ".txt" && strings.Contains(name, "log")
}
