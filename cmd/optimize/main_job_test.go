package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/internal/conformance"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

// counting is a small resumable training with a fixed pace that saves its epoch on SIGUSR1.
const counting = `import os, signal, sys, time
ckpt = os.path.join(os.environ.get("OPTIMIZER_CHECKPOINT_DIR", "."), "epoch")
total = int(os.environ.get("OPTIMIZER_EPOCHS", "40"))
pace = float(os.environ.get("PACE", "0.1"))
leave = []
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
start = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
def save(epoch):
    os.makedirs(os.path.dirname(ckpt), exist_ok=True)
    with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
    os.replace(ckpt + ".tmp", ckpt)
log = os.environ.get("OPTIMIZER_LOG", "log.csv")
if not os.path.exists(log):
    open(log, "w").write("epoch,total_epochs,data_count,epoch_time,train_loss\n")
for epoch in range(start + 1, total + 1):
    time.sleep(pace)
    with open(log, "a") as f: f.write("%d,%d,100,%g,%g\n" % (epoch, total, pace, 1 / epoch))
    save(epoch)
    if leave:
        sys.exit(75)
`

// TestMainJobTrainsForReal runs the first command of the README on a shorter training.
func TestMainJobTrainsForReal(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	code, rec, errs := w.record("--train", example(t, "train_digits.py"), "--prefer", "time", "--deadline", "2h", "--budget", "1", "--epochs", "24", "--", "--samples", "1280", "--batch-size", "64")
	if code != run.CodeDone {
		t.Fatalf("exit %d, want 0\n%s", code, errs)
	}
	if rec.State != journal.Done || float64(rec.Outcome.Epochs) != 24 {
		t.Errorf("state %s after %v epochs, want done after 24", rec.State, rec.Outcome.Epochs)
	}
	if acc := float64(rec.Training.TestAccuracy); !(acc > 0.8) {
		t.Errorf("test accuracy %v: the example does not learn", acc)
	}
	if rec.Plan == nil || rec.Plan.Prediction == nil || len(rec.Plan.Options) != 4 {
		t.Errorf("plan without prediction or options: %+v", rec.Plan)
	}
	if !(float64(rec.Outcome.CostUSD) > 0) || !(float64(rec.Outcome.PeakMemoryGiB) > 0) {
		t.Errorf("cost %v, peak memory %v: not measured", rec.Outcome.CostUSD, rec.Outcome.PeakMemoryGiB)
	}
	dir := filepath.Join(w.state(), "runs", rec.RunID)
	data, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.ValidateRecord(data); err != nil {
		t.Errorf("run.json does not keep the schema: %v", err)
	}
	for _, name := range []string{"samples.csv", "log.csv", "rl_metrics.csv", "extended.csv", "allocation_history.csv", "reward_components.csv", "sla_metrics.csv",
		"pareto_front.csv", "performance_metrics.csv", "optimization_metrics.csv", "report.html", "report.md", "job.stdout", "job.stderr", "state"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("the run directory lacks %s: %v", name, err)
		}
	}
}

