package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/internal/lab"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/run"
)

// served starts a server in a process of its own and returns it once it serves.
func (w *world) served(args ...string) *exec.Cmd {
	w.t.Helper()
	server := w.agent(append([]string{"cluster", "serve"}, args...)...)
	w.t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	w.await("a server", func() bool {
		s, alive, err := cluster.ReadServer(w.state())
		return err == nil && alive && s.PID == server.Process.Pid
	})
	return server
}

// await waits until a condition holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			_, out, _ := w.run("cluster", "jobs")
			w.t.Fatalf("%s: not within %v\n%s", what, patience, out)
		}
	}
}

// needTraining skips a test without Python and, for a reason, with -short.
func needTraining(t *testing.T, short string) {
	t.Helper()
	needPython(t)
	if testing.Short() {
		t.Skip(short)
	}
}

// clusterEvents returns the event log of the cluster.
func (w *world) clusterEvents() []cluster.Event {
	w.t.Helper()
	events, _, err := cluster.ReadEvents(w.state(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// clusterJobs returns the jobs by id.
func (w *world) clusterJobs() map[int]cluster.Job {
	w.t.Helper()
	jobs, _, err := cluster.Jobs(w.state())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[int]cluster.Job{}
	for _, j := range jobs {
		out[j.ID] = j
	}
	return out
}

// TestClusterSurvivesItsServer runs five trainings on two devices, kills the server in the middle, and changes the
// policy. No training is lost, and none runs twice at once.
func TestClusterSurvivesItsServer(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needPython(t)
	w := newWorld(t)
	w.write("paced.py", lab.Paced)
	epochs := []int{40, 6, 12, 4, 20}
	submit := func(i int) {
		code, out, errs := w.run("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(epochs[i]), "--", "0.25")
		if code != run.CodeDone || strings.TrimSpace(out) != fmt.Sprint(i+1) {
			t.Fatalf("submit: exit %d, %q, want %d\n%s", code, out, i+1, errs)
		}
	}
	submit(0)
	submit(1) // before the first server runs
	server := w.served("--policy", "srtf", "--round", "4s", "--devices", "fast=1,slow=1")
	if code, _, errs := w.run("cluster", "serve"); code != run.CodeUsage || strings.Contains(errs, "serving") || !strings.Contains(errs, "runs already") {
		t.Errorf("a second server: exit %d, %q", code, errs)
	}
	for i := 2; i < len(epochs); i++ {
		submit(i)
	}
	w.await("progress", func() bool { return w.clusterJobs()[1].Done >= 6 })
	server.Process.Kill()
	server.Wait()
	if code, out, _ := w.run("cluster", "jobs"); code != run.CodeDone || !strings.Contains(out, "no server runs") {
		t.Errorf("jobs without a server: exit %d, %q", code, out)
	}
	w.served("--policy", "tiresias", "--round", "4s", "--devices", "fast=1,slow=1")
	if code, out, errs := w.run("cluster", "policy", "max_min_fairness_perf"); code != run.CodeDone || !strings.Contains(out, "until now tiresias") {
		t.Errorf("policy: exit %d, %q %q", code, out, errs)
	}
	w.await("the end of all jobs", func() bool {
		for _, j := range w.clusterJobs() {
			if !j.State.Ended() {
				return false
			}
		}
		return true
	})
	for id, j := range w.clusterJobs() {
		if j.State != cluster.Done || j.Done != float64(epochs[id-1]) {
			t.Errorf("job %d: %s (%s) after %g epochs, want done after %d", id, j.State, j.Reason, j.Done, epochs[id-1])
		}
		w.checkEpochs(filepath.Join(w.state(), "runs", j.Run), epochs[id-1])
	}
	w.checkEvents(5)
}

// checkEpochs checks that the log of a training contains each epoch once, but for those since the last checkpoint.
func (w *world) checkEpochs(dir string, want int) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "training.csv"))
	if err != nil {
		w.t.Error(err)
		return
	}
	seen := map[string]int{}
	for _, line := range strings.Split(string(data), "\n")[1:] {
		if epoch, _, ok := strings.Cut(line, ","); ok {
			seen[epoch]++
		}
	}
	for e := 1; e <= want; e++ {
		if seen[fmt.Sprint(e)] != 1 {
			w.t.Errorf("%s: epoch %d was trained %d times", filepath.Base(dir), e, seen[fmt.Sprint(e)])
		}
	}
}

// checkEvents checks that the event log tells the whole story: each job was submitted and ended once, and no device had
// two holders.
func (w *world) checkEvents(jobs int) {
	w.t.Helper()
	events, torn, err := cluster.ReadEvents(w.state(), 0)
	if err != nil || torn > 1 {
		w.t.Fatalf("%d torn lines: %v", torn, err)
	}
	count := map[cluster.EventKind]int{}
	holder := map[string]int{}
	for _, e := range events {
		count[e.Kind]++
		switch e.Kind {
		case cluster.EventStart:
			for _, g := range e.Where {
				at := fmt.Sprint(e.Device, g)
				if holder[at] != 0 {
					w.t.Errorf("job %d starts on %s, which job %d holds", e.Job, at, holder[at])
				}
				holder[at] = e.Job
			}
		case cluster.EventLeft:
			for at, job := range holder {
				if job == e.Job {
					delete(holder, at)
				}
			}
		}
	}
	if count[cluster.EventSubmit] != jobs || count[cluster.EventEnd] != jobs || len(holder) > 0 {
		w.t.Errorf("events %v, held at the end %v: want %d jobs submitted and ended", count, holder, jobs)
	}
	if count[cluster.EventRate] == 0 || count[cluster.EventStop] == 0 {
		w.t.Errorf("events %v: no rate was measured, or no job was ever moved", count)
	}
}

// TestClusterDrainSaves checks that jobs can be cancelled, by their runs too, that drain --save stops and saves the
// rest, and that the next server continues.
func TestClusterDrainSaves(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needPython(t)
	w := newWorld(t)
	w.write("paced.py", lab.Paced)
	server := w.served("--slots", "1", "--policy", "fifo", "--round", "30s")
	for range 2 { // neither ends by itself
		w.run("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", "9000", "--", "0.2")
	}
	w.await("progress", func() bool { return w.clusterJobs()[1].Done >= 3 })
	const epochs = 100
	w.run("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(epochs), "--", "0.2")
	w.run("cluster", "cancel", "2")
	w.await("the cancellation", func() bool { return w.clusterJobs()[2].State == cluster.Cancelled })
	if code, _, errs := w.run("runs", "stop", w.clusterJobs()[1].Run); code != run.CodeDone {
		t.Errorf("runs stop of a job: exit %d\n%s", code, errs)
	}
	w.await("the end of the stopped run", func() bool { return w.clusterJobs()[1].State == cluster.Cancelled })
	w.await("progress", func() bool { return w.clusterJobs()[3].Done >= 3 })
	w.run("cluster", "drain", "--save")
	if err := server.Wait(); err != nil {
		t.Errorf("the drained server: %v", err)
	}
	j := w.clusterJobs()[3]
	if j.State != cluster.Waiting || j.Done < 3 {
		t.Fatalf("after drain --save: %s, %g epochs", j.State, j.Done)
	}
	if digits := int64(len(fmt.Sprint(j.Done))); j.CheckpointBytes != digits {
		t.Errorf("a checkpoint of %d bytes, want %d", j.CheckpointBytes, digits)
	}
	w.served("--slots", "1", "--policy", "fifo", "--round", "30s")
	w.await("the end", func() bool { return w.clusterJobs()[3].State.Ended() })
	if j := w.clusterJobs()[3]; j.State != cluster.Done || j.Done != epochs || j.Stretch != 2 {
		t.Errorf("%s (%s), %g epochs, %d stretches: want done, %d, 2", j.State, j.Reason, j.Done, j.Stretch, epochs)
	}
	w.checkEpochs(filepath.Join(w.state(), "runs", j.Run), epochs)
}

// TestClusterDrainBeforeTheFirstSave: a job that is drained before its first checkpoint, and does not come to save within the grace,
// has not failed: the next server begins it again.
func TestClusterDrainBeforeTheFirstSave(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "two servers, one after the other")
	w := newWorld(t)
	w.write("late.py", `import argparse, os, pickle, signal, sys, time
p = argparse.ArgumentParser()
p.add_argument("--resume", default="", metavar="PATH", help="checkpoint to resume from")
a = p.parse_args()
leave = False
def ask(*_):
    global leave
    leave = True
signal.signal(signal.SIGUSR1, ask)
start = 0
if a.resume:
    with open(a.resume, "rb") as f:
        start = pickle.load(f)["epoch"]
first = not os.path.exists("begun")
open("begun", "w").close()
for epoch in range(start, 6):
    if first and epoch == 2:
        time.sleep(600)
    time.sleep(0.2)
    print("epoch %d/6 loss %g" % (epoch + 1, 1 / (epoch + 1)), flush=True)
    if leave:
        with open("ckpt.pkl", "wb") as f:
            pickle.dump({"epoch": epoch + 1}, f)
        sys.exit(75)
`)
	w.run("cluster", "submit", "--grace", "1s", "--resumable", "yes", "--train", "late.py")
	server := w.served("--slots", "1", "--policy", "fifo", "--round", "30s")
	w.await("progress", func() bool {
		j := w.clusterJobs()[1]
		return j.State.Ended() || j.Keeps != nil && *j.Keeps && j.Done >= 2
	})
	w.run("cluster", "drain", "--save")
	if err := server.Wait(); err != nil {
		t.Errorf("the drained server: %v", err)
	}
	before := w.clusterJobs()[1]
	w.served("--slots", "1", "--policy", "fifo", "--round", "30s")
	w.awaitAll()
	j := w.clusterJobs()[1]
	if j.State != cluster.Done || j.Done != 6 || j.Run == before.Run || !(j.EarlierUSD > 0 && j.CostUSD > j.EarlierUSD) {
		t.Errorf("%s (%s), %g epochs, run %s after %s, $%g of which $%g before; want done, 6, another run and both costs", j.State, j.Reason, j.Done, j.Run, before.Run, j.CostUSD, j.EarlierUSD)
	}
}

// TestClusterRemovedSnapshot: a job that begins by loading its own snapshot, which it wrote once, on request, begins again if the
// snapshot is removed while it waits, instead of failing to protect it. With the snapshot it continues.
func TestClusterRemovedSnapshot(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "three servers, one after the other")
	w := newWorld(t)
	w.write("own.py", `import json, os, signal, sys, time
leave = False
def ask(*_):
    global leave
    leave = True
signal.signal(signal.SIGUSR1, ask)
start = 0
if os.path.exists("state.json"):
    start = json.load(open("state.json"))["epoch"]
for epoch in range(start, 100):
    time.sleep(0.2)
    print("epoch %d/100 loss %g" % (epoch + 1, 1 / (epoch + 1)), flush=True)
    if leave:
        json.dump({"epoch": epoch + 1}, open("state.json", "w"))
        sys.exit(75)
`)
	w.run("cluster", "submit", "--grace", "3m", "--resumable", "yes", "--train", "own.py")
	snapshot := filepath.Join(w.dir, "state.json")
	printed := func(text string) int { // by all lives
		out, _ := os.ReadFile(filepath.Join(w.state(), "runs", w.clusterJobs()[1].Run, "job.stdout"))
		return strings.Count(string(out), text)
	}
	for life := range 2 {
		server := w.served("--slots", "1", "--policy", "fifo", "--round", "30s")
		w.await("progress", func() bool {
			j := w.clusterJobs()[1]
			return j.State.Ended() || j.Keeps != nil && *j.Keeps && printed("epoch 3/100 ") == life+1
		})
		w.run("cluster", "drain", "--save")
		if err := server.Wait(); err != nil {
			t.Errorf("the drained server: %v", err)
		}
		if _, err := os.Stat(snapshot); err != nil {
			t.Fatalf("life %d: %v: %+v", life, err, w.clusterJobs()[1])
		}
		if life == 0 {
			os.Remove(snapshot)
		}
	}
	before := w.clusterJobs()[1].Done
	w.served("--slots", "1", "--policy", "fifo", "--round", "30s")
	w.awaitAll()
	j := w.clusterJobs()[1]
	if j.State != cluster.Done || j.Done != 100 || j.Stretch != 3 {
		t.Errorf("%s (%s), %g epochs, %d stretches: want done, 100, 3", j.State, j.Reason, j.Done, j.Stretch)
	}
	if begun, again := printed("epoch 1/100 "), printed(fmt.Sprintf("epoch %g/100 ", before)); begun != 2 || again > 2 {
		t.Errorf("began %d times, and epoch %g was done %d times: want 2, and the third life to continue from there", begun, before, again)
	}
}

