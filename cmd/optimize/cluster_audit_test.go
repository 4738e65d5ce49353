package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/run"
	"trainopt/simulator/replay"
)

// auditedTraining is a training whose epochs are paced by the clock: a little real work, then a sleep to the time that
// its device type takes. The kinds, by the name of the script, differ in how much they gain from faster types.
const auditedTraining = `import os, signal, sys, time
dir = os.environ["OPTIMIZER_CHECKPOINT_DIR"]
os.makedirs(dir, exist_ok=True)
ckpt = os.path.join(dir, "epoch")
total = int(os.environ["OPTIMIZER_EPOCHS"])
pace = {"dense": {"a100": .1, "v100": .2, "p100": .3, "k80": .5}, "sparse": {"a100": .2, "v100": .25, "p100": .3, "k80": .4}}
pace = pace[os.path.basename(sys.argv[0])[:-3]][os.environ["OPTIMIZER_DEVICE"]]
leave = []
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
start = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
log = os.environ["OPTIMIZER_LOG"]
if not os.path.exists(log):
    open(log, "w").write("epoch,total_epochs,train_loss\n")
due = time.monotonic()
for epoch in range(start + 1, total + 1):
    sum(i * i for i in range(1000))
    due += pace
    time.sleep(max(0, due - time.monotonic()))
    with open(log, "a") as f: f.write("%d,%d,%g\n" % (epoch, total, 1 / epoch))
    with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
    os.replace(ckpt + ".tmp", ckpt)
    if leave and epoch < total:
        sys.exit(75)
`

// auditedDay is a day of a cluster: jobs by their epochs, submitted at intervals.
type auditedDay struct {
	devices, round string
	epochs         []int
	every          time.Duration
	draws          int
}

// live runs the day under a policy and returns its audit. The days of several policies at the same time are staggered within
// the interval of the submissions: the starts of one would slow those of the others, of which its event log contains nothing.
func (d auditedDay) live(t *testing.T, policy string, policies []string) *replay.Audit {
	t.Helper()
	w := newWorld(t)
	w.write("dense.py", auditedTraining)
	w.write("sparse.py", auditedTraining)
	begin := time.Now().Add(d.every * time.Duration(slices.Index(policies, policy)) / time.Duration(len(policies)))
	time.Sleep(time.Until(begin))
	server := w.served("--policy", policy, "--round", d.round, "--devices", d.devices)
	begin = time.Now()
	for i, epochs := range d.epochs {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * d.every)))
		script := []string{"dense.py", "sparse.py"}[i%2]
		if code, _, errs := w.run("cluster", "submit", "--train", script, "--epochs", fmt.Sprint(epochs)); code != run.CodeDone {
			t.Fatalf("submit: exit %d\n%s", code, errs)
		}
	}
	w.run("cluster", "drain")
	done := make(chan error, 1)
	go func() { done <- server.Wait() }()
	select {
	case <-done:
	case <-time.After(30 * time.Minute):
		_, out, _ := w.run("cluster", "jobs")
		t.Fatalf("the day does not end:\n%s", out)
	}
	w.keepEvents(policy)
	return w.audit("--policies", strings.Join(policies, ","), "--draws", fmt.Sprint(d.draws))
}

// keepEvents copies the event log of a day into the directory that TRAINOPT_FIDELITY names, if it is a path: "cluster report
// DIRECTORY/POLICY" audits it again.
func (w *world) keepEvents(policy string) {
	w.t.Helper()
	to := os.Getenv("TRAINOPT_FIDELITY")
	if !filepath.IsAbs(to) {
		return
	}
	to = filepath.Join(to, policy, "cluster")
	events, err := os.ReadFile(filepath.Join(w.state(), "cluster", "events.jsonl"))
	if err := errors.Join(err, os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, "events.jsonl"), events, 0o600)); err != nil {
		w.t.Error(err)
	}
}

// audit returns the report of the cluster.
func (w *world) audit(args ...string) *replay.Audit {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"cluster", "report", "--json"}, args...)...)
	if code != run.CodeDone {
		w.t.Fatalf("cluster report: exit %d\n%s", code, errs)
	}
	a := &replay.Audit{}
	if err := json.Unmarshal([]byte(out), a); err != nil {
		w.t.Fatalf("cluster report: %v\n%s", err, out)
	}
	return a
}

