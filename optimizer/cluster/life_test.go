package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule"
	"trainopt/resources"
)

// rehearsal is a launcher of pretended jobs.
type rehearsal struct {
	mu     sync.Mutex
	starts map[string]int // by the name of the training
	jobs   map[string]*rehearsed
	// start and limit are called in each start and each change of a time limit, with the name of the training and the
	// number of the call.
	start, limit func(name string, n int)
	refuses      func() error                // of all starts; nil: none is refused
	fails        func(c launch.Command) bool // a training that exits with an error; nil: none does
	// runsOn is true for a training that ends only once it is adopted, or stopped.
	runsOn func(name string) bool
}

// rehearsed is a pretended job.
type rehearsed struct {
	*rehearsal
	name, dir string
	limits    int
	code      int
	stopped   bool
	done      chan struct{}
	end       func()
}

func (r *rehearsal) Start(_ context.Context, c launch.Command) (launch.Job, error) {
	name := trainingOf(c.RunDir)
	r.mu.Lock()
	r.starts[name]++
	n := r.starts[name]
	r.mu.Unlock()
	if r.start != nil {
		r.start(name, n)
	}
	if r.refuses != nil {
		if err := r.refuses(); err != nil {
			return nil, err
		}
	}
	j := r.job(name, c.RunDir)
	if r.fails != nil && r.fails(c) {
		j.code = 1
	}
	r.mu.Lock()
	r.jobs[c.RunDir] = j
	r.mu.Unlock()
	if r.runsOn == nil || !r.runsOn(name) {
		j.end()
	}
	return j, nil
}

// trainingOf returns the name of the training of a run directory.
func trainingOf(runDir string) string { return strings.Split(filepath.Base(runDir), "-")[2] }

// job returns a job that runs.
func (r *rehearsal) job(name, dir string) *rehearsed {
	j := &rehearsed{rehearsal: r, name: name, dir: dir, done: make(chan struct{})}
	j.end = sync.OnceFunc(func() { close(j.done) })
	return j
}

func (r *rehearsal) Adopt(_ context.Context, h launch.Handle) (launch.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[h.RunDir], nil
}

func (r *rehearsal) Find(dir string) (launch.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[dir]; j != nil {
		return j.Handle(), nil
	}
	return launch.Handle{}, fs.ErrNotExist
}

func (j *rehearsed) Handle() launch.Handle {
	return launch.Handle{RunDir: j.dir, PID: 1 << 30, KeeperStart: 1 << 38}
}

func (j *rehearsed) Enforced() []string { return nil }

func (j *rehearsed) SetStopAfter(time.Duration) error {
	j.mu.Lock()
	j.limits++
	n := j.limits
	j.mu.Unlock()
	if j.limit != nil {
		j.limit(j.name, n)
	}
	if n > 1 {
		j.end()
	}
	return nil
}

func (j *rehearsed) Checkpoint() error { return nil }

func (j *rehearsed) Stop(context.Context, time.Duration) (launch.Exit, error) {
	j.mu.Lock()
	j.stopped = true
	j.mu.Unlock()
	j.end()
	return j.Exit(), nil
}

func (j *rehearsed) Done() <-chan struct{} { return j.done }

func (j *rehearsed) Exit() launch.Exit {
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return launch.Exit{Reason: launch.Stopped, Code: -1, Signal: "SIGTERM", At: time.Now(), Ran: time.Second}
	}
	return launch.Exit{Reason: launch.Exited, Code: j.code, At: time.Now(), Ran: time.Second}
}

func (j *rehearsed) Close() error { return nil }

func (r *rehearsal) agent() run.Agent {
	return run.Agent{Launcher: r, View: run.Quiet{}, Clock: run.SystemClock{}, Speed: func() float64 { return 1 }, Environ: []string{"PATH=" + os.Getenv("PATH")},
		Discover: func(context.Context) (resources.Host, error) {
			return resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, nil
		}}
}

func newRehearsal() *rehearsal {
	return &rehearsal{starts: map[string]int{}, jobs: map[string]*rehearsed{}}
}

// training writes a script and returns the configuration of a run of it.
func training(t *testing.T, dir, name string) run.Config {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name+".sh"), []byte("#!/bin/sh\nexit 1 # the test plays it\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return run.Config{Train: name + ".sh", Name: name, Dir: dir, StateDir: filepath.Join(dir, "state"), Resume: "no", Interval: 50 * time.Millisecond, Samples: -1, Planner: "static"}
}

