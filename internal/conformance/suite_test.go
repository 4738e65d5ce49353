package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestConformance runs each training to completion, then once more with a stop in the middle and a resume, and judges
// every record against the counts of the training.
func TestConformance(t *testing.T) {
	interpreter(t)
	var mu sync.Mutex
	var rows []judgement
	for i, tr := range trainings {
		if *quickFlag && !tr.quick {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			length := tr.length(t)
			j := wholeRun(t, tr, length)
			j.stop = stopAndResume(t, tr, length, i%2 == 0)
			for _, c := range j.cells() {
				switch timed := c.name == "rate" || c.name == "predicted"; {
				case c.wrong && (!timed || *timingFlag):
					t.Errorf("%s: %s", c.name, c.text)
				case c.wrong:
					t.Logf("%s: %s", c.name, c.text)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, j)
		})
	}
	if len(rows) == 0 {
		return
	}
	shown, held := 0, 0
	for _, j := range rows {
		if j.predictionShown {
			shown++
		}
		if j.predictionHeld {
			held++
		}
	}
	if *timingFlag && !enoughHeld(held, shown) {
		t.Errorf("%d of %d outcomes inside their 90 %% intervals", held, shown)
	}
	t.Logf("%d of %d outcomes inside their 90 %% intervals\n%s", held, shown, table(rows))
	if *updateFlag {
		updateBlock(t, filepath.Join("..", "..", "docs", "conformance.md"), "conformance", table(rows))
	}
}

func updateBlock(t *testing.T, path, name, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	document, err := replaceBlock(string(data), name, text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wholeRun(t *testing.T, tr training, length int) judgement {
	t.Helper()
	w := newWorkplace(t, tr)
	code, output := w.run(w.wrapped(length, "--deadline", "2h"))
	j := judge(tr, length, code, w.record(), w.truthSoFar())
	if j.end.wrong {
		t.Logf("exit %d\n%s", code, output)
	}
	return j
}

// stopAndResume stops a run in the middle, by SIGINT or by `runs stop`, and resumes it. For a training that cannot
// resume, the command must fail and leave the record unchanged.
func stopAndResume(t *testing.T, tr training, length int, interrupt bool) cell {
	t.Helper()
	w := newWorkplace(t, tr)
	p := w.start(w.wrapped(length, "--deadline", "2h"))
	if !w.halfDone(p, length) {
		if code := w.wait(p); code != 0 {
			return wrong("ended before its middle was seen: exit %d", code)
		}
		return right("not tried: it finished first")
	}
	if interrupt {
		_ = p.cmd.Process.Signal(syscall.SIGINT)
	} else if code, output := w.run([]string{w.program, "--state-dir", w.state, "runs", "stop", "latest"}); code != 0 {
		p.end()
		return wrong("runs stop: exit %d: %s", code, lastLine(output))
	}
	w.wait(p)
	stopped := w.record()
	switch {
	case stopped.State == "done":
		return right("not tried: it finished first")
	case stopped.State != "stopped":
		return wrong("stopped, state %s", stopped.State)
	case stopped.verdict() == "met":
		return wrong("stopped, verdict met")
	}
	before, err := os.ReadFile(filepath.Join(stopped.dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	code, output := w.run([]string{w.program, "--state-dir", w.state, "--quiet", "runs", "resume", "latest"})
	if !tr.resumes {
		after, err := os.ReadFile(filepath.Join(stopped.dir, "run.json"))
		switch {
		case err != nil:
			t.Fatal(err)
		case code == 0:
			return wrong("resumed what cannot be resumed")
		case string(before) != string(after):
			return wrong("refused, but the record was changed")
		}
		return right("refused")
	}
	c := judgeResume(tr, length, code, w.record(), w.truthSoFar())
	if c.wrong && code != 0 {
		c.text += ": " + lastLine(output)
	}
	return c
}

// halfDone waits until the training has completed half of its work and, if it keeps checkpoints, has written one.
func (w *workplace) halfDone(p *process, length int) bool {
	limit := time.After(runLimit)
	for {
		if (w.training.checkpoint == "" || w.hasCheckpoint()) && w.share(length) >= 0.5 {
			return true
		}
		select {
		case <-p.done:
			return false
		case <-limit:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// share returns the fraction of the work that the training has completed.
func (w *workplace) share(length int) float64 {
	whole := w.training.expected(length).steps
	if whole == 0 { // no countable work: a record shows that the training started
		return float64(min(1, len(w.truthSoFar())))
	}
	return w.truthSoFar().last().steps / whole
}

func lastLine(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return lines[len(lines)-1]
}
