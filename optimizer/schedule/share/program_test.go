package share_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/workload"
)

// solverPolicies returns the names of policies that solve programs.
func solverPolicies() []string {
	names := slices.Collect(maps.Keys(objectives))
	names = append(names, "strategy_proof", "strategy_proof_perf", "hierarchical_fairness_perf", "hierarchical_fifo_perf",
		"hierarchical_fairness_packed", "hierarchical_fifo_packed")
	slices.Sort(names)
	return names
}

// anySnapshot draws a snapshot of jobs of the published types without deadlines in the past.
func anySnapshot(t *rapid.T) *schedule.Snapshot {
	table := workload.GavelTable()
	types := table.Types()
	s := &schedule.Snapshot{Now: rapid.Float64Range(1e5, 1e6).Draw(t, "now")}
	for _, name := range []string{"k80", "p100", "v100"} {
		n := rapid.IntRange(0, 12).Draw(t, name)
		s.Devices = append(s.Devices, schedule.DeviceType{Name: name, Count: n, PerServer: 1, USDHour: 0.1 + rapid.Float64Range(0, 3).Draw(t, "USD/h")})
	}
	s.Devices[2].Count = max(s.Devices[2].Count, 1)
	for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		j := &schedule.Job{
			ID: i, Type: rapid.SampledFrom(types).Draw(t, "type"), GPUs: rapid.SampledFrom([]int{1, 1, 1, 2, 4, 8}).Draw(t, "GPUs"),
			Weight: rapid.SampledFrom([]float64{1, 5, math.NaN()}).Draw(t, "weight"), Queue: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "queue"),
			Arrival: s.Now - rapid.Float64Range(0, 1e5).Draw(t, "age"), Deadline: math.NaN(), SLO: math.NaN(), Seconds: math.NaN(),
		}
		if rapid.Bool().Draw(t, "has a deadline") {
			j.Deadline = s.Now + rapid.Float64Range(-1e4, 1e6).Draw(t, "left")
		}
		state := schedule.JobState{Job: j, Remaining: math.Exp(rapid.Float64Range(0, 14).Draw(t, "log steps")), Seconds: math.NaN()}
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

// Shares are present and feasible on any cluster, over consecutive decisions with arrivals and completions.
func TestSharesCanBe(t *testing.T) {
	for _, name := range solverPolicies() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, err := share.New(name, share.Options{Compat: rapid.Bool().Draw(t, "compat")})
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

// permuted returns a snapshot with its jobs in another order.
func permuted(s *schedule.Snapshot, order []int) *schedule.Snapshot {
	out := *s
	out.Jobs = nil
	for _, i := range order {
		out.Jobs = append(out.Jobs, s.Jobs[i])
	}
	out.Pair = func(a, b, device int) (float64, float64) { return s.Pair(order[a], order[b], device) }
	return &out
}

// value returns the objective value of a new policy's decision; 0 or infinite without jobs.
func value(t *rapid.T, name string, s *schedule.Snapshot) float64 {
	p, err := share.New(name, share.Options{})
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

// runnable returns a snapshot with the jobs that run on every device type, so that all policies are comparable.
func runnable(s *schedule.Snapshot) *schedule.Snapshot {
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

func TestOrderOfJobsDoesNotMatter(t *testing.T) {
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

func TestMoreDevicesAreNoWorse(t *testing.T) {
	for _, name := range []string{
		"max_min_fairness", "max_sum_throughput_perf", "min_total_duration", "min_total_duration_packed", "min_total_duration_perf",
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := runnable(anySnapshot(t))
				if len(s.Jobs) == 0 {
					t.Skip("no job")
				}
				before := value(t, name, s)
				s.Devices = slices.Clone(s.Devices)
				s.Devices[rapid.IntRange(0, 2).Draw(t, "type")].Count++
				after := value(t, name, s)
				if objectives[name].least {
					before, after = after, before
				}
				if after < before*(1-1e-6) {
					t.Fatalf("%.10g, with another device %.10g", before, after)
				}
			})
		})
	}
}

func TestNobodyWaitsForADeviceThatStaysIdle(t *testing.T) {
	for _, name := range []string{"max_min_fairness_perf", "finish_time_fairness_perf", "min_total_duration_perf", "max_min_fairness_water_filling_perf"} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := runnable(anySnapshot(t))
				p, err := share.New(name, share.Options{})
				if err != nil {
					t.Fatal(err)
				}
				a, err := p.Decide(s)
				if err != nil {
					t.Fatal(err)
				}
				time, used := totals(s, a)
				for d, n := range used {
					for i, busy := range time {
						if free := float64(s.Devices[d].Count) - n; free > 1e-5 && busy < 1-1e-5 {
							t.Fatalf("job %d waits %g of its time, and %g devices of type %d are idle", i, 1-busy, free, d)
						}
					}
				}
			})
		})
	}
}

