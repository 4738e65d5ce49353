package queue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// world runs jobs in order of arrival as soon as they fit, and checks the invariants of a simulation.
type world struct {
	t         *rapid.T
	tree      *platform.Tree
	jobs      []order.Job
	s         *queue.Simulation
	m         *queue.Machine
	chooser   queue.Chooser
	waiting   []int32
	running   []int32
	state     []uint8
	done      []float64 // by job: operations per core, or seconds
	energy    float64
	submitted bool
}

// pass accounts for the time between two instants.
func (w *world) pass(dt float64) {
	share := []float64{1, 1, 0.25, 0.05}
	for c, state := range w.state {
		if w.submitted {
			w.energy += dt * share[state] * w.tree.Processors[w.tree.ProcessorOf[c]].Watts
		}
	}
	for _, j := range w.running {
		rate := math.Inf(1)
		for _, c := range w.s.Cores(j) {
			rate = min(rate, 1e9*w.tree.Processors[w.tree.ProcessorOf[c]].GFLOPS*[]float64{1, 0.75, 0, 0}[w.state[c]])
		}
		if w.jobs[j].Ops == 0 {
			rate = 1
		}
		w.done[j] += dt * rate
	}
}

func (w *world) answer() {
	for _, e := range w.s.Events() {
		switch e.Kind {
		case queue.Submitted:
			w.submitted = true
			if queue.MaxCores(w.tree, &w.jobs[e.Job]) < w.jobs[e.Job].Procs {
				w.must(w.s.Reject(e.Job))
			} else {
				w.waiting = append(w.waiting, e.Job)
			}
		case queue.Ended, queue.Stopped:
			w.m.Release(&w.jobs[e.Job], w.s.Cores(e.Job))
			if e.Kind == queue.Ended {
				w.running = slices.DeleteFunc(w.running, func(j int32) bool { return j == e.Job })
			}
		}
	}
	for len(w.waiting) > 0 {
		j := w.waiting[0]
		where, fit := w.m.TryPlace(j, &w.jobs[j], w.chooser, nil)
		if fit != queue.Fits {
			break
		}
		w.must(w.s.Start(j, where))
		w.waiting, w.running = w.waiting[1:], append(w.running, j)
	}
	w.m.Changes(func(state uint8, cores []int32) {
		for _, c := range cores {
			w.state[c] = state
		}
		w.must(w.s.SetState(cores, state))
	})
	if len(w.running) > 0 && rapid.IntRange(0, 20).Draw(w.t, "kill") == 0 {
		j := w.running[0]
		w.must(w.s.Kill(j))
		w.running = w.running[1:]
	}
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// Work is conserved, energy is the sum over cores, time is monotone, ends and limits are correct, and equal commands
// after Reset give equal results.
func TestSimulationKeepsItsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := randomTree(t)
		jobs := make([]order.Job, rapid.IntRange(1, 12).Draw(t, "jobs"))
		for i := range jobs {
			j := randomJob(t, i, min(6, tree.Cores))
			j.Submit = float64(rapid.IntRange(0, 30).Draw(t, "submit"))
			if rapid.IntRange(0, 4).Draw(t, "delay") == 0 {
				j.Run = float64(rapid.IntRange(0, 20).Draw(t, "run"))
			} else {
				j.Ops = 1e9 * float64(rapid.IntRange(1, 100).Draw(t, "ops"))
			}
			j.Limit = float64(rapid.SampledFrom([]int{0, 0, 5, 12}).Draw(t, "limit"))
			jobs[i] = j
		}
		s, err := queue.NewSimulation(tree, jobs)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, tree: tree, jobs: jobs, s: s, m: queue.NewMachine(tree), chooser: queue.NewChooser("high_mem_bw", nil), state: make([]uint8, tree.Cores), done: make([]float64, len(jobs))}
		for c := range w.state {
			w.state[c] = queue.Asleep
		}
		lastEnd, energyThen := 0.0, 0.0
		for before := s.Now(); s.Next(); before = s.Now() {
			if s.Now() < before {
				t.Fatalf("the clock goes from %v to %v s", before, s.Now())
			}
			w.pass(s.Now() - before)
			for _, e := range s.Events() {
				if e.Kind == queue.Ended || e.Kind == queue.Stopped {
					lastEnd, energyThen = s.Now(), w.energy
				}
			}
			w.answer()
		}
		if s.Err() != nil || len(w.running)+len(w.waiting) > 0 {
			t.Fatalf("it ended with %v, %d jobs run, %d wait", s.Err(), len(w.running), len(w.waiting))
		}
		r := s.Result()
		if math.Abs(r.Energy-energyThen) > 1e-9*energyThen {
			t.Fatalf("energy until %v s: got %v J, want %v", lastEnd, r.Energy, energyThen)
		}
		for i, o := range r.Jobs {
			checkOutcome(t, &jobs[i], o, w.done[i])
		}
	})
}

func checkOutcome(t *rapid.T, j *order.Job, o queue.Outcome, done float64) {
	all := j.Ops
	if all == 0 {
		all = j.Run
	}
	ran := o.End - o.Start
	switch o.State {
	case queue.Rejected:
	case queue.Completed:
		if math.Abs(done-all) > 1e-8*max(1, all) || o.Start < j.Submit || j.Limit > 0 && ran > j.Limit+2e-9 {
			t.Fatalf("job %+v completed %v…%v s with %v of %v done", *j, o.Start, o.End, done, all)
		}
	case queue.Killed:
		if j.Limit > 0 && ran > j.Limit+2e-9 || done > all+1 {
			t.Fatalf("job %+v killed %v…%v s with %v of %v done", *j, o.Start, o.End, done, all)
		}
	default:
		t.Fatalf("job %+v is left in state %d", *j, o.State)
	}
}