// TestBudgetStopsWithACheckpoint checks that the run stops with a checkpoint before the budget is exceeded and can be
// resumed with a higher budget. The guard asks for the checkpoint earlier than the limit by one and a half times the
// longest save: that of the first life, which is slow, so that the next one has enough time on a busy machine.
func TestBudgetStopsWithACheckpoint(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("count.py", strings.Replace(counting, "if leave:", "if leave:\n        time.sleep(0 if start else 6)", 1))
	rates := []string{"--gpu-hour", "0", "--cpu-hour", "3.6", "--gb-hour", "0", "--cpus", "1"} // $0.001 per second
	go func() {
		w.latest("trained for three epochs", func(dir string, _ *journal.Record) bool { return rows(dir) >= 3 })
		w.signals <- syscall.SIGINT
	}()
	code, first, errs := w.record(append([]string{"--train", script, "--budget", "1", "--epochs", "400"}, rates...)...)
	if code != run.CodeInterrupt {
		t.Fatalf("exit %d, want 130\n%s", code, errs)
	}
	budget := float64(first.Outcome.CostUSD) + 0.02
	code, rec, errs := w.record("runs", "resume", first.RunID, "--budget", fmt.Sprint(budget))
	if code != run.CodeGuard {
		t.Fatalf("exit %d, want 4\n%s", code, errs)
	}
	if spent := float64(rec.Outcome.CostUSD); spent > 2*budget || spent < 0.5*budget {
		t.Errorf("spent $%.6f of a budget of $%.6f: want between half of it and, on a busy machine, twice", spent, budget)
	}
	if rec.Exit == nil || rec.Exit.Reason != "budget" || rec.Exit.Detail != "checkpoint saved" {
		t.Errorf("exit %+v: want reason budget with a saved checkpoint", rec.Exit)
	}
	done := float64(rec.Outcome.Epochs)
	code, _, errs = w.run("runs", "resume", rec.RunID)
	if code == run.CodeDone || code == run.CodeMissed {
		t.Errorf("resumed with a spent budget: exit %d\n%s", code, errs)
	}
	w.environ = append(w.environ, "PACE=0.001")
	if code, _, errs = w.run("runs", "resume", rec.RunID, "--budget", "1"); code != run.CodeDone {
		t.Fatalf("resume with more money: exit %d, want 0\n%s", code, errs)
	}
	after, err := journal.ReadRecord(filepath.Join(w.state(), "runs", rec.RunID))
	if err != nil {
		t.Fatal(err)
	}
	if float64(after.Outcome.Epochs) != 400 || after.Outcome.Rows > 401 {
		t.Errorf("%v epochs in %d rows: want 400 epochs without repeating the first %v", after.Outcome.Epochs, after.Outcome.Rows, done)
	}
	if !(float64(after.Outcome.CostUSD) > float64(rec.Outcome.CostUSD)) {
		t.Errorf("money after the resume %v, before %v: it must go on from what was spent", after.Outcome.CostUSD, rec.Outcome.CostUSD)
	}
}

// TestDeadlineStops checks that the deadline guard stops a run.
func TestDeadlineStops(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	code, rec, errs := w.record("--train", w.write("count.py", counting), "--deadline", "3s", "--epochs", "1000", "--cpus", "1")
	if code != run.CodeGuard || rec.Exit == nil || rec.Exit.Reason != "deadline" {
		t.Fatalf("exit %d %+v, want 4 by the deadline\n%s", code, rec.Exit, errs)
	}
	if seconds := float64(rec.Outcome.Seconds); seconds > 50 { // to the second only on an idle machine: optimizer/run tests that
		t.Errorf("stopped after %.2f s of 100 s, deadline 3 s", seconds)
	}
}

// TestConsentToTheLimit: with --yes a job that cannot meet its deadline runs until the guard stops it; it is not stopped early
// to save the cost of the remainder.
func TestConsentToTheLimit(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("plain.py", "import time\nfor e in range(1, 1001):\n    time.sleep(0.1)\n    print(f'Epoch {e}/1000 loss {1/e}', flush=True)\n")
	code, rec, errs := w.record("--train", script, "--deadline", "8s", "--yes")
	if code != run.CodeGuard || rec.Exit == nil || rec.Exit.Reason != "deadline" {
		t.Errorf("exit %d %+v, want 4 by the deadline\n%s", code, rec.Exit, errs)
	}
}

// TestAgentKilled checks that the job survives kill -9 of its agent and that another agent adopts it with its cost,
// deadline and progress.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("count.py", counting)
	agent := w.agent("--train", script, "--epochs", "80", "--cpus", "1", "--quiet", "--budget", "1", "--cpu-hour", "3.6", "--gb-hour", "0")
	dir := w.latest("trained for ten epochs", func(dir string, rec *journal.Record) bool { return rows(dir) >= 10 })
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	before := rows(dir)
	w.latest("continued without its agent", func(dir string, _ *journal.Record) bool { return rows(dir) > before || before == 80 })
	h, err := launch.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	code, rec, errs := w.record("runs", "resume", filepath.Base(dir))
	if code != run.CodeDone {
		t.Fatalf("exit %d, want 0\n%s", code, errs)
	}
	if float64(rec.Outcome.Epochs) != 80 || rec.Outcome.Restarts != 0 {
		t.Errorf("%v epochs with %d restarts, want 80 by the adopted job itself", rec.Outcome.Epochs, rec.Outcome.Restarts)
	}
	if rec.Exit == nil || rec.Exit.Code == nil || *rec.Exit.Code != 0 {
		t.Errorf("exit of the adopted job %+v, want its own code 0", rec.Exit)
	}
	for _, name := range []string{"log.csv", "performance_metrics.csv"} { // rows that the first agent wrote after its last state are read again
		if n := len(rowsOf(t, w, filepath.Base(dir), name)); n != 80 {
			t.Errorf("%d rows in %s, want one for each epoch", n, name)
		}
	}
	// 80 epochs of 0.1 s at $0.001/s: the time without an agent is charged too, exactly once.
	exit, _ := h.ReadExit()
	if paid := float64(rec.Outcome.CostUSD); exit.Ran < 8*time.Second || math.Abs(paid-exit.Ran.Seconds()*0.001) > 1e-6 {
		t.Errorf("%v for $%.5f: want at least 8 s and one tenth of a cent for each", exit.Ran, paid)
	}
}

