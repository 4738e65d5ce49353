package transfer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/optimizer/history"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

var fourCPUs = resources.Allocation{CPUs: 4}

// similarRun returns a run with other arguments and the given seconds per unit.
func similarRun(id string, seconds float64, changes ...history.Change) history.Similar {
	s := history.Similar{Run: id, Unit: "epoch", BatchSize: 64, Changes: changes, Job: history.Job{Script: "train.py", ScriptSHA256: "abc"},
		Observations: []perf.Observation{{Allocation: fourCPUs, UnitSeconds: []float64{seconds, seconds}, UnitSamples: 6400, Recalled: true}}}
	n := math.NaN()
	s.Job.Params, s.Job.Layers, s.Job.DataCount, s.Job.DataSizeMB = n, n, n, n
	for _, c := range changes {
		s.Distance += c.Distance
	}
	return s
}

func ofNumber(name string, ratio float64) history.Change {
	return history.Change{Name: name, Ratio: ratio, Distance: math.Abs(math.Log2(ratio))}
}

func word(name, was string) history.Change {
	return history.Change{Name: name, Was: was, Ratio: math.NaN(), Distance: 1}
}

func carrying() CarryTarget {
	return CarryTarget{Reference: fourCPUs, Config: func(a resources.Allocation) history.Config {
		return history.Config{CPUs: float64(a.CPUs), Batch: math.NaN(), MemoryGiB: math.NaN()}
	}}
}

