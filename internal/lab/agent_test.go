package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// resume runs `runs resume` on the only run.
func (w *world) resume(flags ...string) *agent {
	w.Helper()
	return w.start(append([]string{"runs", "resume", filepath.Base(w.runDir())}, flags...)...)
}

// TestAgentDies checks that a resume adopts the job of a dead agent, and that a second agent is refused.
func TestAgentDies(t *testing.T) {
	w := newWorld(t)
	a := w.train(60, 0.25)
	w.progress(5)
	a.kill()
	a = w.resume()
	w.await("the adoption", func() bool { return w.said("adopted slurm job") })
	second := w.command("runs", "resume", filepath.Base(w.runDir()))
	if out, err := second.CombinedOutput(); err == nil {
		t.Errorf("a second agent was not refused: %s", out)
	}
	w.finished(a, 60)
	if n := w.jobs(); n != 1 || len(writers(w.units())) != 1 {
		t.Errorf("%d jobs, writers %v; want one", n, writers(w.units()))
	}
	w.paid()
}

// TestAgentDiesBeforeID checks that the job of an agent that died before it saved the job's number is found again.
func TestAgentDiesBeforeID(t *testing.T) {
	w := newWorld(t)
	a := w.train(60, 0.25)
	w.progress(3)
	a.kill()
	path := filepath.Join(w.runDir(), "stretches.json") // as it was before sbatch answered
	data, err := os.ReadFile(path)
	if err == nil {
		data = bytes.Replace(data, fmt.Appendf(nil, `"id":%q`, w.current().ID), []byte(`"id":""`), 1)
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.finished(w.resume(), 60)
	if n := w.jobs(); n != 1 || len(writers(w.units())) != 1 {
		t.Errorf("%d jobs, writers %v; want one", n, writers(w.units()))
	}
	w.paid()
}

// TestAgentDiesInQueue checks that the job of an agent that died while the job waited is adopted.
func TestAgentDiesInQueue(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(20, 0.25, "--engine-arg=--begin=now+20")
	w.await("the job waits", func() bool { return w.said("waits") })
	a.kill()
	a = w.resume()
	w.finished(a, 20)
	if n := w.jobs(); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	w.paid()
}

// TestDeadMan checks that a job ends at the budget, with a checkpoint, when agent, controller and database are dead.
func TestDeadMan(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	const budget = 0.001 // 32.9 s of 1 CPU and 0.9375 GiB
	a := w.train(1000, 0.25, "--budget", fmt.Sprint(budget))
	w.progress(5)
	a.kill()
	w.Kill(t, "slurmctld")
	w.Kill(t, "slurmdbd")
	last, quiet := len(w.units()), time.Now()
	w.await("the end of the training", func() bool {
		if n := len(w.units()); n != last {
			last, quiet = n, time.Now()
		}
		return time.Since(quiet) > 5*time.Second
	})
	var node struct {
		Phase string
		Exit  struct {
			Code   int
			Detail string
		}
	}
	data, err := os.ReadFile(filepath.Join(w.runDir(), "stretches", "1", "node.json"))
	if err == nil {
		err = json.Unmarshal(data, &node)
	}
	if err != nil || node.Phase != "ended" || node.Exit.Code != 75 {
		t.Errorf("node %+v, %v; want an end with a checkpoint (75)", node, err)
	}
	w.Heal(t)
	w.resume().wait()
	rec := w.record()
	if spent := float64(rec.Outcome.CostUSD); rec.State != journal.Stopped || rec.Exit.Reason != "budget" || spent > 1.01*budget || spent < 0.8*budget {
		t.Errorf("state %s, exit %+v, cost %g; want stopped by the budget of %g", rec.State, rec.Exit, spent, budget)
	}
	w.oneWriter()
}

// TestLostNode checks that the training of a node whose daemon died ends before another node continues it.
func TestLostNode(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(500, 0.25)
	w.progress(4)
	w.nextWriter("slurmd killed", func() { w.Kill(t, "slurmd-"+w.node()) })
	w.Heal(t)
	w.finished(a, 500)
	w.paid()
}

// TestSupervisorDies checks that a training whose supervisor on the node was killed is continued without a second writer.
func TestSupervisorDies(t *testing.T) {
	w := newWorld(t)
	a := w.train(80, 0.25)
	w.progress(4)
	w.nextWriter("supervisor killed", func() { w.killSupervisor() })
	w.finished(a, 80)
	w.paid()
}

// killSupervisor kills the processes __node of the run; with ranks, only those of these nodes.
func (w *world) killSupervisor(ranks ...string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte("\x00__node\x00"+w.dir)) {
			continue
		}
		if env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ")); len(ranks) > 0 && !slices.ContainsFunc(ranks, func(rank string) bool {
			return bytes.Contains(env, []byte("\x00SLURM_PROCID="+rank+"\x00"))
		}) || bytes.HasPrefix(data, []byte("srun\x00")) {
			continue
		}
		pid := 0
		fmt.Sscan(filepath.Base(filepath.Dir(path)), &pid)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// TestDatabaseDies checks that a run whose end the accounting does not confirm ends nevertheless and reports this, and that the
