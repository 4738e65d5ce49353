package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/internal/lab"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
	"trainopt/sla"
)

// paced is a training whose epochs are paced by the clock. It saves on SIGUSR1 and SIGTERM, and leaves with 75.
const paced = `import csv, json, os, signal, sys, time
stop = False
def ask(*_):
    global stop
    stop = True
signal.signal(signal.SIGUSR1, ask)
signal.signal(signal.SIGTERM, ask)
path = os.path.join(os.environ["OPTIMIZER_CHECKPOINT_DIR"], "state.json")
total, done = int(os.environ["OPTIMIZER_EPOCHS"]), 0
if os.environ.get("OPTIMIZER_RESUME") == "1":
    done = json.load(open(path))["done"]
print("begins after", done, flush=True)
log = open(os.environ["OPTIMIZER_LOG"], "a", newline="")
rows = csv.writer(log)
if log.tell() == 0:
    rows.writerow(["epoch", "total_epochs", "train_loss"])
while done < total:
    time.sleep(0.25)
    done += 1
    rows.writerow([done, total, 1 / done])
    log.flush()
    if stop:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as f:
            json.dump({"done": done}, f)
        os.replace(path + ".new", path)
        sys.exit(75)
`

// batchWorld is a folder with a training that runs in Slurm jobs.
type batchWorld struct {
	*world
	lab *lab.Lab
	job string
}

// sbatch submits a job whose script ends with optimize, prefixed by prefix ("exec "), and returns when the training has
// written a few epochs.
func sbatch(t *testing.T, prefix string, options []string, args ...string) *batchWorld {
	t.Helper()
	needPython(t)
	w := &batchWorld{world: newWorld(t), lab: lab.Require(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	train := w.write("train.py", paced)
	command := append([]string{self, "--train", train, "--resumable", "yes", "--planner", "static", "--state-dir", w.state()}, args...)
	w.write("job.sh", "#!/bin/bash\n"+prefix+"'"+strings.Join(command, "' '")+"'\n")
	w.environ = append(slices.Clone(w.lab.Env), agentVariable+"=1")
	submit := w.lab.Command(t.Context(), "sbatch", append([]string{"--parsable", "--output=" + filepath.Join(w.dir, "out"), "--open-mode=append", "--mem=500"}, append(options, filepath.Join(w.dir, "job.sh"))...)...)
	submit.Env, submit.Dir = w.environ, w.dir
	out, err := submit.Output()
	if err != nil {
		t.Fatalf("sbatch: %v", err)
	}
	w.job = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		_ = w.lab.Command(t.Context(), "scancel", w.job).Run()
		if t.Failed() {
			out, _ := os.ReadFile(filepath.Join(w.dir, "out"))
			t.Logf("output of job %s:\n%s", w.job, out)
		}
	})
	w.progress(4)
	return w
}

// progress waits until the newest training log has that many epochs.
func (w *batchWorld) progress(epochs int) {
	w.t.Helper()
	w.wait("reached epoch "+strconv.Itoa(epochs), func() bool {
		logs, _ := filepath.Glob(filepath.Join(w.state(), "runs", "*", "training*.csv"))
		for _, path := range logs {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), fmt.Sprintf("\n%d,", epochs)) {
				return true
			}
		}
		if state := w.jobState(); state == "FAILED" {
			w.t.Fatalf("job %s failed before epoch %d", w.job, epochs)
		}
		return false
	})
}

// jobState returns the state of the job, also of one that has ended.
func (w *batchWorld) jobState() string {
	w.t.Helper()
	return w.lab.Run(w.t, "squeue", "-h", "-t", "all", "-j", w.job, "-o", "%T")
}

// wait waits for a condition, for three minutes at most.
func (w *batchWorld) wait(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("job %s: not within three minutes: %s", w.job, what)
}

// gone waits until no process of the run lives, and returns its directory.
func (w *batchWorld) gone() string {
	w.t.Helper()
	dir := w.latest("recorded", func(string, *journal.Record) bool { return true })
	w.wait("all processes gone", func() bool { return journal.HolderOf(dir) == nil && !launch.Living(dir) })
	return dir
}