// TestReaderOfMessagesEnds checks that a run whose messages go to a pipe without a reader, as of "| head -1", is supervised to
// its end.
func TestReaderOfMessagesEnds(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.stderr = write
	w.agent("--train", w.write("count.py", counting), "--epochs", "10", "--cpus", "1")
	write.Close()
	read.Close()
	w.latest("ended", func(_ string, rec *journal.Record) bool { return rec.State == journal.Done })
}

// TestBudgetHoldsWithoutAnAgent checks that the keeper stops the job at the budget after the agent has died. On a busy machine
// the budget may be spent before the agent is killed: that of the next run is larger.
func TestBudgetHoldsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("count.py", counting)
	dir, budget := "", 0.0015
	for held := false; !held; {
		budget *= 4
		agent := w.agent("--train", script, "--fresh", "--yes", "--epochs", "10000", "--cpus", "1", "--quiet", "--budget", fmt.Sprint(budget), "--cpu-hour", "3.6", "--gb-hour", "0")
		dir = w.latest("trained for ten epochs", func(at string, rec *journal.Record) bool {
			return at != dir && (rows(at) >= 10 || rec.State == journal.Stopped)
		})
		_ = agent.Process.Kill()
		_ = agent.Wait()
		h, err := launch.Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		w.latest("stopped by its keeper", func(string, *journal.Record) bool { _, ended := h.ReadExit(); return ended })
		exit, _ := h.ReadExit()
		rec, err := journal.ReadRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		held = exit.Limit && rec.State == journal.Running
	}
	if n := rows(dir); n > int(500*budget/0.006) {
		t.Errorf("%d epochs of 0.1 s under a budget of %g s: the keeper did not stop the job", n, 1000*budget)
	}
	code, rec, errs := w.record("runs", "resume", filepath.Base(dir))
	if code != run.CodeGuard {
		t.Errorf("exit %d after a budget that was spent without an agent, want 4\n%s", code, errs)
	}
	if spent := float64(rec.Outcome.CostUSD); spent > 2*budget { // to the second only on an idle machine
		t.Errorf("spent $%.5f of $%g", spent, budget)
	}
}

