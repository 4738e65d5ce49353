package rounds_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/simulator/rounds"
	"trainopt/simulator/workload"
)

// cases are policies that solve programs.
func solverPolicies() []string {
	names := slices.Collect(maps.Keys(objectives))
	names = append(names, "strategy_proof", "strategy_proof_perf", "hierarchical_fairness_perf", "hierarchical_fifo_perf",
		"hierarchical_fairness_packed", "hierarchical_fifo_packed")
	slices.Sort(names)
	return names
}

// anySnapshot has jobs of the published types, without deadlines that have passed.
func anySnapshot(t *rapid.T) *rounds.Snapshot {
	table := workload.GavelTable()
	types := table.Types()
	s := &rounds.Snapshot{Now: rapid.Float64Range(1e5, 1e6).Draw(t, "now")}
	for _, name := range []string{"k80", "p100", "v100"} {
		n := rapid.IntRange(0, 12).Draw(t, name)
		s.Devices = append(s.Devices, rounds.DeviceType{Name: name, Count: n, PerServer: 1, USDHour: 0.1 + rapid.Float64Range(0, 3).Draw(t, "USD/h")})
	}
	s.Devices[2].Count = max(s.Devices[2].Count, 1)
	for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		j := &workload.Job{
			ID: i, Type: rapid.SampledFrom(types).Draw(t, "type"), GPUs: rapid.SampledFrom([]int{1, 1, 1, 2, 4, 8}).Draw(t, "GPUs"),
			Weight: rapid.SampledFrom([]float64{1, 5, math.NaN()}).Draw(t, "weight"), Queue: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "queue"),
			Arrival: s.Now - rapid.Float64Range(0, 1e5).Draw(t, "age"), Deadline: math.NaN(), SLO: math.NaN(), Seconds: math.NaN(),
		}
		if rapid.Bool().Draw(t, "has a deadline") {
			j.Deadline = s.Now + rapid.Float64Range(-1e4, 1e6).Draw(t, "left")
		}
		state := rounds.JobState{Job: j, Remaining: math.Exp(rapid.Float64Range(0, 14).Draw(t, "log steps")), Seconds: math.NaN()}
		for _, d := range s.Devices {
			state.Rate = append(state.Rate, table.Alone(d.Name, j.Type, j.GPUs))
		}
		s.Jobs = append(s.Jobs, state)
	}
	s.Pair = func(a, b, device int) (float64, float64) {
		x, y := s.Jobs[a], s.Jobs[b]
		if x.GPUs != y.GPUs {
			return 0, 0
		}
		ra, rb, _ := table.Beside(s.Devices[device].Name, x.Type, y.Type, x.GPUs)
		return ra, rb
	}
	return s
}

// Whatever the cluster, shares are there and can be; decisions go on as jobs come and go.
func TestSharesCanBe(t *testing.T) {
	for _, name := range solverPolicies() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, err := rounds.NewPolicy(name, rounds.PolicyOptions{Compat: rapid.Bool().Draw(t, "compat")})
				if err != nil {
					t.Fatal(err)
				}
				s := anySnapshot(t)
				for range 2 {
					a, err := p.Decide(s)
					if err == nil {
						err = feasible(s, a)
					}
					if err != nil {
						t.Fatal(err)
					}
					s.Now += 2000
					for i := range s.Jobs {
						s.Jobs[i].Remaining *= rapid.Float64Range(0.1, 1).Draw(t, "left")
					}
					s.Jobs = s.Jobs[min(1, len(s.Jobs)):]
				}
			})
		})
	}
}

// permuted is a snapshot with its jobs in another order.
func permuted(s *rounds.Snapshot, order []int) *rounds.Snapshot {
	out := *s
	out.Jobs = nil
	for _, i := range order {
		out.Jobs = append(out.Jobs, s.Jobs[i])
	}
	out.Pair = func(a, b, device int) (float64, float64) { return s.Pair(order[a], order[b], device) }
	return &out
}

// value is the objective of a new policy's decision, 0 or infinite where there is nothing to decide.
func value(t *rapid.T, name string, s *rounds.Snapshot) float64 {
	p, err := rounds.NewPolicy(name, rounds.PolicyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	o := objectives[name]
	if o.see != nil {
		s = o.see(s)
	}
	return o.of(measure(s, a))
}

// runnable keeps jobs that get something done on each type of device, so that all can be compared.
func runnable(s *rounds.Snapshot) *rounds.Snapshot {
	out := *s
	var order []int
	for i, j := range s.Jobs {
		ok := true
		for d, r := range j.Rate {
			ok = ok && r > 0 && s.Devices[d].Count >= j.GPUs
		}
		if ok {
			order = append(order, i)
		}
		if math.IsNaN(j.Weight) {
			job := *j.Job
			job.Weight = 1
			s.Jobs[i].Job = &job
		}
	}
	return permuted(&out, order)
}

func TestOrderOfJobsDoesNotMatterAndDevicesHelp(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(objectives)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := runnable(anySnapshot(t))
				if len(s.Jobs) == 0 {
					t.Skip("no job")
				}
				before := value(t, name, s)
				order := rapid.Permutation(indices(len(s.Jobs))).Draw(t, "order")
				if v := value(t, name, permuted(s, order)); math.Abs(v-before) > 1e-6*before {
					t.Fatalf("%.10g, with jobs in another order %.10g", before, v)
				}
			})
		})
	}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

var _ = fmt.Sprint
