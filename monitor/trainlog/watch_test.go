package trainlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	hints, err := Watch(ctx, func(path string) bool { return filepath.Base(path) == "ours.csv" }, filepath.Join(dir, "none"), dir)
	if err != nil {
		t.Skipf("no file notification here: %v", err)
	}
	for i := range 3 { // created, written, renamed over: each causes a hint
		path := filepath.Join(dir, "log.csv")
		if err := os.WriteFile(path+".tmp", []byte(fmt.Sprint(i)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
		select {
		case <-hints:
		case <-time.After(time.Minute):
			t.Fatal("no hint")
		}
	}
	for i := range 2000 { // many events cause few hints
		appendTo(t, filepath.Join(dir, "log.csv"), fmt.Sprint(i, "\n"))
	}
	n := 0
	for quiet := false; !quiet; {
		select {
		case <-hints:
			n++
		case <-time.After(3 * minHintInterval):
			quiet = true
		}
	}
	if n == 0 || n > 1000 {
		t.Errorf("%d hints for 2000 writes", n)
	}
	for i := range 10 { // our own writes cause no hint
		appendTo(t, filepath.Join(dir, "ours.csv"), fmt.Sprint(i, "\n"))
	}
	select {
	case <-hints:
		t.Error("a hint for a file that is ignored")
	case <-time.After(3 * minHintInterval):
	}
	appendTo(t, filepath.Join(dir, "log.csv"), "1\n")
	select {
	case <-hints:
	case <-time.After(time.Minute):
		t.Error("no hint after a file that is ignored")
	}
	cancel()
	for range hints { // closed in the end
	}
	if _, err := Watch(ctx, nil, filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there was watched")
	}
}

// The directory of a named log may be made by the script, and removed and made again.
func TestWatchOfADirectoryThatIsMadeLater(t *testing.T) {
	parent := t.TempDir()
	logs := filepath.Join(parent, "logs")
	hints, err := Watch(t.Context(), nil, logs, parent)
	if err != nil {
		t.Skipf("no file notification here: %v", err)
	}
	expect := func(what string, act func() error) {
		t.Helper()
		if err := act(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-hints:
		case <-time.After(time.Minute):
			t.Fatalf("no hint: %s", what)
		}
		for quiet := false; !quiet; {
			select {
			case <-hints:
			case <-time.After(3 * minHintInterval):
				quiet = true
			}
		}
	}
	for range 2 {
		expect("directory made", func() error { return os.Mkdir(logs, 0o755) })
		expect("file made in it", func() error { return os.WriteFile(filepath.Join(logs, "log.csv"), []byte("epoch\n"), 0o644) })
		expect("directory removed", func() error { return os.RemoveAll(logs) })
	}
}