// confirmation is added when the run is shown later.
func TestDatabaseDies(t *testing.T) {
	w := newWorld(t)
	a := w.train(20, 0.25)
	w.progress(5)
	w.Kill(t, "slurmdbd")
	rec := w.finished(a, 20)
	if s := rec.Stretches[0]; s.Confirmed || !strings.Contains(strings.Join(rec.Warnings, "\n"), "not yet confirmed") {
		t.Errorf("confirmed %v, warnings %q; want none and a warning", s.Confirmed, rec.Warnings)
	}
	w.Heal(t)
	w.await("the confirmation", func() bool {
		w.command("runs", "show", "latest").Run()
		return w.record().Stretches[0].Confirmed
	})
	if text := strings.Join(w.record().Warnings, "\n"); strings.Contains(text, "not yet confirmed") {
		t.Errorf("the warning remains: %s", text)
	}
	w.paid()
}

// TestContinuesElsewhere checks that one record, one meter and one budget cover a local part and two partitions.
func TestContinuesElsewhere(t *testing.T) {
	w := newWorld(t)
	a := w.start("--yes", "--planner", "static", "--cpus", "1:1", "--cpu-hour", "0.1", "--gb-hour", "0", "--budget", "0.01", "--fresh", "--train", "training.py", "--", "60", "0.25")
	w.progress(5)
	a.Process.Signal(syscall.SIGINT)
	a.wait()
	local := float64(w.record().Outcome.CostUSD)
	a = w.resume("--engine", "slurm", "--engine-arg=--partition=cheap", "--billing-hour", "1")
	w.progress(15)
	a.Process.Signal(syscall.SIGINT)
	a.wait()
	w.finished(w.resume("--engine", "slurm", "--engine-arg=--partition=fast", "--billing-hour", "1"), 60)
	rec, bill := w.record(), w.bill()
	if got := float64(rec.Outcome.CostUSD) - local; local <= 0 || got < bill*0.999999 || got > bill*1.000001 {
		t.Errorf("local %g USD, on Slurm %g, want %g by the accounting", local, got, bill)
	}
	places := []string{}
	for _, s := range rec.Stretches {
		places = append(places, s.Place.Partition)
	}
	if names := writers(w.units()); !slices.Equal(places, []string{"cheap", "fast"}) || len(names) != 3 || rec.SLA.CostMaxUSD != 0.01 {
		t.Errorf("partitions %v, writers %v", places, names)
	}
}

// TestFullDisk checks that a full run directory does not end the training.
func TestFullDisk(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	state := filepath.Join(w.dir, "state")
	if err := errors.Join(os.Mkdir(state, 0o700), syscall.Mount("faults", state, "tmpfs", 0, "size=2m")); err != nil {
		t.Skipf("a file system of 2 MiB cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(state, syscall.MNT_DETACH) })
	a := w.train(60, 0.25, "--state-dir", state)
	w.progress(5)
	filler := filepath.Join(state, "filler")
	os.WriteFile(filler, make([]byte, 4<<20), 0o600) // as much as there is room for
	w.progress(30)
	os.Remove(filler)
	if code := a.wait(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	w.oneWriter()
}

// TestMoves kills daemons, agent and supervisors at random. One process writes at a time, no work of more than a unit is
// lost, and the run ends.
func TestMoves(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	const units, pace = 1_000_000, 0.25
	a := w.train(units, pace, "--max-restarts", "1000")
	w.progress(2)
	random := rand.New(rand.NewPCG(uint64(*seedFlag), 0))
	counts := map[string]int{}
	for range *movesFlag {
		fault := []string{"agent", "supervisor", "controller", "slurmd", "agent and supervisor"}[random.IntN(5)]
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		counts[fault]++
		all := w.units()
		from := all[len(all)-1]
		switch fault {
		case "agent":
			a.kill()
			a = w.resume()
		case "supervisor":
			w.killSupervisor()
		case "agent and supervisor":
			a.kill()
			w.killSupervisor()
			a = w.resume()
		case "controller":
			w.Kill(t, "slurmctld")
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			w.Heal(t)
		case "slurmd":
			name := "slurmd-n" + fmt.Sprint(random.IntN(4))
			if s := w.current(); s.ID != "" {
				if node := w.slurm("squeue", "-h", "-j", s.ID, "-o", "%N"); node != "" && !strings.Contains(node, " ") {
					name = "slurmd-" + node
				}
			}
			w.Kill(t, name)
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			w.Heal(t)
		}
		t.Logf("%s at unit %d of %s", fault, from.n, from.writer)
		w.await("progress after "+fault, func() bool {
			all := w.units()
			return all[len(all)-1].n >= from.n+4
		})
		w.oneWriter()
		if t.Failed() {
			return
		}
	}
	a.Process.Signal(syscall.SIGINT)
	a.wait()
	if rec := w.record(); rec.State != journal.Stopped {
		t.Errorf("state %s, want stopped", rec.State)
	}
	w.oneWriter()
	t.Logf("%v, %d jobs, %d writers", counts, len(w.record().Stretches), len(writers(w.units())))
}
