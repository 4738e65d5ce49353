package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

func contains(err error, s string) bool { return strings.Contains(err.Error(), s) }

// static returns a short run of jobs that all arrive at the start.
func static(n int, policy string) cluster.Config {
	return cluster.Config{Devices: gavelDevices(4, 4, 4), Generate: &workload.Options{}, Total: n, Policy: policy, Compat: true}
}

// The first ten of a hundred simultaneous jobs on 36 devices of each type in runs of the original with seed 0, in
// seconds.
func TestFirstJobsOfTheOriginal(t *testing.T) {
	for name, want := range map[string][]float64{
		"allox":       {70838.1359, 33899.2199, 1535.9959, 4662.4767, 7956.563, 447761.5444, 7723.9723, 4208.3703},
		"fifo_packed": {68348.1427, 31016.9024, 966.2142, 3783.6964, 6858.8402, 445880.5871, 7049.8026, 4208.3703},
		"gandiva":     {69860.3489, 33485.2366, 1213.8254, 5383.8915, 8627.6391, 450574.968, 9267.8292, 5727.5758},
	} {
		c := static(100, name)
		c.Devices = simulated
		got := run(t, c)
		for i, w := range want {
			near(t, name+" completion", float64(got.Jobs[i].JCTS), w, 0.001)
		}
	}
}

func TestResultAsJSON(t *testing.T) {
	c := static(6, "fifo_perf")
	c.Generate.SLOs = true
	c.Devices[0].USDHour = math.NaN()
	one, err := json.Marshal(run(t, c))
	if err != nil {
		t.Fatal(err)
	}
	two, _ := json.Marshal(run(t, c))
	if string(one) != string(two) {
		t.Errorf("two runs differ:\n%s\n%s", one, two)
	}
	var m map[string]any
	if err := json.Unmarshal(one, &m); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields("schema engine policy seed cluster jobs mean_jct_s p50_jct_s p99_jct_s makespan_s utilization cost_usd deadline_misses allocations policy_s events wall_s warnings") {
		if _, ok := m[key]; !ok {
			t.Errorf("no %s in %s", key, one)
		}
	}
	if m["wall_s"] != nil || m["policy_s"] != nil {
		t.Errorf("times without a clock: %v, %v", m["wall_s"], m["policy_s"])
	}
	job := m["jobs"].([]any)[0].(map[string]any)
	for _, key := range strings.Fields("id arrival_s jct_s deadline_s missed cost_usd") {
		if _, ok := job[key]; !ok {
			t.Errorf("no %s in %v", key, job)
		}
	}
}

func TestDeadlinesCountFromArrival(t *testing.T) {
	c := static(40, "fifo_perf")
	c.Generate = &workload.Options{SLOs: true, Lambda: 600}
	got := run(t, c)
	misses := 0
	for _, j := range got.Jobs {
		late := j.ArrivalS+j.JCTS > j.DeadlineS
		if late != *j.Missed {
			t.Errorf("job %d ends at %.0f s with a deadline of %.0f s: missed is %v", j.ID, j.ArrivalS+j.JCTS, j.DeadlineS, *j.Missed)
		}
		if late {
			misses++
		}
	}
	if misses != got.DeadlineMisses || misses == 0 || misses == len(got.Jobs) {
		t.Errorf("%d misses of %d counted, %d reported", misses, len(got.Jobs), got.DeadlineMisses)
	}
}

func TestWindowIsWhatIsReported(t *testing.T) {
	c := static(0, "fifo_perf")
	c.Generate, c.Window = &workload.Options{Lambda: 3600}, cluster.Window{Start: 10, End: 25}
	got := run(t, c)
	if len(got.Jobs) != 15 || got.Jobs[0].ID != 10 || got.Jobs[14].ID != 24 {
		t.Errorf("%d jobs are reported, from %d on", len(got.Jobs), got.Jobs[0].ID)
	}
}

func TestPreemptionCosts(t *testing.T) {
	c := static(40, "isolated")
	free := run(t, c)
	c.Preemption = schedule.Preemption{Seconds: 30, Steps: 100}
	dear := run(t, c)
	if free.Pauses == 0 || free.PauseS != 0 || dear.PauseS <= 0 || dear.MeanJCTS <= free.MeanJCTS {
		t.Errorf("without: mean %.0f s, %d pauses of %.0f s; with: mean %.0f s, %d pauses of %.0f s",
			free.MeanJCTS, free.Pauses, free.PauseS, dear.MeanJCTS, dear.Pauses, dear.PauseS)
	}
	c = static(8, "fifo_perf") // no job ever moves
	free = run(t, c)
	c.Preemption = schedule.Preemption{Seconds: 30}
	if dear = run(t, c); dear.MeanJCTS != free.MeanJCTS || dear.Pauses != 0 {
		t.Errorf("jobs that are never paused take %.0f s, and %.0f s where pauses cost", free.MeanJCTS, dear.MeanJCTS)
	}
}

