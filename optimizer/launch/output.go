package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Output reads an output stream of the jobs of a run: in each directory of JobDirs NAME.1, the older, rotated part, and
// NAME.
type Output struct {
	runDir, name string
	dir          string // of the open file
	file         *os.File
}

// Outputs returns the standard output and the standard error of the jobs of a run directory.
func Outputs(dir string) (stdout, stderr *Output) {
	return &Output{runDir: dir, name: stdoutFile}, &Output{runDir: dir, name: stderrFile}
}

// parts returns the paths of the parts that may exist, oldest first.
func (s *Output) parts() []string {
	var list []string
	for _, dir := range JobDirs(s.runDir) {
		path := filepath.Join(dir, s.name)
		list = append(list, path+".1", path)
	}
	return list
}

// Open opens the stream at its oldest part or, if n ≥ 0, at its last n lines. found is false if no file exists.
func (s *Output) Open(n int) (found bool, err error) {
	parts := s.parts()
	if n >= 0 {
		slices.Reverse(parts)
	}
	for _, path := range parts {
		f, err := openRegular(path)
		if err != nil {
			return false, errors.Join(err, closeFile(s.file))
		}
		if f == nil {
			continue
		}
		if err := closeFile(s.file); err != nil { // Copy opens it again, from the beginning
			return false, errors.Join(err, f.Close())
		}
		s.file, s.dir = f, filepath.Dir(path)
		if n < 0 {
			break
		}
		if n, err = fromLastLines(f, n); err != nil {
			return false, errors.Join(err, f.Close())
		}
		if n == 0 {
			break
		}
	}
	return s.file != nil, nil
}

// Copy writes the data added since the last call, across rotations and jobs.
func (s *Output) Copy(out io.Writer) error {
	for {
		if s.file != nil {
			if _, err := io.Copy(out, s.file); err != nil {
				return fmt.Errorf("copy %s: %w", s.file.Name(), err)
			}
		}
		next, err := s.next()
		if err != nil || next == nil {
			return err
		}
		if s.file != nil {
			if _, err := io.Copy(out, s.file); err != nil { // written between the copy and the rename
				return errors.Join(fmt.Errorf("copy %s: %w", s.file.Name(), err), next.Close())
			}
			s.file.Close()
		}
		s.file, s.dir = next, filepath.Dir(next.Name())
	}
}

// Close closes the open file, if any.
func (s *Output) Close() error {
	err := closeFile(s.file)
	s.file = nil
	return err
}

// next opens the part that follows the open file, or the first one; nil if none exists.
func (s *Output) next() (*os.File, error) {
	parts := s.parts()
	if s.file != nil {
		here, err := s.file.Stat()
		if err != nil {
			return nil, err
		}
		is := slices.IndexFunc(parts, func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && os.SameFile(here, info)
		})
		if is < 0 { // rotated twice
			is = slices.Index(parts, filepath.Join(s.dir, s.name+".1")) - 1
		}
		parts = parts[is+1:]
	}
	for _, path := range parts {
		if f, err := openRegular(path); err != nil || f != nil {
			return f, err
		}
	}
	return nil, nil
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
