package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// ran returns a run with a prediction of 80…125 s, median 100 s, that took the given number of seconds.
func ran(k int, family string, seconds float64, change func(*Entry)) Entry {
	e := NewEntry(Run, fmt.Sprintf("run-%03d", k))
	e.At = time.Date(2026, 3, 1, 0, k, 0, 0, time.UTC)
	e.State, e.Job.Family, e.Seconds = "done", family, seconds
	e.Predicted = &forecast{Seconds: sla.Interval{P5: 80, P50: 100, P95: 125}}
	if change != nil {
		change(&e)
	}
	return e
}

// TestScorePrediction compares scores with known answers for an interval of 80…125 around 100.
func TestScorePrediction(t *testing.T) {
	half := math.Log(1.25)
	for name, c := range map[string]struct {
		predicted sla.Interval
		realised  float64
		side      int
		pit       float64
		interval  float64
		none      bool
	}{
		"the median":          {sla.Interval{P5: 80, P50: 100, P95: 125}, 100, 0, 0.5, 2 * half, false},
		"the upper end":       {sla.Interval{P5: 80, P50: 100, P95: 125}, 125, 0, 0.95, 2 * half, false},
		"the lower end":       {sla.Interval{P5: 80, P50: 100, P95: 125}, 80, 0, 0.05, 2 * half, false},
		"above":               {sla.Interval{P5: 80, P50: 100, P95: 125}, 125 * 1.25, 1, 0.9995, 2*half + 20*half, false},
		"below":               {sla.Interval{P5: 80, P50: 100, P95: 125}, 64, -1, 0.0005, 2*half + 20*half, false},
		"skewed, upper end":   {sla.Interval{P5: 99, P50: 100, P95: 200}, 200, 0, 0.95, math.Log(200. / 99), false},
		"a point, met":        {sla.Interval{P5: 100, P50: 100, P95: 100}, 100, 0, 0.5, 0, false},
		"nothing came":        {sla.Interval{P5: 80, P50: 100, P95: 125}, math.NaN(), 0, 0, 0, true},
		"nothing predicted":   {sla.Interval{P5: math.NaN(), P50: math.NaN(), P95: math.NaN()}, 100, 0, 0, 0, true},
		"zero is no forecast": {sla.Interval{}, 100, 0, 0, 0, true},
		"ends the wrong way":  {sla.Interval{P5: 125, P50: 100, P95: 80}, 100, 0, 0, 0, true},
		"endless":             {sla.Interval{P5: 80, P50: 100, P95: math.Inf(1)}, 100, 0, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := scorePrediction(c.predicted, c.realised)
			if ok == c.none {
				t.Fatalf("scored %t, want %t", ok, !c.none)
			}
			if c.none {
				return
			}
			if s.Side != c.side || math.Abs(s.PIT-c.pit) > 5e-5 || math.Abs(s.IntervalScore-c.interval) > 1e-9 {
				t.Errorf("%+v, want side %d, PIT %g, interval score %g", s, c.side, c.pit, c.interval)
			}
		})
	}
}

