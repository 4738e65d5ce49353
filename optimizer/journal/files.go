package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"trainopt/internal/regular"
)

// files contains the file operations of a save. Tests replace it to let any operation fail, or to cut the power
// between two operations.
type files interface {
	// Create creates an empty file, replacing one that a crash may have left.
	Create(path string) (file, error)
	ReadFile(path string) ([]byte, error)
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(dir string) error
}

// file is an open file of files.
type file interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// disk is the implementation on the real file system.
type disk struct{}

func (disk) Create(path string) (file, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// O_EXCL: a symbolic link created in between is not followed.
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// maxFile bounds the size of a record and of a state.
const maxFile = 1 << 30

func (disk) ReadFile(path string) ([]byte, error) { return regular.ReadFile(path, maxFile) }
func (disk) Rename(from, to string) error         { return os.Rename(from, to) }
func (disk) Remove(path string) error             { return os.Remove(path) }

// SyncDir makes the names in a directory durable, as far as its file system can.
func (disk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(withoutDirSync(d.Sync()), d.Close())
}

// withoutDirSync returns the error of a sync of a directory, nil for those of file systems that cannot sync one, such as shared
// folders of virtual machines, CIFS, and some of FUSE: a name is valid there without it.
func withoutDirSync(err error) error {
	for _, unsupported := range []error{syscall.EINVAL, syscall.ENOTSUP, syscall.ENOSYS, syscall.EBADF} {
		if errors.Is(err, unsupported) {
			return nil
		}
	}
	return err
}

// write writes data to a temporary file beside path, syncs it, and returns the name of that file. On an error it
// removes the file, as far as possible.
func write(fsys files, path string, data []byte) (tmp string, err error) {
	tmp = filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	f, err := fsys.Create(tmp)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", tmp, regular.Reason(err))
	}
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = fmt.Errorf("%d of %d bytes written", n, len(data))
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(tmp)
		return "", fmt.Errorf("write %s: %w", tmp, regular.Reason(err))
	}
	return tmp, nil
}

// replace replaces the content of path by data atomically and durably.
func replace(fsys files, path string, data []byte) error {
	tmp, err := write(fsys, path, data)
	if err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		_ = fsys.Remove(tmp)
		return fmt.Errorf("put %s in place: %w", path, regular.Reason(err))
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sync directory of %s: %w", path, err)
	}
	return nil
}
