package trainlog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"trainopt/internal/regular"
)

// Amount of a file that is retained to detect a rewrite, in bytes: its beginning and the part before the current
// offset.
const (
	headSize = 1024
	tailSize = 256
)

// follower holds one open file and detects changes of its identity or of the content already read.
type follower struct {
	file       *os.File
	info       fs.FileInfo
	head, tail []byte
}

// open opens the file at path.
func (f *follower) open(path string) error {
	file, err := regular.Open(path, regular.NoLimit)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.info = file, info
	return nil
}

func (f *follower) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.info = nil, nil
	return err
}

// identity returns the device and inode of the open file; zeros without one.
func (f *follower) identity() (device, inode uint64) {
	if f.info == nil {
		return 0, 0
	}
	if st, ok := f.info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino
	}
	return 0, 0
}

// remember records bytes read at an offset for later comparison.
func (f *follower) remember(at int64, b []byte) {
	if at == int64(len(f.head)) && at < headSize {
		f.head = append(f.head, b[:min(len(b), headSize-len(f.head))]...)
	}
	if len(b) >= tailSize {
		f.tail = append(f.tail[:0], b[len(b)-tailSize:]...)
		return
	}
	if drop := len(f.tail) + len(b) - tailSize; drop > 0 {
		f.tail = append(f.tail[:0], f.tail[drop:]...)
	}
	f.tail = append(f.tail, b...)
}

// hole returns holeAt for the open file and records the hole as read.
func (f *follower) hole(at int64) int64 {
	n := holeAt(f.file, at)
	if n > 0 {
		f.tail = append(f.tail[:0], make([]byte, tailSize)...)
	}
	return n
}

// holeAt returns the number of unallocated NUL bytes from an offset on, which appear when a file is truncated while
// its writer continues. It returns 0 if there are fewer than headSize or the file system does not report holes. It
// moves the offset of the file.
func holeAt(file *os.File, at int64) int64 {
	next, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, syscall.ENXIO) { // the hole extends to the end of the file
		if info, err := file.Stat(); err == nil {
			next = info.Size()
		}
	} else if err != nil {
		return 0
	}
	if next-at < headSize {
		return 0
	}
	return next - at
}

// forget clears the recorded content for a new file.
func (f *follower) forget() { f.head, f.tail = f.head[:0], f.tail[:0] }

// changed returns the reason why the file no longer contains the bytes read up to an offset; empty if it does.
func (f *follower) changed(readTo int64) (string, error) {
	info, err := f.file.Stat()
	if err != nil {
		return "", err
	}
	switch {
	case info.Size() < readTo:
		return "file truncated", nil
	case !hasAt(f.file, f.head, 0) || !hasAt(f.file, f.tail, readTo-int64(len(f.tail))):
		return "file rewritten", nil
	}
	return "", nil
}

// hasAt reports whether a file contains the bytes at an offset.
func hasAt(file *os.File, want []byte, at int64) bool {
	if len(want) == 0 {
		return true
	}
	if at < 0 {
		return false
	}
	var buf [headSize]byte
	got := buf[:len(want)]
	n, _ := file.ReadAt(got, at)
	return n == len(want) && bytes.Equal(got, want)
}

// reload records the content again after a restart of the agent; it returns false if the file cannot be read.
func (f *follower) reload(readTo int64) bool {
	head := make([]byte, min(readTo, headSize))
	tail := make([]byte, min(readTo, tailSize))
	if n, _ := f.file.ReadAt(head, 0); n != len(head) {
		return false
	}
	if n, _ := f.file.ReadAt(tail, readTo-int64(len(tail))); n != len(tail) {
		return false
	}
	f.head, f.tail = head, tail
	return true
}

// contentHashes returns the hashes of the beginning of a file and of the bytes before an offset; ok is false if the file
// cannot be read.
func contentHashes(file *os.File, offset int64) (head, tail uint64, ok bool) {
	f := follower{file: file}
	if !f.reload(offset) {
		return 0, 0, false
	}
	return hashText(f.head), hashText(f.tail), true
}