// TestClusterLeaseOutlivesItsServer checks that jobs whose server is dead run on for one and a half rounds, and then
// save and stop.
func TestClusterLeaseOutlivesItsServer(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needPython(t)
	w := newWorld(t)
	w.write("paced.py", lab.Paced)
	server := w.served("--slots", "1", "--policy", "fifo", "--round", "2s")
	w.run("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", "400", "--", "0.1")
	w.await("a lease", func() bool {
		j := w.clusterJobs()[1]
		return j.Keeps != nil && *j.Keeps && j.Done >= 25
	})
	dir := filepath.Join(w.state(), "runs", w.clusterJobs()[1].Run)
	server.Process.Signal(syscall.SIGKILL)
	server.Wait()
	at, before := time.Now(), epochOf(t, dir)
	w.await("the end of the lease", func() bool {
		_, err := os.Stat(filepath.Join(dir, "exit.json"))
		return err == nil
	})
	if after := epochOf(t, dir); after <= before {
		t.Errorf("the training stopped with its server, at epoch %d", before)
	}
	t.Logf("the training ended %s after its server", time.Since(at).Round(time.Millisecond))
	w.served("--slots", "1", "--policy", "fifo", "--round", "2s")
	w.await("more progress", func() bool { return epochOf(t, dir) > before+10 })
	w.run("cluster", "cancel", "1")
	w.await("the cancellation", func() bool { return w.clusterJobs()[1].State == cluster.Cancelled })
}

