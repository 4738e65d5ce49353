package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Output reads an output stream of a job: PATH.1, the older, rotated part, followed by PATH.
type Output struct {
	path string
	file *os.File
}

// Outputs returns the standard output and the standard error of the job of a run directory.
func Outputs(dir string) (stdout, stderr *Output) {
	return &Output{path: filepath.Join(dir, stdoutFile)}, &Output{path: filepath.Join(dir, stderrFile)}
}

// Open opens the stream at its oldest part or, if n ≥ 0, at its last n lines. found is false if no file exists.
func (s *Output) Open(n int) (found bool, err error) {
	older, err := openRegular(s.path + ".1")
	if err != nil {
		return false, err
	}
	newer, err := openRegular(s.path)
	if err != nil || older == nil && newer == nil {
		return false, errors.Join(err, closeFile(older))
	}
	if n >= 0 && newer != nil {
		rest, err := fromLastLines(newer, n)
		if err != nil {
			return false, errors.Join(err, closeFile(older), newer.Close())
		}
		if older != nil && rest > 0 {
			_, err = fromLastLines(older, rest)
		} else if older != nil {
			err = older.Close()
			older = nil
		}
		if err != nil {
			return false, err
		}
	}
	if s.file = newer; older != nil {
		s.file = older
		return true, closeFile(newer) // Copy opens it later, from the beginning
	}
	return true, nil
}

// Copy writes the data added since the last call, across rotations.
func (s *Output) Copy(out io.Writer) error {
	for {
		if s.file == nil {
			f, err := openRegular(s.path)
			if err != nil || f == nil {
				return err
			}
			s.file = f
		}
		if _, err := io.Copy(out, s.file); err != nil {
			return fmt.Errorf("copy %s: %w", s.path, err)
		}
		here, err := s.file.Stat()
		if err != nil {
			return err
		}
		now, err := os.Stat(s.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(here, now) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, s.file); err != nil { // written between the copy and the rename
			return fmt.Errorf("copy %s: %w", s.path, err)
		}
		s.file.Close()
		s.file = nil
	}
}

// openRegular opens a regular file; the result is nil if it does not exist.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("read %s: not a regular file", path), err, f.Close())
	}
	return f, nil
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// fromLastLines seeks to the beginning of the last n lines; missing is the number of lines by which the file is too
// short.
func fromLastLines(f *os.File, n int) (missing int, err error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for at := end; at > 0; {
		from := max(0, at-int64(len(buf)))
		k, err := f.ReadAt(buf[:at-from], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		part := buf[:k]
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			if from+int64(i)+1 < end { // the end of the last line does not begin a line
				if n--; n == 0 {
					_, err = f.Seek(from+int64(i)+1, io.SeekStart)
					return 0, err
				}
			} else if n == 0 {
				return 0, nil
			}
			part = part[:i]
		}
		at = from
	}
	if n == 0 {
		return 0, nil
	}
	if end > 0 {
		n-- // the first line of the file
	}
	_, err = f.Seek(0, io.SeekStart)
	return n, err
}
