// Package regular opens and replaces regular files. Open refuses anything else that a user or a script may have named:
// a device is endless, a pipe without a writer blocks, and a file may be too large to hold. Replace, WriteFile and WriteJSON
// write a file so that after a crash it has its old content or the new one. Gunzip, EachRow, Rows and LastRow read the content of tables. The
// package is not for files of /proc and /sys.
//
//	data, err := regular.ReadFile("rates.yaml", regular.Settings)
package regular

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Size limits of files, in bytes.
const (
	Settings int64 = 16 << 20 // configuration, rates, a machine, a policy
	Data     int64 = 16 << 30 // traces and tables, which are read as a stream
	NoLimit  int64 = 1 << 62  // logs, which are followed or read as a stream
)

// ErrNotRegular reports a path that does not lead to a regular file of acceptable size.
var ErrNotRegular = errors.New("not a plain file of acceptable size")

// notRegular is an ErrNotRegular that states the reason.
type notRegular string

func (e notRegular) Error() string        { return string(e) }
func (e notRegular) Is(target error) bool { return target == ErrNotRegular }

// Open opens a regular file of at most limit bytes for reading and follows symbolic links. The error is an
// *fs.PathError; it wraps ErrNotRegular for a directory, pipe, socket or device, which is not opened, and for a longer
// file. A file that is replaced by one of these between check and open is rejected too, without blocking.
func Open(path string, limit int64) (*os.File, error) {
	if info, err := os.Stat(path); err == nil {
		if err := check(path, info, limit); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = check(path, info, limit)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// check returns an error unless info describes a regular file of at most limit bytes.
func check(path string, info fs.FileInfo, limit int64) (err error) {
	switch {
	case !info.Mode().IsRegular():
		err = notRegular("is a " + Kind(info.Mode()) + ", not a plain file")
	case info.Size() > limit:
		err = notRegular(fmt.Sprintf("%d bytes, at most %d", info.Size(), limit))
	default:
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

// Reason returns the error of the system that an error of a file operation wraps, for a message that names the path itself.
func Reason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	if l := (*os.LinkError)(nil); errors.As(err, &l) {
		return l.Err
	}
	return err
}

// ReadFile reads a regular file of at most limit bytes. Errors are as for Open, also if the file grows beyond the limit
// while it is read.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: notRegular(fmt.Sprintf("more than %d bytes", limit))}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReadJSON decodes a regular file of at most limit bytes into v. Errors are as for ReadFile.
func ReadJSON(path string, limit int64, v any) error {
	data, err := ReadFile(path, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Kind returns the kind of a file that is not regular, for error messages.
func Kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Replace writes a file atomically: after a crash at any point, the file at path has its old content or the new one.
// The content is what write writes, buffered, to a temporary file in the same directory, which is synced and renamed;
// on an error it is removed and the file at path is unchanged.
func Replace(path string, perm fs.FileMode, write func(w io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	if err := errors.Join(w.Flush(), f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		dir.Sync() // not supported by every file system; the rename is valid without it
		dir.Close()
	}
	return nil
}

// WriteFile writes data to a file atomically, see Replace.
func WriteFile(path string, perm fs.FileMode, data []byte) error {
	return Replace(path, perm, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// WriteJSON writes a value to a file atomically, see Replace, as one line of JSON.
func WriteJSON(path string, perm fs.FileMode, v any) error {
	return Replace(path, perm, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}
