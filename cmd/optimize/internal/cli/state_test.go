package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// makeStates creates the state directories of projects, the last used first, and a directory of links to them.
func makeStates(t *testing.T, names ...string) (links, root string) {
	t.Helper()
	home := t.TempDir()
	links, root = filepath.Join(home, "optimize", "projects"), filepath.Join(home, "work")
	if err := os.MkdirAll(links, 0o700); err != nil {
		t.Fatal(err)
	}
	used := time.Now().Add(-24 * time.Hour)
	for i, name := range slices.Backward(names) {
		e := &Env{Dir: filepath.Join(root, name), Environ: []string{"XDG_STATE_HOME=" + home}}
		if err := os.MkdirAll(filepath.Join(e.Dir, stateName), 0o700); err != nil {
			t.Fatal(err)
		}
		e.RememberProject()
		for _, p := range lastProjects(links) {
			if p.state == e.State() {
				redate(t, p.link, used.Add(time.Duration(-i)*time.Hour))
			}
		}
	}
	return links, root
}

// named returns the names of the projects of state directories.
func named(states []string) (names []string) {
	for _, s := range states {
		names = append(names, filepath.Base(filepath.Dir(s)))
	}
	return names
}

// TestOtherStates: the runs of the projects that were used last are shared, without the project itself; a link to a removed state
// directory is deleted, but not one into a disk that is not mounted.
func TestOtherStates(t *testing.T) {
	names := []string{"mine", "unmounted", "removed"}
	for i := range maxProjects + 1 {
		names = append(names, fmt.Sprint("p", i))
	}
	links, root := makeStates(t, names...)
	for _, gone := range []string{filepath.Join(root, "unmounted"), filepath.Join(root, "removed", stateName)} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
	}
	e := &Env{Dir: filepath.Join(root, "mine"), Environ: []string{"XDG_STATE_HOME=" + filepath.Dir(filepath.Dir(links))}}
	states, note := e.OtherStates()
	if want := names[3 : 3+maxProjects]; !slices.Equal(named(states), want) || note != "" {
		t.Errorf("%v, note %q; want %v", named(states), note, want)
	}
	var kept []string
	for _, p := range lastProjects(links) {
		kept = append(kept, p.state)
	}
	if want := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "removed" }); !slices.Equal(named(kept), want) {
		t.Errorf("links to %v, want %v", named(kept), want)
	}
	e.StateDir = "apart"
	if states, note = e.OtherStates(); states != nil || note != "" {
		t.Errorf("%v, note %q of a state directory of its own", states, note)
	}
}

// TestOtherStatesBehindRemovedOnes: any number of projects that were removed as a whole hides none that exists, and they are forgotten
// long after their last training.
func TestOtherStatesBehindRemovedOnes(t *testing.T) {
	names := []string{"mine"}
	for i := range 100 {
		names = append(names, fmt.Sprint("removed", i))
	}
	links, root := makeStates(t, append(names, "there")...)
	for _, name := range names[1:] {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	e := &Env{Dir: filepath.Join(root, "mine"), Environ: []string{"XDG_STATE_HOME=" + filepath.Dir(filepath.Dir(links))}}
	check := func(want int) {
		t.Helper()
		if states, note := e.OtherStates(); !slices.Equal(named(states), []string{"there"}) || note != "" {
			t.Errorf("%v, note %q; want the one that exists", named(states), note)
		}
		if n := len(lastProjects(links)); n != want {
			t.Errorf("%d links, want %d", n, want)
		}
	}
	check(102)
	for _, p := range lastProjects(links) {
		redate(t, p.link, time.Now().Add(-forgetAfter-time.Hour))
	}
	check(2)
}

// TestOtherStatesWithoutAnswer: a file system that does not answer delays a command once, by statWithin, and costs only the
// projects on it.
func TestOtherStatesWithoutAnswer(t *testing.T) {
	links, _ := makeStates(t, "a", "dead", "b", "hung", "c")
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		from := time.Now()
		states, note := selectStates(lastProjects(links), nil, func(path string) (fs.FileInfo, error) {
			if name := filepath.Base(filepath.Dir(path)); name == "dead" || name == "hung" {
				<-over
			}
			return os.Stat(path)
		})
		if want := []string{"a", "b", "c"}; !slices.Equal(named(states), want) || strings.Count(note, stateName) != 2 || !strings.Contains(note, "dead") || !strings.Contains(note, "hung") {
			t.Errorf("%v, note %q; want %v and a note of the two others", named(states), note, want)
		}
		if took := time.Since(from); took != statWithin {
			t.Errorf("took %s, want %s", took, statWithin)
		}
	})
}

// redate sets the modification time of a link, not of what it leads to.
func redate(t *testing.T, link string, at time.Time) {
	t.Helper()
	times := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(at.UnixNano())}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, link, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
}
