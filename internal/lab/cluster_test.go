package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch/remote"
	"trainopt/simulator/replay"
)

// clusterOf starts a scheduler over nodes of the lab and submits paced trainings.
func (w *world) clusterOf(policy, devices, round string, epochs ...int) (server *agent, jobs func() []cluster.Job) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "paced.py"), []byte(Paced), 0o600); err != nil {
		w.Fatal(err)
	}
	server = w.start("cluster", "serve", "--engine", "slurm", "--policy", policy, "--round", round, "--devices", devices)
	for i, n := range epochs {
		out, err := w.command("cluster", "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(n), "--", "0.25").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), fmt.Sprint(i+1)) {
			w.Fatalf("submit: %v\n%s", err, out)
		}
	}
	return server, func() []cluster.Job {
		list, _, err := cluster.Jobs(filepath.Join(w.dir, ".optimize"))
		if err != nil {
			w.Fatal(err)
		}
		return list
	}
}

// endOf waits until all jobs have ended and checks that each has done its work: no epoch is missing in its log, and none
// was trained again but those since the last checkpoint of a life that was killed, of which there are at most lost. The
// training itself fails if two of its lives run at the same time. It returns the faults of the report.
func (w *world) endOf(server *agent, jobs func() []cluster.Job, lost int, epochs ...int) (faults map[string]float64) {
	w.Helper()
	w.await("the end of all jobs", func() bool {
		return !slices.ContainsFunc(jobs(), func(j cluster.Job) bool { return !j.State.Ended() })
	})
	again := 0
	for i, j := range jobs() {
		if j.State != cluster.Done || j.Done != float64(epochs[i]) {
			w.Errorf("job %d: %s (%s) after %g epochs, want done after %d", j.ID, j.State, j.Reason, j.Done, epochs[i])
		}
		seen := map[string]int{}
		logs, _ := filepath.Glob(filepath.Join(w.dir, ".optimize", "runs", j.Run, "*.csv"))
		for _, path := range logs {
			data, _ := os.ReadFile(path)
			head, rows, _ := strings.Cut(string(data), "\n")
			if head != "epoch,total_epochs,train_loss" {
				continue
			}
			for _, line := range strings.Fields(rows) {
				epoch, _, _ := strings.Cut(line, ",")
				if seen[epoch]++; seen[epoch] > 1 {
					again++
				}
			}
		}
		if len(seen) != epochs[i] {
			w.Errorf("job %d: %d epochs in its log, want %d", j.ID, len(seen), epochs[i])
		}
	}
	if again > lost {
		w.Errorf("%d epochs were trained again, want at most %d", again, lost)
	}
	if out, err := w.command("cluster", "drain").CombinedOutput(); err != nil {
		w.Errorf("drain: %v\n%s", err, out)
	}
	server.wait()
	out, err := w.command("cluster", "report", "--json", "--policies", "srtf", "--draws", "1").Output()
	var report struct {
		Faults map[string]float64 `json:"faults"`
	}
	if err := errors.Join(err, json.Unmarshal(out, &report)); err != nil || report.Faults == nil {
		w.Fatalf("report: %v\n%s", err, out)
	}
	return report.Faults
}

