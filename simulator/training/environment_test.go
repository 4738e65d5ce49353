package training_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/training"
	"trainopt/sla"
)

func drawer(t testing.TB, set pretrain.Set, seed uint64) func(rng *rand.Rand) training.Scenario {
	t.Helper()
	d, err := pretrain.NewGenerator(pretrain.GeneratorOptions{Set: set, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return func(rng *rand.Rand) training.Scenario { return d.At(rng.IntN(1 << 30)).Scenario }
}

// walk plays an episode with random actions and returns all rewards and states.
func walk(e *training.Environment, seed uint64) (rewards [][4]float64, states [][]float32) {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := e.Reset(rng)
	for over := false; !over; {
		var open []int
		for a, ok := range o.Mask {
			if ok {
				open = append(open, a)
			}
		}
		out := e.Step(open[rng.IntN(len(open))])
		var r [4]float64
		for i, v := range out.Reward {
			r[i] = float64(v)
		}
		rewards, states = append(rewards, r), append(states, slices.Clone(out.State))
		o, over = out.Observation, out.Done
	}
	return rewards, states
}

// The rewards of an episode add up to the cost of the run beyond the prediction at the time of the decision: shaping
// moves rewards in time and leaves their sum unchanged.
func TestShapedRewardsAddUp(t *testing.T) {
	e := training.NewEnvironment(drawer(t, "train", 3), training.EnvironmentOptions{Decisions: 2})
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		o := e.Reset(rng)
		own := e.Outlook().Own
		first := e.Execution()
		before := e.Proposal().Potential
		var sum [4]float64
		for over := false; !over; {
			action := slices.Index(o.Mask, true)
			out := e.Step(action)
			for i, r := range out.Reward {
				sum[i] += float64(r)
			}
			o, over = out.Observation, out.Done
		}
		last := e.Execution()
		for i, took := range []float64{(last.SpentUSD - first.SpentUSD) / own.USD, (last.Elapsed - first.Elapsed) / own.Seconds} {
			want := -took - before[i]
			if math.Abs(sum[i]-want) > 1e-3*(1+math.Abs(want)) {
				t.Errorf("seed %d, %s: rewards sum to %g, want %g", seed, perf.Objectives[i], sum[i], want)
			}
		}
		if last.Done < e.Scenario().Units-1e-6 {
			t.Errorf("seed %d: the episode ended with %g of %g units done", seed, last.Done, e.Scenario().Units)
		}
	}
}

func TestEpisodesAreTheSameForTheSameSeed(t *testing.T) {
	for seed := range uint64(3) {
		a, sa := walk(training.NewEnvironment(drawer(t, "train", 1), training.EnvironmentOptions{}), seed)
		b, sb := walk(training.NewEnvironment(drawer(t, "train", 1), training.EnvironmentOptions{}), seed)
		if !slices.Equal(a, b) || !slices.EqualFunc(sa, sb, slices.Equal[[]float32]) {
			t.Fatalf("seed %d: two episodes differ", seed)
		}
		for _, s := range sa {
			for i, v := range s {
				if math.IsNaN(float64(v)) || math.Abs(float64(v)) > 2 {
					t.Fatalf("state %d = %g", i, v)
				}
			}
		}
	}
}

// constant is a workload that takes 8 s per unit on one GPU and half of it on two, whatever the rest of the
// allocation.
type constant struct{}

func (constant) UnitSeconds(a resources.Allocation) float64 { return 8 / float64(a.GPUs) }
func (constant) Watts(resources.Allocation) float64         { return math.NaN() }

func steady(*rand.Rand) training.Scenario {
	return training.Scenario{Name: "steady", Workload: constant{}, Units: 200, Limits: resources.Limits{GPUs: resources.Range{Min: 1, Max: 4}, CPUs: resources.Range{Min: 8, Max: 8}},
		Baseline: resources.Allocation{GPUs: 4, CPUs: 8}, Rates: cost.Rates{GPUHour: 1}, Spec: sla.Spec{TimeMax: 500 * time.Second}, Startup: 10, Restart: 10}
}

// Editing the proposal is free and does not affect the job; a commit pays for the restart.
func TestEditsAreImagined(t *testing.T) {
	e := training.NewEnvironment(steady, training.EnvironmentOptions{})
	rng := rand.New(rand.NewPCG(1, 1))
	o := e.Reset(rng)
	space := resources.ActionSpace{Limits: e.Scenario().Limits}
	before := e.Execution()
	for range 40 {
		action := slices.Index(o.Mask, true)
		if action == space.Stay() {
			break
		}
		out := e.Step(action)
		if after := e.Execution(); after.Elapsed != before.Elapsed || after.SpentUSD != before.SpentUSD || out.Done {
			t.Fatalf("an edit took %g s, $%g, or the end of the episode", after.Elapsed-before.Elapsed, after.SpentUSD-before.SpentUSD)
		}
		o = out.Observation
	}
	defer func() {
		if recover() == nil {
			t.Error("a masked action was taken")
		}
	}()
	e.Step(slices.Index(o.Mask, false))
}

func TestDominatedIsOutOfTheQuestion(t *testing.T) {
	w := func(cost, time, chance float64) perf.AllocationOutlook {
		return perf.AllocationOutlook{Potential: [4]float64{-cost, -time, 0, chance - 1}, Chance: chance}
	}
	for name, c := range map[string]struct {
		w    perf.AllocationOutlook
		by   []perf.AllocationOutlook
		want bool
	}{
		"alone":                     {w(1, 1, 1), nil, false},
		"a trade":                   {w(1, 0.5, 1), []perf.AllocationOutlook{w(0.5, 1, 1)}, false},
		"worse in both":             {w(1, 1, 1), []perf.AllocationOutlook{w(0.8, 0.8, 1)}, true},
		"a little worse in both":    {w(1, 1, 1), []perf.AllocationOutlook{w(0.95, 0.95, 1)}, false},
		"misses what another keeps": {w(0.1, 0.1, 0.5), []perf.AllocationOutlook{w(1, 1, 0.99)}, true},
		"no allocation keeps it":    {w(0.1, 0.1, 0.5), []perf.AllocationOutlook{w(1, 1, 0.9)}, false},
	} {
		if got := training.Dominated(c.w, c.by); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// critics assign a fixed value each to "no change".
type critics struct {
	morl.Valuer
	stay, actions int
	each          [][4]float32
}

func (c critics) Values(morl.Observation, []float32) [][]float32 {
	var out [][]float32
	for _, v := range c.each {
		q := make([]float32, 4*c.actions)
		copy(q[4*c.stay:], v[:])
		out = append(out, q)
	}
	return out
}

func TestJudgementIsThePredictionAndTheCorrection(t *testing.T) {
	e := training.NewEnvironment(steady, training.EnvironmentOptions{})
	e.Reset(rand.New(rand.NewPCG(2, 1)))
	a := resources.Allocation{GPUs: 2, CPUs: 8}
	c := critics{stay: 4, actions: 9, each: [][4]float32{{0.1, 0, 0, 0}, {0.3, 0, 0, 0}}}
	j := e.Outlook().CriticEstimates(c, 4, []resources.Allocation{a}, [4]float64{0.5, 0.5, 0, 0})[0]
	p := e.Outlook().OutlookAt(a).Potential
	if math.Abs(j.Value[0]-p[0]-0.2) > 1e-6 || math.Abs(j.Value[1]-p[1]) > 1e-6 || math.Abs(j.Spread[0]-0.1) > 1e-3 {
		t.Errorf("value %v ± %v of potential %v, want 0.2 ± 0.1 more in the first", j.Value, j.Spread, p)
	}
	if want := 0.5*(p[0]+0.2) + 0.5*p[1]; math.Abs(j.Mean-want) > 1e-6 {
		t.Errorf("utility %g, want %g", j.Mean, want)
	}
	if gain, sd := j.AdvantageOver(j); gain != 0 || sd != 0 {
		t.Errorf("a judgement is better than itself by %g ± %g", gain, sd)
	}
}

func TestCalibratedJobsAreLikeTheMeasuredOne(t *testing.T) {
	e := training.NewEnvironment(steady, training.EnvironmentOptions{})
	rng := rand.New(rand.NewPCG(3, 1))
	e.Reset(rng)
	draw := training.Calibrated("again", *e.Outlook(), 0)
	for range 10 {
		s := draw(rng)
		u := s.Workload.UnitSeconds(s.Baseline)
		if u < 1.8 || u > 2.2 || s.Units != 200 || s.Spec.TimeMax != 500*time.Second {
			t.Errorf("%g s a unit of %g, want about 2 of 200, as measured", u, s.Units)
		}
	}
	again := training.NewEnvironment(draw, training.EnvironmentOptions{})
	if rewards, _ := walk(again, 5); len(rewards) == 0 {
		t.Error("no decisions")
	}
}

func TestACalibratedJobIsOneDrawOfTheModel(t *testing.T) {
	e := training.NewEnvironment(steady, training.EnvironmentOptions{})
	e.Reset(rand.New(rand.NewPCG(4, 1)))
	o := e.Outlook()
	s := training.Calibrated("again", *o, 0)(rand.New(rand.NewPCG(1, 1)))
	for g := 1; g <= 4; g++ {
		a := resources.Allocation{GPUs: g, CPUs: 8}
		if u := s.Workload.UnitSeconds(a); !slices.Contains(o.Model.Draws(a), u) {
			t.Errorf("%s: %g s is none of the model's draws", a, u)
		}
	}
}
