package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/internal/lab"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/run"
)

// TestClusterServerSilentForThreeRounds kills the server for three rounds: the jobs save and leave at the end of their
// leases, the next server continues them, and the report contains what the outage cost.
func TestClusterServerSilentForThreeRounds(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "waits for three rounds")
	const round = 4 * time.Second
	w := newWorld(t)
	w.write("paced.py", lab.Paced)
	server := w.served("--policy", "srtf", "--round", round.String(), "--devices", "fast=1,slow=1")
	epochs := []int{90, 60, 30}
	for _, n := range epochs {
		w.run("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(n), "--", "0.2")
	}
	kept := func() (n int) {
		for _, j := range w.clusterJobs() {
			if j.Keeps != nil && *j.Keeps && j.Done >= 3 {
				n++
			}
		}
		return n
	}
	w.await("progress of two jobs", func() bool { return kept() >= 2 })
	server.Process.Kill()
	server.Wait()
	killed := time.Now()
	left := 0.0 // seconds until all have left
	w.await("the end of the leases", func() bool {
		for _, j := range w.clusterJobs() {
			dir := filepath.Join(w.state(), "runs", j.Run)
			_, runs := os.Stat(filepath.Join(dir, "checkpoint", "alone"))
			_, ended := os.Stat(filepath.Join(dir, "exit.json"))
			if j.Run != "" && (runs == nil || ended != nil) {
				return false
			}
		}
		left = cmp.Or(left, time.Since(killed).Seconds())
		return time.Since(killed) > 3*round
	})
	outage := time.Since(killed).Seconds()
	w.served("--policy", "srtf", "--round", round.String(), "--devices", "fast=1,slow=1")
	w.awaitAll()
	for id, j := range w.clusterJobs() {
		if j.State != cluster.Done || j.Done != float64(epochs[id-1]) {
			t.Errorf("job %d: %s (%s) after %g epochs, want done after %d", id, j.State, j.Reason, j.Done, epochs[id-1])
		}
		w.checkEpochs(filepath.Join(w.state(), "runs", j.Run), epochs[id-1])
	}
	w.checkEvents(len(epochs))
	a := w.audit("--policies", "srtf", "--draws", "2")
	f := a.Faults
	// Both devices were free from when the jobs had left.
	if f.Restarts != 1 || float64(f.UnservedS) < outage || float64(f.UnservedIdleS) < 2*(outage-left) || float64(f.UnservedIdleS) > 2*float64(f.UnservedS) {
		t.Errorf("faults %+v of an outage of %.1f s, both devices free after %.1f s", f, outage, left)
	}
	if f.Relaunches+a.Waste.Lost < 1 {
		t.Errorf("%+v, %d lives ended without a request, want the jobs that left at the end of their leases", f, a.Waste.Lost)
	}
	if _, out, _ := w.run("cluster", "report", "--policies", "srtf", "--draws", "1"); !strings.Contains(out, "restarts of the server") {
		t.Errorf("the report does not contain the restart:\n%s", out)
	}
}

// awaitAll waits until all jobs have ended.
func (w *world) awaitAll() {
	w.t.Helper()
	w.await("the end of all jobs", func() bool {
		for _, j := range w.clusterJobs() {
			if !j.State.Ended() {
				return false
			}
		}
		return true
	})
}

