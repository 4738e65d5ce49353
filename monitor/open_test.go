package monitor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only regular files are opened by name, also through symbolic links, and other files do not block.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(path("file"), []byte(header2+"1,2\n"), 0o644), os.Symlink("file", path("link")), os.Symlink("/dev/zero", path("zero")),
		syscall.Mkfifo(path("pipe"), 0o644), os.Symlink("pipe", path("to-pipe")), os.Mkdir(path("dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, regular := range map[string]bool{"file": true, "link": true, "zero": false, "pipe": false, "to-pipe": false, "dir": false, "socket": false} {
		f, _, err := OpenRegular(path(name))
		if (err == nil) != regular || err != nil && !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
		if f != nil {
			f.Close()
		}
		if name == "dir" {
			continue
		}
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

// A log that contains rows of an earlier training is followed from their end, with its header, and from its beginning
// when it is rewritten.
func TestStateAt(t *testing.T) {
	b := newBench(t, TailOptions{})
	before := header2 + epochRows(1, 3)
	b.write(before)
	state, err := StateAt(b.path, TailOptions{}, int64(len(before)))
	b.ok(err)
	b.append(epochRows(1, 2))
	b.open(TailOptions{Resume: &state})
	want(t, "epochs", b.poll(), []float64{1, 2})
	want(t, "line", b.rows[0].Line, 5)
	b.write(header2 + epochRows(1, 4))
	want(t, "epochs when rewritten", b.poll(), []float64{3, 4})
	b.write("nothing known\n")
	if _, err := StateAt(b.path, TailOptions{}, 5); !errors.Is(err, ErrNoData) {
		t.Errorf("no format: %v", err)
	}
}
