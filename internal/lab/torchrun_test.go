package lab

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
)

//go:embed distributed.py
var distributed string

// saveEvery is the interval of the distributed training's own checkpoints, in steps.
const saveEvery = 20

// ranks is a training by torchrun on two nodes, with two ranks on each.
type ranks struct{ *world }

// newRanks skips the test without Debian's PyTorch, whose torchrun requires the options that tee the output.
func newRanks(t *testing.T) ranks {
	needLong(t)
	w := newWorld(t)
	if exec.Command("/usr/bin/python3", "-c", "import torch.distributed.run").Run() != nil {
		t.Skip("the package python3-torch is missing")
	}
	module, err := exec.Command(w.program, "python-module").Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "optimize_hook.py"), module, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "distributed.py"), []byte(distributed), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ranks{w}
}

// train starts a training of n steps of a fifth of a second.
func (w ranks) train(n int, flags ...string) *agent {
	w.Helper()
	args := append([]string{"--engine", "slurm", "--billing-hour", "1", "--yes", "--fresh", "--planner", "static", "--nodes", "2", "--gpus", "0", "--cpus", "2:2", "--grace", "1m"}, flags...)
	return w.start(append(args, "--", "/usr/bin/python3", "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--nproc_per_node", "2", "distributed.py", fmt.Sprint(n), "0.2")...)
}

// steps returns what a rank has written.
func (w ranks) steps(rank int) []unit {
	w.Helper()
	text, _ := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("steps-%d", rank)))
	var all []unit
	for line := range strings.Lines(string(text)) {
		var u unit
		if k, err := fmt.Sscan(line, &u.writer, &u.n, &u.at); k != 3 {
			w.Fatalf("rank %d: %q: %v", rank, line, err)
		}
		all = append(all, u)
	}
	return all
}

// last returns the last step of a rank, 0 before the first.
func (w ranks) last(rank int) int {
	w.Helper()
	if all := w.steps(rank); len(all) > 0 {
		return all[len(all)-1].n
	}
	return 0
}

// reach waits until rank 0 has done n steps.
func (w ranks) reach(n int) {
	w.Helper()
	w.await(fmt.Sprintf("step %d", n), func() bool { return w.last(0) >= n })
}

// agree fails the test unless all ranks have ended at the same step.
func (w ranks) agree() {
	w.Helper()
	for rank := 1; rank < 4; rank++ {
		if got, want := w.last(rank), w.last(0); got != want {
			w.Errorf("rank %d ended at step %d, rank 0 at %d", rank, got, want)
		}
	}
}

// oneLife fails the test if a rank skipped steps, lost more than a checkpoint interval when its process changed, or
// two of its processes wrote at a time.
func (w ranks) oneLife() {
	w.Helper()
	for rank := range 4 {
		all := w.steps(rank)
		ended := map[string]bool{}
		for i := 1; i < len(all); i++ {
			before, u := all[i-1], all[i]
			ended[before.writer] = ended[before.writer] || u.writer != before.writer
			if lost := before.n + 1 - u.n; ended[u.writer] || lost < 0 || lost > 0 && u.writer == before.writer || lost > saveEvery+1 {
				w.Errorf("rank %d: step %d of %s after %d of %s", rank, u.n, u.writer, before.n, before.writer)
			}
		}
	}
}

// TestTorchrun checks that the ranks of a training on two nodes stop at the same step on request, that it continues from
// there, survives the loss of a node, ends, and costs what the accounting says.
func TestTorchrun(t *testing.T) {
	w := newRanks(t)
	a := w.train(160)
	w.reach(30)
	if out, err := w.command("runs", "stop", filepath.Base(w.runDir())).CombinedOutput(); err != nil {
		t.Errorf("runs stop: %v: %s", err, out)
	}
	a.wait()
	w.agree()
	stopped := w.last(0)
	if rec := w.record(); rec.State != journal.Stopped || !strings.Contains(rec.Exit.Detail, "checkpoint saved") || rec.Checkpoint == nil || int(rec.Checkpoint.Units) != stopped {
		t.Errorf("state %s, exit %+v, checkpoint %+v; want stopped with a checkpoint of step %d", rec.State, rec.Exit, rec.Checkpoint, stopped)
	}
	a = w.resume()
	w.reach(stopped + 30)
	before := writers(w.steps(0))
	if first := w.steps(0)[stopped]; first.n != stopped+1 || len(before) != 2 {
		t.Errorf("continued at step %d after %d, writers %v", first.n, stopped, before)
	}
	w.killSupervisor("1")
	w.await("the next writer", func() bool { return len(writers(w.steps(0))) > len(before) })
	if code := a.wait(); code != 0 || w.record().State != journal.Done {
		t.Errorf("exit status %d, state %s, want done", code, w.record().State)
	}
	w.agree()
	w.oneLife()
	w.paid()
}

// TestTorchrunLimits checks that budget and deadline end a training on two nodes with a checkpoint, and that the budget
// is not exceeded.
func TestTorchrunLimits(t *testing.T) {
	const budget, second = 0.01, 0.439 / 3600 // 82 s of four CPUs and 3.875 GiB; the accounting counts whole seconds
	for name, flags := range map[string][]string{"budget": {"--budget", fmt.Sprint(budget)}, "deadline": {"--deadline", "80s"}} {
		t.Run(name, func(t *testing.T) {
			w := newRanks(t)
			w.train(2000, flags...).wait()
			rec := w.record()
			if rec.State != journal.Stopped || rec.Exit.Reason != name || !strings.Contains(rec.Exit.Detail, "checkpoint saved") {
				t.Errorf("state %s, exit %+v; want stopped by the %s with a checkpoint", rec.State, rec.Exit, name)
			}
			if got := float64(rec.Outcome.CostUSD); name == "budget" && got > 1.01*budget+second {
				t.Errorf("cost %g USD of the budget of %g", got, budget)
			}
			w.agree()
			w.oneLife()
			w.paid()
		})
	}
}
