package trainlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var read sync.Map // names of ours whose events were read
	hints, err := Watch(ctx, func(path string) bool {
		ours := strings.HasPrefix(filepath.Base(path), "ours")
		if ours {
			read.Store(filepath.Base(path), true)
		}
		return ours
	}, filepath.Join(dir, "none"), dir)
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
	// hinted writes a file of ours until its event is read, as those before it have been, and returns the number of hints.
	hinted := func(name string) (n int) {
		for {
			_, done := read.Load(name)
			select {
			case <-hints:
				n++
			default:
				if done {
					return n
				}
				appendTo(t, filepath.Join(dir, name), "1\n")
				time.Sleep(minHintInterval / 10)
			}
		}
	}
	if n := hinted("ours.csv"); n == 0 || n > 1000 {
		t.Errorf("%d hints for 2000 writes", n)
	}
	if n := hinted("ours.tmp") + hinted("ours.lock"); n > 0 { // a hint precedes the next event that is read
		t.Errorf("%d hints for files that are ignored", n)
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
