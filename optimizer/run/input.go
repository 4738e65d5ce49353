package run

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// givenInput is the state of the standard input that this agent gives to the job.
type givenInput struct {
	given  bool  // to a job that this agent has launched
	file   bool  // a regular file: each launch reads it again
	start  int64 // offset in the file at which each launch begins
	closed bool  // nothing can be written to it any more
	unread int   // bytes that were to be read at the launch
}

// jobInput returns the standard input of the next launch; nil for an empty one.
func (r *run) jobInput() *os.File {
	f, in := r.Stdin, &r.input
	r.Input = f != nil && !r.Config.elsewhere()
	if !r.Input {
		return nil
	}
	if info, err := f.Stat(); !in.given && err == nil && info.Mode().IsRegular() {
		in.start, err = f.Seek(0, io.SeekCurrent)
		in.file = err == nil
	}
	in.given = true
	if in.file {
		f.Seek(in.start, io.SeekStart) // fails for no regular file
	} else {
		in.unread, in.closed = unreadInput(f)
	}
	return f
}

// inputUsed reports whether the job may have read input that a restarted job could not read again: from a pipe, unless
// its content was complete at the launch and is all still there.
func (r *run) inputUsed() bool {
	in := r.input
	if !r.Input || in.given && in.file {
		return false
	}
	if !in.given || !in.closed { // the input of an earlier agent, or of a pipe that another process may write to
		return true
	}
	unread, _ := unreadInput(r.Stdin)
	return unread < in.unread
}

// unreadInput returns the number of bytes that can be read from a pipe or socket, and whether no process can write more.
// For other files the end is unknown.
func unreadInput(f *os.File) (unread int, closed bool) {
	fd := int(f.Fd())
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	if _, err := unix.Poll(poll, 0); err != nil || poll[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) == 0 {
		return 0, false
	}
	unread, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return unread, err == nil
}
