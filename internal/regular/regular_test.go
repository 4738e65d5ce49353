package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"small": "12345", "large": "123456"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("small", path("link")), os.Symlink("/dev/zero", path("zero")), syscall.Mkfifo(path("pipe"), 0o600), os.Mkdir(path("dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]struct {
		err  error
		said string
	}{
		"small": {}, "link": {}, "large": {ErrNotRegular, "6 bytes, at most 5"}, "zero": {ErrNotRegular, "device"}, "pipe": {ErrNotRegular, "pipe"},
		"socket": {ErrNotRegular, "socket"},
		"dir":    {ErrNotRegular, "directory"}, "absent": {fs.ErrNotExist, ""},
	} {
		type result struct {
			data []byte
			err  error
		}
		done := make(chan result, 1)
		go func() {
			data, err := ReadFile(path(name), 5)
			done <- result{data, err}
		}()
		select {
		case got := <-done:
			if !errors.Is(got.err, want.err) || want.err == nil && string(got.data) != "12345" || want.said != "" && !strings.Contains(got.err.Error(), want.said) {
				t.Errorf("%s: %q, %v; want %v %q", name, got.data, got.err, want.err, want.said)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: reading it does not end", name)
		}
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, e := io.WriteString(w, s)
			return errors.Join(e, err)
		}
	}
	broken := errors.New("broken")
	for _, step := range []struct {
		perm  fs.FileMode
		write func(io.Writer) error
		err   error
		want  string
	}{
		{0o600, text("first", nil), nil, "first"},
		{0o644, text("second", nil), nil, "second"},
		{0o600, text("half of the thi", broken), broken, "second"}, // the old content remains
	} {
		if err := Replace(path, step.perm, step.write); !errors.Is(err, step.err) {
			t.Errorf("%q: %v", step.want, err)
		}
		data, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(data) != step.want || step.err == nil && info.Mode().Perm() != step.perm {
			t.Errorf("got %q with mode %v, %v; want %q", data, info.Mode(), err, step.want)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("temporary files remain: %v", left)
		}
	}
	err := Replace(filepath.Join(dir, "none", "file"), 0o600, text("", nil))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
	for _, err := range []error{err, os.Rename(filepath.Join(dir, "none"), path), fmt.Errorf("wrapped: %w", err)} {
		if reason := Reason(err); reason.Error() != "no such file or directory" {
			t.Errorf("reason of %v: %v", err, reason)
		}
	}
}
