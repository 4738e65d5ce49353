package lab

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// TestSameRecord checks that a run on Slurm has the record of a local run, and that its cost is that of the accounting.
func TestSameRecord(t *testing.T) {
	w := newWorld(t)
	here := newWorld(t)
	local := here.start("--yes", "--planner", "static", "--cpus", "1:1", "--fresh", "--train", "training.py", "--", "20", "0.2")
	w.finished(w.train(20, 0.2), 20)
	w.paid()
	here.finished(local, 20)
	keys := func(w *world) []string {
		var v map[string]any
		data, err := os.ReadFile(filepath.Join(w.runDir(), "run.json"))
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(v))
	}
	want := append(keys(here), "starts", "stretches")
	slices.Sort(want)
	if got := keys(w); !slices.Equal(got, want) {
		t.Errorf("fields of run.json %v, want %v", got, want)
	}
}

// TestTwoNodes checks that a training with a process on each of two nodes ends, and that both nodes are paid for.
func TestTwoNodes(t *testing.T) {
	w := newWorld(t)
	rec := w.finished(w.train(20, 0.2, "--nodes", "2"), 20)
	w.paid()
	if s := rec.Stretches[0]; len(s.Nodes) != 2 || s.Place.Nodes != 2 {
		t.Errorf("nodes %v of place %v, want 2", s.Nodes, s.Place)
	}
}

// TestOneOfTwoNodesFails checks that a training on two nodes continues in a new job after the supervisor of the second
// node, and later that of the first, was killed.
func TestOneOfTwoNodesFails(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(400, 0.2, "--nodes", "2")
	for _, rank := range []string{"1", "0"} {
		w.progress(len(w.units()) + 4)
		w.nextWriter("supervisor of rank "+rank+" killed", func() { w.killSupervisor(rank) })
		t.Logf("rank %s: %v", rank, writers(w.units()))
	}
	w.finished(a, 400)
	w.paid()
}

// TestControllerRestarts checks that a training survives the controller, and that no second job is submitted.
func TestControllerRestarts(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(60, 0.5)
	w.progress(45) // long enough for the controller to have saved its state
	w.Kill(t, "slurmctld")
	w.progress(50)
	w.Heal(t)
	w.finished(a, 60)
	if n := w.jobs(); n != 1 || len(writers(w.units())) != 1 {
		t.Errorf("%d jobs, writers %v; want one", n, writers(w.units()))
	}
	w.paid()
}

// TestControllerForgets checks that a job which the controller has lost, because it died before it saved its state, is
// started again from the checkpoint.
func TestControllerForgets(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(40, 0.5)
	w.progress(2)
	w.Kill(t, "slurmctld")
	time.Sleep(5 * time.Second)
	w.Heal(t)
	w.finished(a, 40)
	t.Logf("writers %v, stretches %s", writers(w.units()), toJSON(w.record().Stretches))
}

// TestUserCancels checks that a job which the user cancels is stopped and not started again.
func TestUserCancels(t *testing.T) {
	w := newWorld(t)
	a := w.train(400, 0.2)
	w.progress(5)
	w.do("scancel", w.current().ID)
	a.wait()
	if rec := w.record(); rec.State != journal.Stopped || rec.Exit.Reason != "cancelled" || rec.Exit.Detail == "" || len(rec.Stretches) != 1 {
		t.Errorf("state %s, exit %+v, %d stretches; want stopped, cancelled by the user, 1", rec.State, rec.Exit, len(rec.Stretches))
	}
	w.oneWriter()
	w.paid()
}

// TestTimeLimit checks that the time limit of a job ends it with a checkpoint, and the next one continues.
func TestTimeLimit(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	rec := w.finished(w.train(280, 0.4, "--engine-arg=--time=1"), 280)
	if n := len(rec.Stretches); n < 2 {
		t.Errorf("%d stretches, want 2 or more", n)
	}
	w.paid()
}

// TestRequeue checks that a job which an administrator requeues is continued in a new job from the checkpoint.
func TestRequeue(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(60, 0.25, "--engine-arg=--requeue")
	w.progress(8)
	w.nextWriter("requeue", func() {
		id := w.current().ID
		w.do("scontrol", "requeue", id)
		w.await("the end of the first life", func() bool { return w.slurm("squeue", "-h", "-j", id, "-o", "%T") == "PENDING" })
		w.do("scontrol", "update", "JobId="+id, "StartTime=now") // otherwise it starts in two minutes
	})
	w.finished(a, 60)
	w.paid()
}

// TestEngineEndsJob checks that a training continues in a new job, without loss, after the ways in which Slurm ends one.
func TestEngineEndsJob(t *testing.T) {
	needLong(t)
	w := newWorld(t)
	a := w.train(400, 0.2)
	w.progress(3)
	for _, fault := range []struct {
		name string
		act  func()
	}{
		{"node DOWN", func() {
			node := w.node()
			w.do("scontrol", "update", "NodeName="+node, "State=DOWN", "Reason=test")
			t.Cleanup(func() { w.slurm("scontrol", "update", "NodeName="+node, "State=RESUME") })
		}},
		{"preemption", func() {
			w.do("sbatch", "-p", "urgent", "-w", w.node(), "-c", "4", "--mem=3900", "--wrap", "sleep 5", "-o", "/dev/null")
		}},
	} {
		w.nextWriter(fault.name, fault.act)
		t.Logf("%s: %v", fault.name, writers(w.units()))
	}
	node := w.node()
	w.do("scontrol", "update", "NodeName="+node, "State=DRAIN", "Reason=test")
	t.Cleanup(func() { w.slurm("scontrol", "update", "NodeName="+node, "State=RESUME") })
	before := writers(w.units())
	w.progress(min(w.units()[len(w.units())-1].n+10, 400))
	if after := writers(w.units()); len(after) != len(before) {
		t.Errorf("DRAIN ended the job: writers %v", after)
	}
	w.finished(a, 400)
	w.paid()
}