func epochOf(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "checkpoint", "epoch"))
	if err != nil {
		t.Fatal(err)
	}
	var n int
	fmt.Sscan(string(data), &n)
	return n
}

// TestClusterRefusals checks errors, each of which says what to do.
func TestClusterRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("train.py", "print(1)\n")
	for args, want := range map[string]string{
		"policy srtf":                                     "optimize cluster serve",
		"drain":                                           "optimize cluster serve",
		"cancel 3":                                        "optimize cluster jobs",
		"serve --policy srt":                              "nearest known is srtf",
		"serve --pairs none.csv":                          "none.csv",
		"serve --pairs train.py":                          "read samples",
		"serve --pairs=":                                  "--pairs",
		"serve --policy srtf_paked":                       "nearest known is srtf_packed",
		"serve --round 5ms":                               "at least 1s",
		"serve --devices a100":                            "TYPE=N",
		"serve --devices a=1,a=2":                         "twice",
		"serve --devices a=1@0":                           "above 0",
		"serve --slots 0":                                 "at least 1",
		"serve --slots 2 --devices a=1":                   "cannot be combined",
		"serve --engine k8s":                              "local or slurm",
		"serve --engine-arg=-p":                           "requires --engine slurm",
		"submit":                                          "nothing to train",
		"submit --train none.py":                          "none.py",
		"submit --train train.py more":                    "follow --",
		"submit --train train.py --weight 0":              "above 0",
		"submit --train train.py --weight 1e6":            "below 1e6",
		"submit --train train.py --gpus 0":                "at least one device",
		"submit --train train.py --gpus 0 --cpus 0":       "--cpus 0",
		"submit --train train.py --gpus 3:1":              "--gpus",
		"submit --train train.py --deadline tuesday":      "deadline",
		"submit --train train.py --memory 4:2":            "--memory",
		"submit --train train.py --epochs 0":              "--epochs 0",
		"submit --train train.py --steps 0":               "--steps 0",
		"submit --train train.py --max-restarts -2":       "--max-restarts -2",
		"submit --train train.py --user a\x1bb":           "control characters",
		"submit --train train.py --state-dir /dev/null/x": "submit job: mkdir",
		"submit --planner morl train.py":                  "unknown flag",
		"sbumit train.py":                                 "submit",
	} {
		code, out, errs := w.run(append([]string{"cluster"}, strings.Fields(args)...)...)
		if code == run.CodeDone || !strings.Contains(errs, want) {
			t.Errorf("cluster %s: exit %d, %q %q, want an error with %q", args, code, out, errs, want)
		}
	}
	code, out, _ := w.run("cluster", "jobs")
	if code != run.CodeDone || !strings.Contains(out, "no jobs") {
		t.Errorf("jobs of nothing: exit %d, %q", code, out)
	}
	var doc struct {
		Jobs   []any `json:"jobs"`
		Served bool  `json:"served"`
	}
	if _, out, _ := w.run("cluster", "jobs", "--json"); json.Unmarshal([]byte(out), &doc) != nil || doc.Jobs == nil || doc.Served {
		t.Errorf("jobs --json of nothing: %q", out)
	}
}

