package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
)

// paced is a training whose epochs take a fixed time on each type of GPU. It saves on SIGUSR1, and fails if another life
// of it runs at the same time.
const paced = `import os, signal, sys, time
dir = os.environ["OPTIMIZER_CHECKPOINT_DIR"]
os.makedirs(dir, exist_ok=True)
ckpt, alone = os.path.join(dir, "epoch"), os.path.join(dir, "alone")
total = int(os.environ["OPTIMIZER_EPOCHS"])
pace = 0.25 / {"a100": 1.0, "v100": 0.5, "k80": 0.25}[os.environ["OPTIMIZER_DEVICE"]]
leave = []
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
os.mkdir(alone)
start = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
log = os.environ["OPTIMIZER_LOG"]
if not os.path.exists(log):
    open(log, "w").write("epoch,total_epochs,train_loss\n")
for epoch in range(start + 1, total + 1):
    time.sleep(pace)
    with open(log, "a") as f: f.write("%d,%d,%g\n" % (epoch, total, 1 / epoch))
    with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
    os.replace(ckpt + ".tmp", ckpt)
    if leave and epoch < total:
        os.rmdir(alone)
        sys.exit(75)
os.rmdir(alone)
`

// TestCluster schedules seven trainings on four nodes of three types, kills the scheduler, and changes the policy.
func TestCluster(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.dir, "paced.py"), []byte(paced), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(policy string) *agent {
		return w.start("cluster", "serve", "--engine", "slurm", "--policy", policy, "--round", "10s", "--devices", "a100=1,v100=1,k80=2")
	}
	server := serve("srtf")
	epochs := []int{120, 20, 40, 30, 60, 24, 16}
	for i, n := range epochs {
		out, err := w.command("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(n)).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), fmt.Sprint(i+1)) {
			t.Fatalf("submit: %v\n%s", err, out)
		}
	}
	state := filepath.Join(w.dir, ".optimize")
	jobs := func() []cluster.Job {
		list, _, err := cluster.Jobs(state)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	w.await("progress", func() bool { return jobs()[0].Done > 20 })
	server.kill()
	time.Sleep(time.Second)
	server = serve("max_min_fairness_perf")
	w.await("the end of all jobs", func() bool {
		for _, j := range jobs() {
			if !j.State.Ended() {
				return false
			}
		}
		return true
	})
	types := map[string]bool{}
	for i, j := range jobs() {
		if j.State != cluster.Done || j.Done != float64(epochs[i]) {
			t.Errorf("job %d: %s (%s) after %g epochs, want done after %d", j.ID, j.State, j.Reason, j.Done, epochs[i])
		}
		for _, r := range j.Rates {
			types[r.Device] = true
			want := map[string]float64{"a100": 4, "v100": 2, "k80": 1}[r.Device]
			if r.Blocks >= 3 && (r.PerSec > 1.05*want || r.PerSec < 0.7*want) {
				t.Errorf("job %d: %.3g epochs/s on %s, which runs %g", j.ID, r.PerSec, r.Device, want)
			}
		}
	}
	if len(types) != 3 {
		t.Errorf("rates on %v, want all three types", types)
	}
	if out, err := w.command("cluster", "drain").CombinedOutput(); err != nil {
		t.Errorf("drain: %v\n%s", err, out)
	}
	server.wait()
}
