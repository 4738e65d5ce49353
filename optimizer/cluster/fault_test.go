package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// on reports whether a training has a device.
func on(c launch.Command, device string) bool {
	return slices.Contains(c.Env, "OPTIMIZER_DEVICES="+device)
}

// check compares the state of a job, the number of its lives, and where the last one was.
func (g *stage) check(id int, state State, lives int, where int32) {
	g.t.Helper()
	j, _, err := ReadJob(g.StateDir, id)
	if err != nil {
		g.t.Fatal(err)
	}
	if j.State != state || j.Stretch != lives || !slices.Equal(j.Where, []int32{where}) {
		g.t.Errorf("job %d is %s (%s) after %d lives, on %v; want %s after %d, on %d\n%s", id, j.State, j.Reason, j.Stretch, j.Where, state, lives, where, g.said.String())
	}
}

// left reports whether a device of this machine is left out, and none else.
func (g *stage) left(device int32) bool {
	return len(g.absent) == 1 && slices.Equal(g.absent[0], []int32{device})
}

// TestFaultyDevice: a device on which a training fails at once fails one job only, for one life: it works elsewhere, so that the device
// is left out for some rounds, also by the next server.
func TestFaultyDevice(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts %v", restarts), func(t *testing.T) {
			t.Parallel()
			g := newStage(t, 2, "a", "b", "c", "d", "e", "f")
			g.played.fails = func(c launch.Command) bool { return on(c, "cpu:0") }
			again := func(seconds int) {
				t.Helper()
				g.pass(seconds)
				if restarts {
					g.restart()
				}
				if !g.left(0) || g.info.Down["cpu"] != 1 {
					t.Errorf("after further %d s, absent are %v, %v down, want device 0\n%s", seconds, g.absent, g.info.Down, g.said.String())
				}
			}
			again(1)
			again(30)
			for id := 1; id <= 6; id++ {
				g.check(id, Done, 1+map[int]int{1: 1}[id], 1)
			}
			why := "cpu:0: job 1 failed there"
			events, _, err := ReadEvents(g.StateDir, 0)
			if told := func(e Event) bool { return e.Kind == EventDevices && strings.Contains(e.Reason, why) }; err != nil || !slices.ContainsFunc(events, told) || !strings.Contains(g.said.String(), why) {
				t.Errorf("%q is not reported, %v\n%s", why, err, g.said.String())
			}
			if s, _, err := ReadServer(g.StateDir); err != nil || len(s.Faults) != 1 || s.Faults[0].Place != "cpu:0" || !s.Faults[0].Proven {
				t.Errorf("stored %+v, %v", s.Faults, err)
			}
			g.clock.pass(provenRounds * g.Round)
			if g.pass(1); g.absent != nil || len(g.info.Down) > 0 {
				t.Errorf("after %d rounds, absent are %v, %v down", provenRounds, g.absent, g.info.Down)
			}
		})
	}
}

// TestBrokenTraining: a training that fails on two devices has failed, and no device is at fault; on the only one, it has failed at once.
func TestBrokenTraining(t *testing.T) {
	t.Parallel()
	for slots, lives := range map[int]int{1: 1, 2: 2} {
		g := newStage(t, slots, "broken", "sound")
		g.played.fails = func(c launch.Command) bool { return trainingOf(c.RunDir) == "broken" }
		g.pass(30)
		last := int32(slots - 1)
		g.check(1, Failed, lives, last)
		g.check(2, Done, 1, last)
		if g.absent != nil || len(g.info.Faults) > 0 || len(g.info.Down) > 0 {
			t.Errorf("%d slots: absent are %v, %+v", slots, g.absent, g.info.Faults)
		}
	}
}

