package trial

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// trial is the result of several seeds of one policy on one job, in percent of the default's expected energy or cost.
type trial struct {
	settled, worst  float64 // mean energy of the final setting; greatest distance of its cost from the optimum
	energy, quarter float64 // cumulative energy, search included, over the published recurrences and their first quarter
	needed          []int   // recurrences, ascending; runs that did not get there come last, as the largest int
}

// played identifies an outcome; outcomes contains those of earlier calls of try, which several tests need.
type played struct {
	job    *RecurringJob
	policy string
	eta    float64
	seed   uint64
}

var outcomes = map[played]recurringOutcome{}

func try(t testing.TB, j *RecurringJob, policy string, eta float64, seeds int) trial {
	t.Helper()
	_, own := j.Expected(j.Default)
	n := float64(seeds)
	var out trial
	for seed := range seeds {
		key := played{j, policy, eta, uint64(seed)}
		o, ok := outcomes[key]
		if !ok {
			var err error
			if o, err = playJob(j, policies[policy], recurringOptions{Eta: eta, Seed: key.seed}); err != nil {
				t.Fatal(err)
			}
			outcomes[key] = o
		}
		_, joules := j.Expected(o.Settled)
		out.settled += percent(joules, own) / n
		out.worst = max(out.worst, 100*(j.ExpectedCost(eta, o.Settled)-j.ExpectedCost(eta, j.Optimum(eta)))/j.ExpectedCost(eta, j.Default))
		k := len(o.JoulesAfter)
		out.energy += percent(o.Joules, float64(k)*own) / n
		out.quarter += percent(o.JoulesAfter[k/4-1], float64(k/4)*own) / n
		if o.Needed < 0 {
			o.Needed = math.MaxInt
		}
		out.needed = append(out.needed, o.Needed)
	}
	slices.Sort(out.needed)
	return out
}

// TestSettlesNearTheOptimum checks that the bandits settle within 3 points of the saving of exhaustive search after
// the published number of recurrences, for energy alone and for Zeus's own cost: with every seed on the measured
// tables, and with 8 of 10 on the fitted models, whose epoch counts are unbounded while the tables contain a few runs.
func TestSettlesNearTheOptimum(t *testing.T) {
	const seeds = 10
	for name, c := range map[string]struct {
		jobs func(testing.TB) []*RecurringJob
		sure int // seeds
	}{"tables": {tables, 10}, "models": {fitted, 8}} {
		t.Run(name, func(t *testing.T) {
			for _, j := range c.jobs(t) {
				for _, eta := range []float64{1, 0.5} {
					for _, policy := range []string{"zeus", "smooth"} {
						if r := try(t, j, policy, eta, seeds); r.needed[c.sure-1] > j.PublishedRecurrences() {
							t.Errorf("%s, eta %g, %s: fewer than %d of %d seeds are within %g %% of the optimum after %d recurrences; worst by %.1f points",
								j.Name(), eta, policy, c.sure, seeds, 100*near, j.PublishedRecurrences(), r.worst)
						}
					}
				}
			}
		})
	}
}

// TestComparison prints the comparison of all policies with -v (10 seeds) and checks the claims derived from it:
// search pays for itself in the cumulative energy of every job, and smooth costs less than Zeus in total over all
// jobs.
func TestComparison(t *testing.T) {
	jobs := tables(t)
	seeds, policies := 3, []string{"zeus", "smooth"}
	if testing.Verbose() {
		seeds, policies = 10, []string{"grid", "random", "zeus", "smooth"}
	}
	for _, eta := range []float64{1, 0.5} {
		total := map[string]float64{}
		for _, j := range jobs {
			_, own := j.Expected(j.Default)
			_, least := j.Expected(j.Optimum(eta))
			t.Logf("%s, eta %g: %d recurrences, optimum %d at %g W: energy %.1f %%", j.Name(), eta, j.PublishedRecurrences(), j.Optimum(eta).Batch, j.Optimum(eta).Watts, percent(least, own))
			for _, policy := range policies {
				r := try(t, j, policy, eta, seeds)
				t.Logf("    %-7s settles on %6.1f %%, worst %4.1f points off, after %3d (median), %d (worst but one); cumulative %7.1f %%, first quarter %7.1f %%",
					policy, r.settled, r.worst, r.needed[len(r.needed)/2], r.needed[len(r.needed)-2], r.energy, r.quarter)
				total[policy] += r.energy / float64(len(jobs))
				if (policy == "zeus" || policy == "smooth") && r.energy > -8 {
					t.Errorf("%s, eta %g, %s: %.1f %% cumulative energy: the search did not pay", j.Name(), eta, policy, r.energy)
				}
			}
		}
		t.Logf("mean cumulative energy, eta %g: %v", eta, total)
		if total["smooth"] > total["zeus"] {
			t.Errorf("eta %g: smooth %.2f %% saves less than zeus %.2f %%", eta, total["smooth"], total["zeus"])
		}
	}
}

