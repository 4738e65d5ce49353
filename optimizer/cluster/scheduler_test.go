package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/cluster"
)

var smallCluster = []schedule.DeviceType{{Name: "k80", Count: 3, PerServer: 3, USDHour: 0.45}, {Name: "p100", Count: 2, PerServer: 2, USDHour: 1.46}, {Name: "v100", Count: 2, PerServer: 2, USDHour: 2.48}}

// TestLiveIsSimulated is the fidelity of the live scheduler: under each policy, the same jobs at the same rates complete
// at the same times as in the simulator, with the same cost of each move.
func TestLiveIsSimulated(t *testing.T) {
	for _, policy := range share.Names() {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			const cost = 20
			trace := drawTrace(3, 18, smallCluster, true, policy == "allox")
			custom, err := share.New(policy, share.Options{})
			if err != nil {
				t.Fatal(err)
			}
			simulated, err := cluster.Run(context.Background(), cluster.Config{Devices: smallCluster, Jobs: trace, Policy: policy, Custom: custom, Preemption: schedule.Preemption{Seconds: cost}})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, policy, smallCluster, trace, cost)
			w.check = true
			live := w.run()
			within := 1e-3
			if policy == "min_total_duration_packed" { // its program has many optima, among which rounding decides
				within = 0.1
			}
			if sim := float64(simulated.MeanJCTS); math.Abs(live/sim-1) > within {
				t.Errorf("mean completion time %.1f s live, %.1f s simulated (%+.2f %%)", live, sim, 100*(live/sim-1))
			}
		})
	}
}

// TestDecisionsBeforeExits checks that policies decide about jobs that have done all of their steps but have not exited.
func TestDecisionsBeforeExits(t *testing.T) {
	for _, policy := range share.Names() {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, policy, smallCluster, drawTrace(3, 18, smallCluster, true, policy == "allox"), 20)
			w.closes, w.check = 150, true
			w.run()
			for _, e := range w.events {
				if e.Kind == EventDecide && e.Reason != "" {
					t.Fatalf("at %v s: %s", e.Time, e.Reason)
				}
			}
		})
	}
}

// TestRestartChangesNothing replaces the scheduler by one restored from its state at random times.
func TestRestartChangesNothing(t *testing.T) {
	for _, policy := range []string{"srtf", "best_match", "max_min_fairness_perf", "themis", "tiresias", "sia", "elasticflow", "finish_time_fairness_perf", "best_match_packed"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			trace := drawTrace(5, 16, smallCluster, true, false)
			want := newWorld(t, policy, smallCluster, trace, 20)
			want.run()
			got := newWorld(t, policy, smallCluster, trace, 20)
			got.check = true
			r := rand.New(rand.NewPCG(1, 2))
			for restarts := 0; len(got.ended) < len(trace); {
				got.step()
				got.pace()
				if r.IntN(4) == 0 {
					got.restart(policy)
					if restarts++; restarts == 1 {
						got.act() // nothing to do
					}
				}
			}
			for id, at := range want.ended {
				if math.Abs(got.ended[id]-at) > 1e-6*at {
					t.Errorf("job %d ended at %v s, without restarts at %v s", id, got.ended[id], at)
				}
			}
		})
	}
}

// TestEndBeforeTheState replaces the scheduler, each time that a job has ended, by one restored from the state before that: a
// server writes jobs before the state, and may be killed in between. The other jobs are not affected.
func TestEndBeforeTheState(t *testing.T) {
	for _, policy := range []string{"fifo", "srtf", "max_min_fairness_perf", "themis", "gandiva", "best_match_packed", "fifo_packed", "sia"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			trace := drawTrace(5, 16, smallCluster, true, false)
			w := newWorld(t, policy, smallCluster, trace, 20)
			w.check = true
			restarts := 0
			for len(w.ended) < len(trace) {
				before, arrived, state := len(w.ended), w.arrived, w.state()
				w.step()
				w.pace()
				if len(w.ended) > before && w.arrived == arrived {
					w.restore(policy, state)
					w.act()
					restarts++
				}
			}
			if restarts < len(trace)/2 {
				t.Errorf("%d restarts", restarts)
			}
		})
	}
}

// restart replaces the scheduler and its jobs by what is stored of them.
func (w *world) restart(policy string) { w.restore(policy, w.state()) }

func (w *world) state() []byte {
	state, err := w.s.State()
	if err != nil {
		w.t.Fatal(err)
	}
	return state
}