// TestCalibrateCounts covers runs that are scored, only counted, or ignored.
func TestCalibrateCounts(t *testing.T) {
	table := Calibrate([]Entry{
		ran(1, "resnet", 100, nil),
		ran(2, "resnet", 130, nil),
		ran(3, "resnet", 70, nil),
		ran(4, "resnet", 50, func(e *Entry) { e.State = "stopped" }),
		ran(5, "resnet", 10, func(e *Entry) { e.State = "failed" }),
		ran(6, "", 110, func(e *Entry) {
			e.Predicted.CostUSD = sla.Interval{P5: 1, P50: 2, P95: 3}
			e.CostUSD = 4
		}),
		ran(7, "bert", 100, func(e *Entry) { e.Predicted = nil }),
		ran(8, "bert", 100, func(e *Entry) { e.Kind = Probe }),
		ran(9, "bert", math.NaN(), nil),
	})
	if len(table.Families) != 3 || table.Families[0].Family != "bert" || table.Families[1].Family != "resnet" || table.Families[2].Family != "unknown" {
		t.Fatalf("families %+v, want bert, resnet and unknown", table.Families)
	}
	bert, resnet, all := table.Families[0], table.Families[1], table.All
	if bert.Runs != 1 || bert.Scored != 0 || bert.ByQuantity[QuantitySeconds].N != 0 || !math.IsNaN(float64(bert.ByQuantity[QuantitySeconds].Share)) {
		t.Errorf("bert %+v, want one run of which nothing came", bert)
	}
	if resnet.Runs != 5 || resnet.Scored != 3 || resnet.Stopped != 1 || resnet.Failed != 1 {
		t.Errorf("resnet %+v, want 5 runs, 3 scored, 1 stopped, 1 failed", resnet)
	}
	s := resnet.ByQuantity[QuantitySeconds]
	if s.N != 3 || s.Inside != 1 || s.Above != 1 || s.Below != 1 || math.Abs(float64(s.MedianError)-0.3) > 1e-9 || math.Abs(float64(s.Bias)) > 1e-9 {
		t.Errorf("resnet's seconds %+v, want one inside, one above and one below, errors 0, 30, 30 %%", s)
	}
	if c := all.ByQuantity[QuantityCostUSD]; c.N != 1 || c.Above != 1 || all.Scored != 4 || all.ByQuantity[QuantitySeconds].N != 4 {
		t.Errorf("all %+v, want 4 scored, and one cost, above", all)
	}
	if first := table.Scores[0]; first.Run != "run-006" || first.Quantity != QuantitySeconds || table.Scores[1].Quantity != QuantityCostUSD {
		t.Errorf("the first score is %+v, want the newest run's seconds, then its cost", first)
	}
}

// outcomes returns runs of one family whose log errors are times as wide as predicted.
func outcomes(rng *rand.Rand, family string, n int, times float64) []Entry {
	var out []Entry
	sd := math.Log(1.25) / normalQuantile(0.95)
	for k := range n {
		out = append(out, ran(k, family, 100*math.Exp(times*sd*rng.NormFloat64()), func(e *Entry) { e.ID = family + e.ID }))
	}
	return out
}

// TestWiden requires that the factor follows the outcomes slowly and is robust to a single outlier.
func TestWiden(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	if w := Calibrate(nil).Widen("resnet"); w != 1 {
		t.Errorf("nothing was scored, and the factor is %g", w)
	}
	for name, c := range map[string]struct {
		n        int
		times    float64
		low, hig float64
	}{
		"right, many":           {2000, 1, 0.95, 1.05},
		"half as wide as true":  {2000, 2, 1.9, 2.1},
		"twice as wide as true": {2000, 0.4, 0.7, 0.7},
		"too wide, few":         {8, 0.2, 1, 1},
		"far too narrow":        {2000, 50, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if w := Calibrate(outcomes(rng, "resnet", c.n, c.times)).Widen("resnet"); w < c.low || w > c.hig {
				t.Errorf("factor %.3f, want %g…%g", w, c.low, c.hig)
			}
		})
	}
	accident := append(outcomes(rng, "resnet", 9, 1), ran(99, "resnet", 1e6, nil))
	if w := Calibrate(accident).Widen("resnet"); w > 1.6 {
		t.Errorf("one accident among ten makes the factor %.2f", w)
	}
	mixed := append(outcomes(rng, "bert", 60, 3), outcomes(rng, "resnet", 60, 1)...)
	table := Calibrate(mixed)
	bert, resnet, other := table.Widen("bert"), table.Widen("resnet"), table.Widen("vgg")
	if !(resnet < other && other < bert) {
		t.Errorf("bert %.2f, a family never seen %.2f, resnet %.2f: want them in this order", bert, other, resnet)
	}
}

// TestWidenedIntervalsHold requires 90 % coverage of the widened intervals over many short histories, whatever the
// error of the model itself.
func TestWidenedIntervalsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, times := range []float64{1, 1.5, 2.5} {
		inside, n := 0, 0
		for range 1000 {
			past := outcomes(rng, "resnet", 80, times)
			w := Calibrate(past[:79]).Widen("resnet")
			z := math.Abs(Calibrate(past[79:]).Scores[0].Z)
			if n++; z <= w*normalQuantile(0.95) {
				inside++
			}
		}
		if share := float64(inside) / float64(n); share < 0.86 || share > 0.94 {
			t.Errorf("errors %g times as wide as predicted: %.1f %% of the widened intervals held, want 90 %%", times, 100*share)
		}
	}
}