func TestIdealHasNoRounds(t *testing.T) {
	for _, name := range []string{"isolated", "fifo_perf", "gandiva", "fifo_packed"} {
		for _, compat := range []bool{false, true} {
			c := static(60, name)
			c.Ideal, c.Compat = true, compat
			c.Generate = &workload.Options{Lambda: 1800}
			ideal := run(t, c)
			c.Ideal, c.Compat = false, true
			inRounds := run(t, c)
			if ratio := ideal.MeanJCTS / inRounds.MeanJCTS; !(ratio > 0.7 && ratio < 1.4) {
				t.Errorf("%s: mean %.0f s without rounds, %.0f s in rounds", name, ideal.MeanJCTS, inRounds.MeanJCTS)
			}
			if len(ideal.Jobs) != 60 || !(ideal.Utilization <= 1) {
				t.Errorf("%s: %d jobs ended, utilization %v", name, len(ideal.Jobs), ideal.Utilization)
			}
		}
	}
}

func TestFinishTimeFairness(t *testing.T) {
	alone, fifo := run(t, static(40, "isolated")), run(t, static(40, "fifo_perf"))
	alone.Jobs = alone.Jobs[1:]
	for i, x := range cluster.FinishTimeFairness(fifo, alone) {
		if i == 0 {
			if !math.IsNaN(x) {
				t.Errorf("job 0 is not in the other run, and its ratio is %v", x)
			}
			continue
		}
		near(t, "ratio", x, float64(fifo.Jobs[i].JCTS/alone.Jobs[i-1].JCTS), 0)
	}
}