// TestClusterNodeLost kills the daemon of a node and sets it down: its job moves to other nodes, which are free, and the
// node is used again once it is up. The report contains the lost device time.
func TestClusterNodeLost(t *testing.T) {
	w := newWorld(t)
	epochs := []int{120, 60, 40, 90, 50}
	server, jobs := w.clusterOf("srtf", "a100=1,v100=1,k80=2", "8s", epochs...)
	t.Cleanup(func() { w.slurm("scontrol", "update", "NodeName=n0", "State=RESUME") })
	holder := func() *cluster.Job {
		for _, j := range jobs() {
			if j.Device == "a100" && j.State == cluster.Running && j.Done >= 3 {
				return &j
			}
		}
		return nil
	}
	w.await("a job on the a100", func() bool { return holder() != nil })
	w.Kill(t, "slurmd-n0")
	w.slurm("scontrol", "update", "NodeName=n0", "State=DOWN", "Reason=test")
	w.await("the scheduler to notice", func() bool {
		s, _, err := cluster.ReadServer(filepath.Join(w.dir, ".optimize"))
		return err == nil && s.Down["a100"] == 1
	})
	w.await("no job on the a100", func() bool {
		return !slices.ContainsFunc(jobs(), func(j cluster.Job) bool {
			return j.Device == "a100" && (j.State == cluster.Starting || j.State == cluster.Running)
		})
	})
	w.Heal(t)
	w.slurm("scontrol", "update", "NodeName=n0", "State=RESUME")
	w.await("the node", func() bool {
		s, _, err := cluster.ReadServer(filepath.Join(w.dir, ".optimize"))
		return err == nil && s.Down["a100"] == 0
	})
	f := w.endOf(server, jobs, 2, epochs...)
	if !(f["down_device_s"] > 0) {
		t.Errorf("faults %v: without the time that the node was down", f)
	}
}

// TestClusterNodeDrained drains the node of the first of two jobs that have a node of the same type each: the other one, which ends
// earlier, keeps its devices, and the first one continues once the node is resumed.
func TestClusterNodeDrained(t *testing.T) {
	w := newWorld(t)
	epochs := []int{90, 40}
	server, jobs := w.clusterOf("srtf", "k80=8", "8s")
	for i, n := range epochs {
		out, err := w.command("cluster", "submit", "--grace", "3m", "--gpus", "4", "--train", "paced.py", "--epochs", fmt.Sprint(n), "--", "0.25").CombinedOutput()
		if err != nil {
			w.Fatalf("submit: %v\n%s", err, out)
		}
		w.await("progress", func() bool { return len(jobs()) > i && jobs()[i].State == cluster.Running && jobs()[i].Done >= 3 })
	}
	on := remote.Nodes(filepath.Join(w.dir, ".optimize", "runs", jobs()[0].Run), false)
	if len(on) != 1 || jobs()[0].Where[0] > 0 {
		t.Fatalf("job 1 is on %v, devices %v", on, jobs()[0].Where)
	}
	resume := func() { w.slurm("scontrol", "update", "NodeName="+on[0], "State=RESUME") }
	t.Cleanup(resume)
	w.slurm("scontrol", "update", "NodeName="+on[0], "State=DRAIN", "Reason=test")
	w.await("the first job to leave its node", func() bool { return jobs()[0].State == cluster.Waiting || jobs()[0].State.Ended() })
	resume()
	w.endOf(server, jobs, 2, epochs...)
	if first, second := jobs()[0], jobs()[1]; first.Stretch < 2 || second.Stretch != 1 {
		t.Errorf("%d and %d lives, want more than one and one", first.Stretch, second.Stretch)
	}
}

// TestClusterController kills Slurm's controller in the middle, and starts it again: jobs run on, and all end.
func TestClusterController(t *testing.T) {
	w := newWorld(t)
	epochs := []int{120, 60, 40, 90, 50}
	server, jobs := w.clusterOf("srtf", "a100=1,v100=1,k80=2", "8s", epochs...)
	w.await("progress", func() bool { return jobs()[0].Done > 15 })
	w.Kill(t, "slurmctld")
	time.Sleep(15 * time.Second) // nearly two rounds
	w.Heal(t)
	f := w.endOf(server, jobs, 4, epochs...)
	if f["down_device_s"] != 0 {
		t.Errorf("faults %v: no node was down", f)
	}
}