func rows(dir string) int {
	data, err := os.ReadFile(filepath.Join(dir, "training.csv"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n") - 1
}

// TestInterruptOnceSavesTwiceKills checks that the first Ctrl-C saves a checkpoint, and that the second one and Ctrl-\ kill
// the job.
func TestInterruptOnceSavesTwiceKills(t *testing.T) {
	t.Parallel()
	needPython(t)
	deaf := strings.Replace(counting, "if leave:", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    if False:", 1)
	for name, c := range map[string]struct {
		signals []os.Signal
		script  string
		detail  string
		code    run.Code
	}{
		"quit":  {[]os.Signal{syscall.SIGQUIT}, deaf, "SIGKILL", run.CodeInterrupt},
		"once":  {[]os.Signal{syscall.SIGINT}, counting, "checkpoint saved", run.CodeInterrupt},
		"term":  {[]os.Signal{syscall.SIGTERM}, counting, "checkpoint saved", run.CodeTerminated},
		"twice": {[]os.Signal{syscall.SIGINT, syscall.SIGINT}, deaf, "SIGKILL", run.CodeInterrupt},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			script := w.write("count.py", c.script)
			go func() {
				w.latest("running", func(dir string, rec *journal.Record) bool { return rows(dir) >= 3 })
				for i, s := range c.signals {
					if i > 0 { // the first has been handled; soon after it the second would be the same one
						w.latest("asked to exit", func(dir string, _ *journal.Record) bool {
							state, _ := os.ReadFile(filepath.Join(dir, "state"))
							return strings.Contains(string(state), `"why":"user"`)
						})
						time.Sleep(200 * time.Millisecond)
					}
					w.signals <- s
				}
			}()
			code, rec, errs := w.record("--train", script, "--epochs", "600", "--cpus", "1")
			if code != c.code || rec.State != journal.Stopped || rec.Exit == nil || rec.Exit.Reason != "user" || !strings.Contains(rec.Exit.Detail, c.detail) {
				t.Errorf("exit %d, state %s, %+v: want %d, stopped by the user, %q\n%s", code, rec.State, rec.Exit, c.code, c.detail, errs)
			}
		})
	}
}

// TestInterruptRunsTheCleanup checks that the first Ctrl-C reaches a training that saves on no signal as it does without the
// program: its finally clause runs, and what it has written is flushed.
func TestInterruptRunsTheCleanup(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("plain.py", `
import time
log = open("log.csv", "w")
try:
    log.write("epoch,loss\n")
    open("begun", "w").close()
    while True:
        time.sleep(0.05)
finally:
    open("saved", "w").close()
`)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(w.dir, name))
		return err == nil
	}
	go func() {
		w.latest("training", func(string, *journal.Record) bool { return exists("begun") })
		w.signals <- syscall.SIGINT
	}()
	code, rec, errs := w.record("--train", script, "--cpus", "1")
	if code != run.CodeInterrupt || rec.State != journal.Stopped || rec.Exit == nil || rec.Exit.Reason != "user" {
		t.Errorf("exit %d, state %s, %+v: want %d, stopped by the user\n%s", code, rec.State, rec.Exit, run.CodeInterrupt, errs)
	}
	if log, err := os.ReadFile(filepath.Join(w.dir, "log.csv")); !exists("saved") || string(log) != "epoch,loss\n" {
		t.Errorf("saved %t, log %q (%v): want what the finally clause writes, and the log", exists("saved"), log, err)
	}
}

// TestQuitOfARealAgent checks that a process of the program subscribes to SIGQUIT, by which the runtime would otherwise end
// it with a dump of its goroutines, and that no process of its job remains.
func TestQuitOfARealAgent(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	agent := w.agent("--train", w.write("count.py", counting), "--epochs", "600", "--quiet")
	dir := w.latest("running", func(dir string, rec *journal.Record) bool { return rows(dir) >= 3 })
	if err := agent.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	rec, err := journal.ReadRecord(dir)
	if code := agent.ProcessState.ExitCode(); code != int(run.CodeInterrupt) || err != nil || rec.State != journal.Stopped || launch.Living(dir) {
		t.Errorf("exit %d, %+v (%v), job alive %v: want %d, stopped and no job", code, rec, err, launch.Living(dir), run.CodeInterrupt)
	}
}

// weakNamed saves to a file whose name may also be that of data, and resumes by an argument; before, it does not end.
const weakNamed = `import argparse, os, time
p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=100)
p.add_argument("--resume", default="")
a = p.parse_args()
start = 0
if a.resume:
    start = int(open(a.resume).read())
    open("resumed", "w").write(str(start))
for epoch in range(start + 1, a.epochs + 1):
    time.sleep(0.2)
    print("epoch %d/%d loss %.4f" % (epoch, a.epochs, 1 / epoch), flush=True)
    while epoch % 20 == 0:
        with open("model.pt", "w") as f: f.write(str(epoch))
        if epoch < 80 or a.resume: break
        time.sleep(4)
`

// TestResumeFromWeaklyNamedCheckpoint checks that a later agent accepts the checkpoint that an earlier one has recognised
// by its changes only.
func TestResumeFromWeaklyNamedCheckpoint(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	w.write("weak.py", weakNamed)
	go func() {
		w.latest("a checkpoint", func(_ string, rec *journal.Record) bool { return rec.Checkpoint != nil })
		w.signals <- syscall.SIGINT
	}()
	if code, rec, errs := w.record("--train", "weak.py"); code != run.CodeInterrupt || rec.Checkpoint == nil {
		t.Fatalf("exit %d, checkpoint %+v\n%s", code, rec.Checkpoint, errs)
	}
	code, _, errs := w.run("runs", "resume", "latest")
	if code != run.CodeDone {
		t.Errorf("resume: exit %d\n%s", code, errs)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "resumed")); err != nil || string(data) < "1" {
		t.Errorf("resumed from %q (%v), want an epoch", data, err)
	}
}

