package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular reports a path that does not lead to a regular file. Such a path is never opened for reading: a pipe
// would block the reader and a device may be endless.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file for reading and follows symbolic links. It returns an error that wraps
// ErrNotRegular for a directory, pipe, socket or device without opening it. A file replaced by one of these between
// check and open is rejected too, without blocking.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func checkRegular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &os.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is a %s: %w", kindOf(info.Mode()), ErrNotRegular)}
}
