package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/run"
	"trainopt/simulator/replay"
)

// sharingTraining is a training paced by the clock that is slower while another one has the same devices: they leave their
// names in a directory of the devices. light and heavy differ in what they lose; two heavy ones lose more than by turns. An
// epoch that ends late, on a busy machine, shortens the next one. Once the file "fast" exists, it ends all of its epochs at once.
const sharingTraining = `import os, signal, sys, time
dir = os.environ["OPTIMIZER_CHECKPOINT_DIR"]
os.makedirs(dir, exist_ok=True)
ckpt = os.path.join(dir, "epoch")
total = int(os.environ["OPTIMIZER_EPOCHS"])
kind = os.path.basename(sys.argv[0])[:-3]
beside = {"light": {"light": .9, "heavy": .8}, "heavy": {"light": .75, "heavy": .4}}[kind]
held = os.path.join(os.environ["ACTIVE"], os.environ["OPTIMIZER_DEVICES"])
os.makedirs(held, exist_ok=True)
mine = "%s.%d" % (kind, os.getpid())
leave = []
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
start = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
log = os.environ["OPTIMIZER_LOG"]
if not os.path.exists(log):
    open(log, "w").write("epoch,total_epochs,train_loss\n")
open(os.path.join(held, mine), "w").close()

def rate():
    for name in os.listdir(held):
        if name != mine and os.path.exists("/proc/" + name.split(".")[1]):
            return beside[name.split(".")[0]]
    return 1

def fast():
    return os.path.exists(os.path.join(os.environ["ACTIVE"], "fast"))

epoch, left, last = start, 0, time.monotonic()
try:
    while epoch < total:
        left += .1
        while left > 1e-4 and not fast():
            now_rate = rate()
            time.sleep(min(.02, left / now_rate))
            now = time.monotonic()
            left, last = left - (now - last) * now_rate, now
        done = range(epoch + 1, (total if fast() else epoch + 1) + 1)
        epoch = done[-1]
        with open(log, "a") as f: f.writelines("%d,%d,%g\n" % (e, total, 1 / e) for e in done)
        with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
        os.replace(ckpt + ".tmp", ckpt)
        if leave and epoch < total:
            sys.exit(75)
        if os.path.exists(os.path.join(os.environ["ACTIVE"], "fail")) and rate() < 1:
            raise MemoryError("out of memory")
finally:
    os.remove(os.path.join(held, mine))
`

// newSharing returns a world with both kinds of trainings.
func newSharing(t *testing.T) *world {
	w := newWorld(t)
	w.write("light.py", sharingTraining)
	w.write("heavy.py", sharingTraining)
	w.environ = append(w.environ, "ACTIVE="+w.dir)
	return w
}

// longEpochs is a number of epochs in which whatever a test waits for happens, also on a busy machine. They end by finish.
const longEpochs = 2000

// finish lets the trainings end their remaining epochs at once, and waits for the end of all jobs.
func (w *world) finish() {
	w.t.Helper()
	w.write("fast", "")
	w.awaitAll()
}

// submitEpochs submits trainings of the kinds in turn.
func (w *world) submitEpochs(epochs ...int) {
	w.t.Helper()
	for i, n := range epochs {
		if code, _, errs := w.run("cluster", "submit", "--grace", "3m", "--max-restarts", "0", "--train", []string{"light.py", "heavy.py"}[i%2], "--epochs", fmt.Sprint(n)); code != run.CodeDone {
			w.t.Fatalf("submit: exit %d\n%s", code, errs)
		}
	}
}

