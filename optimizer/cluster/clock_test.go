package cluster

import (
	"cmp"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// setClock is a clock whose wall can be set.
type setClock struct {
	wall      time.Time
	monotonic time.Duration
}

func (c *setClock) Now() time.Time           { return c.wall }
func (c *setClock) Monotonic() time.Duration { return c.monotonic }
func (c *setClock) pass(d time.Duration)     { c.wall, c.monotonic = c.wall.Add(d), c.monotonic+d }

// TestClockIsSet sets the wall clock by an hour, forward and back, while a server runs: its own time runs evenly, leases by the
// wall clock are extended at once, and times of files are converted.
func TestClockIsSet(t *testing.T) {
	const round = 60.0
	for name, set := range map[string]time.Duration{"not": 0, "forward": time.Hour, "back": -time.Hour} {
		wall := &setClock{wall: time.Unix(2e9, 0), monotonic: time.Hour}
		c := newClock(wall)
		wall.pass(10 * time.Second)
		until := unix(wall.wall) + round
		if c.renewable(until, round) {
			t.Errorf("%s: a new lease is extended", name)
		}
		wall.wall = wall.wall.Add(set)
		submitted := unix(wall.wall)
		wall.pass(time.Second)
		if c.now() != 2e9+11 || c.skew() != set.Seconds() || c.at(submitted) != 2e9+10 {
			t.Errorf("%s: %.0f s after the start, skew %v s, submitted after %v s; want 11, %v, 10", name, c.now()-2e9, c.skew(), c.at(submitted)-2e9, set.Seconds())
		}
		if c.renewable(until, round) != (set != 0) {
			t.Errorf("%s: the lease of before is extended: %v", name, set == 0)
		}
	}
}

// TestClockSetBackBetweenServers: after the clock was set back by an hour while no server ran, the next scheduler decides at
// once about a new job.
func TestClockSetBackBetweenServers(t *testing.T) {
	sim := queue(t, 0, 0)
	l := newLearner(sim.Devices, 60)
	const now = 1e9 - 3600
	s, err := newScheduler(options{Devices: l.devices, Policy: "fifo", Round: 60, Rates: l}, now)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []*Job
	var specs []*Spec
	for i := range sim.Jobs {
		l.enter(&sim.Jobs[i].Job, &sim.Jobs[i].Spec, "")
		jobs, specs = append(jobs, &sim.Jobs[i].Job), append(specs, &sim.Jobs[i].Spec)
	}
	if err := s.Restore(sim.State, jobs, specs); err != nil {
		t.Fatal(err)
	}
	s.Left(now+1, 1, "exit")
	s.End(now+1, 1, Done, "")
	spec := &Spec{Submitted: fromUnix(now + 1), Min: 4, Max: 4}
	spec.Config.Train = "new"
	j := &Job{ID: 9, Name: "new", Total: 10}
	l.enter(j, spec, "")
	if err := s.Admit(now+1, j, spec); err != nil {
		t.Fatal(err)
	}
	actions, err := s.Step(now + 1)
	if err != nil || len(actions) != 1 || actions[0].Job != 9 {
		t.Errorf("actions %+v, %v: want the start of job 9", actions, err)
	}
	if jobs[1].Counted > now+1 {
		t.Errorf("job 2 is counted up to %.0f s after now", jobs[1].Counted-now)
	}
}

// TestTimeContinuesAfterClockWasSetBack: a server that starts after the clock was set back by an hour continues the time of the last
// one, so that no job ends before it has begun.
func TestTimeContinuesAfterClockWasSetBack(t *testing.T) {
	dir := t.TempDir()
	cfg := training(t, dir, "waits")
	before := time.Now().Add(time.Hour)
	id, err := Submit(cfg.StateDir, Spec{Submitted: before, Min: 1, Max: 1, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	j := Job{Schema: schema, ID: id, Name: "waits", State: Waiting, Since: before, Submitted: before, Counted: unix(before) + 60}
	if err := writeJSON(filepath.Join(jobDir(cfg.StateDir, id), "job.json"), j); err != nil {
		t.Fatal(err)
	}
	stop, served := serveAlone(t, cfg.StateDir, newRehearsal())
	var end Job
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool { end = *j; return j.State.Ended() })
	stop <- os.Interrupt
	if err := <-served; err != nil || end.State != Done || unix(end.Ended) < j.Counted {
		t.Errorf("%+v, %v: ended %v before it was counted", end, err, fromUnix(j.Counted).Sub(end.Ended))
	}
	events, torn, err := ReadEvents(cfg.StateDir, 0)
	if err != nil || torn > 0 || events[0].Kind != EventServe || events[0].Time < j.Counted {
		t.Errorf("%d damaged lines, %v, %+v: want times after %v", torn, err, events[0], j.Counted)
	}
}

// TestRemoved: the server notices that its state directory was removed, or replaced.
func TestRemoved(t *testing.T) {
	dir := t.TempDir()
	lock := func() *journal.Run {
		if err := makeDirs(dir); err != nil {
			t.Fatal(err)
		}
		run, err := journal.Open(dirOf(dir))
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := run.Lock()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(unlock)
		return run
	}
	var err error
	s := &server{Config: Config{StateDir: dir}, dir: lock()}
	if s.lock, err = s.dir.LockInfo(); err != nil || s.removed() {
		t.Errorf("removed at the start, %v", err)
	}
	if err := os.RemoveAll(dir); err != nil || !s.removed() {
		t.Errorf("not removed, %v", err)
	}
	if lock(); !s.removed() {
		t.Error("another lock counts as its own")
	}
}

// TestDeadlineOfWaitingJob sets the wall clock by a day while a job waits: its deadline passes by the time of the server.
func TestDeadlineOfWaitingJob(t *testing.T) {
	for name, set := range map[string]time.Duration{"forward": 24 * time.Hour, "back": -24 * time.Hour} {
		wall := &setClock{wall: time.Now(), monotonic: time.Hour}
		s := &server{Config: Config{Message: func(string) {}}, clock: newClock(wall), scheduler: &scheduler{}, jobs: map[int]*live{}, dirty: map[int]bool{}}
		spec := &Spec{Submitted: wall.wall}
		spec.Config.SLA.TimeMax = time.Hour
		s.jobs[1] = &live{Job: &Job{ID: 1, Submitted: wall.wall}, spec: spec}
		wall.wall = wall.wall.Add(set)
		if s.endLate(); len(s.jobs) != 1 {
			t.Errorf("%s: ended when the clock was set", name)
		}
		wall.pass(61 * time.Minute)
		if s.endLate(); len(s.jobs) != 0 {
			t.Errorf("%s: it waits beyond its deadline", name)
		}
	}
}

// TestLeaveRepeated: requests to leave that an agent does not take, since it has not begun or has ended, do not block the
// server, which would never take the agent's result.
func TestLeaveRepeated(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // a blocked server is a deadlock
		s := &server{Config: Config{StateDir: dir, Message: func(string) {}}, clock: newClock(&setClock{wall: time.Unix(2e9, 0)})}
		l := &live{Job: &Job{ID: 1}, interrupts: make(chan os.Signal, 2)}
		for range 5 {
			s.leave(l)
		}
		if len(l.interrupts) != 2 {
			t.Errorf("%d requests, want 2", len(l.interrupts))
		}
	})
}

