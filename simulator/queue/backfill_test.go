package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// randomTree returns a tree with nodes of several kinds.
func randomTree(t *rapid.T) *platform.Tree {
	tree := &platform.Tree{Clusters: []platform.Subcluster{{}}}
	for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		node := platform.Node{First: len(tree.Processors), Processors: rapid.IntRange(1, 2).Draw(t, "processors"), Memory: float64(rapid.IntRange(4, 12).Draw(t, "memory"))}
		speed := float64(rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "speed"))
		for range node.Processors {
			p := platform.Processor{Node: n, First: tree.Cores, Cores: rapid.IntRange(1, 4).Draw(t, "cores"), GFLOPS: speed,
				Watts: float64(rapid.IntRange(1, 9).Draw(t, "watts")), Bandwidth: float64(rapid.IntRange(4, 20).Draw(t, "bandwidth"))}
			tree.Processors = append(tree.Processors, p)
			for range p.Cores {
				tree.ProcessorOf = append(tree.ProcessorOf, int32(len(tree.Processors)-1))
			}
			tree.Cores += p.Cores
			tree.Reference += speed * float64(p.Cores)
		}
		tree.Nodes = append(tree.Nodes, node)
	}
	tree.Reference /= float64(tree.Cores)
	return tree
}

// randomJobs returns jobs that execute their requested work if exact is set, otherwise up to twice as much.
func randomJobs(t *rapid.T, tree *platform.Tree, exact, bandwidth bool) []order.Job {
	jobs := make([]order.Job, rapid.IntRange(1, 25).Draw(t, "jobs"))
	for i := range jobs {
		j := &jobs[i]
		j.ID, j.Submit = i, float64(rapid.IntRange(0, 60).Draw(t, "submit"))
		j.Procs = rapid.IntRange(1, tree.Cores).Draw(t, "procs")
		j.RequestOps = 1e9 * float64(rapid.IntRange(1, 60).Draw(t, "ops"))
		j.Request = j.RequestOps / tree.Reference / 1e9
		j.Ops = j.RequestOps
		if !exact {
			j.Ops = math.Ceil(j.RequestOps * rapid.Float64Range(0.05, 2).Draw(t, "used"))
		}
		j.Memory = float64(rapid.IntRange(0, 4).Draw(t, "memory of job"))
		if bandwidth {
			j.Bandwidth = float64(rapid.IntRange(0, 8).Draw(t, "bandwidth of job"))
		}
	}
	return jobs
}

// Under every policy, each job runs once, after its submission, on exclusive cores of the requested number, with
// sufficient memory; only jobs that can never run are rejected; and the schedule is deterministic.
func TestSchedulesKeepTheirLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := randomTree(t)
		c := CoresConfig{Tree: tree, Jobs: randomJobs(t, tree, false, true), Seed: 3,
			Order:     rapid.SampledFrom(order.OrderNames()).Draw(t, "order"),
			Backfill:  rapid.SampledFrom(CoreBackfills()).Draw(t, "backfill"),
			Placement: rapid.SampledFrom(Placements()).Draw(t, "placement"),
			Objective: Objective(rapid.IntRange(0, 2).Draw(t, "objective"))}
		c.Rollout = c.Backfill == "easy" && rapid.Bool().Draw(t, "rollout")
		r, err := RunCores(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range r.Jobs {
			if MaxCores(tree, o.Job) < o.Job.Procs {
				if o.State != Rejected {
					t.Fatalf("job %d can never run: got state %d", i, o.State)
				}
				continue
			}
			if o.State != Completed || o.Start < o.Job.Submit || len(o.Cores) != o.Job.Procs {
				t.Fatalf("job %d: got %+v of %+v", i, o, *o.Job)
			}
			checkShared(t, tree, r, i)
		}
		again, err := RunCores(context.Background(), c)
		if err != nil || fmt.Sprint(again.Summary()) != fmt.Sprint(r.Summary()) {
			t.Fatalf("the same again: got %+v, %v, want %+v", again.Summary(), err, r.Summary())
		}
	})
}

// checkShared checks the use of cores and memory at the start of a job.
func checkShared(t *rapid.T, tree *platform.Tree, r *Result, i int) {
	at := r.Jobs[i].Start
	busy, memory := map[int32]int{}, make([]float64, len(tree.Nodes))
	for k := range r.Jobs {
		if o := &r.Jobs[k]; o.Start <= at && at < o.End {
			for _, c := range o.Cores {
				if other, ok := busy[c]; ok {
					t.Fatalf("core %d at %v s: jobs %d and %d", c, at, other, k)
				}
				busy[c] = k
				memory[tree.Processors[tree.ProcessorOf[c]].Node] += o.Job.Memory
			}
		}
	}
	for n, m := range memory {
		if m > tree.Nodes[n].Memory {
			t.Fatalf("node %d at %v s: %v of %v MB", n, at, m, tree.Nodes[n].Memory)
		}
	}
}

// spy records the reservations of a backfill.
type spy struct {
	backfill
	promised func() (job int32, at float64, ok bool)
	all      func() map[int32]*plan
	first    map[int32]float64
}