// checkSharing checks that all jobs have done their work, each epoch once, and that no device had more than two holders.
func (w *world) checkSharing(epochs ...int) {
	w.t.Helper()
	for i, n := range epochs {
		j := w.clusterJobs()[i+1]
		if j.State != cluster.Done || j.Done != float64(n) {
			w.t.Errorf("job %d: %s (%s) after %g epochs, want done after %d", j.ID, j.State, j.Reason, j.Done, n)
		}
	}
	events := w.clusterEvents()
	held, where, most := map[string]int{}, map[int][]int32{}, 0
	for _, e := range events {
		step := map[cluster.EventKind]int{cluster.EventStart: 1, cluster.EventLeft: -1}[e.Kind]
		if step > 0 {
			where[e.Job] = e.Where
		}
		for _, g := range where[e.Job] {
			held[fmt.Sprint(e.Device, g)] += step
			most = max(most, held[fmt.Sprint(e.Device, g)])
		}
	}
	if most != 2 {
		w.t.Errorf("%d jobs on one device at most, want 2", most)
	}
}

// together waits until two jobs share a device and returns them.
func (w *world) together() (a, b cluster.Job) {
	w.t.Helper()
	w.await("two jobs on one device", func() bool {
		for _, j := range w.clusterJobs() {
			if j.State == cluster.Running && j.Beside != 0 && len(j.Pairs) > 0 {
				a, b = j, w.clusterJobs()[j.Beside]
				return b.State == cluster.Running
			}
		}
		return false
	})
	return a, b
}

// TestClusterPairs runs trainings under a policy that co-locates them. While two share the device, the server is killed; then one
// is cancelled: the others continue, and have done all of their work in the end.
func TestClusterPairs(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for a minute")
	w := newSharing(t)
	serve := []string{"--policy", "best_match_packed", "--round", "4s", "--devices", "a100=1"}
	server := w.served(serve...)
	w.submitEpochs(longEpochs, longEpochs, longEpochs)
	w.together()
	server.Process.Kill()
	server.Wait()
	w.served(serve...)
	a, b := w.together()
	before := b.Done
	w.run("cluster", "cancel", fmt.Sprint(a.ID))
	w.await("the cancellation", func() bool { return w.clusterJobs()[a.ID].State == cluster.Cancelled })
	w.await("progress of the other", func() bool { j := w.clusterJobs()[b.ID]; return j.Done > before+5 || j.State.Ended() })
	w.finish()
	for id, j := range w.clusterJobs() {
		if id != a.ID && (j.State != cluster.Done || j.Done != longEpochs) {
			t.Errorf("job %d: %s (%s) after %g epochs, want done after %d", id, j.State, j.Reason, j.Done, longEpochs)
		}
		w.checkEpochs(filepath.Join(w.state(), "runs", j.Run), int(j.Done))
	}
	if audit := w.audit("--policies", "best_match_packed,srtf", "--draws", "2"); len(audit.Pairs) == 0 || !(audit.Pairs[0].Seconds > 0) {
		t.Errorf("pairs of the report: %+v", audit.Pairs)
	}
}

// TestClusterPairsUnderChanges changes the policy every other second, among all kinds that co-locate jobs, that divide time and
// that choose numbers of devices, and kills the server three times. All jobs do their work, one of which may not be preempted
// and one of which needs both devices.
func TestClusterPairsUnderChanges(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	w := newSharing(t)
	w.write("lossy.py", "import time\nfor e in range(1, 101):\n    time.sleep(0.1)\n    print('epoch %d/100 loss %g' % (e, 1 / e), flush=True)\n")
	serve := []string{"--round", "4s", "--devices", "a100=2", "--policy", "best_match_packed"}
	server := w.served(serve...)
	w.submitEpochs(longEpochs, longEpochs, longEpochs, longEpochs)
	w.run("cluster", "submit", "--train", "lossy.py", "--epochs", "100")
	w.run("cluster", "submit", "--train", "light.py", "--epochs", "40", "--gpus", "2", "--max-restarts", "0")
	policies := []string{"fifo_packed", "gandiva", "max_min_fairness_packed", "sia", "srtf_packed", "finish_time_fairness_packed", "srtf", "min_total_duration_packed", "hierarchical_fifo_packed",
		"max_sum_throughput_normalized_by_cost_packed_SLOs", "max_min_fairness_water_filling_packed", "hierarchical_fairness_packed"}
	for i, policy := range policies {
		time.Sleep(2 * time.Second)
		if code, _, errs := w.run("cluster", "policy", policy); code != run.CodeDone {
			t.Errorf("policy %s: exit %d, %s", policy, code, errs)
		}
		if i%4 == 3 {
			server.Process.Kill()
			server.Wait()
			server = w.served(serve[:4]...)
		}
	}
	w.run("cluster", "policy", "best_match_packed")
	w.together()
	w.finish()
	w.checkSharing(longEpochs, longEpochs, longEpochs, longEpochs, 100, 40)
	events := w.clusterEvents()
	for _, e := range events {
		if e.Kind == cluster.EventDecide && e.Reason != "" {
			t.Error(e.Reason)
		}
	}
}

