package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/resources"
)

// stage is a server whose loop the test is, on slots of this machine, with pretended trainings.
type stage struct {
	*server
	played *rehearsal
	t      *testing.T
	clock  *setClock
	said   strings.Builder
}

// newStage submits trainings to a new server.
func newStage(t *testing.T, slots int, names ...string) *stage {
	t.Helper()
	dir := t.TempDir()
	g := &stage{played: newRehearsal(), t: t, clock: &setClock{wall: time.Now(), monotonic: time.Hour}}
	state := ""
	for _, name := range names {
		cfg := training(t, dir, name)
		state = cfg.StateDir
		if _, err := Submit(state, Spec{Submitted: g.clock.wall, Min: 1, Max: 1, Config: cfg}); err != nil {
			t.Fatal(err)
		}
	}
	run, err := journal.Open(dirOf(state))
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := run.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	site, err := NewLocal(resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, slots, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.server = g.open(Config{StateDir: state, Site: site, Policy: "fifo", Round: time.Minute, Agent: g.played.agent(), Message: func(line string) { g.said.WriteString(line + "\n") }}, run)
	return g
}

// open starts a server.
func (g *stage) open(cfg Config, dir *journal.Run) *server {
	g.t.Helper()
	s := &server{Config: cfg, dir: dir, clock: newClock(g.clock), jobs: map[int]*live{}, damaged: map[int]bool{}, dirty: map[int]bool{}, statuses: map[int]observation{}, results: make(chan result), poke: make(chan struct{}, 1)}
	if err := s.open(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { s.log.close() })
	return s
}

// restart ends the server, whose trainings have ended, and starts the next one.
func (g *stage) restart() {
	g.t.Helper()
	g.save()
	g.server = g.open(g.Config, g.dir)
}

// pass lets seconds pass, in each of which the server decides once, and takes the ends of the trainings that it has started.
func (g *stage) pass(seconds int) {
	g.t.Helper()
	for range seconds {
		if err := g.step(); err != nil {
			g.t.Fatal(err)
		}
		for g.running() > 0 {
			g.takeResult(<-g.results)
		}
		g.clock.pass(time.Second)
	}
}

// TestFullByFreeSpace: a disk is full by its free space alone.
func TestFullByFreeSpace(t *testing.T) {
	for name, c := range map[string]struct {
		st   syscall.Statfs_t
		full bool
	}{
		"space":                        {syscall.Statfs_t{Bsize: 4096, Bavail: 1 << 20, Files: 1000, Ffree: 500}, false},
		"none":                         {syscall.Statfs_t{Bsize: 4096, Bavail: 10, Files: 1000, Ffree: 500}, true},
		"space, files are not counted": {syscall.Statfs_t{Bsize: 4096, Bavail: 1 << 20, Files: 1000}, false},
	} {
		if got := isFull(c.st); got != c.full {
			t.Errorf("%s: full: %v", name, got)
		}
	}
}

// TestQuota: while no job can be started, since a quota is used up or the file system has no room for another file, of which it may state
// nothing, the jobs wait, and a start is tried every 10 s; none has failed.
func TestQuota(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EDQUOT, syscall.ENOSPC} {
		t.Run(fmt.Sprint(errno), func(t *testing.T) {
			t.Parallel()
			g := newStage(t, 1, "a", "b", "c")
			n := 0
			g.played.refuses = func() error {
				n++
				return &fs.PathError{Op: "mkdir", Path: "runs", Err: errno}
			}
			const seconds = 100
			g.pass(seconds)
			if len(g.jobs) != 3 || n < 2 || n > seconds/trialPause {
				t.Errorf("%d jobs wait after %d starts in %d s, want 3, one in %d s\n%s", len(g.jobs), n, seconds, trialPause, g.said.String())
			}
			g.played.refuses = nil
			g.pass(seconds)
			for id := 1; id <= 3; id++ {
				if j, _, err := ReadJob(g.StateDir, id); err != nil || j.State != Done {
					t.Errorf("job %d is %s (%s), %v; want done", id, j.State, j.Reason, err)
				}
			}
		})
	}
}

// TestRefusedWrite: after a file could not be written for want of space, the disk counts as full until one can, which is tried every
// 10 s; a job that fails meanwhile is not to blame.
func TestRefusedWrite(t *testing.T) {
	t.Parallel()
	g := newStage(t, 1, "waits")
	failed := errors.New("exit status 1")
	if g.lacksSpace(failed) {
		t.Error("there is no space at first")
	}
	g.wrote(fmt.Errorf("save state: %w", &fs.PathError{Op: "write", Path: "job.json", Err: syscall.EDQUOT}))
	away := g.StateDir + ".away"
	if err := os.Rename(dirOf(g.StateDir), away); err != nil { // the trial fails
		t.Fatal(err)
	}
	check := func(when string, want bool) {
		t.Helper()
		if g.checkSpace(); g.full != want || g.lacksSpace(failed) != want {
			t.Errorf("%s: full: %v, want %v", when, g.full, want)
		}
	}
	check("at once", true)
	g.clock.pass(trialPause * time.Second)
	check("after a trial", true)
	if err := os.Rename(away, dirOf(g.StateDir)); err != nil {
		t.Fatal(err)
	}
	check("before the next trial", true)
	g.clock.pass(trialPause * time.Second)
	check("after the next trial", false)
	if left, err := filepath.Glob(dirOf(g.StateDir, ".trial*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