// TestClusterSubmitFindsPrograms: interpreter and program of a job are those on the PATH of submit, whatever that of the server is.
func TestClusterSubmitFindsPrograms(t *testing.T) {
	w := newWorld(t)
	w.write("train.py", "print(1)\n")
	bin := filepath.Dir(w.write("python3", "#!/bin/sh\n"))
	w.write("launcher", "#!/bin/sh\n")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, args := range [][]string{{"train.py"}, {"--", "launcher", "train.py"}} {
		if code, _, errs := w.run(append([]string{"cluster", "submit"}, args...)...); code != run.CodeDone {
			t.Fatalf("submit %q: exit %d, %s", args, code, errs)
		}
	}
	_, specs, err := cluster.Jobs(w.state())
	if err != nil || len(specs) != 2 {
		t.Fatalf("%d jobs, %v", len(specs), err)
	}
	script, command := specs[0].Config, specs[1].Config
	if script.Python != filepath.Join(bin, "python3") || command.Args[0] != filepath.Join(bin, "launcher") {
		t.Errorf("interpreter %q, program %q, want those of %s", script.Python, command.Args[0], bin)
	}
}

// TestClusterSubmitStatesResumption: a submission names the flags by which to state that a script loads a checkpoint, unless that is
// known, or was stated.
func TestClusterSubmitStatesResumption(t *testing.T) {
	needPython(t)
	w := newWorld(t)
	w.write("fresh.py", "for epoch in range(9):\n    print('epoch', epoch)\n")
	w.write("saved.py", "import os, pickle\nepoch = 0\nif os.path.exists('c.pkl'):\n    epoch = pickle.load(open('c.pkl', 'rb'))['epoch']\nfor epoch in range(epoch, 9):\n    pickle.dump({'epoch': epoch}, open('c.pkl', 'wb'))\n")
	for args, want := range map[string]bool{"fresh.py": true, "-- python3 fresh.py": true, "fresh.py --resumable yes": false, "fresh.py --resumable no": false, "fresh.py --knob resume=--from={path}": false, "saved.py": false} {
		code, _, errs := w.run(append([]string{"cluster", "submit"}, strings.Fields(args)...)...)
		if code != run.CodeDone || strings.Contains(errs, "--resumable yes") != want {
			t.Errorf("%s: exit %d, %q; want the flags: %v", args, code, errs, want)
		}
	}
}