// TestClockSetWhileNoServerRuns: the next server on the same boot continues the time of the last one, so that a clock that was set
// meanwhile neither is waiting nor ends jobs by their deadlines; on another boot, the wall clock counts.
func TestClockSetWhileNoServerRuns(t *testing.T) {
	for name, c := range map[string]struct {
		set     time.Duration
		boot    string // of the last server and the submissions, empty: this one
		waited  float64
		admits  bool // the job that no server has taken has not passed its deadline
		counted bool // the other one
	}{
		"forward": {24 * time.Hour, "", 60, true, true}, "back": {-24 * time.Hour, "", 60, true, true}, "not set": {0, "", 60, true, true},
		"restarted": {24 * time.Hour, "another", 24*3600 + 60, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			wall := &setClock{wall: time.Now(), monotonic: time.Hour}
			boot := cmp.Or(c.boot, resources.BootID())
			spec := Spec{Submitted: wall.wall, BootID: boot, Uptime: wall.monotonic.Seconds(), Min: 1, Max: 1}
			spec.Config.SLA.TimeMax = time.Hour
			for range 2 {
				if _, err := Submit(dir, spec); err != nil {
					t.Fatal(err)
				}
			}
			j := Job{Schema: schema, ID: 1, Name: "waits", State: Waiting, Since: wall.wall, Submitted: wall.wall, Counted: unix(wall.wall)}
			last := Server{Schema: schema, BootID: boot, BootedAt: unix(wall.wall) - wall.monotonic.Seconds()}
			if err := errors.Join(writeJSON(filepath.Join(jobDir(dir, 1), "job.json"), j), writeJSON(dirOf(dir, "server.json"), last)); err != nil {
				t.Fatal(err)
			}
			wall.pass(time.Minute)
			wall.wall = wall.wall.Add(c.set)
			site, err := NewLocal(resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := &server{Config: Config{StateDir: dir, Site: site, Policy: "fifo", Agent: run.Agent{Clock: wall}, Message: func(line string) { t.Log(line) }},
				clock: newClock(wall), jobs: map[int]*live{}, damaged: map[int]bool{}, dirty: map[int]bool{}}
			if err := s.open(); err != nil {
				t.Fatal(err)
			}
			defer s.log.close()
			l := s.jobs[1]
			s.scheduler.settle(s.now(), s.scheduler.byID[1])
			if got := l.WaitS; math.Abs(got-c.waited) > 1e-3 {
				t.Errorf("it waited %v s, want %v", got, c.waited)
			}
			s.endLate()
			if (s.jobs[1] != nil) != c.counted || (s.jobs[2] != nil) != c.admits {
				t.Errorf("within the deadline: %v and %v, want %v and %v", s.jobs[1] != nil, s.jobs[2] != nil, c.counted, c.admits)
			}
		})
	}
}