// TestAgentPanics: a panic in the agent of a job stops neither the server nor other jobs. Another agent takes the job over,
// which is started once; a job all of whose agents panic is stopped.
func TestAgentPanics(t *testing.T) {
	first := func(name string, n int) {
		if name == "bad" && n == 1 {
			panic("test")
		}
	}
	for name, c := range map[string]struct {
		start, limit func(string, int)
		starts       int
		state        State
		stopped      bool
	}{
		"before the start": {start: first, starts: 2, state: Done},
		"while it runs":    {limit: first, starts: 1, state: Done},
		"always": {limit: func(name string, _ int) {
			if name == "bad" {
				panic("test")
			}
		}, starts: 1, state: Failed, stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := newRehearsal()
			r.start, r.limit, r.runsOn = c.start, c.limit, func(name string) bool { return name == "bad" && c.limit != nil }
			site, err := NewLocal(resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			var ids []int
			for _, name := range []string{"bad", "good"} {
				cfg := training(t, dir, name)
				id, err := Submit(cfg.StateDir, Spec{Submitted: time.Now(), Min: 1, Max: 1, Config: cfg})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			state := filepath.Join(dir, "state")
			served := make(chan error, 1)
			go func() {
				served <- Serve(Config{StateDir: state, Site: site, Policy: "fifo", Round: time.Minute, Agent: r.agent(), Message: func(line string) { t.Log(line) }}, nil)
			}()
			ended := func() bool {
				jobs, _, err := Jobs(state)
				if err != nil {
					t.Fatal(err)
				}
				return jobs[0].State.Ended() && jobs[1].State.Ended()
			}
			for end := time.Now().Add(2 * time.Minute); !ended(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the jobs do not end")
				}
			}
			if err := errors.Join(Drain(state, false), <-served); err != nil {
				t.Fatal(err)
			}
			bad, _, err := ReadJob(state, ids[0])
			if err != nil {
				t.Fatal(err)
			}
			if bad.State != c.state || r.starts["bad"] != c.starts || c.state == Failed && !strings.Contains(bad.Reason, "panicked") {
				t.Errorf("the job is %s (%s) after %d starts, want %s after %d", bad.State, bad.Reason, r.starts["bad"], c.state, c.starts)
			}
			for _, j := range r.jobs {
				if j.stopped != (j.name == "bad" && c.stopped) {
					t.Errorf("%s: stopped %v", j.name, j.stopped)
				}
			}
			if good, _, err := ReadJob(state, ids[1]); err != nil || good.State != Done {
				t.Errorf("the other job is %s (%s), %v", good.State, good.Reason, err)
			}
			if log, err := os.ReadFile(filepath.Join(jobDir(state, ids[0]), "agent.log")); err != nil || !strings.Contains(string(log), "life_test.go") {
				t.Errorf("agent.log without the stack: %v\n%s", err, log)
			}
		})
	}
}

// serveAlone serves a state directory with one slot, whose trainings are played. The server ends by stop.
func serveAlone(t *testing.T, state string, r *rehearsal) (stop chan<- os.Signal, served <-chan error) {
	t.Helper()
	site, err := NewLocal(resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	signals, ended := make(chan os.Signal), make(chan error, 1)
	go func() {
		ended <- Serve(Config{StateDir: state, Site: site, Policy: "fifo", Round: time.Minute, Agent: r.agent(), Message: func(line string) { t.Log(line) }}, signals)
	}()
	return signals, ended
}

// awaitJob waits until a job fulfils a condition.
func awaitJob(t *testing.T, state string, id int, is func(j *Job) bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		j, _, err := ReadJob(state, id)
		if err == nil && is(j) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("job %d: %+v, %v", id, j, err)
		}
	}
}