// TestClusterDamagedServerFile: jobs are listed and cancelled although the description of the last server is damaged.
func TestClusterDamagedServerFile(t *testing.T) {
	needPython(t)
	w := newWorld(t)
	w.write("train.py", "print(1)\n")
	w.run("cluster", "submit", "train.py")
	if err := os.WriteFile(filepath.Join(w.state(), "cluster", "server.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := w.run("cluster", "jobs"); code != run.CodeDone || !strings.Contains(out, "waiting") || !strings.Contains(errs, "server.json") {
		t.Errorf("jobs: exit %d, %q, %q", code, out, errs)
	}
	if code, _, errs := w.run("cluster", "cancel", "1"); code != run.CodeDone {
		t.Errorf("cancel: exit %d, %q", code, errs)
	}
}

// TestClusterOtherDevices: the next server has other devices. Jobs on devices that no longer exist are adopted: those that
// keep their work move, the others run to their end. A job that needs more devices is left out, a new one refused.
func TestClusterOtherDevices(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needPython(t)
	w := newWorld(t)
	w.write("paced.py", lab.Paced)
	w.write("lossy.py", "import time\nfor e in range(1, 61):\n    time.sleep(0.2)\n    print('epoch %d/60 loss %g' % (e, 1 / e), flush=True)\n")
	server := w.served("--policy", "fifo", "--round", "30s", "--devices", "fast=2,slow=1")
	if code, _, errs := w.run("cluster", "submit", "--train", "paced.py", "--gpus", "3"); code != run.CodeUsage || !strings.Contains(errs, "no device type has 3 devices") {
		t.Errorf("submit of too large a job: exit %d, %q", code, errs)
	}
	w.run("cluster", "submit", "--train", "lossy.py", "--epochs", "60")
	w.run("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", "150", "--", "0.2")
	w.await("progress", func() bool {
		jobs := w.clusterJobs()
		return jobs[1].Keeps != nil && !*jobs[1].Keeps && jobs[2].Keeps != nil && *jobs[2].Keeps && jobs[2].Done >= 3
	})
	w.run("cluster", "submit", "--train", "paced.py", "--gpus", "2", "--epochs", "3", "--", "0.1")
	server.Process.Kill()
	server.Wait()
	next := w.served("--policy", "fifo", "--round", "30s", "--devices", "other=1")
	w.await("the end of both jobs", func() bool { return w.clusterJobs()[1].State.Ended() && w.clusterJobs()[2].State.Ended() })
	w.run("cluster", "drain")
	if err := next.Wait(); err != nil {
		t.Errorf("the drained server: %v", err)
	}
	jobs := w.clusterJobs()
	if j := jobs[1]; j.State != cluster.Done || j.Done != 60 || j.Stretch != 1 {
		t.Errorf("the job that keeps no work: %s (%s), %g epochs, %d lives; want done, 60, 1", j.State, j.Reason, j.Done, j.Stretch)
	}
	if j := jobs[2]; j.State != cluster.Done || j.Done != 150 || j.Device != "other" {
		t.Errorf("the job that keeps its work: %s (%s), %g epochs on %s; want done, 150, on other", j.State, j.Reason, j.Done, j.Device)
	}
}

// TestClusterSlotsHaveOwnCPUs checks that jobs which start at the same time do not choose the same CPU: a slot has its own.
func TestClusterSlotsHaveOwnCPUs(t *testing.T) {
	t.Parallel()
	needTraining(t, "runs trainings")
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	w := newWorld(t)
	w.write("where.py", "import os, sys\nopen(sys.argv[1], 'w').write(str(sorted(os.sched_getaffinity(0))))\n")
	for i := range 2 * len(cpus) {
		if code, _, errs := w.run("cluster", "submit", "--train", "where.py", "--", fmt.Sprint("cpus-", i+1)); code != run.CodeDone {
			t.Fatalf("submit: exit %d\n%s", code, errs)
		}
	}
	w.served("--policy", "fifo", "--slots", fmt.Sprint(len(cpus)))
	w.await("all jobs", func() bool {
		for _, j := range w.clusterJobs() {
			if j.State != cluster.Done {
				return false
			}
		}
		return true
	})
	for _, e := range w.clusterEvents() {
		if e.Kind != cluster.EventStart {
			continue
		}
		got, err := os.ReadFile(filepath.Join(w.dir, fmt.Sprint("cpus-", e.Job)))
		if want := fmt.Sprint([]int{cpus[e.Where[0]]}); err != nil || string(got) != want {
			t.Errorf("job %d on slot %d runs on the CPUs %s, want %s (%v)", e.Job, e.Where[0], got, want, err)
		}
	}
}

// TestClusterSubmitExitCodes: submit --wait exits with the code of the run that ended the job, as train would, also if the run was
// refused at its start.
func TestClusterSubmitExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	needPython(t)
	w.write("paced.py", lab.Paced)
	w.write("fail.py", "raise SystemExit(3)\n")
	w.served("--policy", "fifo", "--round", "4s", "--devices", "fast=1")
	for _, c := range []struct {
		args string
		want run.Code
	}{
		{"--train paced.py --epochs 6 -- 0.1", run.CodeDone},
		{"--train paced.py --epochs 6 --budget 0.0000001 -- 0.1", run.CodeInfeasible}, // by what the first one measured
		{"--train fail.py", run.CodeTraining},
		{"--train fail.py --gpus 2", run.CodeUsage},
	} {
		code, _, errs := w.run(append([]string{"cluster", "submit", "--wait"}, strings.Fields(c.args)...)...)
		if code != c.want {
			t.Errorf("submit %s: exit %d, want %d\n%s", c.args, code, c.want, errs)
		}
	}
	if j := w.clusterJobs()[2]; j.ExitCode == nil || *j.ExitCode != int(run.CodeInfeasible) || strings.Contains(j.Reason, "--yes") {
		t.Errorf("exit code %v in the record of the refused job, %q: submit has no --yes", j.ExitCode, j.Reason)
	}
}