// TestSuspectedDevice: a device on which a job has failed is left out for a round, which is doubled for each further job that fails there,
// unless one works there.
func TestSuspectedDevice(t *testing.T) {
	t.Parallel()
	g := newStage(t, 2, "a", "b", "c", "d")
	fails := func(id int) {
		t.Helper()
		l := g.jobs[id]
		l.Device, l.Where = "cpu", []int32{0}
		if !g.startsElsewhere(l, run.Result{Code: run.CodeTraining}) || !g.left(0) {
			t.Fatalf("job %d: absent are %v\n%s", id, g.absent, g.said.String())
		}
	}
	lasts := func(rounds int) {
		t.Helper()
		g.clock.pass(time.Duration(rounds)*g.Round - time.Second)
		if g.takeBack(); !g.left(0) {
			t.Errorf("absent are %v before %d rounds have passed", g.absent, rounds)
		}
		g.clock.pass(2 * time.Second)
		if g.takeBack(); g.absent != nil {
			t.Errorf("absent are %v after %d rounds", g.absent, rounds)
		}
	}
	fails(1)
	lasts(1)
	fails(2)
	lasts(2)
	g.noteWorks(g.jobs[2]) // where it has failed: by chance
	if len(g.info.Faults) > 0 || g.jobs[2].FailedOn != nil {
		t.Errorf("%+v after a job has worked there", g.info.Faults)
	}
	fails(3)
	lasts(1)
	for name, c := range map[string]struct {
		l    *live
		on   []string // has it failed before
		code run.Code
	}{
		"it has worked":         {&live{worked: true}, nil, run.CodeTraining},
		"after a long time":     {&live{before: -failedSoon - 1}, nil, run.CodeTraining},
		"beside another job":    {&live{shared: true}, nil, run.CodeTraining},
		"refused":               {&live{}, nil, run.CodeUsage},
		"it had its second try": {&live{}, []string{"cpu:0"}, run.CodeTraining},
	} {
		j := *g.jobs[4].Job
		j.Device, j.Where, j.FailedOn = "cpu", []int32{0}, c.on
		c.l.Job, c.l.spec = &j, g.jobs[4].spec
		if g.startsElsewhere(c.l, run.Result{Code: c.code}) || g.absent != nil {
			t.Errorf("%s: it starts elsewhere, absent are %v", name, g.absent)
		}
	}
}

// TestBrokenTrainingsDelayNoOther: broken trainings of one script leave out the only free device for a round each, not for a time that
// doubles.
func TestBrokenTrainingsDelayNoOther(t *testing.T) {
	t.Parallel()
	const broken = 6
	g := newStage(t, 2, append(append([]string{"long"}, slices.Repeat([]string{"broken"}, broken)...), "sound")...)
	g.played.fails = func(c launch.Command) bool { return trainingOf(c.RunDir) == "broken" }
	g.played.runsOn = func(name string) bool { return name == "long" }
	from := g.clock.Monotonic()
	for g.jobs[broken+2] != nil || len(g.jobs) == 0 {
		if err := g.step(); err != nil {
			t.Fatal(err)
		}
		for g.running() > 1 {
			g.takeResult(<-g.results)
		}
		if g.clock.pass(g.Round / 4); g.clock.Monotonic()-from > 100*g.Round {
			t.Fatalf("the other one still waits\n%s", g.said.String())
		}
	}
	if took := (g.clock.Monotonic() - from) / g.Round; took < broken || took > 2*broken {
		t.Errorf("the other one waits for %d rounds\n%s", took, g.said.String())
	}
	g.jobs[1].interrupts <- syscall.SIGTERM
	g.takeResult(<-g.results)
}

// TestFailuresOfOneScript: a further job of the same script is evidence only against a place that is known to be at fault.
func TestFailuresOfOneScript(t *testing.T) {
	t.Parallel()
	for proven, want := range map[bool]int{false: 1, true: 2} {
		g := newStage(t, 2, "a", "a")
		g.admitNew()
		for id := 1; id <= 2; id++ {
			l := g.jobs[id]
			l.Device, l.Where = "cpu", []int32{0}
			if !g.startsElsewhere(l, run.Result{Code: run.CodeTraining}) || len(g.info.Faults) != 1 {
				t.Fatalf("job %d: %+v\n%s", id, g.info.Faults, g.said.String())
			}
			g.clock.pass(g.Round + time.Second)
			g.takeBack()
			if id == 1 {
				g.info.Faults[0].Proven = proven
			}
		}
		if f := g.info.Faults[0]; f.Jobs != want || f.Job != 2 || f.Proven {
			t.Errorf("proven %v: %+v, want %d jobs", proven, f, want)
		}
	}
}

// TestUnfitType: a job that fails on one type of device and works on another one proves no device to be at fault, as one that needs more
// memory; one that works on another device of the type does.
func TestUnfitType(t *testing.T) {
	t.Parallel()
	failed := fault{Place: "v100:0", Device: "v100", Job: 1, Jobs: 1}
	foreign, proven := failed, failed
	foreign.Job, proven.Proven = 2, true
	same := fault{Place: "cpu:0", Device: "cpu", Job: 1, Jobs: 1}
	for name, c := range map[string]struct {
		f            fault
		left, proven bool
	}{
		"another type":                   {failed, false, false},
		"another type, and another job":  {foreign, true, false},
		"another type, proven by others": {proven, true, true},
		"the same type":                  {same, true, true},
	} {
		g := newStage(t, 2, "a")
		g.admitNew()
		l := g.jobs[1]
		c.f.Until = g.now() + 60
		l.Device, l.Where, l.FailedOn, g.info.Faults = "cpu", []int32{1}, []string{c.f.Place}, []fault{c.f}
		g.noteWorks(l)
		if f := g.info.Faults; len(f) > 0 != c.left || c.left && f[0].Proven != c.proven || l.FailedOn != nil {
			t.Errorf("%s: %+v, the job failed on %v", name, f, l.FailedOn)
		}
	}
}

