package trainlog

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only regular files are read, also through symbolic links, and other files do not block.
func TestRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(path("file"), []byte(header2+"1,2\n"), 0o644), os.Symlink("file", path("link")), os.Symlink("/dev/zero", path("zero")),
		syscall.Mkfifo(path("pipe"), 0o644), os.Symlink("pipe", path("to-pipe"))); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, regular := range map[string]bool{"file": true, "link": true, "zero": false, "pipe": false, "to-pipe": false, "socket": false} {
		if rows, _, err := ReadLog(path(name), TailOptions{}); (err == nil) != regular {
			t.Errorf("scan %s: %d rows, %v", name, len(rows), err)
		}
		tail, err := Open(path(name), TailOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := tail.Poll(newBench(t, TailOptions{}).now); (err == nil && len(rows) == 1) != regular {
			t.Errorf("follow %s: %d rows, %v", name, len(rows), err)
		}
		tail.Close()
	}
}