// restore replaces the scheduler by one in a state, with the present jobs.
func (w *world) restore(policy string, state []byte) {
	var jobs []*Job
	var specs []*Spec
	for _, m := range w.s.active {
		data, err := json.Marshal(m.Job)
		if err != nil {
			w.t.Fatal(err)
		}
		j := new(Job)
		if err := json.Unmarshal(data, j); err != nil {
			w.t.Fatal(err)
		}
		w.jobs[j.ID].job = j
		jobs, specs = append(jobs, j), append(specs, m.spec)
	}
	w.s = w.scheduler(policy)
	if err := w.s.Restore(state, jobs, specs); err != nil {
		w.t.Fatal(err)
	}
}

// TestChargeOfMoves: before the first move, decisions charge twice the median start-up, which one slow start does not change; a
// scheduler that continues from a state charges the same.
func TestChargeOfMoves(t *testing.T) {
	w := newWorld(t, "srtf", smallCluster, nil, 0)
	nan := math.NaN()
	for _, c := range []struct{ startup, save, want float64 }{{1, nan, 2}, {9, nan, 10}, {1.5, nan, 3}, {1, nan, 2.5}, {2, 1.5, 3.5}, {2, 2.5, 4}, {1, nan, 4}} {
		w.s.Worked(w.now, 1, c.startup, c.save, 0)
		if w.restart("srtf"); w.s.engine.Preemption.Seconds != c.want {
			t.Errorf("after a start-up of %g s and a save of %g s: %g s, want %g", c.startup, c.save, w.s.engine.Preemption.Seconds, c.want)
		}
	}
}

// TestChargeOfSlowStarter: a job that takes long to start, among many that do not, is charged with its own moves: it does not move to
// a type on which it is faster by less than it loses.
func TestChargeOfSlowStarter(t *testing.T) {
	for _, policy := range []string{"fifo_perf", "srtf", "tiresias"} {
		const from = 1000.0
		var jobs []Trial
		for id := 1; id <= 8; id++ {
			j := Trial{Job: Job{ID: id, Total: 2}, Spec: Spec{Submitted: fromUnix(from + 3*float64(id)), Min: 1, Max: 1}, Steps: 2, First: 0.1, Again: 0.1, Save: 0.1, Measured: 0.5, Rate: func(int, int) float64 { return 2 }}
			switch id {
			case 7:
				j.Job.Total, j.Steps, j.Pinned = 120, 120, true // holds a
			case 8:
				j.Job.Total, j.Steps, j.First, j.Again, j.Rate = 100, 100, 40, 40, func(device, _ int) float64 { return []float64{1.5, 1}[device] }
			}
			jobs = append(jobs, j)
		}
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}, {Name: "b", Count: 1}}, Round: 60, From: from, Policies: []Span{{From: from, Policy: policy}}, Jobs: jobs,
			Log: func(e Event) {
				if e.Kind == EventStart && e.Job == 8 && e.Stretch > 1 {
					t.Errorf("%s: job 8 moves to %s after %.0f s", policy, e.Device, e.Time-unix(jobs[7].Spec.Submitted))
				}
			}}
		if _, err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlowStarterMakesProgress: a job whose start takes nearly as long as the time between short jobs keeps its devices after each
// restart until it has worked for as long as that takes: it ends while they still arrive.
func TestSlowStarterMakesProgress(t *testing.T) {
	for _, policy := range []string{"srtf", "elasticflow"} {
		const from, every, others = 1000.0, 55.0, 39
		same := func(int, int) float64 { return 1 }
		jobs := []Trial{{Job: Job{ID: 1, Total: 200}, Spec: Spec{Submitted: fromUnix(from), Min: 1, Max: 1}, Steps: 200, First: 40, Again: 40, Save: 1, Measured: 0.5, Rate: same}}
		for n := range others {
			jobs = append(jobs, Trial{Job: Job{ID: n + 2, Total: 15}, Spec: Spec{Submitted: fromUnix(from + 120 + every*float64(n)), Min: 1, Max: 1}, Steps: 15, First: 1, Again: 1, Save: 0.5, Measured: 0.5, Rate: same})
		}
		starts, end, sum := 0, 0.0, 0.0
		sim := Simulation{Devices: []Device{{Name: "a", Count: 1}}, Round: 20, From: from, Policies: []Span{{From: from, Policy: policy}}, Jobs: jobs, Log: func(e Event) {
			switch {
			case e.Kind == EventStart && e.Job == 1:
				starts++
			case e.Kind == EventEnd && e.Job == 1:
				end = e.Time - from
			case e.Kind == EventEnd:
				sum += e.Time - unix(jobs[e.Job-1].Spec.Submitted)
			}
		}}
		if _, err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end > 1000 || starts > 10 || sum/others > 60 {
			t.Errorf("%s: it ends after %.0f s and %d starts, the others take %.1f s on average; want at most 1000, 10 and 60", policy, end, starts, sum/others)
		}
	}
}