func job(id int, arrival, steps float64, gpus int) workload.Job {
	return workload.Job{ID: id, Type: "A3C", Arrival: arrival, Steps: steps, GPUs: gpus, Weight: 1, Seconds: math.NaN(), SLO: math.NaN(), Deadline: math.NaN()}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Config)
		want   string
	}{
		"no jobs":           {func(c *cluster.Config) { c.Generate = nil }, "either a list or a generator"},
		"empty list":        {func(c *cluster.Config) { c.Generate, c.Jobs = nil, []workload.Job{} }, "empty"},
		"no end":            {func(c *cluster.Config) { c.Total = 0 }, "a window or a total"},
		"window past total": {func(c *cluster.Config) { c.Window.End = 50 }, "never ends"},
		"window backwards":  {func(c *cluster.Config) { c.Window = cluster.Window{Start: 5, End: 3} }, "start < end"},
		"empty window": {func(c *cluster.Config) {
			c.Generate, c.Total, c.Jobs, c.Window = nil, 0, []workload.Job{job(2, 0, 9, 1)}, cluster.Window{Start: 3, End: 5}
		}, "no job of the list"},
		"no cluster":         {func(c *cluster.Config) { c.Devices = nil }, "no device"},
		"unsorted cluster":   {func(c *cluster.Config) { c.Devices[0].Name = "z" }, "in order"},
		"negative devices":   {func(c *cluster.Config) { c.Devices[0].Count = -1 }, "there are -1"},
		"negative interval":  {func(c *cluster.Config) { c.Interval = -1 }, "interval"},
		"NaN limit":          {func(c *cluster.Config) { c.Limit = math.NaN() }, "limit"},
		"preemption a round": {func(c *cluster.Config) { c.Preemption.Seconds = 360 }, "less than a round"},
		"policy":             {func(c *cluster.Config) { c.Policy = "best" }, "unknown, want one of allox"},
		"twice": {func(c *cluster.Config) {
			c.Generate, c.Jobs = nil, []workload.Job{job(2, 0, 9, 1), job(1, 0, 9, 1), job(2, 0, 9, 1)}
		}, "job 2 is there twice"},
		"unsorted":    {func(c *cluster.Config) { c.Generate, c.Jobs = nil, []workload.Job{job(0, 9, 9, 1), job(1, 8, 9, 1)} }, "by arrival"},
		"no steps":    {func(c *cluster.Config) { c.Generate, c.Jobs = nil, []workload.Job{job(7, 0, 0, 1)} }, "job 7: 0 steps"},
		"NaN steps":   {func(c *cluster.Config) { c.Generate, c.Jobs = nil, []workload.Job{job(7, 0, math.NaN(), 1)} }, "job 7: NaN steps"},
		"no devices":  {func(c *cluster.Config) { c.Generate, c.Jobs = nil, []workload.Job{job(7, 0, 9, 0)} }, "job 7: 0 devices"},
		"before time": {func(c *cluster.Config) { c.Generate, c.Jobs = nil, []workload.Job{job(7, -1, 9, 1)} }, "arrives at -1"},
		"unknown type": {func(c *cluster.Config) {
			j := job(7, 0, 9, 1)
			j.Type = "BERT"
			c.Generate, c.Jobs = nil, []workload.Job{j}
		}, `"BERT" on 1`},
	} {
		config := static(20, "fifo_perf")
		c.change(&config)
		_, err := cluster.Run(context.Background(), config)
		if err == nil || !contains(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestJobsThatFitNowhereAreLeftOut(t *testing.T) {
	c := static(0, "fifo_perf")
	c.Generate, c.Total = nil, 0
	c.Jobs = []workload.Job{job(0, 0, 100, 1), {ID: 1, Type: "ResNet-18 (batch size 64)", Steps: 100, GPUs: 8, Weight: 1, Deadline: math.NaN()}, job(2, 0, 100, 1), job(3, 0, 100, 1)}
	got := run(t, c)
	if len(got.Jobs) != 4 || !math.IsNaN(float64(got.Jobs[1].JCTS)) || math.IsNaN(float64(got.MeanJCTS)) || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "first job 1") {
		t.Errorf("%+v", got)
	}
}

// In the original, a job with less than one step per device left is abandoned after five rounds.
func TestJobsWithLessThanAStepPerDevice(t *testing.T) {
	c := static(0, "fifo_perf")
	c.Generate, c.Total = nil, 0
	c.Jobs = []workload.Job{{ID: 4, Type: "ResNet-18 (batch size 64)", Steps: 3, GPUs: 4, Weight: 1, Deadline: math.NaN()}}
	got := run(t, c)
	if !math.IsNaN(float64(got.Jobs[0].JCTS)) || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "abandoned") {
		t.Errorf("%+v", got)
	}
}

func TestArrivalAboveCapacityIsNotStable(t *testing.T) {
	c := cluster.Config{Devices: gavelDevices(2, 2, 2), Generate: &workload.Options{Lambda: 60}, Window: cluster.Window{Start: 0, End: 100000}, Policy: "isolated", Compat: true}
	got, err := cluster.Run(context.Background(), c)
	if !errors.Is(err, cluster.ErrNotStable) || got == nil || got.NotStable == nil {
		t.Fatalf("%v, want not stable", err)
	}
	e := got.NotStable
	if !(e.Load > 1) || e.Demand[0] >= e.Demand[1] || e.Demand[1] >= e.Demand[2] || e.Devices != 6 || got.Stopped == "" {
		t.Errorf("evidence %+v", e)
	}
}

