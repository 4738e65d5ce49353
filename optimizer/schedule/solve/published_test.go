package solve

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"strconv"
	"testing"

	"trainopt/simulator/workload"
)

// decided is a small cluster with the allocations of Gavel's policies, solved by ECOS.
type decided struct {
	ID      string
	Cluster map[string]float64
	Costs   map[string]float64
	Jobs    []struct {
		ID             int
		Type           string
		ScaleFactor    int `json:"scale_factor"`
		Priority       float64
		Throughput     map[string]float64
		StepsRemaining float64 `json:"steps_remaining"`
		SLORemaining   float64 `json:"slo_remaining"`
	}
	Results map[string]struct {
		Allocation map[string][]float64 `json:"allocation_k80_p100_v100"`
		Metrics    struct {
			Worst      float64 `json:"maxmin_perf"`
			WorstTime  float64 `json:"maxmin_agnostic"`
			MaxTime    float64 `json:"max_time"`
			Sum        float64 `json:"sum_throughput"`
			SumPerCost float64 `json:"sum_throughput_per_cost"`
		}
	}
}

var kinds = []string{"k80", "p100", "v100"}

func loadDecided(t *testing.T) []decided {
	t.Helper()
	f, err := os.Open("../../../../shared/data/gavel/expected/policy_instances.json.gz")
	if err != nil {
		t.Skipf("decisions of Gavel's policies are not here: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var all []decided
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("Infinity"), []byte("null")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// sharing returns the cluster as a program with the weights of least attained service, s_i / (w_i P_i), where P_i is
// the throughput under a proportional split of the devices.
func (d *decided) sharing() (s Sharing, weight []float64) {
	all := 0.0
	for _, k := range kinds {
		s.Devices = append(s.Devices, d.Cluster[k])
		all += d.Cluster[k]
	}
	for _, j := range d.Jobs {
		rate, proportional := make([]float64, len(kinds)), 0.0
		for c, k := range kinds {
			rate[c] = j.Throughput[k]
			proportional += rate[c] * d.Cluster[k] / all
		}
		s.Rate, s.Scale = append(s.Rate, rate), append(s.Scale, float64(j.ScaleFactor))
		weight = append(weight, float64(j.ScaleFactor)/(j.Priority*proportional))
	}
	return s, weight
}

// allPairs adds all pairs of jobs with equal device counts, with the throughputs measured in Gavel's table.
func (d *decided) allPairs(s *Sharing) {
	table := workload.GavelTable()
	for b := range d.Jobs {
		for a := range b {
			p := Pair{A: a, B: b, RateA: make([]float64, len(kinds)), RateB: make([]float64, len(kinds))}
			if s.Scale[a] != s.Scale[b] {
				continue
			}
			for c, k := range kinds {
				p.RateA[c], p.RateB[c], _ = table.Beside(k, d.Jobs[a].Type, d.Jobs[b].Type, int(s.Scale[a]))
			}
			s.Pairs = append(s.Pairs, p)
		}
	}
}

func objective(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s: %.10g, the original %.10g", what, got, want)
	}
}

func solved(t *testing.T) func(Solution, error) Solution {
	return func(sol Solution, err error) Solution {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return sol
	}
}

// The optimal value is unique, so ours equals that of the original's solver to its precision.
func TestObjectivesOfGavel(t *testing.T) {
	for _, d := range loadDecided(t) {
		t.Run(d.ID, func(t *testing.T) {
			s, weight := d.sharing()
			ok := solved(t)
			objective(t, "max-min", ok(MaxMin(s, weight, nil)).Value, d.Results["max_min_fairness_perf"].Metrics.Worst, 1e-6)
			objective(t, "central", ok(Central(s, weight, nil)).Value, d.Results["max_min_fairness_perf"].Metrics.Worst, 1e-6)
			objective(t, "water filling", ok(WaterFill(s, weight)).Value, d.Results["max_min_fairness_water_filling_perf"].Metrics.Worst, 1e-6)
			objective(t, "sum", ok(MaxSum(s, s.Rate, nil, nil)).Value, d.Results["max_sum_throughput_perf"].Metrics.Sum, 1e-6)

			perCost := make([][]float64, len(s.Rate))
			floor := make([]float64, len(s.Rate))
			inverse := make([]float64, len(s.Rate))
			for i, j := range d.Jobs {
				for c, k := range kinds {
					perCost[i] = append(perCost[i], s.Rate[i][c]/d.Costs[k])
				}
				floor[i] = j.StepsRemaining / j.SLORemaining
				inverse[i] = 1 / j.StepsRemaining
			}
			objective(t, "sum per cost", ok(MaxSum(s, perCost, nil, nil)).Value, d.Results["max_sum_throughput_normalized_by_cost_perf"].Metrics.SumPerCost, 1e-6)
			objective(t, "with deadlines", ok(MaxSum(s, perCost, nil, floor)).Value, d.Results["max_sum_throughput_normalized_by_cost_perf_SLOs"].Metrics.SumPerCost, 1e-6)

			// The original bisects the makespan to 5 % and keeps the last feasible value.
			makespan := 1 / ok(MaxMin(s, inverse, nil)).Value
			if theirs := d.Results["min_total_duration_perf"].Metrics.MaxTime; makespan > theirs*(1+1e-6) || theirs > makespan*1.06 {
				t.Errorf("makespan: %g, the original %g", makespan, theirs)
			}

			d.allPairs(&s)
			objective(t, "packed max-min", ok(MaxMin(s, weight, nil)).Value, d.Results["max_min_fairness_packed"].Metrics.Worst, 1e-4)
			if theirs, solved := d.Results["max_min_fairness_water_filling_packed"]; solved {
				objective(t, "packed water filling", ok(WaterFill(s, weight)).Value, theirs.Metrics.Worst, 1e-4)
			}
		})
	}
}

// Where the optimum is not unique, the original's interior-point solver ends near the analytic centre, as does
// Central. In "a" all devices are scarce and both agree to the stored digits. In "c" a single high-priority job
// determines the optimum and leaves all other shares open; there the original stops before it reaches the centre.
func TestCentralIsWhereInteriorPointSolversEnd(t *testing.T) {
	within := map[string]float64{"a": 2e-6, "c": 0.07}
	for _, d := range loadDecided(t) {
		s, weight := d.sharing()
		sol := solved(t)(Central(s, weight, nil))
		far := 0.0
		for who, x := range d.Results["max_min_fairness_perf"].Allocation {
			i, err := strconv.Atoi(who)
			if err != nil {
				t.Fatal(err)
			}
			for c, v := range x {
				far = max(far, math.Abs(v-sol.X[i][c]))
			}
		}
		if far > within[d.ID] {
			t.Errorf("%s: a share is %g from the original's", d.ID, far)
		}
	}
}