// TestRestoreOtherTypes: leases refer to types by index, so that a state of as many other types must not be restored.
func TestRestoreOtherTypes(t *testing.T) {
	w := newWorld(t, "srtf", smallCluster, nil, 0)
	state, err := w.s.State()
	if err != nil {
		t.Fatal(err)
	}
	w.devices = slices.Clone(smallCluster)
	w.devices[0].Name = "other"
	if err := w.scheduler("srtf").Restore(state, nil, nil); err == nil || !strings.Contains(err.Error(), "want other") {
		t.Errorf("restored on other types: %v", err)
	}
}

// TestSlowSavesAndPinnedJobs draws clusters in which jobs take time to leave, may not be stopped, are cancelled, and the
// policy changes. No device has two jobs, a job that may not be stopped is not, and all work is done.
func TestSlowSavesAndPinnedJobs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		policies := slices.DeleteFunc(share.Names(), func(name string) bool { return name == "allox" || strings.Contains(name, "packed") })
		trace := drawTrace(rapid.Uint64Range(0, 1000).Draw(r, "seed"), 10, smallCluster, true, false)
		w := newWorld(t, rapid.SampledFrom(policies).Draw(r, "policy"), smallCluster, trace, 20)
		w.check = true
		w.saves = rapid.SampledFrom([]float64{0, 5, 400}).Draw(r, "save")
		pinned := rapid.IntRange(0, 3).Draw(r, "pinned")
		for steps := 0; len(w.ended) < len(trace); steps++ {
			if steps > 20_000 {
				r.Fatalf("%d of %d jobs have ended after %d events", len(w.ended), len(trace), steps)
			}
			w.step()
			w.pace()
			no := false
			for id := range w.jobs {
				if id <= pinned {
					w.s.Keeps(id, &no)
				}
			}
			if steps%50 == 49 {
				if err := w.s.SetPolicy(w.now, rapid.SampledFrom(policies).Draw(r, "next policy")); err != nil {
					r.Fatal(err)
				}
			}
		}
		for _, e := range w.events {
			if e.Kind == EventStop && e.Job <= pinned {
				r.Fatalf("job %d was stopped at %v s, and keeps no work", e.Job, e.Time)
			}
			if e.Kind == EventDecide && e.Reason != "" {
				r.Fatalf("at %v s: %s", e.Time, e.Reason)
			}
		}
	})
}