// uniform returns two processors of two cores at 1 GFLOPS.
func uniform() *platform.Tree {
	return platform.Uniform(1, 2, 2, 1000, platform.Processor{Bandwidth: 32, GFLOPS: 1, Watts: 10})
}

// Invalid commands are refused with a reason and change nothing.
func TestBadCommands(t *testing.T) {
	jobs := []order.Job{{ID: 1, Procs: 2, Ops: 1e9}, {ID: 2, Procs: 1, Ops: 1e9}, {ID: 3, Procs: 1, Submit: 5, Run: 1}}
	for name, c := range map[string]struct {
		do   func(*queue.Simulation) error
		want string
	}{
		"busy core":         {func(s *queue.Simulation) error { return s.Start(1, []int32{1}) }, "core 1 is busy with job 1"},
		"too few cores":     {func(s *queue.Simulation) error { return s.Start(1, nil) }, "it got 0 cores, want 1"},
		"too many cores":    {func(s *queue.Simulation) error { return s.Start(1, []int32{2, 3}) }, "it got 2 cores, want 1"},
		"no such core":      {func(s *queue.Simulation) error { return s.Start(1, []int32{4}) }, "no core 4"},
		"started twice":     {func(s *queue.Simulation) error { return s.Start(0, []int32{2, 3}) }, "running already"},
		"not submitted":     {func(s *queue.Simulation) error { return s.Start(2, []int32{3}) }, "only at 5 s"},
		"no such job":       {func(s *queue.Simulation) error { return s.Start(7, []int32{3}) }, "there are 3 jobs"},
		"no such state":     {func(s *queue.Simulation) error { return s.SetState([]int32{0}, 4) }, "no state P4"},
		"state of no core":  {func(s *queue.Simulation) error { return s.SetState([]int32{-1}, 0) }, "no core -1"},
		"kill what waits":   {func(s *queue.Simulation) error { return s.Kill(1) }, "does not run"},
		"reject what runs":  {func(s *queue.Simulation) error { return s.Reject(0) }, "running already"},
		"wake in the past":  {func(s *queue.Simulation) error { return s.Wake(-1) }, "wake at -1"},
		"wake at no moment": {func(s *queue.Simulation) error { return s.Wake(math.NaN()) }, "wake at NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := queue.NewSimulation(uniform(), jobs)
			if err != nil || !s.Next() {
				t.Fatal(err)
			}
			if err := s.Start(0, []int32{0, 1}); err != nil {
				t.Fatal(err)
			}
			if err := c.do(s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if err := s.SetState([]int32{0, 1, 2}, queue.Serving); err != nil {
				t.Fatal(err)
			}
			if err := s.Start(1, []int32{2}); err != nil {
				t.Errorf("after a command that was refused: %v", err)
			}
			for s.Next() {
			}
			if r := s.Result(); s.Err() != nil || r.Jobs[0].End != 1 || r.Jobs[1].End != 1 || r.GroupedSwitches != 1 || r.Switches != 3 {
				t.Errorf("after a command that was refused: %v, %+v", s.Err(), r)
			}
		})
	}
}

// A job on cores in a state that does not compute cannot progress.
func TestIdleCoresDoNotCompute(t *testing.T) {
	s, err := queue.NewSimulation(uniform(), []order.Job{{ID: 4, Procs: 2, Ops: 1e9}})
	if err != nil || !s.Next() {
		t.Fatal(err)
	}
	if err := s.Start(0, []int32{1, 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetState([]int32{1}, queue.Serving); err != nil {
		t.Fatal(err)
	}
	if s.Next() || s.Err() == nil || !strings.Contains(s.Err().Error(), "core 3 is in state P3") {
		t.Errorf("got %v, want an error about core 3", s.Err())
	}
}

// Ends are in order of job IDs, then submissions in the order of the workload; changes of states form a separate
// step.
func TestOrderOfEvents(t *testing.T) {
	jobs := []order.Job{{ID: 9, Procs: 1, Run: 3}, {ID: 2, Procs: 1, Run: 3}, {ID: 5, Procs: 1, Submit: 3, Run: 10, Limit: 2}, {ID: 1, Procs: 1, Submit: 3, Run: 1}}
	s, err := queue.NewSimulation(uniform(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	free := []int32{0, 1, 2, 3}
	for s.Next() {
		line := fmt.Sprint(s.Now())
		for _, e := range s.Events() {
			line += fmt.Sprintf(" %d:%d", e.Kind, e.Job)
			if e.Kind == queue.Submitted {
				if err := s.Start(e.Job, free[:1]); err != nil {
					t.Fatal(err)
				}
				if err := s.SetState(free[:1], queue.Serving); err != nil {
					t.Fatal(err)
				}
				free = free[1:]
			}
		}
		if s.Now() == 0 && len(got) == 0 {
			if err := s.Wake(3.5); err != nil {
				t.Fatal(err)
			}
		}
		got = append(got, line)
	}
	want := []string{"0 2:0 2:1", "0 4:-1", "3 0:1 0:0 2:2 2:3", "3 4:-1", "3.5 3:-1", "4 0:3", "5 0:2"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if r := s.Result(); r.Jobs[2].State != queue.Killed || r.Jobs[3].State != queue.Completed {
		t.Errorf("outcomes: %+v", r.Jobs)
	}
}

// Invalid jobs are refused.
func TestBadJobs(t *testing.T) {
	for want, j := range map[string]order.Job{
		"asks for 0 cores": {},
		"want a time":      {Procs: 1, Submit: math.NaN()},
		"of at least 0":    {Procs: 1, Ops: -1},
	} {
		if _, err := queue.NewSimulation(uniform(), []order.Job{j}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