// savesResults saves a checkpoint and then its losses, both by torch.save, and fails in its first start.
const savesResults = `import argparse, sys, torch
p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=6)
p.add_argument("--resume", default="")
a = p.parse_args()
start = 0
if a.resume:
    checkpoint = open(a.resume).read()
    start = 3
    with open("resumed", "w") as f: f.write(a.resume)
optimizer = torch.optim.SGD()
losses = []
for epoch in range(start, a.epochs):
    for batch in torch.utils.data.DataLoader(list(range(8)), 4): optimizer.step()
    losses.append(1 / (epoch + 1))
    torch.save({"epoch": epoch + 1, "w": torch.Tensor()}, "ckpt.pt")
    torch.save({"train_loss": losses}, "history.pt")
    if epoch == 2: sys.exit(1)
`

// TestResumeBesideResults checks that a training that saves its results as it saves its checkpoint is resumed from the checkpoint.
func TestResumeBesideResults(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	fakes, err := filepath.Abs(filepath.Join("..", "..", "optimizer", "observe", "testdata", "fakes"))
	if err != nil {
		t.Fatal(err)
	}
	w.environ = append(w.environ, "PYTHONPATH="+fakes)
	w.write("train.py", savesResults)
	if code, rec, errs := w.record("--train", "train.py"); code != run.CodeTraining || rec.Checkpoint == nil || filepath.Base(rec.Checkpoint.Path) != "ckpt.pt" {
		t.Fatalf("exit %d, checkpoint %+v\n%s", code, rec.Checkpoint, errs)
	}
	if code, _, errs := w.run("runs", "resume", "latest"); code != run.CodeDone {
		t.Errorf("resume: exit %d\n%s", code, errs)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "resumed")); err != nil || filepath.Base(string(data)) != "ckpt.pt" {
		t.Errorf("resumed from %q (%v), want ckpt.pt", data, err)
	}
}

// TestStandardInput checks that a training reads the standard input of the command, that it is not restarted by choice or
// after a failure once it has, and that it is when it can read a file again.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	needPython(t)
	const failsOnce = "import os, sys\nprint('answer', input(), flush=True)\n" + counting + `    if epoch == 5 and not os.path.exists("failed"):
        open("failed", "w").close()
        sys.exit(1)
`
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	_, _ = write.WriteString("y\n")
	write.Close()
	file, err := os.Open(newWorld(t).write("answers", "y\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		stdin  *os.File
		state  journal.State
		output string
	}{
		"pipe": {read, journal.Failed, "answer y\n"},
		"file": {file, journal.Done, "answer y\nanswer y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stdin = c.stdin
			w.agent("--train", w.write("ask.py", failsOnce), "--epochs", "12", "--quiet", "--cpus", "1")
			dir := w.latest("ended", func(_ string, rec *journal.Record) bool {
				if rec.State == c.state && c.state == journal.Failed && (rec.Outcome.Restarts > 0 || !strings.Contains(rec.Exit.Detail, "standard input")) {
					t.Errorf("%d restarts, %q: want none, because of the standard input", rec.Outcome.Restarts, rec.Exit.Detail)
				}
				return rec.State == c.state
			})
			data, err := os.ReadFile(filepath.Join(dir, "job.stdout"))
			if err != nil || string(data) != c.output {
				t.Errorf("the training printed %q (%v), want %q", data, err, c.output)
			}
		})
	}
}

// TestTrainingFails checks that the report contains the training's own exit code or signal, and that the exit code of
// optimize marks a failure of the training.
func TestTrainingFails(t *testing.T) {
	t.Parallel()
	needPython(t)
	for name, c := range map[string]struct {
		script string
		code   int
		signal string
	}{
		"exit 3":   {"import sys\nsys.exit(3)\n", 3, ""},
		"exit 137": {"import sys\nsys.exit(137)\n", 137, ""},
		"segfault": {"import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", 0, "SIGSEGV"},
		"killed":   {"import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", 0, "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			code, rec, errs := w.record("--train", w.write("fail.py", c.script), "--cpus", "1")
			if code != run.CodeTraining || rec.State != journal.Failed {
				t.Fatalf("exit %d, state %s, want 5, failed\n%s", code, rec.State, errs)
			}
			if lost := float64(rec.Waste.Failed); lost != float64(rec.Outcome.CostUSD) {
				t.Errorf("$%g of $%g counted as lost: nothing of a failed job without checkpoint is kept", lost, rec.Outcome.CostUSD)
			}
			switch {
			case c.signal != "" && (rec.Exit.Signal == nil || *rec.Exit.Signal != c.signal || rec.Exit.Code != nil):
				t.Errorf("exit %+v, want signal %s", rec.Exit, c.signal)
			case c.signal == "" && (rec.Exit.Code == nil || *rec.Exit.Code != c.code || rec.Exit.Signal != nil):
				t.Errorf("exit %+v, want code %d", rec.Exit, c.code)
			}
		})
	}
}