// TestDeadlineOfStartedJob sets the wall clock by a day while a job with a deadline waits: it starts, and counts the time since its
// submission by the time of the server.
func TestDeadlineOfStartedJob(t *testing.T) {
	for name, set := range map[string]time.Duration{"forward": 24 * time.Hour, "back": -24 * time.Hour} {
		dir, r := t.TempDir(), newRehearsal()
		wall := &setClock{wall: time.Now(), monotonic: time.Hour}
		site, err := NewLocal(resources.Host{CPUs: 2, CPUIDs: []int{0, 1}, Memory: 16}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &server{Config: Config{Site: site, Round: time.Minute, Message: func(string) {}, Agent: r.agent()}, statuses: map[int]observation{}, results: make(chan result), poke: make(chan struct{}, 1), rates: newLearner(site.Devices(), 60)}
		s.Agent.Clock = wall
		s.clock = newClock(wall)
		cfg := training(t, dir, "waits")
		cfg.SLA.TimeMax, s.StateDir = time.Hour, cfg.StateDir
		if s.scheduler, err = newScheduler(s.options("fifo"), s.now()); err != nil {
			t.Fatal(err)
		}
		id, err := Submit(cfg.StateDir, Spec{Submitted: wall.wall, Min: 1, Max: 1, Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		wall.wall = wall.wall.Add(set)
		wall.pass(10 * time.Minute)
		j, spec, err := ReadJob(cfg.StateDir, id)
		if err != nil {
			t.Fatal(err)
		}
		j.Device, j.Where, j.Stretch, j.Run = "cpu", []int32{0}, 1, journal.NewRunID(wall.wall, "waits")
		s.begin(&live{Job: j, spec: spec}, false)
		if res := <-s.results; res.Code != run.CodeDone || math.Abs(float64(res.Record.Outcome.Seconds)-600) > 60 {
			t.Errorf("%s: exit %d (%v), %+v, want done after 600 s", name, res.Code, res.Err, res.Record.Outcome)
		}
	}
}

// TestCancelledJobOfDeadServer: a job that was cancelled, and had not left when its server died, is not continued by the next
// one.
func TestCancelledJobOfDeadServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRehearsal()
	r.runsOn = func(string) bool { return true }
	cfg := training(t, dir, "leaves")
	at := time.Now()
	id, err := Submit(cfg.StateDir, Spec{Submitted: at, Min: 1, Max: 1, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	keeps := true
	j := Job{Schema: schema, ID: id, Name: "leaves", State: Stopping, Reason: "the policy gives its devices to others", Cancelled: true, Run: journal.NewRunID(at, "leaves"),
		Device: "cpu", Where: []int32{0}, Stretch: 1, Since: at, Asked: at, Keeps: &keeps, Submitted: at, Counted: unix(at)}
	if err := writeJSON(filepath.Join(jobDir(cfg.StateDir, id), "job.json"), j); err != nil {
		t.Fatal(err)
	}
	stop, served := serveAlone(t, cfg.StateDir, r)
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool { return j.State == Cancelled })
	stop <- os.Interrupt
	if err := <-served; err != nil || r.starts["leaves"] > 1 {
		t.Errorf("%d starts, %v", r.starts["leaves"], err)
	}
}

// TestInterruptDuringStop: while optimize runs stop waits for a job to leave, Ctrl-C ends the server.
func TestInterruptDuringStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRehearsal()
	r.runsOn = func(string) bool { return true }
	cfg := training(t, dir, "stays")
	id, err := Submit(cfg.StateDir, Spec{Submitted: time.Now(), Min: 1, Max: 1, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveAlone(t, cfg.StateDir, r)
	run := ""
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool {
		run = j.Run
		return run != "" && journal.HasState(filepath.Join(journal.RunsDir(cfg.StateDir), run))
	})
	if err := os.WriteFile(filepath.Join(journal.RunsDir(cfg.StateDir), run, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop <- os.Interrupt
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the server runs on")
	}
	for os.RemoveAll(cfg.StateDir) != nil { // the agent, whose process would have ended, may still write
	}
}

// TestServerDiesBeforeTheStart: whatever the agent of a run had written when its server was killed, the next one starts the
// training that was not started before, also if that happens twice.
func TestServerDiesBeforeTheStart(t *testing.T) {
	for name, files := range map[string][]string{"nothing": nil, "a lock": {"lock"}, "the record": {"lock", "run.json"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := training(t, t.TempDir(), "early")
			dir := filepath.Join(journal.RunsDir(cfg.StateDir), journal.NewRunID(time.Now(), "early"))
			for n := 1; n <= 2; n++ { // the first one dies again, in its start
				for _, file := range files {
					if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, file), nil, 0o600)); err != nil {
						t.Fatal(err)
					}
				}
				r := newRehearsal()
				agent := r.agent()
				agent.Lease = &run.Lease{Allocation: resources.Allocation{CPUs: 1}, RunID: filepath.Base(dir), Until: func() time.Time { return time.Time{} }, Submitted: time.Now()}
				res := life{dir: dir, adopt: true}.run(agent, cfg, nil)
				if res.Code != run.CodeDone || r.starts["early"] != 1 {
					t.Fatalf("exit %d (%v) after %d starts, want %d after 1", res.Code, res.Err, r.starts["early"], run.CodeDone)
				}
				if err := os.Remove(filepath.Join(dir, "state")); err != nil {
					t.Fatal(err)
				}
				_ = os.Remove(filepath.Join(dir, "state.prev"))
			}
			if others, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(others) != 1 {
				t.Errorf("directories %v, %v: want the run alone", others, err)
			}
		})
	}
}

