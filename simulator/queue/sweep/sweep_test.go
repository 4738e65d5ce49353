package sweep

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

var update = flag.Bool("update", false, "write the example trace")

// example is the trace included in the repository; exampleModel generated it.
const example = "../../../examples/cluster.swf"

var exampleModel = swf.Lublin{Jobs: 600, Procs: 64, Seed: 2026, Load: 0.85, Overestimate: 5}

// TestExampleTrace checks the included trace against its header.
func TestExampleTrace(t *testing.T) {
	jobs, err := exampleModel.Generate()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cluster.swf")
	if *update {
		path = example
	}
	h := swf.Header{{Label: "Version", Text: "2.2"}, {Label: "Computer", Text: "none: this is no log"},
		{Label: "Note", Text: "drawn by this program's form of the model of Lublin and Feitelson (JPDC 63(11), 2003):"},
		{Label: "Note", Text: "600 jobs on 64 processors, seed 2026, load 0.85, requests up to 5 times the run time"}}
	if err := swf.Save(path, h, jobs, exampleModel.Procs); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("examples/cluster.swf is not what its header says: run with -update")
	}
}

func drawn(t testing.TB, jobs int) *Workload {
	t.Helper()
	w, err := Generate(swf.Lublin{Jobs: jobs, Procs: 32, Seed: 1, Load: 0.9, Overestimate: 3})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// onMini returns a generated workload on the platform mini.
func onMini(t testing.TB, jobs int, set ...string) *Workload {
	t.Helper()
	o, err := hdeeprm.ReadOptions(strings.NewReader("{}"), ".", append(set, "platform_file_path=mini")...)
	if err != nil {
		t.Fatal(err)
	}
	w, err := GenerateOn(o, swf.Lublin{Jobs: jobs, Seed: 1, Load: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustRun(t *testing.T, w *Workload, m Method, p Window) *Run {
	t.Helper()
	r, err := w.Run(t.Context(), m, p)
	if err != nil {
		t.Fatalf("%s: %v", m.Policy, err)
	}
	return r
}

// TestEveryPolicyEndsAllJobs checks that, under every policy, all jobs that fit end, none starts before its
// submission, and the machine is never overbooked.
func TestEveryPolicyEndsAllJobs(t *testing.T) {
	for _, w := range []*Workload{drawn(t, 120), onMini(t, 60)} {
		for _, p := range Policies(w.Tree != nil) {
			r := mustRun(t, w, Method{Policy: p}, Window{})
			type edge struct {
				at float64
				by int
			}
			var edges []edge
			for i := range r.Jobs {
				o := &r.Jobs[i]
				if o.State != queue.Completed || !(o.Start >= o.Job.Submit) || !(o.End > o.Start) {
					t.Fatalf("%s: job %s: %+v", p, o.Job.Label(), o)
				}
				edges = append(edges, edge{o.Start, o.Job.Procs}, edge{o.End, -o.Job.Procs})
			}
			slices.SortFunc(edges, func(a, b edge) int {
				if a.at != b.at {
					return map[bool]int{true: -1, false: 1}[a.at < b.at]
				}
				return a.by - b.by
			})
			used := 0
			for _, e := range edges {
				if used += e.by; used > r.Procs {
					t.Fatalf("%s: %d of %d processors in use at %v s", p, used, r.Procs, e.at)
				}
			}
		}
	}
}

// TestSameAsTheSimulatorsThemselves checks that the results equal those of the simulators called directly.
func TestSameAsTheSimulatorsThemselves(t *testing.T) {
	w := drawn(t, 300)
	direct, err := queue.Run(t.Context(), queue.Config{Procs: 32, Jobs: w.Jobs[50:250], Order: "sjf", Backfill: "easy"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := mustRun(t, w, Method{Policy: "sjf"}, Window{50, 200}).Summary(), direct.Summary(); got.BoundedSlowdown != want.BoundedSlowdown {
		t.Errorf("sjf: %v, want %v", got.BoundedSlowdown, want.BoundedSlowdown)
	}
	m := onMini(t, 60)
	pair, _ := hdeeprm.ParsePair("smallest-high_mem_bw")
	alone, _, err := pair.Run(m.Tree, m.Jobs, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := mustRun(t, m, Method{Policy: "smallest-high_mem_bw"}, Window{}).Summary(), alone.Summary(); got.Energy != want.Energy || got.Wait != want.Wait {
		t.Errorf("pair: %v, want %v", got, want)
	}
	placed, err := queue.RunCores(t.Context(), queue.CoresConfig{Tree: m.Tree, Jobs: m.Jobs, Order: "saf", Placement: "energy", Objective: queue.Energy})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := mustRun(t, m, Method{Policy: "saf", Placement: "energy", Objective: "energy"}, Window{}).Summary(), placed.Summary(); got.Energy != want.Energy {
		t.Errorf("placement: %v, want %v", got.Energy, want.Energy)
	}
}

// TestSettle checks defaults and invalid combinations.
func TestSettle(t *testing.T) {
	equal, mini := drawn(t, 10), onMini(t, 10)
	for name, c := range map[string]struct {
		w    *Workload
		m    Method
		want string // backfill, or part of the error
		bad  bool
	}{
		"order":                 {equal, Method{Policy: "saf"}, "easy", false},
		"as published":          {equal, Method{Policy: "saf", AsPublished: true}, "none", false},
		"rollout":               {equal, Method{Policy: Rollout}, "rlscheduler", false},
		"pair":                  {mini, Method{Policy: "first-random"}, "none", false},
		"order on a platform":   {mini, Method{Policy: "fcfs"}, "easy", false},
		"unknown":               {equal, Method{Policy: "best"}, "no such policy", true},
		"pair without platform": {equal, Method{Policy: "first-random"}, "needs a platform", true},
		"rollout on a platform": {mini, Method{Policy: Rollout}, "easy", false},
		"rollout and placement": {mini, Method{Policy: Rollout, Placement: "energy"}, "tries placements itself", true},
		"rollout with easy":     {equal, Method{Policy: Rollout, Backfill: "easy"}, "want none or rlscheduler", true},
		"pair with easy":        {mini, Method{Policy: "first-random", Backfill: "easy"}, "pass over no job", true},
		"unknown backfill":      {equal, Method{Policy: "saf", Backfill: "lazy"}, "want one of", true},
		"placement of equals":   {equal, Method{Policy: "saf", Placement: "best"}, "nothing to place", true},
		"placement of a pair":   {mini, Method{Policy: "first-random", Placement: "best"}, "says itself", true},
		"unknown placement":     {mini, Method{Policy: "saf", Placement: "worst"}, "want one of", true},
		"rlscheduler on a tree": {mini, Method{Policy: "saf", Backfill: "rlscheduler"}, "on a platform want", true},
		"unknown objective":     {mini, Method{Policy: "saf", Objective: "fame"}, "fame", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.m.Settle(c.w)
			if c.bad != (err != nil) || c.bad && !strings.Contains(err.Error(), c.want) || !c.bad && c.m.Backfill != c.want {
				t.Errorf("backfill %q, error %v; want %q", c.m.Backfill, err, c.want)
			}
		})
	}
}

func TestWindows(t *testing.T) {
	w := drawn(t, 50)
	if r := mustRun(t, w, Method{Policy: "fcfs"}, Window{40, 10}); len(r.Jobs) != 10 || r.Jobs[0].Job != &w.Jobs[40] {
		t.Errorf("%d jobs from %s", len(r.Jobs), r.Jobs[0].Job.Label())
	}
	for _, p := range []Window{{41, 10}, {-1, 5}, {3, 0}} {
		if _, err := w.Run(t.Context(), Method{Policy: "fcfs"}, p); err == nil || !strings.Contains(err.Error(), "0 to 49") {
			t.Errorf("%v: %v", p, err)
		}
	}
	if got, apart := Spread(100, 3, 30); !apart || got[1] != (Window{35, 30}) || got[2] != (Window{70, 30}) {
		t.Errorf("%v, %v", got, apart)
	}
	if _, apart := Spread(100, 4, 30); apart {
		t.Error("120 of 100 jobs do not overlap")
	}
	if _, err := (&Workload{}).Run(t.Context(), Method{Policy: "fcfs"}, Window{}); !errors.Is(err, ErrNothing) {
		t.Errorf("no jobs: %v", err)
	}
}

// TestWhatNeverFits checks that jobs that can never run are counted and do not block others.
func TestWhatNeverFits(t *testing.T) {
	w := onMini(t, 20)
	w.Jobs[3].Memory, w.Jobs[5].Procs = 1e9, 5000
	for _, p := range []string{"first-high_gflops", "saf"} {
		if r := mustRun(t, w, Method{Policy: p}, Window{}); r.Dropped[neverFits] != 2 || r.Summary().Completed != 18 {
			t.Errorf("%s: dropped %v, %d ended", p, r.Dropped, r.Summary().Completed)
		}
	}
	if _, err := w.Run(t.Context(), Method{Policy: "first-high_gflops", Compat: true}, Window{}); err == nil {
		t.Error("HDeepRM waits for ever, this does not")
	}
}

// TestAgents checks that policy files of both kinds are used, and refused on the other kind of machine.
func TestAgents(t *testing.T) {
	w := drawn(t, 600)
	trace := &rlscheduler.Trace{Jobs: w.Jobs, Procs: w.Procs, Nodes: w.Procs}
	a, err := rlscheduler.Train(t.Context(), trace, rlscheduler.TrainOptions{Updates: 1, Episodes: 2, Sequence: rlscheduler.Sequence{Length: 32},
		Evolution: network.Evolution{Population: 4}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadAgent(path)
	if err != nil {
		t.Fatal(err)
	}
	m := Method{Policy: "agent", Agent: loaded}
	if r := mustRun(t, w, m, Window{100, 64}); r.Summary().Completed != 64 || loaded.Platform() {
		t.Errorf("%+v", r.Summary())
	}
	if err := m.Settle(onMini(t, 5)); err == nil {
		t.Error("an agent for equal processors is taken on a platform")
	}
	if err := os.WriteFile(path, b.Bytes()[:b.Len()/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAgent(path); !errors.Is(err, network.ErrCorrupt) {
		t.Errorf("half a file: %v", err)
	}
}

// learning returns HDeepRM's experiment of two jobs.
func learning(t *testing.T, set ...string) *Workload {
	t.Helper()
	o, err := hdeeprm.ReadOptions(strings.NewReader(`{"seed": 19021285, "pybatsim": {"env": {"objective": "makespan", "observation": "minimal", "actions":
		{"selection": [{"shortest": ["high_gflops", "high_mem_bw", "low_power"]}], "void": false}}, "agent": {"type": "LEARNING", "hidden": 16, "lr": 0.005}}}`), ".", set...)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := platform.Example("learning")
	if err != nil {
		t.Fatal(err)
	}
	j := order.Job{Procs: 1, Request: 5, Ops: 21e9, RequestOps: 21e9, Memory: 8000, Bandwidth: 24}
	k := j
	k.ID = 1
	jobs := []order.Job{j, k}
	return &Workload{Name: "learning", Jobs: jobs, Procs: tree.Cores, Tree: tree, Options: o, Limits: hdeeprm.LimitsOf(jobs)}
}

// TestLaunch checks that an agent learns to distribute the jobs, and makes the same decisions after it was written
// and read.
func TestLaunch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.json")
	said := 0
	l := Launch{Runs: 200, Train: true, Input: path, Output: path, Say: func(int, hdeeprm.AgentRun) error { said++; return nil }}
	r, err := learning(t).Launch(t.Context(), Method{}, l)
	if err != nil {
		t.Fatal(err)
	}
	if said != 200 || len(r.Learned) != 200 || math.Abs(r.Summary().Makespan-5.25) > 1e-9 || math.Abs(r.Energy-563.18) > 0.01 {
		t.Errorf("%d runs, the last of %v s and %v J: want 200, 5.25 s and 563.18 J", said, r.Summary().Makespan, r.Energy)
	}
	a, err := LoadAgent(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := mustRun(t, learning(t), Method{Policy: "agent", Agent: a}, Window{}); math.Abs(r.Summary().Makespan-5.25) > 1e-9 {
		t.Errorf("%v s by the file", r.Summary().Makespan)
	}
	classic, err := learning(t, "pybatsim.agent.type=CLASSIC").Launch(t.Context(), Method{}, Launch{})
	if err != nil || classic.Method.Policy != "shortest-high_gflops" || math.Abs(classic.Summary().Makespan-7/1.1) > 1e-9 {
		t.Errorf("classic: %v, %+v", err, classic)
	}
	full := errors.New("the disk is full")
	l = Launch{Runs: 3, Train: true, Output: path + "y", Say: func(k int, _ hdeeprm.AgentRun) error {
		if k == 1 {
			return full
		}
		return nil
	}}
	if r, err := learning(t).Launch(t.Context(), Method{}, l); !errors.Is(err, full) || r == nil {
		t.Errorf("a failed report: %v, want %v", err, full)
	}
	if _, err := LoadAgent(path + "y"); err != nil {
		t.Errorf("the agent trained before a failed report: %v", err)
	}
	if _, err := learning(t).Launch(t.Context(), Method{}, Launch{Input: path + "x"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

// TestInterrupt checks that every run ends with its context.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		w *Workload
		p string
	}{{drawn(t, 50), "fcfs"}, {drawn(t, 50), Rollout}, {onMini(t, 50), "first-random"}, {onMini(t, 50), "saf"}} {
		if _, err := c.w.Run(ctx, Method{Policy: c.p}, Window{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.p, err)
		}
	}
	if _, err := learning(t).Launch(ctx, Method{}, Launch{Runs: 1000, Train: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("launch: %v", err)
	}
}

// TestCompare checks that the outcome does not depend on the number of workers and equals the single runs.
func TestCompare(t *testing.T) {
	w := drawn(t, 400)
	make := func(workers int) *Outcome {
		s := &Sweep{Methods: []Named{{"fcfs", Method{Policy: "fcfs"}}, {"saf", Method{Policy: "saf"}}}, Workers: workers, Keep: true}
		windows, _ := Spread(400, 8, 50)
		for k, p := range windows {
			s.Cases = append(s.Cases, Case{Name: p.String(), Workload: w, Window: p, Group: uint64(k)})
		}
		o, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	a, b := make(1), make(4)
	sum := 0.0
	for _, r := range a.Runs[1] {
		sum += r.Summary().BoundedSlowdown.Mean / 8
	}
	ra, _ := a.Comparison.Row("saf", "mean_bounded_slowdown")
	rb, _ := b.Comparison.Row("saf", "mean_bounded_slowdown")
	if ra != rb || math.Abs(float64(ra.Mean)-sum) > 1e-9*sum || ra.N != 8 {
		t.Errorf("%+v and %+v, want a mean of %v", ra, rb, sum)
	}
	if _, ok := a.Comparison.Pair("saf", "fcfs", "mean_bounded_slowdown"); !ok {
		t.Error("no paired test")
	}
}

func TestLearnedComesWithTheProgram(t *testing.T) {
	w, err := Generate(swf.Lublin{Jobs: 60, Procs: 64, Seed: 1, Load: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	starts := map[string]float64{}
	for _, backfill := range []string{"", "none"} {
		r, err := w.Run(t.Context(), Method{Policy: learnedKind, Backfill: backfill}, Window{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Jobs {
			if r.Jobs[i].State != queue.Completed {
				t.Fatalf("backfill %q: job %d is %v", backfill, i, r.Jobs[i].State)
			}
			starts[r.Method.Backfill] += r.Jobs[i].Start
		}
	}
	if len(starts) != 2 || starts["none"] == starts["rlscheduler"] {
		t.Errorf("with and without backfilling alike: %v", starts)
	}
	if _, err := w.Run(t.Context(), Method{Policy: learnedKind, Backfill: "easy"}, Window{}); err == nil {
		t.Error("easy backfilling was taken, which it was not trained for")
	}
}

// Start times in RLScheduler's program (commit cd433e3d) on nodes of two processors, which it allocates whole. Jobs 4 and 5
// have no run time, 4 no requested time either; 9 runs for 0 s and is omitted.
func TestStartsAreThoseOfRLScheduler(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes.swf")
	trace := "; MaxNodes: 3\n; MaxProcs: 6\n"
	for _, line := range []string{"1 100 -1 40 3 -1 -1 3 60", "2 100 -1 60 5 -1 -1 5 120", "3 105 -1 -1 2 -1 -1 2 120", "4 110 -1 -1 1 -1 -1 1 -1",
		"5 115 -1 -1 3 -1 -1 3 60", "6 115 -1 60 2 -1 -1 2 -1", "7 145 -1 100 3 -1 -1 3 -1", "8 150 -1 5 1 -1 -1 1 -1", "9 151 -1 0 1 -1 -1 1 9"} {
		trace += line + " -1 1 1 1 1 0 -1 -1 -1\n"
	}
	if err := os.WriteFile(path, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Load(path, TraceOptions{AsPublished: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{
		"fcfs none":            {100, 140, 200, 200, 210, 210, 220, 270},
		"wfp3 none":            {100, 140, 200, 200, 310, 210, 210, 310},
		"unicep none":          {100, 140, 200, 200, 310, 310, 210, 320},
		"sjf none":             {100, 140, 270, 200, 205, 210, 215, 200},
		"f1 none":              {100, 140, 200, 200, 210, 200, 220, 260},
		"fcfs rlscheduler":     {100, 140, 200, 110, 200, 210, 215, 210},
		"sjf rlscheduler":      {100, 140, 265, 110, 200, 205, 210, 200},
		"smallest rlscheduler": {100, 140, 200, 110, 210, 200, 220, 200},
	} {
		policy, backfill, _ := strings.Cut(name, " ")
		r, err := w.Run(t.Context(), Method{Policy: policy, Backfill: backfill, AsPublished: true}, Window{})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, j := range r.Jobs {
			got = append(got, j.Start)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: jobs start at %v, want %v", name, got, want)
		}
	}
	if r, err := w.Run(t.Context(), Method{Policy: "sjf", Backfill: "easy", AsPublished: true}, Window{}); err != nil || r.Dropped["no run time or processors"] != 1 {
		t.Errorf("dropped %v, error %v", r.Dropped, err)
	}
}