func predicted(t *testing.T, similar ...history.Similar) (middle, sd float64) {
	t.Helper()
	m, err := perf.Fit(Carry(similar, carrying()), perf.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := m.UnitSeconds(fourCPUs)
	return p.P50, math.Log(p.P95/p.P5) / 2 / 1.645
}

// TestCarryWidths requires wider intervals for more distant runs, and that agreement between runs determines the
// weight of the arguments.
func TestCarryWidths(t *testing.T) {
	last := 0.0
	for name, c := range []history.Change{ofNumber("width", 1.05), ofNumber("width", 1.5), ofNumber("width", 2), ofNumber("width", 4)} {
		middle, sd := predicted(t, similarRun("a", 2, c))
		if sd <= last || math.Abs(middle/2-1) > 0.2 {
			t.Errorf("change %d: %.2f s, sd %.2f, before %.2f", name, middle, sd, last)
		}
		last = sd
	}
	three := func(a, b, c float64) float64 {
		_, sd := predicted(t, similarRun("a", a, word("kind", "x")), similarRun("b", b, word("kind", "y")), similarRun("c", c, word("kind", "z")))
		return sd
	}
	if same, other := three(2, 2.02, 1.98), three(2, 6, 0.7); same > 0.9*other {
		t.Errorf("sd %.2f where three kinds took the same, %.2f where they did not", same, other)
	}
}

// TestCarrySlope requires that seconds proportional to a number at two values predict a third.
func TestCarrySlope(t *testing.T) {
	middle, _ := predicted(t, similarRun("a", 2, ofNumber("width", 2)), similarRun("b", 1, ofNumber("width", 4)))
	if middle < 2.6 || middle > 5 { // 4 s if proportional, 2 s or less without the slope
		t.Errorf("%.2f s, want about 4", middle)
	}
}

// TestCarryBatchSize requires that, according to batch sizes measured elsewhere, epochs with a larger batch are not
// slower and its steps take longer.
func TestCarryBatchSize(t *testing.T) {
	change := ofNumber("batch_size", 2)
	change.BatchSize = true
	epoch := similarRun("a", 2, change)
	obs := Carry([]history.Similar{epoch}, carrying())
	e := obs[0].Effects[1]
	if !(e.Offset > 0 && e.Offset < math.Ln2) || !(math.Abs(e.Level) > 0.01 && math.Abs(e.Level) < 0.7) {
		t.Errorf("offset %.2f, width %.2f of twice the batch: want a learned gain of the speed below a factor of two", e.Offset, e.Level)
	}
	step := epoch
	step.Unit = "step"
	if o := Carry([]history.Similar{step}, carrying())[0]; o.UnitSeconds[0] != 4 || o.UnitSamples != 12800 || epoch.Observations[0].UnitSeconds[0] != 2 {
		t.Errorf("a step of %g samples in %g s", o.UnitSamples, o.UnitSeconds[0])
	}
}

// TestRatio requires that the common part of two queries cancels, and that ratios are consistent with each other.
func TestRatio(t *testing.T) {
	m := New(carryEntries(), Options{})
	q := func(cpus, batch float64) Query {
		return Query{Job: similarRun("", 1).Job, Config: history.Config{CPUs: cpus, Batch: batch, MemoryGiB: math.NaN()}}
	}
	up, err := m.Ratio(q(4, 64), q(4, 128))
	if err != nil {
		t.Fatal(err)
	}
	down, err := m.Ratio(q(4, 128), q(4, 64))
	if err != nil || math.Abs(up.Mean+down.Mean) > 1e-6 || math.Abs(up.SD/down.SD-1) > 1e-3 {
		t.Errorf("%+v and back %+v, %v", up, down, err)
	}
	none, err := m.Ratio(q(4, 64), q(4, 64))
	if err != nil || math.Abs(none.Mean) > 1e-9 || none.SD > 0.01 {
		t.Errorf("nothing changed: %+v, %v", none, err)
	}
	alone, err := m.Predict(q(4, 128), Throughput)
	if err != nil || up.SD >= math.Log(alone.Value.P95/alone.Value.P5)/2/1.645 {
		t.Errorf("sd %.2f of the ratio, of the throughput itself %v", up.SD, alone.Value)
	}
	if _, err := m.Ratio(q(math.NaN(), 64), q(4, 128)); err == nil {
		t.Error("no width: want an error")
	}
}

func carryEntries() []history.Entry {
	var out []history.Entry
	for i, batch := range []float64{16, 32} {
		e := history.NewEntry(history.Probe, string(rune('a'+i)))
		e.Job, e.Observed.CPUs, e.Observed.GPUs, e.Observed.Batch, e.Throughput = similarRun("", 1).Job, 4, 0, batch, 100*math.Sqrt(batch)
		out = append(out, e)
	}
	return out
}

// TestCarryCoverage leaves one run out of random lineages of a script in turn; the 90 % intervals must cover about
// nine of ten. Most arguments have no effect, the others scale the seconds by a power of their value; each run has
// its own load.
func TestCarryCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	held, n := 0, 0
	for range 40 {
		slope := [2]float64{}
		for i := range slope {
			if rng.IntN(2) == 0 {
				slope[i] = 0.3 + 1.2*rng.Float64()
			}
		}
		type run struct {
			values  [2]float64 // log2
			seconds float64
		}
		var runs []run
		for range 2 + rng.IntN(5) {
			r := run{values: [2]float64{float64(rng.IntN(4)), float64(rng.IntN(3))}}
			r.seconds = 3 * math.Exp(math.Ln2*(slope[0]*r.values[0]+slope[1]*r.values[1])+0.1*rng.NormFloat64())
			runs = append(runs, r)
		}
		for i, now := range runs {
			var others []history.Similar
			for k, was := range runs {
				var changes []history.Change
				for a := range slope {
					if d := now.values[a] - was.values[a]; d != 0 {
						changes = append(changes, ofNumber(fmt.Sprint("argument ", a), math.Exp2(d)))
					}
				}
				if k != i && len(changes) > 0 {
					others = append(others, similarRun(fmt.Sprint(k), was.seconds, changes...))
				}
			}
			if len(others) == 0 {
				continue
			}
			middle, sd := predicted(t, others...)
			n++
			if math.Abs(math.Log(now.seconds/middle)) <= 1.645*sd {
				held++
			}
		}
	}
	if share := float64(held) / float64(n); share < 0.84 || share > 0.98 {
		t.Errorf("%d of %d in the 90 %% interval", held, n)
	}
	t.Logf("%d of %d in the 90 %% interval", held, n)
}