// TestClusterFullDisk fills the disk of the state directory while jobs run and wait. None is lost: those that run go on,
// the others start once there is space, and each unit of work is done once.
func TestClusterFullDisk(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	w := newWorld(t)
	small := filepath.Join(w.dir, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	w.dir = small
	// It survives that a checkpoint cannot be written, and tells each epoch to a file elsewhere.
	w.write("robust.py", `import os, signal, sys, time
dir = os.environ["OPTIMIZER_CHECKPOINT_DIR"]
os.makedirs(dir, exist_ok=True)
ckpt, total = os.path.join(dir, "epoch"), int(os.environ["OPTIMIZER_EPOCHS"])
leave, start, log = [], 0, os.environ["OPTIMIZER_LOG"]
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
for epoch in range(start + 1, total + 1):
    time.sleep(0.2)
    while True:
        try:
            with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
            os.replace(ckpt + ".tmp", ckpt)
            new = not os.path.exists(log)
            with open(log, "a") as f: f.write(("epoch,total_epochs,train_loss\n" if new else "") + "%d,%d,%g\n" % (epoch, total, 1 / epoch))
            break
        except OSError: time.sleep(0.2)
    if leave and epoch < total: sys.exit(75)
`)
	w.served("--policy", "fifo", "--round", "4s", "--devices", "fast=1,slow=1")
	epochs := []int{60, 40, 20}
	for _, n := range epochs {
		if code, _, errs := w.run("cluster", "submit", "--grace", "3m", "--train", "robust.py", "--epochs", fmt.Sprint(n)); code != run.CodeDone {
			t.Fatalf("submit: exit %d\n%s", code, errs)
		}
	}
	w.await("progress", func() bool { jobs := w.clusterJobs(); return jobs[1].Done >= 3 && jobs[2].Done >= 3 })
	fill := filepath.Join(small, "fill")
	full := func() {
		f, err := os.OpenFile(fill, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
	}
	full()
	time.Sleep(6 * time.Second)       // one and a half rounds
	for refused := false; !refused; { // a job may have freed space since it was full: what is submitted then is done too
		full()
		code, _, errs := w.run("cluster", "submit", "--train", "robust.py", "--epochs", "20")
		switch {
		case code == run.CodeDone:
			epochs = append(epochs, 20)
		case !strings.Contains(errs, "no space left"):
			t.Fatalf("submit on a full disk: %q", errs)
		default:
			refused = true
		}
	}
	if n := len(w.clusterJobs()); n != len(epochs) {
		t.Errorf("%d jobs after a failed submission, want %d", n, len(epochs))
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	w.awaitAll()
	for id, j := range w.clusterJobs() {
		if id > len(epochs) {
			continue
		}
		if j.State != cluster.Done || j.Done != float64(epochs[id-1]) {
			t.Errorf("job %d: %s (%s) after %g epochs, want done after %d", id, j.State, j.Reason, j.Done, epochs[id-1])
		}
	}
	events, torn, err := cluster.ReadEvents(w.state(), 0)
	ends := 0
	for _, e := range events {
		if e.Kind == cluster.EventEnd && e.State == cluster.Done {
			ends++
		}
	}
	if err != nil || torn > 0 || ends != len(epochs) {
		t.Errorf("%d ends in the event log, %d torn lines, %v", ends, torn, err)
	}
}

// TestClusterStateRemoved: a server whose state directory is removed exits with an error. The jobs of a new one are not mixed
// up with those of before, and a submission that was killed before its request is admitted.
func TestClusterStateRemoved(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needPython(t)
	w := newWorld(t)
	w.write("paced.py", lab.Paced)
	server := w.served("--policy", "fifo", "--round", "2s", "--slots", "1")
	w.run("cluster", "submit", "--train", "paced.py", "--epochs", "2", "--", "0.1")
	w.awaitAll()
	if err := os.RemoveAll(w.state()); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := server.Wait(); !errors.As(err, &exit) || exit.ExitCode() != int(run.CodeOurs) {
		t.Errorf("the server without its state directory: %v, want exit %d", err, run.CodeOurs)
	}
	w.run("cluster", "submit", "--train", "paced.py", "--epochs", "2", "--", "0.1")
	spool, err := filepath.Glob(filepath.Join(w.state(), "cluster", "spool", "*.json"))
	if err != nil || len(spool) != 1 || os.Remove(spool[0]) != nil {
		t.Fatalf("requests %v, %v", spool, err)
	}
	w.served("--policy", "fifo", "--round", "2s", "--slots", "1")
	if code, _, errs := w.run("cluster", "submit", "--train", "paced.py", "--epochs", "2", "--", "0.1"); code != run.CodeDone {
		t.Fatalf("submit: exit %d\n%s", code, errs)
	}
	w.awaitAll()
	if jobs := w.clusterJobs(); len(jobs) != 2 || jobs[1].State != cluster.Done || jobs[2].State != cluster.Done {
		t.Errorf("jobs %+v, want two that are done", jobs)
	}
}

// TestClusterDirectoryVanishes: a job whose working directory is removed before it starts fails with a reason, and the next one
// runs. Names of any script are shown as they are.
func TestClusterDirectoryVanishes(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needPython(t)
	w := newWorld(t)
	state := w.state()
	home := w.dir
	w.dir = filepath.Join(home, "gone")
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("обучение 訓練.py", lab.Paced)
	submit := func() {
		if code, _, errs := w.run("cluster", "submit", "--state-dir", state, "--train", "обучение 訓練.py", "--epochs", "2", "--", "0.1"); code != run.CodeDone {
			t.Fatalf("submit: exit %d\n%s", code, errs)
		}
	}
	submit()
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	w.dir = home
	w.write("обучение 訓練.py", lab.Paced)
	submit()
	w.served("--policy", "fifo", "--round", "2s", "--slots", "1", "--state-dir", state)
	w.awaitAll()
	jobs := w.clusterJobs()
	if j := jobs[1]; j.State != cluster.Failed || !strings.Contains(j.Reason, "gone") {
		t.Errorf("the job without its directory: %s (%s)", j.State, j.Reason)
	}
	if j := jobs[2]; j.State != cluster.Done {
		t.Errorf("the next job: %s (%s)", j.State, j.Reason)
	}
	if _, out, _ := w.run("cluster", "jobs"); strings.Count(out, "обучение 訓練") != 2 {
		t.Errorf("jobs:\n%s", out)
	}
}

// TestTrainLeavesRunsOfTheCluster: train with the command of a job of the cluster takes its run over only once the job has ended.
func TestTrainLeavesRunsOfTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("work.sh", "#!/bin/sh\nsleep 2\n")
	dir, _ := w.orphan(false, "--train", "work.sh")
	id, err := cluster.Submit(w.state(), cluster.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []cluster.State{cluster.Waiting, cluster.Cancelled} {
		data, err := json.Marshal(cluster.Job{Schema: 1, ID: id, State: state, Run: filepath.Base(dir)})
		if err == nil {
			err = os.WriteFile(filepath.Join(w.state(), "cluster", "jobs", "1", "job.json"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		code, rec, errs := w.record(append(secondly, "--train", "work.sh")...)
		if new := rec.RunID != filepath.Base(dir); code != run.CodeDone || new != (state == cluster.Waiting) || new != strings.Contains(errs, "cluster cancel 1") {
			t.Errorf("%s: exit %d, run %s, want that of the job, %s, once it has ended\n%s", state, code, rec.RunID, filepath.Base(dir), errs)
		}
	}
}
