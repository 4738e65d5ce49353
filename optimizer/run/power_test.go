package run

import (
	"math"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

func powerSamples(rows ...[3]float64) (out []journal.PowerSample) {
	for _, r := range rows {
		out = append(out, journal.PowerSample{LimitW: int(r[0]), Unit: "step", SecondsPerUnit: r[1], Watts: r[2], JoulesPerUnit: r[1] * r[2]})
	}
	return out
}

func TestPowerChoice(t *testing.T) {
	inf := math.Inf(1)
	// Energy per step: 280, 226.5, 205, 195, 210 J.
	measured := powerSamples([3]float64{300, 1, 280}, [3]float64{250, 1.01, 224.3}, [3]float64{200, 1.1, 186.4}, [3]float64{150, 1.3, 150}, [3]float64{100, 2.1, 100})
	cases := map[string]struct {
		q    powerQuestion
		want int
		says string
	}{
		"no preference: not slower":            {q: powerQuestion{}, want: 250, says: "+1.0 % time and −19.1 % energy per step against 300 W"},
		"time":                                 {q: powerQuestion{stated: true, weights: plan.Preference{Time: 1}}, want: 300},
		"cost is time":                         {q: powerQuestion{stated: true, weights: plan.Preference{Cost: 1}}, want: 300},
		"energy":                               {q: powerQuestion{stated: true, weights: plan.Preference{Resource: 1}}, want: 150},
		"balanced":                             {q: powerQuestion{stated: true, weights: plan.Preference{Time: 0.5, Resource: 0.5}}, want: 250},
		"energy, with a deadline":              {q: powerQuestion{stated: true, weights: plan.Preference{Resource: 1}, work: 1000, seconds: 1200}, want: 200},
		"energy, with a budget":                {q: powerQuestion{stated: true, weights: plan.Preference{Resource: 1}, work: 3600, hours: 1.1}, want: 250},
		"deadline missed at all: the fastest":  {q: powerQuestion{stated: true, weights: plan.Preference{Resource: 1}, work: 1000, seconds: 900}, want: 300, says: "no limit meets deadline"},
		"energy budget: the fastest within":    {q: powerQuestion{work: 1000, joules: 210_000}, want: 200},
		"energy budget missed at all":          {q: powerQuestion{work: 1000, joules: 100_000}, want: 150, says: "the energy budget is missed"},
		"energy budget against the deadline":   {q: powerQuestion{work: 1000, joules: 210_000, seconds: 1070}, want: 250, says: "the energy budget is missed"},
		"energy budget, unknown work":          {q: powerQuestion{work: math.NaN(), joules: 210_000}, want: 300},
		"keeps the present one within noise":   {q: powerQuestion{stated: true, weights: plan.Preference{Resource: 1}, keepW: 100, work: 1}, want: 150},
		"keeps the present one at equal value": {q: powerQuestion{stated: true, weights: plan.Preference{Time: 0.5, Resource: 0.5}, keepW: 250}, want: 250},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []*float64{&c.q.seconds, &c.q.hours, &c.q.joules} {
				if *limit == 0 {
					*limit = inf
				}
			}
			if got, why := c.q.choose(measured); got != c.want || !strings.Contains(why, c.says) {
				t.Errorf("%d W (%s), want %d W (%s)", got, why, c.want, c.says)
			}
		})
	}
}

// TestPowerChoiceNamesAllLimits: the reason shows what every measured limit gave, also where the present one is kept.
func TestPowerChoiceNamesAllLimits(t *testing.T) {
	measured := powerSamples([3]float64{700, 0.016, 625}, [3]float64{300, 0.024, 300})
	q := powerQuestion{seconds: math.Inf(1), hours: math.Inf(1), joules: math.Inf(1)}
	if w, why := q.choose(measured); w != 700 || why != "0.016 s and 10 J per step; 300 W: +50.0 % time and −28.0 % energy" {
		t.Errorf("%d W: %s", w, why)
	}
}