// TestClusterAudit audits a short day of two policies side by side. Busy machines delay starts, which the audit
// measures: what they change beyond that is bounded generously. TestClusterFidelity has the real bounds.
func TestClusterAudit(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	day := auditedDay{devices: "a100=1@1,k80=1@0.25", round: "5s", epochs: []int{40, 30, 50, 20, 30}, every: time.Second, draws: 3}
	for _, policy := range []string{"fifo_perf", "srtf"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			a := day.live(t, policy, []string{"fifo_perf", "srtf"})
			if a.Compared != len(day.epochs) || len(a.Others) != 2 || len(a.Jobs) != len(day.epochs) {
				t.Fatalf("%d of %d jobs compared, %d policies, %d jobs", a.Compared, len(day.epochs), len(a.Others), len(a.Jobs))
			}
			if off := float64(a.Simulated.MeanJCTS / a.Live.MeanJCTS); !(off > 0.2 && off < 5) {
				t.Errorf("simulated mean completion time %g of the live one", off)
			}
			for _, o := range a.Others {
				if o.Failed != "" || !(o.MeanJCTS.Lo <= o.MeanJCTS.Hi && o.MeanJCTS.Value > 0) || o.InForce != (o.Policy == policy) {
					t.Errorf("%+v", o)
				}
			}
			if a.Waste.HeldS == 0 || a.Waste.StartingS == 0 {
				t.Errorf("waste %+v", a.Waste)
			}
		})
	}
}

// TestClusterFidelity is the claim of the audit: of 20 jobs on four device types, the live mean completion time is
// within 5 % of the simulation under each of six policies, and from the day of any policy the others are predicted
// so that the live mean is within 5 % of the 90 % interval of single simulated days. It takes some six minutes: TRAINOPT_FIDELITY=1,
// or a directory for the event logs, and -parallel 6.
func TestClusterFidelity(t *testing.T) {
	needPython(t)
	if os.Getenv("TRAINOPT_FIDELITY") == "" {
		t.Skip("TRAINOPT_FIDELITY is not set")
	}
	needParallel(t, 6)
	day := auditedDay{devices: "a100=1@1,v100=1@0.5,p100=1@0.33,k80=2@0.2", round: "20s", every: 6 * time.Second, draws: 20,
		epochs: []int{300, 250, 150, 400, 120, 350, 260, 180, 420, 200, 140, 330, 240, 160, 380, 110, 290, 220, 310, 130}}
	policies := []string{"fifo_perf", "srtf", "max_min_fairness_perf", "isolated", "tiresias", "themis"}
	audits := make([]*replay.Audit, len(policies))
	t.Run("days", func(t *testing.T) {
		for i, policy := range policies {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				audits[i] = day.live(t, policy, policies)
			})
		}
	})
	for i, a := range audits {
		if a == nil {
			t.Fatalf("%s: no day", policies[i])
		}
		for _, j := range a.Jobs {
			if j.State != string(cluster.Done) {
				t.Errorf("%s: job %d: %s", policies[i], j.ID, j.State)
			}
		}
		off := float64(a.Simulated.MeanJCTS/a.Live.MeanJCTS) - 1
		t.Logf("%-22s live %6.1f s, simulated %6.1f s (%+.1f %%), median job %.1f %%, moves %g and %.1f", policies[i], float64(a.Live.MeanJCTS), float64(a.Simulated.MeanJCTS), 100*off,
			100*float64(a.MedianError), float64(a.Live.Moves), float64(a.Simulated.Moves))
		// Policies that order jobs by learned rates decide otherwise after the least difference: their means hold, single
		// jobs do not.
		bound := map[string]float64{"isolated": 0.1, "fifo_perf": 0.1, "tiresias": 0.1}[policies[i]]
		if math.Abs(off) > 0.05 || bound > 0 && float64(a.MedianError) > bound {
			t.Errorf("%s: simulated mean off by %+.1f %%, the median job by %.1f %%", policies[i], 100*off, 100*float64(a.MedianError))
		}
	}
	for i, a := range audits {
		for _, o := range a.Others {
			k := slices.Index(policies, o.Policy)
			live := audits[k].Live.MeanJCTS
			off := float64(o.MeanJCTS.Value/live) - 1
			t.Logf("from the day of %-22s %-22s %+.1f %%, single days %.1f to %.1f s, live %.1f s", policies[i], o.Policy, 100*off, float64(o.OneDay.Lo), float64(o.OneDay.Hi), float64(live))
			if live < 0.95*o.OneDay.Lo || live > 1.05*o.OneDay.Hi {
				t.Errorf("from the day of %s, %s is predicted %+.1f %% off", policies[i], o.Policy, 100*off)
			}
		}
	}
}

