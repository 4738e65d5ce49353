// Package regular opens files named by a user or a script: regular files of bounded size only, so that an endless
// device, a pipe without a writer or a directory causes an error instead of an unbounded read. It is not for files of
// /proc and /sys, nor for files that optimize writes itself.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Size limits of user-supplied files, in bytes.
const (
	Settings int64 = 16 << 20 // configuration, rates, a machine, a policy
	Data     int64 = 16 << 30 // traces and tables, which are read as a stream
)

// ErrNotRegular reports that a name does not refer to a regular file of acceptable size.
var ErrNotRegular = errors.New("not a plain file of acceptable size")

// Open opens a regular file of at most most bytes for reading. The error is an *fs.PathError that wraps ErrNotRegular
// for a directory, pipe, socket or device and for a larger file. Open does not block on a pipe.
func Open(path string, most int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	refuse := func(err error) (*os.File, error) {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: path, Err: err}, f.Close())
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return refuse(err)
	case !info.Mode().IsRegular():
		return refuse(fmt.Errorf("a %s: %w", kind(info.Mode()), ErrNotRegular))
	case info.Size() > most:
		return refuse(fmt.Errorf("%d bytes, at most %d: %w", info.Size(), most, ErrNotRegular))
	}
	return f, nil
}

// ReadFile reads a regular file of at most most bytes. Errors are as for Open, also if the file grows beyond the limit
// while it is read.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes: %w", most, ErrNotRegular)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
