package hdeeprm

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

// published returns the path of a published data file; the test is skipped if it is absent.
func published(t testing.TB, path string) string {
	t.Helper()
	full := filepath.Join("../../../../shared/data/hdeeprm", path)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return full
}

func example(t testing.TB, name string) *platform.Tree {
	t.Helper()
	tree, err := platform.Example(name)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// learningJobs returns the two jobs of HDeepRM's learning experiment.
func learningJobs() []order.Job {
	j := order.Job{Procs: 1, Request: 5, Ops: 21e9, RequestOps: 21e9, Memory: 8000, Bandwidth: 24}
	k := j
	k.ID = 1
	return []order.Job{j, k}
}

// miniJobs returns the trace mini as converted by HDeepRM with seed 2009, the basis of the published figures.
func miniJobs(t testing.TB, tree *platform.Tree) []order.Job {
	t.Helper()
	f, err := os.Open(published(t, "workloads/mini.swf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := swf.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Convert(r, ConvertOptions{Seed: 2009, Reference: tree.Reference, Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Convert(SpeedOptions{Reference: tree.Reference})
	if err != nil {
		t.Fatal(err)
	}
	return c.Jobs
}

// expected holds the results of the original's decisions.
type expected struct {
	Jobs        int     `json:"nb_jobs_finished"`
	Makespan    float64 `json:"makespan"`
	Wait        float64 `json:"mean_waiting_time"`
	Turnaround  float64 `json:"mean_turnaround_time"`
	Slowdown    float64 `json:"mean_slowdown"`
	MaxWait     float64 `json:"max_waiting_time"`
	MaxTurn     float64 `json:"max_turnaround_time"`
	MaxSlowdown float64 `json:"max_slowdown"`
	Energy      float64 `json:"consumed_joules"`
	Grouped     int     `json:"nb_grouped_switches"`
	Switches    int     `json:"nb_machine_switches"`
	Schedule    []struct {
		ID            int
		Start, Finish float64
		Alloc         []int32
	} `json:"jobs"`
}

func summary(r *queue.Result) expected {
	e := expected{Energy: r.Energy, Grouped: r.GroupedSwitches, Switches: r.Switches}
	n := float64(len(r.Jobs))
	for i := range r.Jobs {
		o := &r.Jobs[i]
		if o.State != queue.Completed {
			continue
		}
		e.Jobs++
		e.Makespan = max(e.Makespan, o.End)
		e.Wait += o.Wait() / n
		e.Turnaround += o.Turnaround() / n
		e.Slowdown += o.Slowdown() / n
		e.MaxWait = max(e.MaxWait, o.Wait())
		e.MaxTurn = max(e.MaxTurn, o.Turnaround())
		e.MaxSlowdown = max(e.MaxSlowdown, o.Slowdown())
	}
	return e
}

func (e expected) numbers() []float64 {
	return []float64{e.Makespan, e.Wait, e.Turnaround, e.Slowdown, e.MaxWait, e.MaxTurn, e.MaxSlowdown, e.Energy}
}

func near(a, b, relative float64) bool {
	return math.Abs(a-b) <= relative*max(math.Abs(a), math.Abs(b), 1e-300)
}

func readExpected(t testing.TB) map[string]map[string]expected {
	t.Helper()
	b, err := os.ReadFile(published(t, "expected/policy_pairs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]expected
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPublishedPairs(t *testing.T) {
	for scenario, pairs := range readExpected(t) {
		tree := example(t, scenario)
		jobs := learningJobs()
		if scenario == "mini" {
			jobs = miniJobs(t, tree)
		}
		for name, want := range pairs {
			t.Run(scenario+"/"+name, func(t *testing.T) {
				pair, err := ParsePair(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, compat := range []bool{false, true} {
					r, _, err := pair.Run(tree, jobs, 0, compat)
					if err != nil {
						t.Fatal(err)
					}
					compare(t, r, want, compat)
				}
			})
		}
	}
}

func compare(t *testing.T, r *queue.Result, want expected, compat bool) {
	t.Helper()
	got := summary(r)
	for i, x := range got.numbers() {
		tolerance := 1e-9
		if !compat && i == 7 {
			tolerance = 2e-5 // the published energy is computed from rounded powers
		}
		if y := want.numbers()[i]; !near(x, y, tolerance) {
			t.Errorf("number %d: got %v, want %v (relative difference %.2g)", i, x, y, x/y-1)
		}
	}
	if got.Jobs != want.Jobs || got.Grouped != want.Grouped || got.Switches != want.Switches {
		t.Errorf("jobs, grouped switches, machine switches: got %d, %d, %d, want %d, %d, %d", got.Jobs, got.Grouped, got.Switches, want.Jobs, want.Grouped, want.Switches)
	}
	for _, j := range want.Schedule {
		o := r.Jobs[j.ID]
		if !near(o.Start, j.Start, 1e-9) || !near(o.End, j.Finish, 1e-9) || !slices.Equal(o.Cores, j.Alloc) {
			t.Errorf("job %d: got %v…%v on %v, want %v…%v on %v", j.ID, o.Start, o.End, o.Cores, j.Start, j.Finish, j.Alloc)
		}
	}
}

// The best of the 25 deterministic pairs on mini by makespan, slowdown, wait, turnaround and energy, from an
// independent run of the original's decision code, and the number of decisions that ended for lack of cores.
func TestMiniPairs(t *testing.T) {
	tree := example(t, "mini")
	jobs := miniJobs(t, tree)
	best := [5]float64{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)}
	var by [5]string
	fewest, most := math.MaxInt, 0
	for _, p := range Table() {
		if p.job == randomJob || p.core == randomCore {
			continue
		}
		r, c, err := p.Run(tree, jobs, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		fewest, most = min(fewest, c.CoreBubbles), max(most, c.CoreBubbles)
		e := summary(r)
		for i, x := range [5]float64{e.Makespan, e.Slowdown, e.Wait, e.Turnaround, e.Energy / 1e6} {
			if x < best[i] {
				best[i], by[i] = x, p.String()
			}
		}
	}
	for i, want := range []struct {
		pair             string
		value, precision float64
	}{
		{"low_mem-high_gflops", 469050.7, 0.05}, {"shortest-high_gflops", 87.094, 0.0005}, {"smallest-high_gflops", 18217.9, 0.05},
		{"smallest-high_gflops", 24902.0, 0.05}, {"low_mem-high_gflops", 452.42, 0.005},
	} {
		if by[i] != want.pair || math.Abs(best[i]-want.value) > want.precision {
			t.Errorf("number %d: got %s with %v, want %s with %v", i, by[i], best[i], want.pair, want.value)
		}
	}
	if fewest != 457 || most != 735 {
		t.Errorf("decisions that end for lack of cores: got %d…%d, want 457…735", fewest, most)
	}
}

// The best placement of the learning experiment; requires no published file.
func TestOptimalLearning(t *testing.T) {
	r, _, err := Pair{firstJob, highMemBW}.Run(example(t, "learning"), learningJobs(), 0, false)
	if err != nil || summary(r).Makespan != 5.25 {
		t.Errorf("got %v, %v, want 5.25 s", summary(r).Makespan, err)
	}
}
