package monitor

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// How much of a file is remembered to see that it was rewritten: its beginning, and what stands before the
// place up to which it was read.
const (
	headSize = 1024
	tailSize = 256
)

// follower holds one open file and knows when it is no longer the same.
type follower struct {
	file       *os.File
	info       fs.FileInfo
	head, tail []byte
}

// open opens the file at path.
func (f *follower) open(path string) (err error) {
	f.file, f.info, err = OpenRegular(path)
	return err
}

func (f *follower) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.info = nil, nil
	return err
}

// same reports whether fi is the open file (device and inode).
func (f *follower) same(fi fs.FileInfo) bool { return os.SameFile(f.info, fi) }

// identity gives the device and inode of the open file.
func (f *follower) identity() (device, inode uint64) {
	if f.info == nil {
		return 0, 0
	}
	if st, ok := f.info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino
	}
	return 0, 0
}

// remember takes note of bytes that were read at an offset.
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

// hole is holeAt for the open file, and remembers it as read.
func (f *follower) hole(at int64) int64 {
	n := holeAt(f.file, at)
	if n > 0 {
		f.tail = append(f.tail[:0], make([]byte, tailSize)...)
	}
	return n
}

// holeAt gives how many NUL bytes from an offset on are not stored at all: what a writer leaves whose file was truncated
// under it. 0 when there are few or none, or the file system does not tell. It moves the file's own offset.
func holeAt(file *os.File, at int64) int64 {
	next, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, syscall.ENXIO) { // nothing but the hole
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

// forget begins a new file.
func (f *follower) forget() { f.head, f.tail = f.head[:0], f.tail[:0] }

// changed says in words why what was read up to an offset is no longer what the file holds; empty when it is.
func (f *follower) changed(readTo int64) (string, error) {
	info, err := f.file.Stat()
	if err != nil {
		return "", err
	}
	switch {
	case info.Size() < readTo:
		return "file truncated", nil
	case !f.holds(f.file, readTo):
		return "file rewritten", nil
	}
	return "", nil
}

// holds reports whether a file has the remembered bytes at their places.
func (f *follower) holds(file *os.File, readTo int64) bool {
	return hasAt(file, f.head, 0) && hasAt(file, f.tail, readTo-int64(len(f.tail)))
}

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

// reload remembers the file again after a restart of the agent; false when it cannot be read.
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