// TestAllNodesSuspected: trainings that fail on all nodes before the engine is read do not leave a job without a node, for which the
// engine would refuse it.
func TestAllNodesSuspected(t *testing.T) {
	d := newDrill(t, []string{"n0", "n1"}, nil)
	avoids := func(when string, n int, want ...string) {
		t.Helper()
		if got := d.nodesOut("a100", n); !slices.Equal(got, want) {
			t.Errorf("%s: a job with %d devices avoids %v, want %v", when, n, got, want)
		}
	}
	first, second := d.jobs[1], d.jobs[2]
	d.takeResult(result{1, 1, run.Result{Code: run.CodeTraining}})
	if first.State != Waiting {
		t.Fatalf("job 1 is %s (%s)", first.State, first.Job.Reason)
	}
	avoids("one has failed", 2, "n0")
	avoids("one has failed", 4)
	d.takeResult(result{2, 1, run.Result{Code: run.CodeTraining}})
	if second.State != Failed {
		t.Errorf("job 2 is %s (%s): it would have no node", second.State, second.Job.Reason)
	}
	avoids("both have failed", 2, "n0")
	d.info.Faults = append(d.info.Faults, fault{Place: "n1", Device: "a100", Number: -1, Until: d.server.now() + 1})
	avoids("both are suspected", 1)
}

// TestFaultyNode: a job that has failed at once on a node of an engine starts once more, not on that node, and others neither, except
// those that run there; the node is left out for some rounds once the job works elsewhere.
func TestFaultyNode(t *testing.T) {
	d := newDrill(t, []string{"n0"}, nil)
	var asked engine.Place
	refused := errors.New("the engine refuses it")
	d.site.open = func(_ context.Context, o engine.Offer, _ run.Config, _ bool) (run.Site, error) {
		asked = o.Place(resources.Allocation{GPUs: 2, CPUs: 8})
		return run.Site{}, refused
	}
	d.Agent, d.results = newRehearsal().agent(), make(chan result)
	avoids := func(when string, want ...string) {
		t.Helper()
		d.begin(&live{Job: &Job{ID: 99, Device: "a100", Where: []int32{0, 1}, Run: "another"}, spec: &Spec{Config: training(t, t.TempDir(), "another")}}, false)
		if r := <-d.results; !errors.Is(r.Err, refused) || !slices.Equal(asked.Avoid, want) {
			t.Errorf("%s: jobs avoid %v, %v; want %v", when, asked.Avoid, r.Err, want)
		}
	}
	avoids("at first")
	l := d.jobs[1]
	d.first[1] = l.Where
	d.takeResult(result{1, 1, run.Result{Code: run.CodeTraining}})
	if l.State != Waiting || !slices.Equal(l.FailedOn, []string{"n0"}) {
		t.Fatalf("%s (%s), failed on %v", l.State, l.Job.Reason, l.FailedOn)
	}
	avoids("after the first life", "n0")
	d.read(settledReadings)
	d.check("suspected", 2, 1)
	l.Run = "second"
	if actions := d.decide(); len(actions) != 1 || actions[0].Job != 1 {
		t.Fatalf("%+v: want that job 1 starts again", actions)
	}
	d.runsOn(l, "n1")
	d.first[1] = l.Where
	st := &run.Status{}
	st.Pace.UnitSeconds, st.Pace.Startup, st.Pace.Blocks = 1, 1, 1
	d.measure(l, st)
	if f := d.info.Faults; l.FailedOn != nil || len(f) != 1 || f[0].Place != "n0" || !f[0].Proven {
		t.Errorf("%+v, the job failed on %v", f, l.FailedOn)
	}
	d.clock.pass(suspectRounds * d.Round)
	d.read(1)
	d.check("proven", 2, 1)
	avoids("proven", "n0")
	d.clock.pass(provenRounds * d.Round)
	d.read(1)
	d.check("afterwards", 4, 1)
	avoids("afterwards")

	d.info.Faults = []fault{{Place: "n1", Device: "a100", Number: -1, Until: d.server.now() + 1e6}}
	d.read(settledReadings)
	d.check("where a job runs", 4, 1)
	if d.lost(l) || l.State != Running || l.Stretch != 2 {
		t.Errorf("job 1 is %s in life %d, lost: %v", l.State, l.Stretch, d.lost(l))
	}
}
