package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pump copies the job's output from its pipe or pseudo-terminal into a file until all writers have closed it. It is
// not line-oriented, so a line of any length needs one buffer only; and it continues to read when the file cannot be
// written, so the job never blocks on a full disk. Short writes are collected for batchFor: to wake up for each line takes time
// of the CPUs on which the job computes, 17 % of that of a training that prints 4,000 lines a second.
func pump(from *os.File, to *rotated) {
	buf := make([]byte, 32<<10)
	to.open() // a job without output leaves an empty file, not a missing one
	for {
		n, err := from.Read(buf)
		to.write(buf[:n])
		if err == nil && n < fewBytes {
			awaitClosed(from, batchFor)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			ended := errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) // end of a pipe, of a pseudo-terminal
			if !ended && !errors.Is(err, os.ErrDeadlineExceeded) {
				fmt.Fprintf(os.Stderr, "read the output of the job: %v\n", err)
			}
			return
		}
	}
}

const (
	batchFor = 20 * time.Millisecond
	fewBytes = 2 << 10 // a read of more is part of a burst, which is read without waiting
	// pipeSize is the capacity of a pipe in bytes, for bursts within batchFor: four times the default, so that many jobs stay
	// below the user's limit for all pipes (64 MiB).
	pipeSize = 256 << 10
)

// awaitClosed waits, whatever is written in the meantime, until all writers of a pipe have closed it. It does not wait for a
// pseudo-terminal, which holds 4 KiB only.
func awaitClosed(f *os.File, within time.Duration) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		if _, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err != nil {
			return
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(within.Milliseconds()))
	})
}

// rotated is a file that is renamed to PATH.1 when it has reached its limit, at the end of a line if one follows
// within overrun bytes. The two files together never exceed twice the limit and overrun.
type rotated struct {
	path  string
	limit int64

	file   *os.File
	size   int64
	opened time.Duration // the last attempt
	lost   int64         // total number of bytes that could not be written
	gap    int64         // the part of lost that is not yet marked in the file
}

// overrun is the number of bytes by which a file may exceed its limit until the end of a line.
const overrun = 1 << 20

// openAgain is the pause between attempts to open a file.
const openAgain = time.Second

// write appends p, rotating the file as determined by cut. Bytes that cannot be written are counted in lost and gap.
func (r *rotated) write(p []byte) {
	for len(p) > 0 {
		if r.file == nil && !r.open() {
			r.lost, r.gap = r.lost+int64(len(p)), r.gap+int64(len(p))
			return
		}
		now, turn := p, false
		if r.size+int64(len(p)) >= r.limit {
			now, turn = r.cut(p)
		}
		r.put(now)
		if p = p[len(now):]; turn {
			r.rotate()
		}
	}
}

// cut returns the part of p that belongs to this file, and whether the next file begins after it.
func (r *rotated) cut(p []byte) ([]byte, bool) {
	from := max(r.limit-r.size-1, 0) // the first byte with which the limit is reached
	if i := bytes.IndexByte(p[from:], '\n'); i >= 0 {
		return p[:int(from)+i+1], true
	}
	if r.size+int64(len(p)) >= r.limit+overrun {
		return p, true
	}
	return p, false
}

// put writes p to the open file, preceded by a mark if earlier output is missing.
func (r *rotated) put(p []byte) {
	if r.gap > 0 {
		mark := fmt.Sprintf("\n[%d bytes of output are missing here: they could not be written]\n", r.gap)
		n, err := io.WriteString(r.file, mark)
		r.size += int64(n)
		if err != nil {
			r.lost, r.gap = r.lost+int64(len(p)), r.gap+int64(len(p))
			return
		}
		r.gap = 0
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	if err != nil {
		r.lost, r.gap = r.lost+int64(len(p)-n), r.gap+int64(len(p)-n)
	}
}

func (r *rotated) rotate() {
	if err := os.Rename(r.path, r.path+".1"); err != nil {
		return // continue in the same file rather than lose output; the next line tries again
	}
	r.file.Close()
	r.file, r.size, r.opened = nil, 0, 0
}

// open opens the file for appending, at most once per openAgain after a failure; false if it cannot be opened.
func (r *rotated) open() bool {
	now := Monotonic()
	if r.opened > 0 && now < r.opened+openAgain {
		return false
	}
	r.opened = now
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return false
	}
	r.file, r.size = f, info.Size()
	return true
}

func (r *rotated) close() {
	closeFile(r.file)
	r.file = nil
}