// TestClusterPairFails: a job that fails beside another one starts again, alone, and the other continues.
func TestClusterPairFails(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	w := newSharing(t)
	w.served("--policy", "best_match_packed", "--round", "4s", "--devices", "a100=1")
	w.submitEpochs(longEpochs, longEpochs)
	a, b := w.together()
	w.write("fail", "")
	w.await("a failure", func() bool { return w.clusterJobs()[a.ID].Apart || w.clusterJobs()[b.ID].Apart })
	os.Remove(filepath.Join(w.dir, "fail"))
	w.finish()
	w.checkSharing(longEpochs, longEpochs)
	events := w.clusterEvents()
	failed := false
	for _, e := range events {
		failed = failed || e.Kind == cluster.EventLeft && e.Reason != "lease" && e.Done < longEpochs
		if failed && e.Kind == cluster.EventShare && e.With != 0 {
			t.Errorf("job %d shares a device with %d after the failure", e.Job, e.With)
		}
	}
	if !failed {
		t.Error("no life has failed")
	}
}

// TestClusterPairKilled: a training that is killed leaves the other one of its pair running.
func TestClusterPairKilled(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	w := newSharing(t)
	w.served("--policy", "best_match_packed", "--round", "4s", "--devices", "a100=1")
	w.submitEpochs(longEpochs, longEpochs)
	a, b := w.together()
	names, err := filepath.Glob(filepath.Join(w.dir, "a100:0", strings.TrimSuffix(a.Name, ".py")+".*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("processes of job %d: %v %v", a.ID, names, err)
	}
	var pid int
	if _, err := fmt.Sscan(filepath.Ext(names[0])[1:], &pid); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	w.await("the end of its life", func() bool { return w.clusterJobs()[a.ID].Apart })
	w.finish()
	w.checkSharing(longEpochs, longEpochs)
	if j := w.clusterJobs()[b.ID]; j.Apart {
		t.Errorf("the other job, %d, has failed, too", b.ID)
	}
}

// TestClusterPairMemory: two jobs whose memory does not fit together on a device are separated once that is seen, before it
// runs out, and share it never again. Each does all of its work.
func TestClusterPairMemory(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	w := newSharing(t)
	activity := filepath.Join(w.dir, "activity")
	if err := os.Mkdir(activity, 0o700); err != nil {
		t.Fatal(err)
	}
	w.environ = append(w.environ, "OPTIMIZER_DEVICE_ACTIVITY="+activity)
	uses := strings.Replace(sharingTraining, "        with open(log, \"a\")", `        with open(held + mine, "w") as f: # 8 of 16 GiB each, more than which is not available
            f.write("90 %g 16" % (8 * sum(os.path.exists("/proc/" + n.split(".")[1]) for n in os.listdir(held))))
        os.replace(held + mine, os.path.join(os.environ["OPTIMIZER_DEVICE_ACTIVITY"], os.environ["OPTIMIZER_DEVICES"]))
        with open(log, "a")`, 1)
	w.write("light.py", uses)
	w.write("heavy.py", uses)
	w.served("--policy", "max_min_fairness_packed", "--round", "4s", "--devices", "a100=1")
	w.submitEpochs(longEpochs, longEpochs)
	full := func(e cluster.Event) bool {
		return e.Kind == cluster.EventStop && strings.Contains(e.Reason, "16 of 16 GiB")
	}
	w.await("their separation", func() bool { return slices.ContainsFunc(w.clusterEvents(), full) })
	w.finish()
	w.checkSharing(longEpochs, longEpochs)
	events := w.clusterEvents()
	separated := 0
	for _, e := range events {
		switch {
		case full(e):
			separated++
		case e.Kind == cluster.EventShare && e.With != 0 && separated > 0:
			t.Errorf("job %d shares a device with %d again", e.Job, e.With)
		}
	}
	if separated != 1 {
		t.Errorf("separated %d times, want once", separated)
	}
}

// sharedDay runs a day under a policy that co-locates jobs, after a time that staggers it with others, and returns its audit.
func sharedDay(t *testing.T, policy string, epochs []int, every, after time.Duration, draws int) *replay.Audit {
	w := newSharing(t)
	time.Sleep(after)
	server := w.served("--policy", policy, "--round", "10s", "--devices", "a100=1@1,v100=1@1")
	begin := time.Now()
	for i := range epochs {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * every)))
		w.run("cluster", "submit", "--train", []string{"light.py", "heavy.py"}[i%2], "--epochs", fmt.Sprint(epochs[i]))
	}
	w.run("cluster", "drain")
	if err := server.Wait(); err != nil {
		t.Fatal(err)
	}
	w.checkSharing(epochs...)
	w.keepEvents(policy)
	return w.audit("--policies", policy+",srtf", "--draws", fmt.Sprint(draws))
}