// TestClusterPairs runs trainings that share the device of one job. Meanwhile the scheduler is killed, then one of the
// trainings is cancelled, and then the process of the job is killed. The others do all of their work, no two jobs are
// allocated at the same time, and the shares of each job add up to its account.
func TestClusterPairs(t *testing.T) {
	w := newWorld(t)
	epochs := []int{200, 200, 160, 120}
	const policy, devices = "max_min_fairness_packed", "a100=1"
	server, jobs := w.clusterOf(policy, devices, "6s", epochs...)
	together := func() (pair []cluster.Job) {
		w.await("two jobs on one device", func() bool {
			pair = slices.DeleteFunc(jobs(), func(j cluster.Job) bool { return j.State != cluster.Running || j.Beside == 0 })
			return len(pair) == 2
		})
		return pair
	}
	together()
	server.kill()
	w.start("cluster", "serve", "--engine", "slurm", "--policy", policy, "--round", "6s", "--devices", devices)
	w.await("the next server", func() bool {
		_, alive, err := cluster.ReadServer(filepath.Join(w.dir, ".optimize"))
		return err == nil && alive
	})
	pair := together()
	if out, err := w.command("cluster", "cancel", fmt.Sprint(pair[1].ID)).CombinedOutput(); err != nil {
		t.Fatalf("cancel: %v\n%s", err, out)
	}
	w.await("the cancellation", func() bool { return jobs()[pair[1].ID-1].State == cluster.Cancelled })
	epochs[pair[1].ID-1] = 0
	together()
	holders := processesBelow(filepath.Join(w.dir, ".optimize", "cluster", "allocations"))
	if len(holders) != 1 {
		t.Fatalf("%d processes of allocations, want 1", len(holders))
	}
	syscall.Kill(holders[0], syscall.SIGKILL)
	w.await("the end of all jobs", func() bool {
		return !slices.ContainsFunc(jobs(), func(j cluster.Job) bool { return !j.State.Ended() })
	})
	shares := map[string]time.Duration{}
	for i, j := range jobs() {
		if n := float64(epochs[i]); n > 0 && (j.State != cluster.Done || j.Done != n) {
			t.Errorf("job %d: %s (%s) after %g epochs, want done after %g", j.ID, j.State, j.Reason, j.Done, n)
		}
		rec, err := journal.ReadRecord(filepath.Join(w.dir, ".optimize", "runs", j.Run))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range rec.Stretches {
			shares[s.ID] += s.Share
		}
	}
	lives := w.account(slices.Collect(maps.Keys(shares)))
	slices.SortFunc(lives, func(a, b engine.Life) int { return a.Started.Compare(b.Started) })
	for i, l := range lives {
		if share := shares[l.ID]; (share - l.Elapsed).Abs() > time.Millisecond {
			t.Errorf("job %s: shares of %v, want %v", l.ID, share, l.Elapsed)
		}
		if i > 0 && l.Started.Before(lives[i-1].Ended) {
			t.Errorf("job %s began at %v, before the end of the last one at %v", l.ID, l.Started, lives[i-1].Ended)
		}
	}
	if len(lives) < 2 {
		t.Errorf("%d jobs, want another one after the first was killed", len(lives))
	}
}

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