// TestNewJobsContinue: whether a job keeps its work is found out some time after its start, until when it is not interrupted.
// Policies that never interrupt a job for one like it do not do so afterwards either.
func TestNewJobsContinue(t *testing.T) {
	for _, policy := range []string{"tiresias", "themis", "fifo", "allox"} {
		const from = 1000.0
		var jobs []Trial
		for id := 1; id <= 5; id++ {
			jobs = append(jobs, Trial{Job: Job{ID: id, Total: 100}, Spec: Spec{Submitted: fromUnix(from + float64(id)), Min: 1, Max: 1}, Steps: 100, First: 2.5, Again: 2.5, Save: 0.5, Measured: 0.5,
				Rate: func(int, int) float64 { return 2 }})
		}
		sim := Simulation{Devices: []Device{{Name: "a", Count: 2}}, Round: 10, From: from, Policies: []Span{{From: from, Policy: policy}}, Jobs: jobs,
			Log: func(e Event) {
				if e.Kind == EventStop {
					t.Errorf("%s: job %d was stopped at %g", policy, e.Job, e.Time-from)
				}
			}}
		if _, err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNodesOfOneJob: a job that fits on one node receives devices of one node, and waits until enough of one are free; a
// distributed one receives whole nodes. Jobs of 3, 3, 2 and 8 of the devices of two nodes of 4 arrive in this order.
func TestNodesOfOneJob(t *testing.T) {
	for _, policy := range []string{"fifo", "max_min_fairness_perf"} {
		const from = 1000.0
		var jobs []Trial
		for i, gpus := range []int{3, 3, 2, 8} {
			jobs = append(jobs, Trial{Job: Job{ID: i + 1, Total: 100 + 50*float64(i)}, Spec: Spec{Submitted: fromUnix(from + float64(i)), Min: gpus, Max: gpus, Distributed: gpus == 8},
				Steps: 100 + 50*float64(i), First: 1, Again: 1, Save: 0.5, Measured: 0.5, Pinned: true, Rate: func(int, int) float64 { return 1 }})
		}
		starts := map[int]float64{}
		sim := Simulation{Devices: []Device{{Name: "a100", Count: 8, PerServer: 4}}, Round: 10, From: from, Policies: []Span{{From: from, Policy: policy}}, Jobs: jobs, Log: func(e Event) {
			if e.Kind != EventStart {
				return
			}
			starts[e.Job] = e.Time
			nodes := map[int32]bool{}
			for _, g := range e.Where {
				nodes[g/4] = true
			}
			if len(nodes) != (len(e.Where)+3)/4 {
				t.Errorf("%s: job %d runs on devices %v of %d nodes", policy, e.Job, e.Where, len(nodes))
			}
		}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(out.End) != len(jobs) || starts[3] < min(out.End[1], out.End[2]) || starts[4] < starts[3] {
			t.Errorf("%s: starts %v, ends %v: the third job starts when the first has ended, the fourth last", policy, starts, out.End)
		}
	}
}

// TestNodesAreGathered: a job of 4 devices starts although the jobs of one device that may be stopped are on both nodes of 4. Under
// fifo, which chooses it beside two on each node, those of one node move, and no device is idle; under srtf, which chooses it and four
// of three on each node, these run on the other node.
func TestNodesAreGathered(t *testing.T) {
	for policy, short := range map[string][]int{"srtf": {4, 8}, "fifo": {3, 4, 7, 8}} {
		const from, round, arrival = 1000.0, 10.0, 1030.0
		var jobs []Trial
		for id := 1; id <= 9; id++ {
			gpus, steps, at := 1, 500.0, from
			if slices.Contains(short, id) {
				steps = 10
			}
			if id == 9 {
				gpus, steps, at = 4, 100, arrival
			}
			jobs = append(jobs, Trial{Job: Job{ID: id, Total: steps}, Spec: Spec{Submitted: fromUnix(at), Min: gpus, Max: gpus},
				Steps: steps, First: 1, Again: 1, Save: 0.5, Measured: 0.5, Rate: func(int, int) float64 { return 1 }})
		}
		began, beside := math.Inf(1), 0 // devices held by the decision that starts job 9
		sim := Simulation{Devices: []Device{{Name: "a100", Count: 8, PerServer: 4}}, Round: round, From: from, Policies: []Span{{From: from, Policy: policy}}, Jobs: jobs, Log: func(e Event) {
			switch {
			case e.Kind == EventStart && e.Job == 9 && math.IsInf(began, 1):
				began = e.Time
			case e.Kind == EventDecide && beside == 0 && slices.ContainsFunc(e.Leases, func(l leaseRecord) bool { return l.Job == 9 }):
				for _, l := range e.Leases {
					beside += len(l.Where)
				}
			}
		}}
		out, err := sim.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(out.End) != len(jobs) || began > arrival+2*round || beside != 8 {
			t.Errorf("%s: job 9 starts at %v s, with %d of 8 devices held; want 8, and %v s at the latest", policy, began, beside, arrival+2*round)
		}
	}
}

// failing is a policy that fails.
type failing struct{ how int }

func (f failing) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	switch f.how {
	case 0:
		return schedule.Allocation{}, errors.New("no idea")
	case 1:
		panic("no idea")
	}
	return schedule.Allocation{Entries: []schedule.Entry{{A: 0, B: -1, X: []float64{1, 1, 1}}}}, nil // more than all of its time
}

func (failing) Traits() schedule.Traits { return schedule.Traits{Name: "failing"} }

// TestFailingPolicy checks that a policy that fails does not stop any job.
func TestFailingPolicy(t *testing.T) {
	for how := range 3 {
		w := newWorld(t, "fifo_perf", smallCluster, drawTrace(3, 12, smallCluster, false, false), 0)
		for range 8 {
			w.step()
			w.pace()
		}
		w.s.policy = failing{how}
		from := len(w.events)
		for len(w.ended) < len(w.trace) {
			w.step()
			w.pace()
		}
		failures := 0
		for _, e := range w.events[from:] {
			if e.Kind == EventDecide && strings.Contains(e.Reason, "failed") {
				failures++
			}
		}
		if failures == 0 {
			t.Errorf("failure %d is not in the event log", how)
		}
	}
}