// TestCostWithoutProgress: the stored cost of a job that makes no progress follows its cost within 1 %, or a cent.
func TestCostWithoutProgress(t *testing.T) {
	s, _ := memoryServer(t)
	l, stored := s.jobs[1], Job{}
	delete(s.dirty, 2)
	if err := os.MkdirAll(jobDir(s.StateDir, 1), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 600 { // one reading a second
		s.observe(l, &run.Status{KeepsWork: true, Saves: true, Spent: cost.USD(l.CostUSD + 0.001)})
		if len(s.dirty) > 0 {
			s.save()
		}
		if err := readJSON(filepath.Join(jobDir(s.StateDir, 1), "job.json"), &stored); err != nil || l.CostUSD-stored.CostUSD > 0.01*l.CostUSD {
			t.Fatalf("stored $%v, spent $%v, %v", stored.CostUSD, l.CostUSD, err)
		}
	}
}

// TestEndOfLateNotice: a job ends when its training exits, not when a server that was dead or suspended notices it: the time
// between is no time for which it waited.
func TestEndOfLateNotice(t *testing.T) {
	began := time.Now()
	s, _ := memoryServer(t)
	l := s.jobs[1]
	now := l.Counted + 100
	s.scheduler.settle(now, s.scheduler.byID[1])
	exit := time.Now().Add(-60 * time.Second)
	l.Stretch, l.Since = 1, exit.Add(-time.Minute)
	dir := t.TempDir()
	text := fmt.Sprintf(`{"schema":1,"exit":{"reason":"exited","at":%q}}`, exit.Format(time.RFC3339Nano))
	if err := os.WriteFile(filepath.Join(dir, "exit.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.takeResult(result{1, 1, run.Result{Dir: dir, Code: run.CodeDone}})
	if off := l.Ended.Sub(exit).Abs(); l.State != Done || off > time.Millisecond || l.WaitS > time.Since(began).Seconds() {
		t.Errorf("%s %v after its exit, waited %g s", l.State, off, l.WaitS)
	}
	events, _, err := ReadEvents(s.StateDir, 0)
	if last := events[len(events)-1]; err != nil || last.Kind != EventEnd || math.Abs(last.Exited-unix(exit)) > 1e-3 {
		t.Errorf("%+v, %v: want the end with the exit", last, err)
	}
}

// TestResumeRefused: a job that is to start again although its run cannot be resumed starts from the beginning, unless its limits are
// used up: what that run has saved remains.
func TestResumeRefused(t *testing.T) {
	for exhausted, want := range map[bool]State{false: Waiting, true: Failed} {
		s, _ := memoryServer(t)
		l := s.jobs[1]
		l.Apart, l.Run, l.Stretch, l.Job.Done = true, "r", 1, 5
		s.takeResult(result{1, 1, run.Result{Code: run.CodeUsage, Err: run.ErrNotResumable, Exhausted: exhausted}})
		if kept := l.Run != "" && l.Job.Done == 5; l.State != want || kept != exhausted {
			t.Errorf("exhausted %t: %s with run %q and %g units, want %s", exhausted, l.State, l.Run, l.Job.Done, want)
		}
	}
}

// started returns the number of starts of a training.
func (r *rehearsal) started(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts[name]
}

// TestUnsavedJobKeepsItsDevices: a job whose devices were taken before it had saved anything loses its work once: under a policy that
// divides time it keeps its next devices, which the next server knows too, until it has saved. One that only waited in the queue of the
// engine has lost nothing.
func TestUnsavedJobKeepsItsDevices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   run.Code
		queued bool
		pinned bool
	}{
		"continues from the beginning": {run.CodeTryAgain, false, true}, "starts again": {run.CodeUsage, false, true}, "waited in the queue": {run.CodeTryAgain, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := memoryServer(t)
			wall := &setClock{wall: time.Now(), monotonic: time.Hour}
			s.Agent.Clock, s.clock, s.Round, s.jobs = wall, newClock(wall), time.Minute, map[int]*live{}
			var err error
			if s.scheduler, err = newScheduler(s.options("max_min_fairness"), s.now()); err != nil {
				t.Fatal(err)
			}
			for id := 1; id <= 2; id++ {
				l := &live{Job: &Job{Schema: schema, ID: id, Name: "x", Total: 1e6, Run: "r", Submitted: wall.wall}, spec: &Spec{Submitted: wall.wall, Min: 1}, moving: math.NaN()}
				s.jobs[id] = l
				s.rates.enter(l.Job, l.spec, "")
				if err := errors.Join(os.MkdirAll(jobDir(s.StateDir, id), 0o700), s.scheduler.Admit(s.now(), l.Job, l.spec)); err != nil {
					t.Fatal(err)
				}
			}
			saved, failed, seen := map[int]bool{2: true}, run.Result{Code: c.code, Unsaved: true}, map[int]time.Time{}
			stops := func(rounds int) (n int) { // of job 1
				for range 2 * rounds {
					actions, err := s.scheduler.Step(s.now())
					if err != nil {
						t.Fatal(err)
					}
					for _, a := range actions {
						l := s.jobs[a.Job]
						switch {
						case a.Do != schedule.Stop:
							if seen[l.ID] = wall.wall.Add(2 * time.Minute); l.Keeps == nil {
								s.scheduler.Keeps(l.ID, nil)
							}
							continue
						case l.ID == 1:
							n++
						}
						res := run.Result{Code: run.CodeTryAgain}
						if !saved[l.ID] {
							res, l.Queued = failed, c.queued
						}
						s.takeResult(result{l.ID, l.Stretch, res})
					}
					for id, l := range s.jobs {
						if l.State.holds() && !wall.wall.Before(seen[id]) { // its agent takes its time
							st := &run.Status{KeepsWork: true, Saves: true}
							if saved[id] {
								st.Checkpoint = &journal.Checkpoint{}
							}
							s.observe(l, st)
						}
					}
					wall.pass(30 * time.Second)
				}
				return n
			}
			if n := stops(40); n == 1 != c.pinned || n == 0 {
				t.Errorf("stopped %d times before it has saved, want once: %v", n, c.pinned)
			}
			var stored Job
			s.save()
			if err := readJSON(filepath.Join(jobDir(s.StateDir, 1), "job.json"), &stored); err != nil || stored.Unsaved != c.pinned {
				t.Errorf("stored: %v (%v), want %v", stored.Unsaved, err, c.pinned)
			}
			if r := s.jobs[1].Run; (r == "") != (c.code == run.CodeUsage) {
				t.Errorf("its run is %q", r)
			}
			saved[1] = true
			if n := stops(40); n < 2 {
				t.Errorf("stopped %d times once it has saved", n)
			}
		})
	}
}

// TestMessageOfACancelledJob: a cancelled job, which leaves its devices as between two lives, has one message about its end.
func TestMessageOfACancelledJob(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	box := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Event, Text string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if m.Event == "end" {
			what, _, _ := strings.Cut(m.Text, " after ")
			got = append(got, what)
		}
	}))
	defer box.Close()
	r := newRehearsal()
	r.runsOn = func(string) bool { return true }
	cfg := training(t, t.TempDir(), "leaves")
	if err := json.Unmarshal(fmt.Appendf(nil, "[%q]", box.URL), &cfg.Notify); err != nil {
		t.Fatal(err)
	}
	id, err := Submit(cfg.StateDir, Spec{Submitted: time.Now(), Min: 1, Max: 1, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveAlone(t, cfg.StateDir, r)
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool { return j.Keeps != nil })
	if err := Cancel(cfg.StateDir, id); err != nil {
		t.Fatal(err)
	}
	awaitJob(t, cfg.StateDir, id, func(j *Job) bool { return j.State == Cancelled })
	stop <- os.Interrupt
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"stopped (cancelled)"}; !slices.Equal(got, want) {
		t.Errorf("messages %q, want %q", got, want)
	}
}
