package observe

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// closed is one report of the kernel: a process closed a file that was open for writing.
type closed struct {
	pid  int
	id   fileID
	path string
}

// fanotify reports which process closed which file after writing. It requires CAP_SYS_ADMIN.
type fanotify struct {
	file   *os.File
	marked map[uint64]bool // file systems, by device
	each   func(closed)

	mu  sync.Mutex
	buf [16 << 10]byte
}

// openFanotify returns a fanotify that calls each with every report. It fails without the privilege; this kind of
// evidence is then unavailable.
func openFanotify(each func(closed)) (*fanotify, error) {
	// O_NONBLOCK: the kernel opens each reported file for the reader, and a pipe must not block it.
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_LARGEFILE|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open fanotify: %w", err)
	}
	return &fanotify{file: os.NewFile(uintptr(fd), "fanotify"), marked: map[uint64]bool{}, each: each}, nil
}

// watch adds the file system of a directory: the closing of all its files is reported.
func (f *fanotify) watch(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	if f.marked[st.Dev] {
		return nil
	}
	conn, err := f.file.SyscallConn()
	if err != nil {
		return err
	}
	err = unix.EINVAL
	for _, scope := range []uint{unix.FAN_MARK_FILESYSTEM, unix.FAN_MARK_MOUNT} {
		if e := conn.Control(func(fd uintptr) {
			err = unix.FanotifyMark(int(fd), unix.FAN_MARK_ADD|scope, unix.FAN_CLOSE_WRITE, unix.AT_FDCWD, dir)
		}); e != nil {
			return e
		}
		if err == nil {
			f.marked[st.Dev] = true
			return nil
		}
	}
	return fmt.Errorf("watch %s: %w", dir, err)
}

// read calls each with every report until the fanotify is closed.
func (f *fanotify) read() {
	conn, err := f.file.SyscallConn()
	for err == nil {
		err = conn.Read(func(fd uintptr) bool { return f.take(int(fd)) > 0 })
	}
}

// drain processes the reports that are queued at the call, so that the effects of earlier writes are known
// afterwards. Other programs may add reports faster than they can be read; those are left to read.
func (f *fanotify) drain() {
	if conn, err := f.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { // fails after Close, when no report is queued
			bytes, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
			if err == nil {
				drain(bytes/metadataSize, func() int { return f.take(int(fd)) })
			}
		})
	}
	f.mu.Lock() // reports that read has taken from the queue are being processed
	defer f.mu.Unlock()
}

// drain calls take until it has processed the given number of reports, or finds none.
func drain(reports int, take func() int) {
	for n := 1; n > 0 && reports > 0; reports -= n {
		n = take()
	}
}

const metadataSize = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))

// take reads and processes one piece of the queue, and returns the number of its reports; 0 if the queue is empty.
// Both are done under the lock, so that an empty queue implies that all reports have been processed.
func (f *fanotify) take(fd int) (reports int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := unix.Read(fd, f.buf[:])
	if err != nil || n <= 0 {
		return 0
	}
	for b := f.buf[:n]; len(b) >= metadataSize; reports++ {
		length := int(binary.NativeEndian.Uint32(b))
		if length < metadataSize || length > len(b) {
			break
		}
		m := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0]))
		if m.Fd >= 0 { // otherwise the queue was full, and reports are lost
			if c, ok := describe(int(m.Fd)); ok && int(m.Pid) != os.Getpid() {
				c.pid = int(m.Pid)
				f.each(c)
			}
			unix.Close(int(m.Fd))
		}
		b = b[length:]
	}
	return max(1, reports)
}

func describe(fd int) (closed, bool) {
	l, err := lookAtFD(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return closed{}, false
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return closed{}, false
	}
	return closed{id: l.id, path: strings.TrimSuffix(path, " (deleted)")}, true
}

func (f *fanotify) Close() error { return f.file.Close() }
