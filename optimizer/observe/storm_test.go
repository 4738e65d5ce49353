package observe

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestDrainEndsWhileTheQueueIsFilled: reports that arrive while the queue is read are left to the reader.
func TestDrainEndsWhileTheQueueIsFilled(t *testing.T) {
	for name, c := range map[string]struct{ waiting, piece, queued, calls int }{
		"never empty":     {1000, 100, math.MaxInt, 10},
		"one at a time":   {5, 1, math.MaxInt, 5},
		"taken meanwhile": {1000, 100, 250, 4},
		"empty":           {0, 100, 50, 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls, left := 0, c.queued
			drain(c.waiting, func() int {
				n := min(c.piece, left)
				left -= n
				if calls++; calls > c.calls {
					t.Fatalf("call %d, want %d", calls, c.calls)
				}
				return n
			})
			if calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
		})
	}
}

// TestReportsOfUnknownProcessesAreBounded: a build on the same file system starts many short processes that write
// files. The processes of the job are not read for each of them.
func TestReportsOfUnknownProcessesAreBounded(t *testing.T) {
	readings := 0
	w := newWriters(nil, false)
	w.proc = t.TempDir() // none of them is alive
	w.attach(func() ([]int, error) { readings++; return []int{7}, nil }, 0)
	readings = 0
	for i := range 3 * maxPending {
		w.report(closed{pid: 1000 + i, id: fileID{inode: uint64(i)}, path: fmt.Sprintf("/src/%d.o", i)})
	}
	if readings > 0 {
		t.Errorf("the job's processes were read %d times, want none", readings)
	}
	if len(w.pending) > maxPending {
		t.Errorf("%d reports wait, want %d at most", len(w.pending), maxPending)
	}
}

// TestReportOfAYoungProcessCounts: a process of the job that was unknown at its report is found at the next scan.
func TestReportOfAYoungProcessCounts(t *testing.T) {
	job := []int{os.Getpid()}
	w := newWriters(nil, false)
	w.attach(func() ([]int, error) { return job, nil }, 0)
	id := fileID{inode: 5}
	w.report(closed{pid: 1 << 30, id: id, path: "/run/table.tmp"})
	job = append(job, 1<<30)
	w.scan()
	if e, foreign := w.of(id); e != wrote || foreign {
		t.Errorf("evidence %s, foreign %v", e, foreign)
	}
	if len(w.pending) != 0 {
		t.Errorf("%d reports still wait", len(w.pending))
	}
}

// TestReportOfAnEndedJobCounts: the first process of a job that ended before its processes were ever read is part of it.
func TestReportOfAnEndedJobCounts(t *testing.T) {
	w := newWriters(nil, false)
	id := fileID{inode: 5}
	w.report(closed{pid: 1 << 30, id: id, path: "/run/log.csv"})
	w.attach(func() ([]int, error) { return nil, nil }, 1<<30)
	w.scan()
	if e, foreign := w.of(id); e != wrote || foreign {
		t.Errorf("evidence %s, foreign %v", e, foreign)
	}
}

// TestDrainAwaitsReportsInProgress: reports that another goroutine has taken from the queue are processed before drain
// returns.
func TestDrainAwaitsReportsInProgress(t *testing.T) {
	if !reportsPermitted() {
		t.Skip("fanotify is not permitted here")
	}
	path := filepath.Join(t.TempDir(), "log.csv")
	begun, release := make(chan bool), make(chan bool)
	var processed atomic.Bool
	f, err := openFanotify(func(c closed) {
		if c.path == path {
			close(begun)
			<-release
			processed.Store(true)
		}
	})
	if err == nil {
		err = f.watch(filepath.Dir(path))
	}
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(f.read)
	defer ended.Wait()
	defer f.Close()
	if err := exec.Command("touch", path).Run(); err != nil { // reports of this process itself are ignored
		t.Fatal(err)
	}
	<-begun
	drained := make(chan bool)
	go func() { f.drain(); drained <- processed.Load() }()
	select {
	case <-drained:
		t.Error("drain returned while a report was being processed")
		close(release)
	case <-time.After(100 * time.Millisecond): // expires if drain waits as it must
		close(release)
		if !<-drained {
			t.Error("drain returned before a report was processed")
		}
	}
}

// TestFloodIsThinned: of a log, or output, that grew faster than it was read, the end is read in a bounded number of calls;
// that is said once.
func TestFloodIsThinned(t *testing.T) {
	for name, c := range map[string]struct {
		rows   int
		skip   bool // at the end of the job
		output bool
	}{"while the job runs": {600_000, false, false}, "at its end": {200_000, true, false}, "output": {600_000, false, true}} {
		t.Run(name, func(t *testing.T) {
			o := LogOptions{Dir: t.TempDir()}
			path, head, row := filepath.Join(o.Dir, "log.csv"), "epoch,train_loss\n", "%d,0.5\n"
			if o.Named = path; c.output {
				o.Named, head, row = "", "", "epoch: %d, loss: 0.5\n"
			}
			j := startJob(t, o, "")
			if c.output {
				path = j.reader.out.tails[0].Stats().Path
			}
			text := []byte(head)
			for i := range c.rows {
				text = fmt.Appendf(text, row, i+1)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			calls := 0
			for more := true; more; calls++ {
				before := len(j.rows)
				rows, err := j.reader.Finish(j.now)
				if err != nil {
					t.Fatal(err)
				}
				j.take(rows)
				if c.skip && calls == 0 {
					j.reader.SkipToTail()
				}
				more = len(j.rows) > before || j.reader.Behind() > 0
			}
			if calls > 40 { // a call returns up to about 4,096 rows
				t.Errorf("%d calls", calls)
			}
			if last := epochsOf(j.rows); last[len(last)-1] != float64(c.rows) || j.reader.Stats().Bad > 0 {
				t.Errorf("last epoch %g, want %d; %d bad rows", last[len(last)-1], c.rows, j.reader.Stats().Bad)
			}
			if notes := j.reader.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "skipped") {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
