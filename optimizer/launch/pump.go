package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pump copies the job's output from its pipe or pseudo-terminal into a file until all writers have closed it. It is
// not line-oriented, so a line of any length needs one buffer only; and it continues to read when the file cannot be
// written, so the job never blocks on a full disk.
func pump(from io.Reader, to *rotated) {
	buf := make([]byte, 32<<10)
	to.open() // a job without output leaves an empty file, not a missing one
	for {
		n, err := from.Read(buf)
		to.write(buf[:n])
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			ended := errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) // end of a pipe, of a pseudo-terminal
			if !ended && !errors.Is(err, os.ErrDeadlineExceeded) {
				fmt.Fprintf(os.Stderr, "read the output of the job: %v\n", err)
			}
			return
		}
	}
}

// stream is the end of one output of the job from which the keeper reads.
type stream interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// openStream returns the reader of a pipe or pseudo-terminal. It does not collect what is written to the latter, which holds 4 KiB only.
func openStream(fd int) stream {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil {
		if p, err := newOutputPipe(fd); err == nil {
			return p
		}
	}
	return os.NewFile(uintptr(fd), "output")
}

// outputPipe reads from a pipe in batches: to wake up for each line takes time of the CPUs on which the job computes, 17 % of that of a
// training that prints 4,000 lines a second. The poller of the runtime would wake up for each, whether or not its data is to be read;
// it therefore knows only an epoll instance, which reports the pipe once for each batch.
type outputPipe struct {
	fd     int
	epoll  *os.File
	events syscall.RawConn // of epoll
}

const (
	batchFor = 50 * time.Millisecond
	fewBytes = 2 << 10 // a read of more is part of a burst, which is read without waiting
	// pipeSize is the capacity of a pipe in bytes, for bursts within batchFor: four times the default, so that many jobs stay
	// below the user's limit for all pipes (64 MiB).
	pipeSize = 256 << 10
)

// newOutputPipe returns the reader of a pipe that does not block.
func newOutputPipe(fd int) (*outputPipe, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(epoll, true)
	p := &outputPipe{fd: fd, epoll: os.NewFile(uintptr(epoll), "events of the output")}
	p.events, err = p.epoll.SyscallConn()
	if err == nil {
		err = p.SetReadDeadline(time.Time{}) // fails if it cannot be polled
	}
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
	}
	if err != nil {
		p.epoll.Close()
		return nil, err
	}
	return p, nil
}

// expect has epoll report the given events, or the end of the pipe, once.
func (p *outputPipe) expect(events uint32) {
	_ = p.events.Control(func(epoll uintptr) { // fails for a closed descriptor only
		_ = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, p.fd, &unix.EpollEvent{Events: events | unix.EPOLLONESHOT})
	})
}

// SetReadDeadline sets the time at which Read returns os.ErrDeadlineExceeded.
func (p *outputPipe) SetReadDeadline(t time.Time) error { return p.epoll.SetReadDeadline(t) }

// Read waits for the next batch or the end of the pipe.
func (p *outputPipe) Read(b []byte) (int, error) {
	err := p.events.Read(func(epoll uintptr) bool {
		var one [1]unix.EpollEvent
		n, err := unix.EpollWait(int(epoll), one[:], 0)
		return n > 0 || err != nil
	})
	if err != nil {
		return 0, err
	}
	n, err := unix.Read(p.fd, b)
	switch {
	case n > 0 && n < fewBytes:
		p.expect(0)
		time.AfterFunc(batchFor, func() { p.expect(unix.EPOLLIN) })
		return n, nil
	case n == 0:
		return 0, io.EOF
	default:
		p.expect(unix.EPOLLIN)
		return max(n, 0), err // EINTR, EAGAIN
	}
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