// needParallel fails unless n days run at the same time: those of other times have other loads of the machine, which no day
// predicts.
func needParallel(t *testing.T, n int) {
	t.Helper()
	if v, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err != nil || v < n {
		t.Fatalf("-parallel %d is required", n)
	}
}

// wastefulTraining uses the first of its devices and writes the activity of all. From halfway on it is slow until the file exists
// that its second argument names: the machine may be too slow to see before its end what it does not use.
const wastefulTraining = `import os, sys, time
from optimize_lease import Lease
dir = os.environ["OPTIMIZER_CHECKPOINT_DIR"]
os.makedirs(dir, exist_ok=True)
path = os.path.join(dir, "state")
total, devices = int(sys.argv[1]), os.environ["OPTIMIZER_DEVICES"].split(",")

def load():
    return int(open(path).read()) if os.path.exists(path) else None

def save(step):
    with open(path + ".new", "w") as f: f.write(str(step))
    os.replace(path + ".new", path)

lease = Lease(range(total))
step, due, written = lease.load(load) or 0, time.monotonic(), 0
while step < total and not lease.ended:
    for _ in lease:
        if step >= total // 2 and not os.path.exists(sys.argv[2]):
            time.sleep(1)
            due = time.monotonic()
        due += 0.1
        time.sleep(max(0, due - time.monotonic()))
        step += 1
        if time.monotonic() > written + 1:
            written = time.monotonic()
            for i, d in enumerate(devices):
                temporary = os.path.join(dir, "activity")
                with open(temporary, "w") as f: f.write("0" if i else "90")
                os.replace(temporary, os.path.join(os.environ["OPTIMIZER_DEVICE_ACTIVITY"], d))
        if step >= total:
            break
lease.save(save, step)
if step < total:
    lease.leave()
lease.complete()
`

// TestClusterReturnsUnusedDevices runs jobs that hold four devices each and use one: they continue on one, the others
// start earlier, and the report contains what that gave.
func TestClusterReturnsUnusedDevices(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for a minute")
	jobs, steps, fidelity := 4, 300, os.Getenv("TRAINOPT_FIDELITY") != ""
	if fidelity {
		jobs, steps = 12, 600
	}
	w := wastefulDay(t, jobs, steps, true)
	for id, j := range w.clusterJobs() {
		if k := j.Shrink; k != nil && (k.From != 4 || k.To != 1) {
			t.Errorf("job %d: %+v, want 1 of 4 devices", id, k)
		}
	}
	a := w.audit("--policies", "fifo", "--draws", "3")
	if a.Returned == nil || a.Returned.Shrinks < 1 || !(a.Returned.PredictedS > 0) || !(a.Returned.WithoutS > 0) || !(a.Returned.Change.Lo <= a.Returned.Change.Value && a.Returned.Change.Value <= a.Returned.Change.Hi) { // what it gave depends on the load of the machine
		t.Fatalf("returned %+v", a.Returned)
	}
	t.Logf("%d jobs: %+.1f %% by the return of devices, simulated; live mean %.1f s, simulated %.1f s, without %.1f s", jobs, 100*float64(a.Returned.Change.Value),
		float64(a.Live.MeanJCTS), float64(a.Simulated.MeanJCTS), float64(a.Returned.WithoutS))
	if !fidelity {
		return
	}
	// What was gained live against what the simulator predicts, in points.
	without := wastefulDay(t, jobs, steps, false).audit("--policies", "fifo", "--draws", "3")
	live := float64(a.Live.MeanJCTS/without.Live.MeanJCTS) - 1
	t.Logf("live %.1f s without, %.1f s simulated: %+.1f %% live", float64(without.Live.MeanJCTS), float64(a.Returned.WithoutS), 100*live)
	if math.Abs(live-float64(a.Returned.Change.Value)) > 0.05 {
		t.Errorf("%+.1f %% live, %+.1f %% simulated", 100*live, 100*float64(a.Returned.Change.Value))
	}
}