// TestWidenedIntervalsKeepHolding requires 90 % coverage of the intervals of runs in turn, each widened by the factor from
// all runs before it.
func TestWidenedIntervalsKeepHolding(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	sd := math.Log(1.25) / normalQuantile(0.95)
	for _, times := range []float64{1, 1.5, 2.5} {
		inside, n := 0, 0
		for range 4 {
			var past []Entry
			for k := range 300 {
				w := Calibrate(past).Widen("resnet")
				past = append(past, ran(k, "resnet", 100*math.Exp(times*sd*rng.NormFloat64()), func(e *Entry) {
					width := math.Pow(1.25, w)
					e.Predicted.Seconds, e.Predicted.Widen = sla.Interval{P5: 100 / width, P50: 100, P95: 100 * width}, w
				}))
			}
			for _, s := range Calibrate(past).Scores[:150] { // newest first
				if n++; s.Side == 0 {
					inside++
				}
			}
		}
		if share := float64(inside) / float64(n); share < 0.86 || share > 0.94 {
			t.Errorf("errors %g times as wide as predicted: %.1f %% of the last intervals held, want 90 %%", times, 100*share)
		}
	}
}

// TestCalibrateProperties requires that the order of entries has no effect, that shares are within 0…1, and that the factor
// stays within its bounds and is never below 1 on little evidence.
func TestCalibrateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		n := rapid.IntRange(0, 30).Draw(t, "runs")
		for k := range n {
			family := rapid.SampledFrom([]string{"", "bert", "resnet"}).Draw(t, "family")
			seconds := math.Exp(rapid.Float64Range(-3, 12).Draw(t, "log seconds"))
			state := rapid.SampledFrom([]string{"done", "done", "stopped", "failed"}).Draw(t, "state")
			entries = append(entries, ran(k, family, seconds, func(e *Entry) { e.State = state }))
		}
		table := Calibrate(entries)
		for _, l := range append(slices.Clone(table.Families), table.All) {
			if l.Widen < narrowest || l.Widen > widest || l.Scored < minScoredRuns && l.Widen < 1 {
				t.Fatalf("%+v: factor out of bounds", l)
			}
			if l.Runs != l.Scored+l.Stopped+l.Failed {
				t.Fatalf("%+v: the counts do not add up", l)
			}
			for q, s := range l.ByQuantity {
				if s.N != s.Inside+s.Below+s.Above || s.N > 0 && !(0 <= s.Lo && s.Lo <= s.Share && s.Share <= s.Hi && s.Hi <= 1) {
					t.Fatalf("%s of %s: %+v", q, l.Family, s)
				}
			}
		}
		shuffled := slices.Clone(entries)
		rand.New(rand.NewPCG(uint64(n), 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if a, b := fmt.Sprintf("%+v", table), fmt.Sprintf("%+v", Calibrate(shuffled)); a != b {
			t.Fatalf("the order of entries changes\n%s\n%s", a, b)
		}
	})
}

// TestCalibrateWithoutTheQueue: the wait for places after a prediction is no error of it, and no cost of an arm of the bandit.
func TestCalibrateWithoutTheQueue(t *testing.T) {
	waited := 7200.0
	var entries []Entry
	for k := range 20 {
		rec := past(func(r *journal.Record) {
			r.Exit, r.Outcome.Seconds, r.Outcome.QueueSeconds = &journal.Exit{Reason: "exited"}, journal.Number(10_780+2*k), &waited
			r.Plan = &journal.Plan{Prediction: &journal.Prediction{Seconds: sla.Interval{P5: 3500, P50: 3600, P95: 3700}}}
		})
		entries = append(entries, runEntries(fmt.Sprintf("run-%03d", k), t.TempDir(), rec)[0])
		if x, ok := recurrence(rec); !ok || x.Seconds != float64(3580+2*k) {
			t.Fatalf("recurrence %+v, %t; want %d s", x, ok, 3580+2*k)
		}
	}
	c := Calibrate(entries)
	if s := c.All.ByQuantity[QuantitySeconds]; s.N != 20 || s.Inside != 20 || c.Widen("") > 1 {
		t.Errorf("%+v, widened by %g; want 20 inside, and no factor above 1", s, c.Widen(""))
	}
}
