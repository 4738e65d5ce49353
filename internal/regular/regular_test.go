package regular

import (
	"errors"
	"io/fs"
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
	for name, want := range map[string]struct {
		err  error
		said string
	}{
		"small": {}, "link": {}, "large": {ErrNotRegular, "6 bytes, at most 5"}, "zero": {ErrNotRegular, "device"}, "pipe": {ErrNotRegular, "pipe"},
		"dir": {ErrNotRegular, "directory"}, "absent": {fs.ErrNotExist, ""},
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