// TestClusterFidelity runs 20 trainings on four nodes of three types under each of six policies, three at the same time as the
// nodes have four CPUs each: the mean completion time of each day is within 5 %, and the median job within 10 %, of the
// simulation in its report, and from the day of any policy the others of the same time are predicted so that the live mean is
// within 5 % of the 90 % interval of single simulated days. Days of other times have other latencies of Slurm, which no day
// predicts. It requires a quiet machine: with -long. If TRAINOPT_FIDELITY is a directory, the event logs are kept there.
func TestClusterFidelity(t *testing.T) {
	needLong(t)
	policies := []string{"fifo_perf", "srtf", "max_min_fairness_perf", "isolated", "tiresias", "themis"}
	var audits []*replay.Audit
	const together = 3
	for batch := range slices.Chunk(policies, together) {
		audits = append(audits, auditDays(t, batch, policies)...)
	}
	for i, a := range audits {
		live, simulated := float64(a.Live.MeanJCTS), float64(a.Simulated.MeanJCTS)
		t.Logf("%-22s live %6.1f s, simulated %6.1f s (%+.1f %%), median job %.1f %%, moves %g and %.1f", policies[i], live, simulated, 100*(simulated/live-1),
			100*float64(a.MedianError), float64(a.Live.Moves), float64(a.Simulated.Moves))
		if !(simulated >= 0.95*live && simulated <= 1.05*live) {
			t.Errorf("%s: the simulation is more than 5 %% off", policies[i])
		}
		if !(a.MedianError <= 0.1) {
			t.Errorf("%s: the median job is simulated more than 10 %% off", policies[i])
		}
	}
	for i, a := range audits {
		for _, o := range a.Others {
			k := slices.Index(policies, o.Policy)
			live := audits[k].Live.MeanJCTS
			t.Logf("from the day of %-22s %-22s %+.1f %%, single days %.1f to %.1f s, live %.1f s", policies[i], o.Policy, 100*(float64(o.MeanJCTS.Value/live)-1),
				float64(o.OneDay.Lo), float64(o.OneDay.Hi), float64(live))
			if k/together == i/together && !(live >= 0.95*o.OneDay.Lo && live <= 1.05*o.OneDay.Hi) {
				t.Errorf("from the day of %s, %s is predicted %+.1f %% off", policies[i], o.Policy, 100*(float64(o.MeanJCTS.Value/live)-1))
			}
		}
	}
}

// auditDays runs the same day under several policies at the same time, staggered within the interval of the submissions, and
// audits each against all policies.
func auditDays(t *testing.T, batch, policies []string) []*replay.Audit {
	t.Helper()
	const every = 3 * time.Second
	epochs := []int{60, 50, 30, 80, 24, 70, 52, 36, 84, 40, 28, 66, 48, 32, 76, 22, 58, 44, 62, 26}
	var worlds []*world
	var servers []*agent
	for _, policy := range batch {
		w := newWorld(t)
		if err := os.WriteFile(filepath.Join(w.dir, "paced.py"), []byte(Paced), 0o600); err != nil {
			t.Fatal(err)
		}
		worlds = append(worlds, w)
		servers = append(servers, w.start("cluster", "serve", "--engine", "slurm", "--policy", policy, "--round", "20s", "--devices", "a100=1@1,v100=1@0.5,k80=2@0.25"))
	}
	command := func(w *world, args ...string) []byte {
		out, err := w.command(append([]string{"cluster"}, args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	begin := time.Now()
	for i, n := range epochs {
		for k, w := range worlds {
			time.Sleep(time.Until(begin.Add(time.Duration(i)*every + time.Duration(k)*every/time.Duration(len(worlds)))))
			command(w, "submit", "--grace", "3m", "--train", "paced.py", "--epochs", fmt.Sprint(n), "--", "0.25")
		}
	}
	var audits []*replay.Audit
	for i, w := range worlds {
		command(w, "drain")
		<-servers[i].done
		if keep := os.Getenv("TRAINOPT_FIDELITY"); filepath.IsAbs(keep) { // "cluster report DIRECTORY/POLICY" audits it again
			events, err := os.ReadFile(filepath.Join(w.dir, ".optimize", "cluster", "events.jsonl"))
			to := filepath.Join(keep, batch[i], "cluster")
			if err := errors.Join(err, os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, "events.jsonl"), events, 0o600)); err != nil {
				t.Error(err)
			}
		}
		a := &replay.Audit{}
		out := command(w, "report", "--json", "--policies", strings.Join(policies, ","), "--draws", "20")
		if err := json.Unmarshal(out, a); err != nil || a.Compared != len(epochs) {
			t.Fatalf("%s: report of %d jobs: %v\n%s", batch[i], a.Compared, err, out)
		}
		audits = append(audits, a)
	}
	return audits
}