func TestLimitOfSimulatedTime(t *testing.T) {
	c := static(40, "isolated")
	c.Limit = 7200
	got, err := cluster.Run(context.Background(), c)
	if !errors.Is(err, cluster.ErrLimit) || got == nil || float64(got.MakespanS) < 7200 || float64(got.MakespanS) > 7600 || len(got.Jobs) >= 40 {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestInterruptedRunsSayWhatTheyKnow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := cluster.Config{Devices: simulated, Generate: arriving(4), Window: cluster.Window{Start: 0, End: 100000}, Policy: "fifo_perf", Compat: true}
	seen := 0
	c.Progress = func(p cluster.Progress) {
		if seen = p.Done; seen > 20 {
			cancel()
		}
	}
	got, err := cluster.Run(ctx, c)
	if !errors.Is(err, context.Canceled) || got == nil || len(got.Jobs) < 20 {
		t.Errorf("%v after %d jobs: %+v", err, seen, got)
	}
}

// decision is a policy defined by a function.
type decision func(*schedule.Snapshot) (schedule.Allocation, error)

func (d decision) Decide(s *schedule.Snapshot) (schedule.Allocation, error) { return d(s) }

func (decision) Traits() schedule.Traits { return schedule.Traits{} }

func entries(e ...schedule.Entry) decision {
	return func(*schedule.Snapshot) (schedule.Allocation, error) { return schedule.Allocation{Entries: e}, nil }
}

func TestFaultyPoliciesEndTheRun(t *testing.T) {
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	alone := func(a int, x ...float64) schedule.Entry { return schedule.Entry{A: a, B: -1, X: x} }
	for name, c := range map[string]struct {
		policy schedule.Policy
		want   string
	}{
		"error": {decision(func(*schedule.Snapshot) (schedule.Allocation, error) {
			return schedule.Allocation{}, errors.New("no idea")
		}), "no idea"},
		"panic":        {decision(func(s *schedule.Snapshot) (schedule.Allocation, error) { panic("lost my head") }), "panicked: lost my head"},
		"never":        {decision(func(s *schedule.Snapshot) (schedule.Allocation, error) { <-forever; return schedule.Allocation{}, nil }), "no decision in time"},
		"too much":     {entries(alone(0, 0, 0, 1), alone(1, 0, 0, 1), alone(2, 0, 0, 1), alone(3, 0, 0, 1), alone(4, 0, 0, 1)), "5 devices of type v100"},
		"NaN":          {entries(alone(3, 0, math.NaN(), 0)), "NaN"},
		"negative":     {entries(alone(3, 0, -0.5, 0)), "-0.5"},
		"all its time": {entries(alone(3, 0.7, 0.7, 0)), "add up to 1.4"},
		"unknown job":  {entries(alone(99, 1, 0, 0)), "99"},
		"twice":        {entries(alone(3, 0.1, 0, 0), alone(3, 0.1, 0, 0)), "twice"},
		"types":        {entries(alone(3, 1)), "1 shares for 3 device types"},
		"pairs":        {entries(schedule.Entry{A: 2, B: 3, X: []float64{1, 0, 0}}), "does not pack"},
		"nothing":      {entries(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := static(8, "test")
			config.Custom = c.policy
			config.PolicyLimit = time.Minute
			if name == "never" {
				config.PolicyLimit = 20 * time.Millisecond
			}
			got, err := cluster.Run(context.Background(), config)
			if c.want == "" { // idle devices go to any job
				if err != nil || len(got.Jobs) != 8 {
					t.Errorf("%v", err)
				}
				return
			}
			var fault *cluster.PolicyError
			if !errors.As(err, &fault) || !contains(err, c.want) || fault.Policy != "test" || fault.At != 0 || fault.Job < 0 || got == nil {
				t.Errorf("%v, want a fault of the policy at 0 s that names a job and says %q", err, c.want)
			}
		})
	}
}

// TestEndOfRun: a run ends when it is interrupted, although the policy does not return, and a panic outside of the policy
// reaches the caller.
func TestEndOfRun(t *testing.T) {
	forever := make(chan bool)
	defer close(forever)
	ctx, interrupt := context.WithCancelCause(context.Background())
	c := static(8, "test")
	c.Custom = decision(func(*schedule.Snapshot) (schedule.Allocation, error) {
		interrupt(errors.New("enough"))
		<-forever
		return schedule.Allocation{}, nil
	})
	got, err := cluster.Run(ctx, c)
	if !contains(err, "interrupted at 0 s of simulated time: enough") || got == nil || got.Allocations != 1 {
		t.Errorf("%v and %+v, want an interruption at the first decision", err, got)
	}

	defer func() {
		if r, ok := recover().(error); !ok || !contains(r, "no terminal") || !contains(r, "run_test.go") {
			t.Errorf("panic %v, want that of Progress with its place", r)
		}
	}()
	c = static(8, "fifo")
	c.Progress = func(cluster.Progress) { panic("no terminal") }
	_, _ = cluster.Run(context.Background(), c)
	t.Error("returned after a panic")
}

// idle is a policy that never assigns shares and does not permit surplus time.
type idle struct{ decision }

func (idle) Traits() schedule.Traits { return schedule.Traits{Name: "Idle", OnlyShares: true} }

func TestPolicyThatLetsNobodyRun(t *testing.T) {
	c := static(8, "idle")
	c.Custom = idle{entries()}
	_, err := cluster.Run(context.Background(), c)
	var fault *cluster.PolicyError
	if !errors.As(err, &fault) || !contains(err, "8 jobs") {
		t.Errorf("%v, want that nobody ever runs", err)
	}
}