// TestQuietFailure checks that --quiet shows the last lines of a failed training as an error, and none of another.
func TestQuietFailure(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("fail.py", "import sys\nprint('loading')\nif len(sys.argv) > 1:\n    raise ValueError('no such column')\n")
	code, out, errs := w.run("train", "--quiet", script, "--", "now")
	if code != run.CodeTraining || !strings.Contains(errs, "ValueError: no such column") || !strings.Contains(errs, "optimize logs ") || strings.Contains(out, "ValueError") {
		t.Errorf("exit %d, want the last lines on standard error alone\n%s\n%s", code, out, errs)
	}
	if code, out, errs := w.run("train", "--quiet", script); code != run.CodeDone || strings.Contains(errs+out, "loading") {
		t.Errorf("exit %d, want no output of the training\n%s\n%s", code, out, errs)
	}
}

// TestNoLog checks that a script without a CSV log is followed by its output, and that a run without any progress
// reports "no data" rather than zero.
func TestNoLog(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	code, rec, errs := w.record("--train", w.write("talk.py", `import time
for e in range(1, 13):
    time.sleep(0.2)
    print("Epoch %d/12 loss %.3f" % (e, 1 / e), flush=True)
`), "--cpus", "1")
	if code != run.CodeDone || float64(rec.Outcome.Epochs) != 12 {
		t.Errorf("exit %d, %v epochs, want 12 from the output\n%s", code, rec.Outcome.Epochs, errs)
	}
	code, rec, errs = w.record("--train", w.write("announce.py", `import time
for e in range(1, 5):
    print("Epoch %d/4" % e, flush=True)
    time.sleep(0.3)
`), "--cpus", "1")
	if code != run.CodeDone || float64(rec.Outcome.Epochs) != 4 {
		t.Errorf("exit %d, %v epochs of a job that announces each of its 4: %v\n%s", code, rec.Outcome.Epochs, rec.Warnings, errs)
	}
	code, rec, errs = w.record("--train", w.write("mute.py", "import time\ntime.sleep(1.5)\n"), "--cpus", "1", "--min-throughput", "10")
	if code != run.CodeDone {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if rec.Outcome.Epochs.Known() || rec.Outcome.Throughput.Known() || rec.SLA.Compliance.Known() {
		t.Errorf("epochs %v, throughput %v, compliance %v of a silent job: want null", rec.Outcome.Epochs, rec.Outcome.Throughput, rec.SLA.Compliance)
	}
	if len(rec.SLA.Verdicts) != 1 || rec.SLA.Verdicts[0].Status != "unknown" {
		t.Errorf("verdicts %+v, want unknown", rec.SLA.Verdicts)
	}
}

// TestPreferencesDiffer checks that on a described machine with eight GPUs a job that replays a measured profile gets
// more GPUs for preference time than for cost, through the whole path of probes, restarts, plan and report.
func TestPreferencesDiffer(t *testing.T) {
	t.Parallel()
	needPython(t)
	gpus := map[string]int{}
	// The replay sleeps: on a starved machine short sleeps end so late that the pace is the same with all GPUs.
	for _, speedup := range []string{"12000", "4000", "1300"} {
		for _, prefer := range []string{"time", "cost"} {
			w := newWorld(t)
			code, rec, errs := w.record("--train", example(t, "replay.py"), "--host", example(t, "host-8gpu.yaml"), "--prefer", prefer,
				"--gpu-hour", "2", "--cpu-hour", "0.003", "--gb-hour", "0.0004", "--cpus", "8", "--baseline-ratio", "0.4", "--epochs", "70",
				"--", "--profile", example(t, "replay-bert.json"), "--speedup", speedup)
			if code != run.CodeDone {
				t.Fatalf("%s: exit %d\n%s", prefer, code, errs)
			}
			if rec.Host.Described == "" || len(rec.Warnings) == 0 {
				t.Errorf("%s: a described machine must be marked as such", prefer)
			}
			gpus[prefer] = rec.Plan.Allocation.GPUs
			t.Logf("speed-up %s, %s: %s — %s", speedup, prefer, rec.Plan.Allocation, rec.Plan.Reason)
		}
		if gpus["time"] > gpus["cost"] {
			return
		}
	}
	t.Errorf("%d GPUs for time, %d for cost: want more for time", gpus["time"], gpus["cost"])
}

// TestRefusals checks that every refusal is one line on stderr with the right exit code.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("bad.yaml", "sla:\n  time_maxx: 3\n")
	w.write("ok.py", "print('hello')\n")
	for name, c := range map[string]struct {
		args []string
		code run.Code
		want string
	}{
		"nothing to train":  {[]string{"train"}, 2, "nothing to train"},
		"missing script":    {[]string{"--train", "absent.py"}, 2, "absent.py"},
		"a directory":       {[]string{"--train", "."}, 2, "directory"},
		"unknown flag":      {[]string{"--train", "ok.py", "--deadlin", "3"}, 2, "--deadline"},
		"unknown command":   {[]string{"trian"}, 2, "trian"},
		"bad duration":      {[]string{"--train", "ok.py", "--deadline", "soon"}, 2, "--deadline"},
		"negative budget":   {[]string{"--train", "ok.py", "--budget", "-1"}, 2, "budget"},
		"NaN budget":        {[]string{"--train", "ok.py", "--budget", "NaN"}, 2, "budget"},
		"bad preference":    {[]string{"--train", "ok.py", "--prefer", "speed"}, 2, "speed"},
		"unknown key":       {[]string{"--train", "ok.py", "--config", filepath.Join(w.dir, "bad.yaml")}, 2, "sla.time_max"},
		"missing config":    {[]string{"--train", "ok.py", "--config", "absent.yaml"}, 2, "absent.yaml"},
		"too many CPUs":     {[]string{"--train", "ok.py", "--cpus", "1:4096"}, 2, "4096"},
		"zero CPUs":         {[]string{"--train", "ok.py", "--cpus", "0"}, 2, "CPUs"},
		"host without dry":  {[]string{"--train", "ok.py", "--host", "aws:p4d.24xlarge"}, 2, "--dry-run"},
		"unknown instance":  {[]string{"--train", "ok.py", "--instance", "aws:p4d.24xlrge"}, 2, "p4d.24xlarge"},
		"unknown planner":   {[]string{"--train", "ok.py", "--planner", "oracle"}, 2, "oracle"},
		"unknown run":       {[]string{"report", "nosuchrun"}, 2, "nosuchrun"},
		"unknown format":    {[]string{"report", "--format", "pdf"}, 2, ""},
		"older flag, wrong": {[]string{"--train", "ok.py", "--cost_max", "much"}, 2, "--budget"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := w.run(c.args...)
			if code != c.code || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("exit %d, stdout %q, stderr %q: want exit %d and a line with %q", code, out, errs, c.code, c.want)
			}
			if strings.Count(strings.TrimSpace(errs), "\n") != 0 || strings.Contains(errs, "goroutine") {
				t.Errorf("stderr is not one line: %q", errs)
			}
		})
	}
	if entries, _ := journal.List(w.state()); len(entries) != 0 {
		t.Errorf("%d runs were left by refusals", len(entries))
	}
}

