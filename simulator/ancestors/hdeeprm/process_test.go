package hdeeprm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload"
)

func TestTable(t *testing.T) {
	table := Table()
	if len(table) != 36 {
		t.Fatalf("%d actions, want 36", len(table))
	}
	for i, want := range map[int]string{0: "random-random", 7: "first-high_gflops", 13: "shortest-high_gflops", 16: "shortest-high_mem_bw", 20: "smallest-high_cores", 29: "low_mem-low_power", 33: "low_mem_bw-high_mem"} {
		if table[i].String() != want {
			t.Errorf("action %d is %v, want %s", i, table[i], want)
		}
	}
	for _, p := range append(table, Pair{firstJob, highFreeCores}) {
		if back, err := ParsePair(p.String()); back != p || err != nil {
			t.Errorf("%v is read as %v, %v", p, back, err)
		}
	}
	for bad, want := range map[string]string{"first": "a hyphen", "last-random": `no job policy is called "last"`, "first-best": "high_mem_bw"} {
		if _, err := ParsePair(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", bad, err, want)
		}
	}
}

// The incremental sort equals a complete stable sort in place before every selection.
func TestWaitingIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := make([]order.Job, 60)
		for i := range jobs {
			draw := func(s string) float64 { return float64(rapid.IntRange(0, 3).Draw(t, s)) }
			jobs[i] = order.Job{Submit: float64(i / 3), Request: draw("request"), Procs: 1 + int(draw("procs")), Memory: draw("memory"), Bandwidth: draw("bandwidth")}
		}
		var w waiting
		w.reset(jobs)
		var want []int32
		for next := 0; next < len(jobs); {
			for range min(rapid.IntRange(0, 20).Draw(t, "arrivals"), len(jobs)-next) {
				w.add(int32(next))
				want = append(want, int32(next))
				next++
			}
			for range rapid.IntRange(0, 4).Draw(t, "looks") {
				if len(want) == 0 {
					break
				}
				at := 0
				if by := rapid.IntRange(0, int(jobPolicies)-1).Draw(t, "policy"); jobPolicy(by) == randomJob {
					at = rapid.IntRange(0, len(want)-1).Draw(t, "which")
				} else {
					w.sort(jobPolicy(by))
					slices.SortStableFunc(want, func(a, b int32) int {
						return int(keys[by](&jobs[a]) - keys[by](&jobs[b]))
					})
				}
				if !slices.Equal(w.all(), want) || w.len() != len(want) {
					t.Fatalf("got %v, want %v", w.all(), want)
				}
				if rapid.Bool().Draw(t, "start") {
					w.remove(at)
					want = slices.Delete(want, at, at+1)
				}
			}
		}
	})
}