func (y *spy) pass(p *policy, s *state, start func(int32, []int32)) float64 {
	again := y.backfill.pass(p, s, start)
	note := func(job int32, at float64) {
		if _, ok := y.first[job]; !ok {
			y.first[job] = at
		}
	}
	if y.all != nil {
		for job, k := range y.all() {
			note(job, k.start)
		}
	} else if job, at, ok := y.promised(); ok && len(s.waiting) > 0 && s.waiting[0].job == job {
		note(job, at)
	}
	return again
}

func keepsPromises(t *rapid.T, c CoresConfig, y *spy) {
	simulation, err := NewSimulation(c.Tree, c.Jobs)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(&c, simulation)
	d.policy.backfill = y
	if err := d.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for job, at := range y.first {
		if o := simulation.Outcome(job); !(o.Start <= at+1e-6) {
			t.Fatalf("job %d was promised a start at %v s, got %v s", job, at, o.Start)
		}
	}
}

// With exact estimates, overtaking jobs never delay the head of the queue, even if bandwidth is oversubscribed.
func TestEasyKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := randomTree(t)
		e := &easy{}
		keepsPromises(t, CoresConfig{Tree: tree, Jobs: randomJobs(t, tree, true, true), Order: "fcfs",
			Placement: rapid.SampledFrom([]string{"high_gflops", "high_mem", "low_power"}).Draw(t, "placement")},
			&spy{backfill: e, first: map[int32]float64{}, promised: func() (int32, float64, bool) {
				if e.hold.job == nil {
					return 0, 0, false
				}
				return int32(e.hold.job.ID), e.hold.at, true
			}})
	})
}

// With exact estimates and sufficient bandwidth, no job starts later than its first reservation.
func TestConservativeKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := randomTree(t)
		v := &conservative{plans: map[int32]*plan{}}
		keepsPromises(t, CoresConfig{Tree: tree, Jobs: randomJobs(t, tree, true, false), Order: rapid.SampledFrom([]string{"fcfs", "sjf"}).Draw(t, "order"),
			Placement: rapid.SampledFrom([]string{"high_gflops", "homogeneous", "best"}).Draw(t, "placement")},
			&spy{backfill: v, first: map[int32]float64{}, all: func() map[int32]*plan { return v.plans }})
	})
}

// HDeepRM's learning experiment: two jobs that together oversubscribe the bandwidth of the fast processor. The
// optimum is 5.25 s.
func TestLearningExperiment(t *testing.T) {
	tree, err := platform.Example("learning")
	if err != nil {
		t.Fatal(err)
	}
	j := order.Job{Procs: 1, Request: 5, Ops: 21e9, RequestOps: 21e9, Memory: 8000, Bandwidth: 24}
	k := j
	k.ID = 1
	for placement, want := range map[string]float64{"high_gflops": 7 / 1.1, "high_mem_bw": 5.25, "bandwidth_aware": 5.25, "best": 5.25} {
		r, err := RunCores(context.Background(), CoresConfig{Tree: tree, Jobs: []order.Job{j, k}, Placement: placement})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Summary(); math.Abs(s.Makespan-want) > 1e-3 {
			t.Errorf("%s: got %v s, want %v s", placement, s.Makespan, want)
		}
	}
}

// The cores of a job have equal speed if it then ends first, even if faster ones are free.
func TestHomogeneous(t *testing.T) {
	tree := platform.Uniform(3, 1, 2, 100, platform.Processor{GFLOPS: 1, Bandwidth: 100, Watts: 1})
	tree.Processors[0].GFLOPS = 2
	jobs := []order.Job{{ID: 0, Procs: 4, Ops: 1e9, RequestOps: 1e9}, {ID: 1, Procs: 2, Ops: 1e9, RequestOps: 1e9}}
	for placement, want := range map[string][]int32{"homogeneous": {2, 3, 4, 5}, "high_gflops": {0, 1, 2, 3}} {
		r, err := RunCores(context.Background(), CoresConfig{Tree: tree, Jobs: jobs, Order: "fcfs", Placement: placement})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Jobs[0].Cores, want) {
			t.Errorf("%s: got %v, want %v", placement, r.Jobs[0].Cores, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	err := (&CoresConfig{Order: "x", Backfill: "y", Placement: "z", Objective: 9}).Validate()
	for _, want := range []string{"no machine", `order "x"`, `backfilling "y"`, `placement "z"`, "objective 9"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err = (&CoresConfig{Backfill: "none", Rollout: true}).Validate(); err == nil || !strings.Contains(err.Error(), "with none backfilling") {
		t.Errorf("got %v", err)
	}
	tree := platform.Uniform(1, 1, 2, 100, platform.Processor{GFLOPS: 1, Bandwidth: 1, Watts: 1})
	if _, err := RunCores(context.Background(), CoresConfig{Tree: tree, Jobs: []order.Job{{ID: 7}}}); err == nil || !strings.Contains(err.Error(), "job 7") {
		t.Errorf("got %v, want a word on job 7", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := RunCores(ctx, CoresConfig{Tree: tree, Jobs: []order.Job{{Procs: 1, Run: 1}}})
	if !errors.Is(err, context.Canceled) || r == nil || len(r.Jobs) != 1 {
		t.Errorf("stopped: got %v, %v", r, err)
	}
	for _, name := range Placements() {
		if Describe(name) == "" {
			t.Errorf("%s: nothing said of it", name)
		}
	}
}
