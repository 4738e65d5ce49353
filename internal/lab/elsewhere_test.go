package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// startSlow starts a training with GPUs on the slowest nodes of the lab, where most are idle.
func (w *world) startSlow(units, pace string, flags ...string) *agent {
	w.Helper()
	args := append([]string{"--engine", "slurm", "--billing-hour", "1", "--yes", "--gpus", "1:1", "--cpus", "1:1", "--prefer", "time", "--baseline-ratio", "0.3"}, flags...)
	return w.start(append(args, "--fresh", "--train", "training.py", "--", units, pace, "n0=4,n1=2")...)
}

// TestMeasuresOtherNodes checks that a training on slow nodes is measured on the others by short jobs beside it, which
// change none of its files, moves to the fastest, and pays for all of it.
func TestMeasuresOtherNodes(t *testing.T) {
	w := newWorld(t)
	rec := w.finished(w.startSlow("300", "0.4"), 300)
	w.paid()
	measured := map[string]journal.SiteProbe{}
	for _, p := range rec.SiteProbes {
		if p.ID != "" {
			measured[p.Place.GPUType] = p
			if !p.Confirmed || p.Outcome != "measured" {
				t.Errorf("probe %+v, want measured and confirmed", p)
			}
		}
	}
	if len(measured) != 2 || measured["a100"].ID == "" || measured["v100"].ID == "" {
		t.Fatalf("probes %s, want one on a100 and one on v100", toJSON(rec.SiteProbes))
	}
	if a, v := measured["a100"], measured["v100"]; a.Started.After(v.Ended) || v.Started.After(a.Ended) {
		t.Errorf("the probes ran one after the other: %v to %v, %v to %v", a.Started, a.Ended, v.Started, v.Ended)
	}
	if last := rec.Stretches[len(rec.Stretches)-1]; last.Place.GPUType != "a100" || len(rec.Stretches) != 2 {
		t.Errorf("stretches %s, want a move to a100", toJSON(rec.Stretches))
	}
	if o := rec.Overheads; len(o.StartupSeconds) != 1 || len(o.RestartSeconds) != 1 {
		t.Errorf("overheads %s, want one start-up and one restart, the move", toJSON(o))
	}
	if len(rec.Actions) == 0 || rec.Baseline == nil || rec.Comparison.SecondsChangePct > -20 {
		t.Errorf("actions %s, comparison %s, want a gain over the baseline of the first nodes", toJSON(rec.Actions), toJSON(rec.Comparison))
	}
	// The probes wrote a checkpoint, a journal and a log of their own only: those of the run have one writer (finished).
	for _, u := range w.units() {
		if id, _, _ := strings.Cut(u.writer, ":"); id == measured["a100"].ID || id == measured["v100"].ID {
			t.Fatalf("the probe %s wrote unit %d", id, u.n)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(w.runDir(), "probes", "*", "scratch", "*")); len(left) > 0 {
		t.Errorf("files of probes are left: %v", left)
	}
}

// TestAgentDiesBesideProbes checks that the probes of a dead agent end, are found again and paid, and that the training
// moves after all.
func TestAgentDiesBesideProbes(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.startSlow("400", "0.4")
	w.await("the probes", func() bool {
		return w.said("measuring a100") && strings.Contains(w.slurm("squeue", "-h", "--states=all", "-o", "%j"), filepath.Base(w.runDir())+".probe.")
	})
	a.kill()
	time.Sleep(2 * time.Second)
	rec := w.finished(w.resume(), 400)
	w.paid()
	if last := rec.Stretches[len(rec.Stretches)-1]; last.Place.GPUType != "a100" {
		t.Errorf("stretches %s, probes %s, want a move to a100", toJSON(rec.Stretches), toJSON(rec.SiteProbes))
	}
}

// TestProbesAreCancelled checks that probes which wait in the queue when the run ends are cancelled.
func TestProbesAreCancelled(t *testing.T) {
	w := newWorld(t)
	w.do("sbatch", "--job-name=blocker", "--partition=gpu", "--gres=gpu:a100:4", "--time=5", "--output=/dev/null", "--wrap=sleep 240")
	w.do("sbatch", "--job-name=blocker", "--partition=gpu", "--gres=gpu:v100:4", "--time=5", "--output=/dev/null", "--wrap=sleep 240")
	w.await("the blockers", func() bool {
		return strings.Count(w.slurm("squeue", "-h", "-n", "blocker", "-t", "R", "-o", "%i"), "\n") == 1
	})
	a := w.startSlow("2000", "0.4")
	w.await("the probes", func() bool { return w.said("measuring a100") || w.said("measuring v100") })
	a.Process.Signal(os.Interrupt)
	a.wait()
	rec := w.record()
	if !slices.ContainsFunc(rec.SiteProbes, func(p journal.SiteProbe) bool { return p.Outcome == "the run ended first" }) {
		t.Errorf("probes %s, want one that was withdrawn", toJSON(rec.SiteProbes))
	}
	if left := w.slurm("squeue", "-h", "--me", "-o", "%j"); strings.Contains(left, "optimize.") {
		t.Errorf("jobs are left: %s", left)
	}
	w.paid()
}