// jobsOf returns a snapshot of jobs of one type and the given number of V100s.
func jobsOf(v100s int, jobs ...*schedule.Job) *schedule.Snapshot {
	s := &schedule.Snapshot{Devices: []schedule.DeviceType{{Name: "v100", Count: v100s, PerServer: 1, USDHour: 1}}}
	for i, j := range jobs {
		j.ID, j.GPUs, j.Weight = i, max(j.GPUs, 1), max(j.Weight, 1)
		s.Jobs = append(s.Jobs, schedule.JobState{Job: j, Rate: []float64{2}, Remaining: j.Steps, Seconds: j.Steps / 2})
	}
	return s
}

func sharesOf(t *testing.T, p schedule.Policy, s *schedule.Snapshot) []float64 {
	t.Helper()
	a, err := p.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	time, _ := totals(s, a)
	return time
}

// A job on two devices needs half the time for the same device-seconds; a job of weight 3 receives three times as
// much.
func TestFairnessCountsDevicesAndWeights(t *testing.T) {
	for name, c := range map[string]struct {
		jobs []*schedule.Job
		want []float64
	}{
		"devices": {[]*schedule.Job{{Steps: 1e4}, {Steps: 1e4, GPUs: 2}}, []float64{1, .5}},
		"weights": {[]*schedule.Job{{Steps: 1e4}, {Steps: 1e4}, {Steps: 1e4, Weight: 3, GPUs: 2}}, []float64{.4, .4, .6}},
	} {
		for _, policy := range []string{"max_min_fairness", "max_min_fairness_perf", "max_min_fairness_water_filling_perf"} {
			for _, compat := range []bool{true, false} {
				got := sharesOf(t, newPolicy(t, policy, compat), jobsOf(2, c.jobs...))
				for i := range got {
					if math.Abs(got[i]-c.want[i]) > 1e-6 {
						t.Fatalf("%s, %s, compat %v: shares of time %.6f, want %v", name, policy, compat, got, c.want)
					}
				}
			}
		}
	}
}

func TestEntitiesDivideEquallyThenByWeightInside(t *testing.T) {
	job := func(queue string, weight float64) *schedule.Job {
		return &schedule.Job{Queue: queue, Weight: weight, Steps: 100}
	}
	for name, c := range map[string]struct {
		policy  string
		devices int
		want    []float64
	}{
		"equal entities, whatever the number of jobs": {"hierarchical_fairness_perf", 1, []float64{.125, .375, .5}},
		"an unused share is redistributed":            {"hierarchical_fairness_perf", 2, []float64{.25, .75, 1}},
		"first come, first served":                    {"hierarchical_fifo_perf", 1, []float64{.5, 0, .5}},
	} {
		t.Run(name, func(t *testing.T) {
			got := sharesOf(t, newPolicy(t, c.policy, false), jobsOf(c.devices, job("a", 1), job("a", 3), job("b", 1)))
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 1e-5 {
					t.Fatalf("shares of time %.6f, want %v", got, c.want)
				}
			}
		})
	}
}

// Two deadlines that take more than 80 % of the device each: the one with less work is met, and the rest goes to the
// fastest job. In compat mode both are ignored.
func TestAsManyDeadlinesAsPossible(t *testing.T) {
	s := jobsOf(1, &schedule.Job{Steps: 160, Deadline: 100}, &schedule.Job{Steps: 170, Deadline: 100}, &schedule.Job{Steps: 1, Deadline: math.NaN()})
	s.Jobs[2].Rate = []float64{50}
	got := sharesOf(t, newPolicy(t, "max_sum_throughput_normalized_by_cost_perf_SLOs", false), s)
	if math.Abs(got[0]-.8) > 1e-3 || math.Abs(got[2]-.2) > 1e-3 {
		t.Errorf("shares of time %.4f, want the first deadline met and the rest for the fastest job", got)
	}
	got = sharesOf(t, newPolicy(t, "max_sum_throughput_normalized_by_cost_perf_SLOs", true), s)
	if math.Abs(got[2]-1) > 1e-3 {
		t.Errorf("compat: shares of time %.4f, want all for the fastest job", got)
	}
}