// TestInfeasibleFromHistory checks that limits which earlier runs show to be infeasible are refused before the start,
// with the nearest feasible values.
func TestInfeasibleFromHistory(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("count.py", counting)
	args := []string{"--train", script, "--epochs", "40", "--cpus", "1", "--cpu-hour", "3.6", "--gb-hour", "0"}
	code, first, errs := w.record(args...)
	if code != run.CodeDone {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	code, _, errs = w.run(append(args, "--budget", "0.0005")...)
	if code != run.CodeInfeasible || !strings.Contains(errs, "$0.00") {
		t.Errorf("exit %d, want 6 with what would be feasible: %s", code, errs)
	}
	code, rec, errs := w.record(append(args, "--dry-run")...)
	if code != run.CodeDone || rec.State != journal.Planned || rec.Plan == nil || rec.Plan.Prediction == nil {
		t.Fatalf("dry run: exit %d, %+v\n%s", code, rec.Plan, errs)
	}
	// 40 epochs of 0.1 s on a machine that may stall: compare with the measured time.
	if p, took := rec.Plan.Prediction.Seconds, float64(first.Outcome.ActiveSeconds); took < 4 || float64(p.P5) > 1.15*took || float64(p.P95) < 0.97*min(took, 4.2) {
		t.Errorf("predicted %+v for what took %.2f s", p, took)
	}
}

// TestPrecedence checks the order flag > environment > file > default.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ok.py", "print('hello')\n")
	file := w.write("c.yaml", "sla:\n  cost_max: 1\n  time_max: 100\n  throughput_min: 7\n")
	w.environ = append(w.environ, "OPTIMIZE_SLA_COST_MAX=2", "OPTIMIZE_SLA_TIME_MAX=200", "OPTIMIZE_OBSERVE=off", "OPTIMIZE_OBSERVE_DIR=/tmp")
	_, rec, _ := w.record("--train", "ok.py", "--config", file, "--budget", "3", "--dry-run")
	if rec.SLA.CostMaxUSD != 3 || rec.SLA.TimeMax != 200*time.Second || rec.SLA.ThroughputMin != 7 {
		t.Errorf("budget %v, deadline %v, throughput %v: want 3 (flag), 200 (environment), 7 (file)", rec.SLA.CostMaxUSD, rec.SLA.TimeMax, rec.SLA.ThroughputMin)
	}
	w.environ = append(w.environ, "OPTIMIZE_SLA_TIMEMAX=3")
	if code, _, errs := w.run("--train", "ok.py", "--dry-run"); code != run.CodeUsage || !strings.Contains(errs, "OPTIMIZE_SLA_TIME_MAX") {
		t.Errorf("exit %d for an unknown variable: %s", code, errs)
	}
}

