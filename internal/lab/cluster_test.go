package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
)

// TestCluster schedules seven trainings on four nodes of three types, kills the scheduler, and changes the policy.
func TestCluster(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.dir, "paced.py"), []byte(Paced), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(policy string) *agent {
		return w.start("cluster", "serve", "--engine", "slurm", "--policy", policy, "--round", "10s", "--devices", "a100=1,v100=1,k80=2")
	}
	server := serve("srtf")
	epochs := []int{120, 20, 40, 30, 60, 24, 16}
	for i, n := range epochs {
		out, err := w.command("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(n), "--", "0.25").CombinedOutput()
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