// A job that received less than its part of the cluster before receives more now.
func TestFinishTimeFairnessRemembers(t *testing.T) {
	p := newPolicy(t, "finish_time_fairness_perf", false)
	s := jobsOf(1, &schedule.Job{Steps: 1000}, &schedule.Job{Steps: 1000})
	if got := sharesOf(t, p, s); math.Abs(got[0]-got[1]) > 1e-6 {
		t.Errorf("shares of equal jobs are %v", got)
	}
	s.Now, s.Jobs[0].Remaining = 400, 200 // the first job received everything
	if got := sharesOf(t, p, s); got[1] < 0.6 {
		t.Errorf("shares are %v after the first job got everything", got)
	}
	s.Now, s.Jobs[1].Remaining = 500, 90000 // its work was underestimated
	sharesOf(t, p, s)
	s.Now, s.Jobs[1].Rate = 600, []float64{200} // and then its rate
	if got := sharesOf(t, p, s); !(got[0] > 0 && got[1] > 0) {
		t.Errorf("shares are %v after an estimate of the work grew", got)
	}
}

// The remaining work of a live job grows when its total becomes known: no decision may fail by it.
func TestFinishTimeFairnessWithGrowingTotals(t *testing.T) {
	for _, name := range []string{"finish_time_fairness", "finish_time_fairness_perf"} {
		p := newPolicy(t, name, false)
		s := jobsOf(1, &schedule.Job{Steps: 10}, &schedule.Job{Steps: 1000})
		sharesOf(t, p, s)
		s.Now, s.Jobs[0].Remaining = 60, 1e6
		if got := sharesOf(t, p, s); !(got[0] > 0 && got[1] > 0) {
			t.Errorf("%s: shares %v, want a part for each job", name, got)
		}
	}
}

func TestPriceOfSomeDevicesIsUnknown(t *testing.T) {
	s := jobsOf(1, &schedule.Job{Steps: 1000})
	s.Devices = append(s.Devices, schedule.DeviceType{Name: "z", Count: 1, USDHour: math.NaN()})
	s.Jobs[0].Rate = []float64{1, 1}
	if _, err := newPolicy(t, "max_sum_throughput_normalized_by_cost_perf", false).Decide(s); err == nil || !strings.Contains(err.Error(), "the price of 1 of 2 device types is unknown") {
		t.Errorf("error %v", err)
	}
}

func newPolicy(t *testing.T, name string, compat bool) schedule.Policy {
	t.Helper()
	p, err := share.New(name, share.Options{Compat: compat})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The discounts of the original are stored with 6 decimals.
func TestDiscountsAreThoseOfTheOriginal(t *testing.T) {
	for _, in := range decidedInstances(t) {
		want, stored := in.Results["strategy_proof"]
		if !stored {
			continue
		}
		s := in.snapshot()
		a := decide(t, "strategy_proof_perf", false, s)
		got, ref := measure(s, a).Rates, measure(s, rounded(t, want.Shares)).Rates
		for i := range got {
			if math.Abs(got[i]/ref[i]-1) > 5e-5 {
				t.Errorf("%s: job %d gets %v steps/s, from the original %v", in.ID, i, got[i], ref[i])
			}
		}
	}
}

// A decision for 70 jobs, the number active at 4 jobs an hour in a cluster of 108 GPUs.
func BenchmarkMaxMinFairnessPerf(b *testing.B) {
	for name, compat := range map[string]bool{"compat": true, "default": false} {
		b.Run(name, func(b *testing.B) {
			s := &schedule.Snapshot{}
			for _, d := range []string{"k80", "p100", "v100"} {
				s.Devices = append(s.Devices, schedule.DeviceType{Name: d, Count: 36, PerServer: 1})
			}
			table := workload.GavelTable()
			types := table.Types()
			for i := range 70 {
				j := &schedule.Job{ID: i, Type: types[i%len(types)], GPUs: 1, Weight: 1}
				state := schedule.JobState{Job: j, Remaining: 1e5, Seconds: math.NaN()}
				for _, d := range s.Devices {
					state.Rate = append(state.Rate, table.Alone(d.Name, j.Type, 1))
				}
				s.Jobs = append(s.Jobs, state)
			}
			p, err := share.New("max_min_fairness_perf", share.Options{Compat: compat})
			for range b.N {
				if err == nil {
					_, err = p.Decide(s)
				}
			}
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