// TestPlainPolicies checks that the default costs its expectation and the oracle the optimum.
func TestPlainPolicies(t *testing.T) {
	for _, j := range fitted(t) {
		for name, s := range map[string]jobSetting{"default": j.Default, "oracle": j.Optimum(1)} {
			o, err := playJob(j, policies[name], recurringOptions{Eta: 1, Recurrences: 400, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			seconds, joules := j.Expected(s)
			if o.Settled != s || math.Abs(o.Joules/400/joules-1) > 0.03 || math.Abs(o.Seconds/400/seconds-1) > 0.03 || o.Runs != 400 {
				t.Errorf("%s, %s: %g J and %g s a recurrence in %d runs at %+v, want %g and %g", j.Name(), name, o.Joules/400, o.Seconds/400, o.Runs, o.Settled, joules, seconds)
			}
			if (o.Needed == 1) != (name == "oracle") {
				t.Errorf("%s, %s needed %d recurrences", j.Name(), name, o.Needed)
			}
		}
		if best := j.Optimum(1); j.ExpectedCost(1, best) > j.ExpectedCost(1, j.Default) {
			t.Errorf("%s: the optimum %+v is dearer than the default", j.Name(), best)
		}
	}
}

// TestSameSeedSameBytes checks that another seed yields another outcome, too.
func TestSameSeedSameBytes(t *testing.T) {
	j := fitted(t)[0]
	for name, p := range policies {
		play := func(seed uint64) recurringOutcome {
			o, err := playJob(j, p, recurringOptions{Eta: 0.5, Recurrences: 30, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		a, b := play(1), play(1)
		if !slices.Equal(a.JoulesAfter, b.JoulesAfter) || a.Settled != b.Settled {
			t.Errorf("%s: the same seed gives %v and %v", name, a.Joules, b.Joules)
		}
		if c := play(2); a.Joules == c.Joules {
			t.Errorf("%s: seeds 1 and 2 give the same", name)
		}
	}
	if _, err := playJob(j, policies["zeus"], recurringOptions{Eta: 1.5}); err == nil {
		t.Errorf("eta 1.5 is accepted")
	}
}

// TestRun has known answers for a job of 10 epochs of 100 s at 200 W, and of 200 s at 90 W under a limit of 100 W.
func TestRun(t *testing.T) {
	j := &RecurringJob{Batches: []int{8, 16}, Limits: []float64{100, 250}, Default: jobSetting{8, 250}, MaxEpochs: 40, truth: &table{
		epochs: map[int][]float64{8: {10}, 16: {math.NaN()}},
		power:  map[jobSetting][2]float64{{8, 100}: {200, 90}, {8, 250}: {100, 200}, {16, 100}: {200, 90}, {16, 250}: {100, 200}},
	}}
	for name, c := range map[string]struct {
		batch          int
		first          []stretch
		watts          float64
		eta, threshold float64
		want           recurringRun
	}{
		"plain":                   {8, nil, 250, 1, math.Inf(1), recurringRun{1000, 200_000, true}},
		"measured first":          {8, []stretch{{100, 20}, {250, 10}}, 250, 1, math.Inf(1), recurringRun{20 + 10 + 980, 1800 + 2000 + 196_000, true}},
		"all is measuring":        {8, []stretch{{250, 999}, {100, 50}}, 250, 1, math.Inf(1), recurringRun{1001, 199_980, true}},
		"never reaches it":        {16, nil, 250, 1, math.Inf(1), recurringRun{4000, 800_000, false}},
		"given up for energy":     {16, nil, 250, 1, 50_000, recurringRun{250, 50_000, false}},
		"given up for time":       {8, nil, 100, 0, 50_000, recurringRun{200, 18_000, false}},
		"given up while measured": {8, []stretch{{100, 20}, {250, 10}}, 250, 1, 1800 + 1000, recurringRun{25, 2800, false}},
		"just in time":            {8, nil, 250, 1, 200_001, recurringRun{1000, 200_000, true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := j.Run(c.batch, c.first, c.watts, c.eta, c.threshold, rand.New(rand.NewPCG(1, 1)))
			if math.Abs(got.Seconds-c.want.Seconds) > 1e-6 || math.Abs(got.Joules-c.want.Joules) > 1e-6 || got.Reached != c.want.Reached {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	if s, e := j.Expected(jobSetting{8, 100}); s != 2000 || e != 180_000 || j.Optimum(1) != (jobSetting{8, 100}) || j.Optimum(0) != (jobSetting{8, 250}) {
		t.Errorf("expected %g s and %g J, optima %v and %v", s, e, j.Optimum(1), j.Optimum(0))
	}
	if _, e := j.Expected(jobSetting{16, 100}); !math.IsNaN(e) {
		t.Errorf("%g J expected of what never reaches the target", e)
	}
}

// A run never costs more than its threshold; with a higher threshold it continues beyond.
func TestThresholdHolds(t *testing.T) {
	jobs := fitted(t)
	rapid.Check(t, func(r *rapid.T) {
		j := jobs[rapid.IntRange(0, len(jobs)-1).Draw(r, "job")]
		s := rapid.SampledFrom(j.Settings()).Draw(r, "setting")
		eta := rapid.Float64Range(0, 1).Draw(r, "eta")
		threshold := j.ExpectedCost(eta, j.Default) * rapid.Float64Range(0.001, 3).Draw(r, "threshold")
		seed := rapid.Uint64().Draw(r, "seed")
		var first []stretch
		for range rapid.IntRange(0, 4).Draw(r, "stretches") {
			first = append(first, stretch{rapid.SampledFrom(j.Limits).Draw(r, "limit"), profileSeconds})
		}
		run := func(threshold float64) recurringRun {
			return j.Run(s.Batch, first, s.Watts, eta, threshold, rand.New(rand.NewPCG(seed, 1)))
		}
		got, more := run(threshold), run(math.Inf(1))
		cost := j.Cost(eta, got.Seconds, got.Joules)
		if cost > threshold*(1+1e-9) || got.Joules > more.Joules*(1+1e-9) || got.Seconds < 0 {
			r.Fatalf("%+v costs %g of %g; without a threshold %+v", got, cost, threshold, more)
		}
		if got.Reached != (more.Reached && j.Cost(eta, more.Seconds, more.Joules) < threshold) {
			r.Fatalf("%+v under %g, %+v without", got, threshold, more)
		}
	})
}

// TestProfiling checks that limits are measured until both neighbours of the best one are known, that a power limit is known only where the run lasted long enough to measure it, and that
// finally all are known and the best of them is found.
func TestProfiling(t *testing.T) {
	j := fitted(t)[1]
	batch := j.Default.Batch
	rng := rand.New(rand.NewPCG(1, 1))
	p := newProfiler(j, 1, 3, 2, rng)
	for run, c := range []struct {
		stretches int
		seconds   float64
		known     int
	}{{7, 12, 2}, {4, 1000, 6}, {1, 1000, 7}, {0, 1000, 7}} {
		stretches, watts := p.profile(batch)
		p.recordRun(attempt{jobSetting: jobSetting{batch, watts}, Profile: stretches}, recurringRun{Seconds: c.seconds})
		known := 0
		for _, m := range p.known[batch] {
			if m.seconds > 0 {
				known++
			}
		}
		if len(stretches) != c.stretches || known != c.known {
			t.Errorf("run %d measured %v, %d limits are known after %g s; want %d stretches and %d known", run+1, stretches, known, c.seconds, c.stretches, c.known)
		}
	}
	got := j.ExpectedCost(1, jobSetting{batch, j.Limits[p.best(batch)]})
	for _, w := range j.Limits {
		if least := j.ExpectedCost(1, jobSetting{batch, w}); got > 1.03*least {
			t.Errorf("settled on %g W, which costs %.1f %% more than %g W", j.Limits[p.best(batch)], percent(got, least), w)
		}
	}
}