// shown returns the record of the run after the runs were listed.
func (w *batchWorld) shown() *journal.Record {
	w.t.Helper()
	list := w.lab.Command(w.t.Context(), os.Args[0], "runs", "list", "--state-dir", w.state())
	list.Env = w.environ
	if out, err := list.CombinedOutput(); err != nil || strings.Contains(string(out), "running") {
		w.t.Errorf("runs list: %v\n%s", err, out)
	}
	rec, err := journal.ReadRecord(w.latest("recorded", func(string, *journal.Record) bool { return true }))
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// wantStopped checks the record of a run that was stopped for a reason.
func wantStopped(t *testing.T, rec *journal.Record, reason string, code run.Code) {
	t.Helper()
	if rec.State != journal.Stopped || rec.Exit == nil || rec.Exit.Reason != reason || rec.ExitCode == nil || *rec.ExitCode != int(code) || rec.FinishedAt == nil {
		t.Errorf("state %s, exit %+v, code %v; want stopped by %s with %d", rec.State, rec.Exit, rec.ExitCode, reason, code)
	}
	if rec.Batch == nil || rec.Batch.ID == "" {
		t.Errorf("the record does not name the Slurm job: %+v", rec.Batch)
	}
}

func TestScancelWithExec(t *testing.T) {
	t.Parallel()
	w := sbatch(t, "exec ", nil, "--epochs", "2000")
	w.lab.Run(t, "scancel", w.job)
	w.gone()
	rec := w.shown()
	wantStopped(t, rec, "allocation", run.CodeTryAgain)
	if !strings.Contains(rec.Exit.Detail, "checkpoint saved") || !strings.Contains(rec.Exit.Detail, "Slurm job "+w.job) {
		t.Errorf("detail %q", rec.Exit.Detail)
	}
	if rec.Batch.CPUs != 1 || rec.Host.CPUs > 1 || rec.Host.Memory > 0.5 {
		t.Errorf("allocation %+v, host %g CPUs, %g GiB; want the 1 CPU and 500 MiB of the job", rec.Batch, rec.Host.CPUs, float64(rec.Host.Memory))
	}
}

func TestScancelWithoutExec(t *testing.T) {
	t.Parallel()
	w := sbatch(t, "", nil, "--epochs", "2000")
	w.lab.Run(t, "scancel", w.job)
	w.gone()
	wantStopped(t, w.shown(), "allocation", run.CodeTryAgain)
	if out, _ := os.ReadFile(filepath.Join(w.dir, "out")); !strings.Contains(string(out), "write exec optimize") {
		t.Error("no warning of the shell around optimize")
	}
}

// TestKilledWithItsJob kills agent, standby, keeper and training at once, as Slurm does with a job that does not end in
// time, and then ends the job.
func TestKilledWithItsJob(t *testing.T) {
	t.Parallel()
	w := sbatch(t, "", nil, "--epochs", "2000")
	dir := w.latest("running", func(_ string, rec *journal.Record) bool { return rec.State == journal.Running })
	h, err := launch.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{journal.HolderOf(dir).PID, h.StandbyPID, h.KeeperPID, h.PID}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // stopped first, so that none reacts to the death of another
		for _, pid := range pids {
			syscall.Kill(pid, sig)
		}
	}
	w.lab.Run(t, "scancel", w.job)
	w.gone()
	w.wait("the end of the job", func() bool {
		state := w.jobState()
		return state == "CANCELLED" || state == "FAILED"
	})
	rec := w.shown()
	wantStopped(t, rec, "allocation", run.CodeTryAgain)
	if !strings.Contains(rec.Exit.Detail, "last sign of life") {
		t.Errorf("detail %q, want the last sign of life", rec.Exit.Detail)
	}
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/optimize-" + filepath.Base(dir) + "*"); len(groups) > 0 {
		t.Errorf("cgroups left: %v", groups)
	}
}