// wastefulDay runs jobs that hold four of eight devices each and use one.
func wastefulDay(t *testing.T, jobs, steps int, shrink bool) *world {
	w := newWorld(t)
	w.write("train.py", wastefulTraining)
	w.write("optimize_lease.py", string(observe.Python()))
	if !shrink {
		w.write("reduced", "") // they are slow without it
	}
	activity := filepath.Join(w.dir, "activity")
	if err := os.Mkdir(activity, 0o700); err != nil {
		t.Fatal(err)
	}
	w.environ = append(w.environ, "OPTIMIZER_DEVICE_ACTIVITY="+activity)
	w.served("--policy", "fifo", "--round", "10s", "--devices", "a100=8@1", fmt.Sprintf("--shrink=%t", shrink))
	for range jobs {
		w.run("cluster", "submit", "--train", "train.py", "--gpus", "4", "--steps", fmt.Sprint(steps), "--", fmt.Sprint(steps), filepath.Join(w.dir, "reduced"))
	}
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		ended := 0
		for _, j := range w.clusterJobs() {
			if j.State.Ended() {
				ended++
			}
			if j.Shrink != nil {
				w.write("reduced", "")
			}
		}
		if ended == jobs {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d jobs have ended", ended, jobs)
		}
	}
	for id, j := range w.clusterJobs() {
		if j.State != cluster.Done {
			t.Errorf("job %d: %s (%s)", id, j.State, j.Reason)
		}
		if text, _ := os.ReadFile(filepath.Join(w.state(), "runs", j.Run, "checkpoint", "state")); string(text) != fmt.Sprint(steps) {
			t.Errorf("job %d: %q steps done, want %d", id, text, steps)
		}
	}
	return w
}

// TestClusterReportRefuses checks errors of the report.
func TestClusterReportRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for args, want := range map[string]string{
		"report":                     "no cluster was served",
		"report nowhere":             "nowhere",
		"report a b":                 "arg",
		"report --draws 0":           "1 to 1000",
		"report --policies srt":      "nearest known is srtf",
		"report --format xml":        "unknown",
		"report --policies srtf,fif": "fif",
		"report --policies gandivo":  "nearest known is gandiva",
	} {
		code, out, errs := w.run(append([]string{"cluster"}, strings.Fields(args)...)...)
		if code == run.CodeDone || !strings.Contains(errs, want) {
			t.Errorf("cluster %s: exit %d, %q %q, want an error with %q", args, code, out, errs, want)
		}
	}
}

// TestClusterJobIgnoresItsLease: a job that handles the request to save and then does nothing is killed after its grace.
// The other job receives the devices then, both end with their work, and the report contains what it cost.
func TestClusterJobIgnoresItsLease(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "waits for the grace of a job")
	w := newWorld(t)
	stubborn := strings.Replace(auditedTraining, "leave.append(1))", "leave.append(1))\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)", 1)
	stubborn = strings.Replace(stubborn, "if leave and epoch < total:\n        sys.exit(75)", "if leave and epoch < total:\n        time.sleep(600)", 1)
	if strings.Count(stubborn, "time.sleep(600)") != 1 || strings.Count(stubborn, "SIG_IGN") != 1 {
		t.Fatal("the script was not changed")
	}
	w.write("dense.py", stubborn)
	w.write("sparse.py", auditedTraining)
	w.served("--policy", "srtf", "--round", "3s", "--devices", "a100=1@1")
	w.run("cluster", "submit", "--train", "dense.py", "--epochs", "150", "--grace", "2s")
	w.await("progress", func() bool {
		j := w.clusterJobs()[1]
		return j.Done >= 20 && j.Keeps != nil && *j.Keeps
	})
	w.run("cluster", "submit", "--train", "sparse.py", "--epochs", "10")
	w.await("the end of the jobs", func() bool {
		jobs := w.clusterJobs()
		return jobs[1].State.Ended() && jobs[2].State.Ended()
	})
	for id, want := range map[int]float64{1: 150, 2: 10} {
		if j := w.clusterJobs()[id]; j.State != cluster.Done || j.Done != want {
			t.Errorf("job %d: %s (%s), %g of %g epochs", id, j.State, j.Reason, j.Done, want)
		}
	}
	w.checkEvents(2)
	if a := w.audit("--policies", "srtf", "--draws", "2"); a.Compared != 2 || a.Waste.SavingS < 1 {
		t.Errorf("%d jobs compared, %.2f device-seconds of saving; want those of the grace", a.Compared, float64(a.Waste.SavingS))
	}
}
