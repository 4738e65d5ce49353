// Package regular opens files that a user or a script has named: plain files of bounded size only, so that
// a device without an end, a pipe without a writer or a directory is refused in words instead of being
// read for ever. Gunzip and EachRow read what is in them. It is not for files of /proc and /sys, nor for our own.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Sizes of what people hand over.
const (
	Settings int64 = 16 << 20 // configuration, rates, a machine, a policy
	Data     int64 = 16 << 30 // traces and tables, which are read as a stream
)

// ErrNotRegular says that a name is not that of a plain file of acceptable size.
var ErrNotRegular = errors.New("not a plain file of acceptable size")

// Open opens a plain file of at most some bytes for reading. The error is an *fs.PathError; it wraps ErrNotRegular for a
// directory, pipe, socket or device and for a longer file. A pipe does not block it.
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

// ReadFile reads a plain file of at most some bytes. Errors are as with Open, also for a file that grows meanwhile.
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