// TestClusterPairFidelity: the live mean completion time of a day with pairs is within 5 % of the 90 % interval of simulations
// of the day, for each policy. It takes some four minutes: TRAINOPT_FIDELITY=1 and -parallel 5. Otherwise one short day is held to a generous
// bound.
func TestClusterPairFidelity(t *testing.T) {
	t.Parallel() // paced, it waits most of the time
	needTraining(t, "trains for half a minute")
	policies, epochs, every, draws, bound := []string{"best_match_packed"}, []int{150, 200, 120, 180}, 500*time.Millisecond, 3, 4.0
	if os.Getenv("TRAINOPT_FIDELITY") != "" {
		policies, every, draws, bound = []string{"best_match_packed", "srtf_packed", "fifo_packed", "max_min_fairness_packed", "gandiva"}, 4*time.Second, 20, 0.05
		needParallel(t, len(policies))
		epochs = []int{300, 250, 150, 400, 120, 350, 260, 180, 220, 200}
	}
	for i, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			a := sharedDay(t, policy, epochs, every, time.Duration(i)*every/time.Duration(len(policies)), draws)
			off := float64(a.Simulated.MeanJCTS/a.Live.MeanJCTS) - 1
			gain, seconds := 0.0, 0.0
			for _, p := range a.Pairs {
				seconds += float64(p.Seconds)
				if !math.IsNaN(float64(p.GainS)) {
					gain += float64(p.GainS)
				}
			}
			t.Logf("%s: live %.1f s, simulated %.1f s (%+.1f %%), single days %.1f to %.1f s, median job %.1f %%, %d pairs for %.0f s, gain %.0f s", policy, float64(a.Live.MeanJCTS), float64(a.Simulated.MeanJCTS), 100*off,
				float64(a.OneDay.Lo), float64(a.OneDay.Hi), 100*float64(a.MedianError), len(a.Pairs), seconds, gain)
			if live := float64(a.Live.MeanJCTS); len(a.Pairs) == 0 || live < (1-bound)*float64(a.OneDay.Lo) || live > (1+bound)*float64(a.OneDay.Hi) {
				t.Errorf("%d pairs, simulated mean off by %+.1f %%", len(a.Pairs), 100*off)
			}
		})
	}
}