func environment(t testing.TB, tree *platform.Tree, jobs []order.Job, s Settings) *Environment {
	t.Helper()
	e, err := NewEnvironment(tree, jobs, Limits{}, s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func rounded(values []float32) string {
	var s []string
	for _, v := range values {
		s = append(s, fmt.Sprintf("%.4g", v))
	}
	return strings.Join(s, " ")
}

// The observation of the learning platform, computed by hand: a third job waits after two jobs filled the fast
// processor for 2 s.
func TestObservation(t *testing.T) {
	jobs := append(learningJobs(), learningJobs()[0])
	jobs[2].ID, jobs[2].Submit, jobs[2].Request, jobs[2].Memory = 2, 2, 10, 16000
	limits := Limits{Time: 10, Cores: 1, Memory: 16000, Bandwidth: 24}
	before := "1 1 0 0.05 0 0 0.05 0 1 0 0.05 0 0 0.05 0"
	queued := "0.5 0.5 0.5 0.5 0.5 1 1 1 1 1 0.5 0.5 0.5 0.5 0.5 1 1 1 1 1 1"
	alone := "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0"
	// Both run at 0.75·4.4 GFLOPS: 6.6 of 21 Gop are done.
	for name, c := range map[string]struct {
		settings      Settings
		first, second string
	}{
		"corrected": {Settings{}, before + " " + queued, "0.5 1 0 0.05 0 0 0.05 0 0 0.75 1 0.6857 0.75 1 0.6857 " + alone},
		"compat":    {Settings{Compat: true}, before + " " + queued, "0.5 1 0 0.05 0 0 0.05 0 0 0.75 1 1 0.75 1 1 " + alone},
		"small":     {Settings{View: Small}, "1 1 1 " + queued, "0.5 1 0 " + alone},
		"minimal":   {Settings{View: Minimal}, queued, alone},
		"gentle":    {Settings{View: Minimal, QueueSensitivity: 2}, queued, "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0.25"},
	} {
		t.Run(name, func(t *testing.T) {
			c.settings.Actions, c.settings.Void = []Pair{{firstJob, highGFLOPS}}, true
			e, err := NewEnvironment(example(t, "learning"), jobs, limits, c.settings)
			if err != nil {
				t.Fatal(err)
			}
			o, done := e.Reset()
			if done || rounded(o) != c.first || len(o) != e.ObservationSize() {
				t.Errorf("first:  got  %s\nwant %s", rounded(o), c.first)
			}
			if o, _, done = e.Step(0); done || rounded(o) != c.second {
				t.Errorf("second: got  %s\nwant %s", rounded(o), c.second)
			}
		})
	}
}

// An idle core beside a busy one has 25 % of its power, in compatible mode 15 %. Observation sizes equal HDeepRM's.
func TestObservationPower(t *testing.T) {
	for compat, want := range map[bool]float32{false: 0.25, true: 0.15} {
		jobs := learningJobs()
		jobs[1].Submit = 1
		e := environment(t, example(t, "learning"), jobs, Settings{Actions: []Pair{{firstJob, highGFLOPS}}, Void: true, Compat: compat})
		e.Reset()
		if o, _, _ := e.Step(0); o[13] != want { // power of core 3
			t.Errorf("compat %v: got %v, want %v", compat, o[13], want)
		}
	}
	for name, want := range map[string][2]int{"learning": {36, 24}, "das2": {597, 165}, "gaia": {7356, 516}, "mc2": {32216, 2210}} {
		for i, v := range []View{Normal, Small} {
			if got := environment(t, example(t, name), nil, Settings{View: v}).ObservationSize(); got != want[i] {
				t.Errorf("%s, %v: %d values, want %d", name, v, got, want[i])
			}
		}
	}
}

// The rewards of the first action, computed by hand: both jobs start on the fast processor and slow each other.
func TestRewards(t *testing.T) {
	jobs := append(learningJobs(), order.Job{ID: 2, Procs: 4, Request: 20, Ops: 1e9, RequestOps: 1e9})
	for o, want := range map[Objective]float64{
		Slowdown: -(0.2 + 0.2 + 0.05), Completion: -3, Utilization: 2, Makespan: 2 * 0.75 * 4.4,
		Energy: -(2*50 + 2*2), EnergyDelay: -(2*50 + 2*2) * 3. / 1000,
	} {
		t.Run(o.String(), func(t *testing.T) {
			if back, err := parseObjective(o.String()); back != o || err != nil {
				t.Errorf("read as %v, %v", back, err)
			}
			e := environment(t, example(t, "learning"), jobs, Settings{Actions: []Pair{{firstJob, highGFLOPS}}, Objective: o})
			e.Reset()
			if _, r, done := e.Step(0); done || math.Abs(r-want) > 1e-12 {
				t.Errorf("got %v, want %v", r, want)
			}
			for done := false; !done; {
				_, _, done = e.Step(0)
			}
			if e.Err() != nil || e.Return() == 0 {
				t.Errorf("the episode: return %v, %v", e.Return(), e.Err())
			}
		})
	}
	// One core of the fast processor is busy; the idle one has 15 % or 25 % of 50 W.
	for compat, want := range map[bool]float64{false: -(50 + 12.5 + 4), true: -(50 + 7.5 + 4)} {
		e := environment(t, example(t, "learning"), learningJobs()[:1], Settings{Actions: []Pair{{firstJob, highGFLOPS}}, Void: true, Objective: Energy, Compat: compat})
		e.Reset()
		if _, r, _ := e.Step(0); math.Abs(r-want) > 1e-12 {
			t.Errorf("compat %v: got %v, want %v", compat, r, want)
		}
	}
}

// An agent that always chooses void ends in an error, and so does, in compatible mode, the last action of a list when
// it cannot start a job; corrected, the latter waits for the next end.
func TestVoid(t *testing.T) {
	jobs := append(learningJobs(), order.Job{ID: 2, Procs: 4, Request: 20, Ops: 1e9, RequestOps: 1e9})
	pair := []Pair{{firstJob, highGFLOPS}}
	for name, c := range map[string]struct {
		settings Settings
		action   int
		want     string
	}{
		"void for ever":            {Settings{Actions: pair, Void: true}, 1, "3 jobs wait"},
		"last action":              {Settings{Actions: pair}, 0, ""},
		"last action, compatible":  {Settings{Actions: pair, Compat: true}, 0, "1 jobs wait"},
		"first action, compatible": {Settings{Actions: pair, Void: true, Compat: true}, 0, ""},
		"no such action":           {Settings{Actions: pair}, 5, "chose action 5"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := environment(t, example(t, "learning"), jobs, c.settings).Run(func([]float32) int { return c.action })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	// Void first, then a pair: the waiting job starts at the immediately following decision.
	e := environment(t, example(t, "learning"), learningJobs(), Settings{Actions: pair, Void: true})
	e.Reset()
	if _, r, done := e.Step(1); done || r != -0.4 {
		t.Errorf("void: reward %v, done %v", r, done)
	}
	if _, _, done := e.Step(0); !done || e.Err() != nil || e.Counts() != (Counts{Decisions: 2}) {
		t.Errorf("done %v, %v, %+v", done, e.Err(), e.Counts())
	}
}

// A job that can never run is rejected; in compatible mode it is an error.
func TestImpossibleJob(t *testing.T) {
	jobs := append([]order.Job{{ID: 7, Procs: 5, Request: 1, Ops: 1e9}, {ID: 8, Procs: 3, Memory: 16000, Request: 1, Ops: 1e9}}, learningJobs()...)
	tree := example(t, "learning")
	r, c, err := Pair{firstJob, highMem}.Run(tree, jobs, 0, false)
	if err != nil || c.Rejected != 2 || r.Jobs[0].State != queue.Rejected || r.Jobs[1].State != queue.Rejected || r.Jobs[3].State != queue.Completed {
		t.Errorf("got %v, %+v", err, c)
	}
	r, _, err = Pair{firstJob, highMem}.Run(tree, jobs, 0, true)
	if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), "job 7") || r.Jobs[3].State != queue.Waiting {
		t.Errorf("compatible: got %v", err)
	}
}

func TestSettings(t *testing.T) {
	for want, s := range map[string]Settings{
		"action 0":          {Actions: []Pair{{99, 0}}},
		"objective 9":       {Objective: 9},
		"view 7":            {View: 7},
		"queue sensitivity": {QueueSensitivity: math.NaN()},
	} {
		if _, err := NewEnvironment(example(t, "learning"), nil, Limits{}, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := NewProcess(example(t, "learning"), Limits{Time: 1}, Settings{}); err == nil {
		t.Error("limits of 0 are taken")
	}
}

func TestPercentile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3.5, 0.75: 5.75, 0.99: 10.75, 1: 11} {
		if got := percentile([]float64{1, 2, 2, 5, 6, 11}, 100*q); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
	if l := LimitsOf(learningJobs()); l != (Limits{5, 1, 8000, 24}) {
		t.Errorf("limits of the learning jobs: %+v", l)
	}
}

// A process to which jobs are added only at their submission makes the same decisions, as required with an external
// Batsim.
func TestExtend(t *testing.T) {
	tree := example(t, "learning")
	jobs := slices.Repeat(learningJobs(), 4)
	for i := range jobs {
		jobs[i].ID, jobs[i].Submit = i, float64(i)
	}
	pairs := []Pair{{shortestJob, highMemBW}}
	want, err := environment(t, tree, jobs, Settings{Actions: pairs}).Run(func([]float32) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProcess(tree, LimitsOf(jobs), Settings{Actions: pairs})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, err := queue.NewSimulation(tree, jobs)
		if err != nil {
			t.Fatal(err)
		}
		p.Reset(nil, s)
		for s.Next() {
			p.Extend(jobs[:len(jobs)-s.Arrivals()])
			p.HandleEvents(s.Now(), s.Events(), s.Arrivals())
			for again := true; again; again = p.Close() {
				if p.Due() {
					p.Observe()
					p.Act(0)
				}
			}
		}
		if p.Err() != nil || p.Finish() != nil || !same(s.Result(), want) {
			t.Errorf("%v, %v: got %+v, want %+v", p.Err(), p.Finish(), s.Result().Jobs, want.Jobs)
		}
	}
}

// For arbitrary actions, every job ends, no core serves two jobs simultaneously, and equal actions lead to equal
// results, also after Reset.
func TestAnyAgent(t *testing.T) {
	tree := example(t, "mini")
	actions := append(Table(), Pair{firstJob, highFreeCores}, Pair{shortestJob, highFreeCores})
	rapid.Check(t, func(t *rapid.T) {
		r := workload.NewPython(rapid.Int64Range(0, 1<<40).Draw(t, "seed"))
		jobs := make([]order.Job, 1+r.Below(40))
		at := 0.0
		for i := range jobs {
			at += float64(r.Below(50))
			jobs[i] = order.Job{ID: i, Submit: at, Procs: 1 + r.Below(40), Request: float64(1 + r.Below(500)), Ops: float64(r.Below(2000)) * 1e9, Memory: float64(r.Below(40)) * 100, Bandwidth: float64(4 * r.Below(7))}
			jobs[i].RequestOps = jobs[i].Request * tree.Reference * 1e9
			if jobs[i].Ops == 0 {
				jobs[i].Run = 5
			}
		}
		settings := Settings{Actions: actions, Void: true, View: View(r.Below(3)), Objective: Objective(r.Below(int(objectives))), Seed: 3}
		e, err := NewEnvironment(tree, jobs, Limits{}, settings)
		if err != nil {
			t.Fatal(err)
		}
		var results []*queue.Result
		var returns []float64
		for range 2 {
			choose := workload.NewPython(5)
			for o, done := e.Reset(); !done; {
				for i, v := range o {
					if v != v || v < 0 {
						t.Fatalf("value %d of an observation is %v", i, v)
					}
				}
				o, _, done = e.Step(choose.Below(e.Actions()))
			}
			if e.Err() != nil {
				t.Fatal(e.Err())
			}
			results, returns = append(results, e.Result()), append(returns, e.Return())
		}
		if !same(results[0], results[1]) || returns[0] != returns[1] || results[0].Energy != results[1].Energy {
			t.Fatalf("returns %v: the same choices led elsewhere", returns)
		}
		exclusive(t, results[0], tree)
	})
}

func same(a, b *queue.Result) bool {
	return slices.EqualFunc(a.Jobs, b.Jobs, func(x, y queue.Outcome) bool {
		return x.State == y.State && (x.State == queue.Rejected || x.Start == y.Start && x.End == y.End) && slices.Equal(x.Cores, y.Cores)
	})
}

// exclusive checks that every job ended, that no core served two jobs simultaneously, and that no node's memory was
// exceeded.
func exclusive(t *rapid.T, r *queue.Result, tree *platform.Tree) {
	type change struct {
		at    float64
		start bool
		job   int
	}
	var changes []change
	for i, o := range r.Jobs {
		switch {
		case o.State == queue.Rejected:
			continue
		case o.State != queue.Completed || len(o.Cores) != o.Job.Procs || o.Start < o.Job.Submit || o.End < o.Start:
			t.Fatalf("job %d: %+v", i, o)
		}
		changes = append(changes, change{o.Start, true, i}, change{o.End, false, i})
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		switch {
		case a.at < b.at || a.at == b.at && !a.start && b.start:
			return -1
		case a.at > b.at || a.at == b.at && a.start && !b.start:
			return 1
		}
		return 0
	})
	serves, memory := make([]int, tree.Cores), make([]float64, len(tree.Nodes))
	for _, c := range changes {
		o := &r.Jobs[c.job]
		for _, core := range o.Cores {
			node := tree.Processors[tree.ProcessorOf[core]].Node
			if c.start {
				serves[core]++
				memory[node] += o.Job.Memory
			} else {
				serves[core]--
				memory[node] -= o.Job.Memory
			}
			if serves[core] > 1 || memory[node] > tree.Nodes[node].Memory {
				t.Fatalf("at %v s core %d serves %d jobs, node %d uses %v MB", c.at, core, serves[core], node, memory[node])
			}
		}
	}
}