// TestTimeLimit checks that the run stops with a checkpoint before its allocation ends, and that a deadline of the user
// that is earlier keeps its own reason.
func TestTimeLimit(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		reason string
		code   run.Code
	}{
		"later own deadline":   {[]string{"--deadline", "1h"}, "allocation", run.CodeTryAgain},
		"earlier own deadline": {[]string{"--deadline", "15s"}, "deadline", run.CodeGuard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sbatch(t, "exec ", []string{"--time=1"}, append(c.args, "--epochs", "2000")...)
			w.gone()
			rec := w.shown()
			wantStopped(t, rec, c.reason, c.code)
			if !strings.Contains(rec.Exit.Detail, "checkpoint saved") {
				t.Errorf("detail %q", rec.Exit.Detail)
			}
			if end := rec.Batch.End; end.IsZero() || rec.FinishedAt.After(end) {
				t.Errorf("finished at %s, the allocation ended at %s", rec.FinishedAt, end)
			}
			if i := slices.IndexFunc(rec.SLA.Verdicts, func(v sla.Verdict) bool { return v.Objective == "time" }); c.reason == "allocation" && i >= 0 && rec.SLA.Verdicts[i].Status == "violated" {
				t.Errorf("the end of the allocation counts as a missed deadline: %+v", rec.SLA.Verdicts[i])
			}
			out, _ := os.ReadFile(filepath.Join(w.dir, "out"))
			if named := strings.Contains(string(out), "the end of Slurm job "+w.job); named != (c.reason == "allocation") {
				t.Errorf("the source of the deadline is named: %v", named)
			}
		})
	}
}

// TestPreemption checks that a run survives a preemption by a job of a higher partition: its second life resumes from
// the checkpoint.
func TestPreemption(t *testing.T) {
	t.Parallel()
	w := sbatch(t, "exec ", []string{"-w", "n1", "-c", "4", "--requeue"}, "--epochs", "100")
	urgent := w.lab.Run(t, "sbatch", "--parsable", "-p", "urgent", "-w", "n1", "-c", "1", "--mem=100", "-o", "/dev/null", "--wrap", "sleep 2")
	t.Cleanup(func() { _ = w.lab.Command(t.Context(), "scancel", urgent).Run() })
	w.gone()
	wantStopped(t, w.shown(), "allocation", run.CodeTryAgain)
	w.secondLife(100)
}

// TestRequeue checks that the end of the allocation returns the job to the queue, and that the same command then
// resumes the run.
func TestRequeue(t *testing.T) {
	t.Parallel()
	w := sbatch(t, "exec ", []string{"--time=1", "--requeue"}, "--epochs", "230", "--requeue")
	w.gone()
	wantStopped(t, w.shown(), "allocation", run.CodeTryAgain)
	w.secondLife(230)
}

// secondLife lets the requeued job start now and checks that it completes the run of the first life.
func (w *batchWorld) secondLife(epochs int) {
	w.t.Helper()
	w.wait("requeued", func() bool { return w.jobState() == "PENDING" })
	hurried := time.Now()                 // a start in the second of the requeue fails: the credential of the first life is just being revoked
	w.wait("started again", func() bool { // Slurm delays a requeued job by two minutes
		if state := w.jobState(); state != "PENDING" {
			return state != "COMPLETING"
		}
		if time.Since(hurried) > 3*time.Second {
			hurried = time.Now()
			_ = w.lab.Command(w.t.Context(), "scontrol", "update", "JobId="+w.job, "StartTime=now").Run()
		}
		return false
	})
	w.latest("done", func(_ string, rec *journal.Record) bool { return rec.State == journal.Done })
	w.gone()
	entries, err := journal.List(w.state())
	if err != nil || len(entries) != 1 {
		w.t.Fatalf("%d runs, %v; want the one of the first life", len(entries), err)
	}
	rec := entries[0].Record
	if float64(rec.Outcome.Epochs) != float64(epochs) || rec.Outcome.Restarts != 1 || rec.Batch == nil || rec.Batch.Restarts != 1 {
		w.t.Errorf("%g epochs, %d restarts, %+v", float64(rec.Outcome.Epochs), rec.Outcome.Restarts, rec.Batch)
	}
	out, _ := os.ReadFile(filepath.Join(entries[0].Dir, "job.stdout"))
	if words := string(out); strings.Count(words, "begins after") != 2 || strings.HasSuffix(strings.TrimSpace(words), "after 0") {
		w.t.Errorf("the training printed %q, want a second start after the checkpoint", words)
	}
}