// TestPowerTrialDoesNotCount: the pace at a limit that is tried is no observation of the run, nor a sign that it has become
// slower; at the limit that is kept it is one.
func TestPowerTrialDoesNotCount(t *testing.T) {
	var p Progress
	a := resources.Allocation{GPUs: 1, GPUIDs: []string{"GPU-1"}, CPUs: 1}
	add := func(trial bool, watts int, unit float64) *Segment {
		s := p.Begin(0, a, "work", false)
		for s.Trial, s.PowerW = trial, watts; len(s.timed()) < 2*settledBlocks; {
			s.addBlock(unit)
		}
		return s
	}
	add(false, 0, 1)
	add(true, 700, 1.02)
	low := add(true, 300, 1.5)
	if paces := p.measuredPaces(); len(p.Observations()) != 1 || len(paces) != 1 || paces[0].seconds != 1 || low.settled() {
		t.Errorf("during the trial: %d observations, paces %+v", len(p.Observations()), paces)
	}
	if s, ok := measuredPower(low, "epoch", false); !ok || s.SecondsPerUnit != 1.5 {
		t.Errorf("the trial measured %+v, %v", s, ok)
	}
	for _, c := range []struct {
		own, chosen int
		want        []float64
	}{{700, 700, []float64{1, 1.02}}, {700, 300, []float64{1.5}}} {
		var got []float64
		again := p
		again.Segments = nil
		for _, s := range p.Segments {
			x := *s
			again.Segments = append(again.Segments, &x)
		}
		again.continueAt(c.chosen, c.own, a.GPUIDs)
		for _, x := range again.measuredPaces() {
			got = append(got, x.seconds)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("at %d W: paces %v, want %v", c.chosen, got, c.want)
		}
	}
}

func TestPowerCandidates(t *testing.T) {
	for name, c := range map[string]struct {
		allowed resources.Range
		own, n  int
		want    []int
	}{
		"seven":            {resources.Range{Min: 100, Max: 400}, 400, 7, []int{400, 350, 300, 250, 200, 150, 100}},
		"with its own":     {resources.Range{Min: 100, Max: 400}, 320, 5, []int{400, 320, 300, 200, 100}},
		"three":            {resources.Range{Min: 100, Max: 400}, 320, 3, []int{400, 250, 100}},
		"two":              {resources.Range{Min: 101, Max: 399}, 320, 2, []int{399, 101}},
		"a narrow range":   {resources.Range{Min: 247, Max: 251}, 300, 7, []int{251, 250, 247}},
		"of one watt more": {resources.Range{Min: 250, Max: 251}, 300, 7, []int{251, 250}},
	} {
		if got := powerCandidates(c.allowed, c.own, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestPowerStopsWhereEnergyRises(t *testing.T) {
	q := powerQuestion{stated: true, weights: plan.Preference{Resource: 1}, joules: math.Inf(1)}
	rows := [][3]float64{{300, 1, 280}, {250, 1.02, 230}, {200, 1.3, 190}, {150, 1.8, 150}}
	for n, want := range []bool{2: false, 3: false, 4: true} {
		if got := powerRising(powerSamples(rows[:min(n, 4)]...), q); n > 1 && got != want {
			t.Errorf("after %d limits: %v", n, got)
		}
	}
}

func TestPowerSettingsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		limit, engine, says string
		budget              float64
	}{
		"range":            {limit: "300:200", says: "--power-limit"},
		"words":            {limit: "low", says: "--power-limit"},
		"zero":             {limit: "0", says: "--power-limit"},
		"negative":         {limit: "-5:100", says: "--power-limit"},
		"on an engine":     {limit: "200:300", engine: "slurm", says: "nodes of an engine"},
		"budget alone":     {budget: 1, says: "requires --power-limit"},
		"negative budget":  {limit: "200:300", budget: -1, says: "--energy-budget"},
		"budget not known": {limit: "200:300", budget: math.NaN(), says: "--energy-budget"},
	} {
		err := Config{Train: "x", PowerLimit: c.limit, EnergyBudgetKWh: c.budget, Engine: c.engine}.WithDefaults().Validate()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if err := (Config{Train: "x", PowerLimit: "200:300", EnergyBudgetKWh: 2}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}
