package plan

import (
	"math"
	"testing"

	"trainopt/cost"
	"trainopt/sla"
)

// The simulated interruptions agree with the expectation in closed form; a longer run has all those of a shorter one.
func TestInterruptedRun(t *testing.T) {
	s := cpuScene().running(cpu(16), 2, minutes(0.1), 0.001, 36)
	s.Total = 1e5 // 33 h
	s.Interruptions = cost.Interruptions{PerHour: 0.5, AwayHours: 0.25}
	f := newForecast(s.snapshot(t))
	unit, seconds := 1.2, 20*3600.0
	mean, n := [2]float64{}, float64(len(f.restart))
	for k := range f.restart {
		repeated, away := f.interrupted(k, seconds, unit)
		mean[0], mean[1] = mean[0]+repeated/n/3600, mean[1]+away/n/3600
		if r, a := f.interrupted(k, seconds/2, unit); r > repeated || a > away {
			t.Fatalf("draw %d: half the run repeats %g s of %g and waits %g of %g", k, r, repeated, a, away)
		}
	}
	in := s.Interruptions
	in.RestartHours, in.LostHours, in.Resumable = 0.01, unit/2/3600, true
	paid, wall := in.Expected(seconds / 3600)
	if math.Abs(mean[0]/(paid-20)-1) > 0.25 || math.Abs(mean[1]/(wall-paid)-1) > 0.15 {
		t.Errorf("%.3f h repeated and %.2f h away, want %.3f and %.2f", mean[0], mean[1], paid-20, wall-paid)
	}
	if r, a := newForecast(cpuScene().snapshot(t)).interrupted(0, 1e9, 1); r != 0 || a != 0 {
		t.Errorf("no interruptions: %g s repeated, %g s away", r, a)
	}
}

// A deadline that leaves no time for an interruption is not certain on spot capacity, and a longer one is more likely;
// money is spent on repeated work only.
func TestChanceOnSpotCapacity(t *testing.T) {
	chance := func(hours float64, interrupted bool) (float64, Candidate) {
		s := cpuScene().prefer("time").agreed(sla.Spec{TimeMax: minutes(60 * hours)}).running(cpu(16), 2, minutes(0.1), 0.001, 36)
		s.Total = 9000 // 3 h
		if interrupted {
			s.Interruptions = cost.AssumedSpot(0, 0, true)
		}
		o := newForecast(s.snapshot(t)).outcome(cpu(16))
		return o.Chance, o.Candidate
	}
	quiet, plain := chance(4, false)
	tight, spot := chance(4, true)
	loose, _ := chance(12, true)
	if quiet < 0.99 || tight > 0.8 || tight < 0.1 || loose < tight+0.1 {
		t.Errorf("chance %.2f without interruptions, %.2f with them, %.2f with more time", quiet, tight, loose)
	}
	if time, money := spot.Seconds.P95/plain.Seconds.P95, spot.CostUSD.P95/plain.CostUSD.P95; time < 1.3 || money < 1.001 || money > 1.1 {
		t.Errorf("interruptions multiply the 95 %% quantiles of time by %.2f and of cost by %.2f", time, money)
	}
}

// An interruption is no delay by probes: a run that lost hours before the first decision may still measure.
func TestInterruptionsLeaveProbes(t *testing.T) {
	for name, c := range map[string]struct {
		elapsed float64 // minutes
		moved   bool
		want    bool
	}{"undisturbed": {3, false, true}, "interrupted": {600, false, true}, "delayed by moves": {3, true, false}} {
		s := cpuScene().prefer("time").running(cpu(4), 60, minutes(c.elapsed), 0.01, 12)
		s.Total, s.Baseline, s.HoldBaseline = 600, cpu(4), true
		s.measured = s.measured[2:] // 4 CPUs
		s.Trials = []Trial{{Allocation: cpu(4), UnitSeconds: []float64{2.95}}}
		if c.moved {
			s.Trials = append(s.Trials, Trial{Allocation: cpu(1), UnitSeconds: []float64{10}}, Trial{Allocation: cpu(4), UnitSeconds: []float64{2.95}})
		}
		b := newEvaluation(s.snapshot(t))
		if got := b.probeKeepsFallback(cpu(8), b.fallback()); got != c.want {
			t.Errorf("%s: a probe is allowed: %v, want %v", name, got, c.want)
		}
	}
}
