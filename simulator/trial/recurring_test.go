package trial

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"trainopt/simulator/experiment"
)

func recurringJobs(t *testing.T, n int) []*RecurringJob {
	t.Helper()
	jobs, err := Fitted()
	if err != nil {
		t.Fatal(err)
	}
	return jobs[:n]
}

// TestRecurring checks the references (default and oracle), that the bandit is between them, and that every metric is
// defined and has values.
func TestRecurring(t *testing.T) {
	jobs := recurringJobs(t, 3)
	for name, eta := range map[string]float64{"energy": 1, "time": 0, "both": 0.5} {
		t.Run(name, func(t *testing.T) {
			r := Recurring{Policies: RecurringNames(), Jobs: jobs, Seeds: []uint64{3, 4}, Eta: eta}
			c, all, err := r.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mean := func(policy, metric string) float64 {
				row, ok := c.Row(policy, metric)
				if !ok {
					t.Fatalf("no %s of %s", metric, policy)
				}
				return float64(row.Mean)
			}
			for _, zero := range [][2]string{{"user", "settled_energy"}, {"oracle", "gap_points"}} {
				if v := mean(zero[0], zero[1]); v != 0 {
					t.Errorf("%s of %s is %g, want 0", zero[1], zero[0], v)
				}
			}
			if mean("oracle", "near_optimum") != 1 || mean("oracle", "recurrences") != 1 {
				t.Errorf("the oracle needs %g recurrences", mean("oracle", "recurrences"))
			}
			if v := mean("bandit", "cost_vs_user"); !(v < mean("user", "cost_vs_user")-0.05) || v < mean("oracle", "cost_vs_user") {
				t.Errorf("the bandit's cost is %g, the oracle's %g, the user's %g", v, mean("oracle", "cost_vs_user"), mean("user", "cost_vs_user"))
			}
			for _, v := range all {
				for metric := range v.Values {
					if !slices.Contains(c.Metrics, metric) {
						t.Fatalf("%s is no metric", metric)
					}
				}
				same := map[float64]string{1: "energy_vs_user", 0: "time_vs_user"}[eta]
				if same != "" && math.Abs(v.Values["cost_vs_user"]-v.Values[same]) > 1e-9 {
					t.Errorf("eta %g: cost %g, %s %g", eta, v.Values["cost_vs_user"], same, v.Values[same])
				}
			}
			for _, m := range c.Definitions {
				if row, _ := c.Row("bandit", m.Name); row.N == 0 {
					t.Errorf("the bandit has no %s", m.Name)
				}
			}
		})
	}
}

// TestRecurredValues has known answers for 4 recurrences that cost 1, 2, 3, 4 times the default's expectation.
func TestRecurredValues(t *testing.T) {
	j := recurringJobs(t, 1)[0]
	seconds, joules := j.Expected(j.Default)
	best := j.Optimum(1)
	_, least := j.Expected(best)
	out := recurringOutcome{Seconds: 2 * seconds, Joules: 10 * joules, Settled: best, Needed: 3, Runs: 6}
	for _, sum := range []float64{1, 3, 6, 10} {
		out.JoulesAfter = append(out.JoulesAfter, sum*joules)
	}
	v := &recurringResult{Job: j, Optimum: best, Outcome: out, eta: 1}
	never := &recurringResult{Job: j, Optimum: best, Outcome: out, eta: 1}
	never.Outcome.Needed, never.Outcome.Settled = -1, j.Default
	for name, c := range map[string]struct {
		of   *recurringResult
		want map[string]float64
	}{
		"at the optimum": {v, map[string]float64{"energy_vs_user": 1.5, "time_vs_user": -0.5, "cost_vs_user": 1.5, "settled_energy": least/joules - 1, "gap_points": 0, "near_optimum": 1, "recurrences": 3,
			"needed_share": 3 / float64(j.PublishedRecurrences()), "regret": 2.5*joules/least - 1, "first_quarter_energy_vs_user": 0, "runs_per_recurrence": 1.5, "optimum_energy_vs_user": least/joules - 1}},
		"never": {never, map[string]float64{"settled_energy": 0, "gap_points": 100 * (1 - least/joules), "near_optimum": 0, "recurrences": 5}},
	} {
		got := c.of.values()
		for m, want := range c.want {
			if math.Abs(got[m]-want) > 1e-9 {
				t.Errorf("%s: %s is %g, want %g", name, m, got[m], want)
			}
		}
	}
	v.Values, never.Values = v.values(), never.values()
	if got, want := strings.Join(jobLine([]*recurringResult{v, v, never}), " "), "cifar100 v100 1024/250 128/100 128/100"; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " 3 >4 4") {
		t.Errorf("the job's line is %q, want %q … 3 >4 4", got, want)
	}
}

// TestRecurringSameBytes runs on several numbers of cores and checks that an interrupt preserves the complete part.
func TestRecurringSameBytes(t *testing.T) {
	r := Recurring{Policies: []string{"user", "zeus", "bandit"}, Jobs: recurringJobs(t, 4), Seeds: []uint64{0, 1, 2}, Eta: 1, Recurrences: 30}
	var first []byte
	for _, workers := range []int{1, 3} {
		r.Evaluate = experiment.Options{Workers: workers, Resamples: 100}
		c, all, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := errors.Join(c.Render(&b, "text"), WriteRecurred(&b, all)); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Errorf("%d workers write other bytes", workers)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Evaluate = experiment.Options{Workers: 1, Resamples: 100, Progress: func(done, _ int) {
		if done == 5 {
			cancel()
		}
	}}
	c, all, err := r.Run(ctx)
	if !errors.Is(err, context.Canceled) || c == nil || c.Cases < 5 || c.Cases > 6 || len(all) < 3*c.Cases || len(c.Tables) != 2 || len(c.Tables[0].Lines) != 4 {
		t.Errorf("%v, %+v with %d outcomes", err, c, len(all))
	}
	r.Policies = []string{"model"}
	if _, _, err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown for recurring jobs") {
		t.Errorf("model on recurring jobs: %v", err)
	}
}