func TestExplainLength(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		script string
		args   []string
		want   string
	}{
		"argument": {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs', type=int, default=12)\na = p.parse_args()\nfor e in range(a.epochs):\n    pass\n",
			[]string{"--", "--epochs", "5"}, "5 epochs (--epochs 5 on the command line)"},
		"default": {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs', type=int, default=12)\na = p.parse_args()\nfor e in range(a.epochs):\n    pass\n",
			nil, "12 epochs (default of --epochs in line 3)"},
		"user":    {"pass\n", []string{"--steps", "40"}, "40 steps (--steps)"},
		"many":    {"pass\n", []string{"--steps", "1048576"}, "1048576 steps (--steps)"},
		"unknown": {"pass\n", nil, "unknown before the run"},
	} {
		w.write("length.py", c.script)
		code, out, errs := w.run(append([]string{"--train", "length.py", "--dry-run", "--explain"}, c.args...)...)
		if code != run.CodeDone || !strings.Contains(out, "length           "+c.want) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
}

// TestExplainSaves: a script that saves, and loads nothing, is not said to resume by the line that saves.
func TestExplainSaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("saves.py", "import torch\nw = torch.load('pretrained.pt')\nfor e in range(3):\n    torch.save({'epoch': e}, 'c.pt')\n")
	code, out, errs := w.run("--train", "saves.py", "--dry-run", "--explain")
	if code != run.CodeDone || !strings.Contains(out, "saves            line 4: torch.save(") || strings.Contains(out, "\nresume") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestStopWaitsForTheCheckpoint: SIGTERM follows a file named as a checkpoint that the training is writing.
func TestStopWaitsForTheCheckpoint(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("slow_writer.py", `
import os, time
with open("checkpoint.bin", "wb", 0) as f:
    while not os.path.exists("stopping"):
        f.write(b"0")
        time.sleep(0.05)
    f.write(b"end")
while True:
    time.sleep(0.1)
`)
	agent := w.agent("--train", script, "--grace", "10m", "--quiet")
	dir := w.latest("writing", func(string, *journal.Record) bool {
		_, err := os.Stat(filepath.Join(w.dir, "checkpoint.bin"))
		return err == nil
	})
	agent.Process.Signal(os.Interrupt)
	w.await("the stop", func() bool {
		state, _ := os.ReadFile(filepath.Join(dir, "state"))
		return strings.Contains(strings.ReplaceAll(string(state), " ", ""), `"why":"user"`)
	})
	w.write("stopping", "")
	agent.Wait()
	if data, err := os.ReadFile(filepath.Join(w.dir, "checkpoint.bin")); err != nil || !strings.HasSuffix(string(data), "end") {
		t.Errorf("the checkpoint ends with %q (%v), want the end", data[max(0, len(data)-3):], err)
	}
}
