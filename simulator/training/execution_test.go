package training

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/resources"
)

// linear is a workload with perfect speed-up in GPUs and 100 W per GPU; it cannot run on 3.
type linear struct{ one float64 }

func (w linear) UnitSeconds(a resources.Allocation) float64 {
	if a.GPUs < 1 || a.GPUs == 3 {
		return math.NaN()
	}
	return w.one / float64(a.GPUs)
}
func (w linear) Watts(a resources.Allocation) float64 { return 100 * float64(a.GPUs) }

func scenario() *Scenario {
	return &Scenario{
		Workload: linear{100}, Units: 10,
		Limits:   resources.Limits{GPUs: resources.Range{Min: 1, Max: 4}, CPUs: resources.Range{Min: 2, Max: 2}},
		Baseline: resources.Allocation{GPUs: 4, CPUs: 2}, Rates: cost.Rates{GPUHour: 36}, Startup: 20, Restart: 50,
	}
}

func onGPUs(n int) resources.Allocation { return resources.Allocation{GPUs: n, CPUs: 2} }

// Known answers by hand: 100 s per unit and GPU, 1 cent per GPU and second, start-up 20 s, restart 50 s.
func TestExecutionByHand(t *testing.T) {
	type run struct {
		gpus  int
		units float64
	}
	for name, c := range map[string]struct {
		interruptions []Interruption
		runs          []run
		units         float64 // 0: 10
		want          string  // done, elapsed, cents, restarts
	}{
		"one allocation":                  {nil, []run{{1, 10}}, 0, "10 1020 1020 0"},
		"more asked than there is":        {nil, []run{{1, 99}}, 0, "10 1020 1020 0"},
		"in two parts, no restart":        {nil, []run{{1, 4}, {1, 6}}, 0, "10 1020 1020 0"},
		"moved once":                      {nil, []run{{1, 4}, {2, 6}}, 0, "10 770 1120 1"}, // 420 + 50 + 300
		"nothing left: no restart":        {nil, []run{{1, 10}, {2, 5}}, 0, "10 1020 1020 0"},
		"nothing asked: nothing happens":  {nil, []run{{1, 0}}, 0, "0 0 0 0"},
		"part of a unit":                  {nil, []run{{1, 9}}, 2.5, "2.5 270 270 0"},
		"a unit is lost":                  {[]Interruption{{170, 1000}}, []run{{1, 2}}, 0, "2 1320 320 1"}, // 170, away to 1170, 50 + 100
		"at the very end of a unit":       {[]Interruption{{120, 1000}}, []run{{1, 1}}, 0, "1 120 120 0"},
		"while starting":                  {[]Interruption{{10, 5}}, []run{{1, 1}}, 0, "1 165 160 1"},           // 10, 5 away, 50 + 100
		"while restarting":                {[]Interruption{{30, 5}, {40, 10}}, []run{{1, 1}}, 0, "1 200 185 2"}, // 30, –35, 5, –50, 50 + 100
		"away before the start":           {[]Interruption{{0, 40}}, []run{{1, 1}}, 0, "1 190 150 1"},
		"over before anybody looked":      {[]Interruption{{10, 500}, {20, 5}}, []run{{1, 1}}, 0, "1 660 160 1"},
		"away again when it should start": {[]Interruption{{10, 500}, {400, 200}}, []run{{1, 1}}, 0, "1 750 160 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario()
			s.Interruptions = c.interruptions
			if c.units > 0 {
				s.Units = c.units
			}
			x := s.Start(1)
			for _, r := range c.runs {
				x.Run(onGPUs(r.gpus), r.units)
			}
			if got := fmt.Sprintf("%g %g %g %d", x.Done, x.Elapsed, math.Round(100*x.SpentUSD), x.Restarts); got != c.want {
				t.Errorf("done, elapsed, cents, restarts: got %s, want %s", got, c.want)
			}
			if want := x.SpentUSD * 100 * 100; math.Abs(x.Joules-want) > 1e-6 {
				t.Errorf("%v J, want %v: 100 W wherever a cent is paid", x.Joules, want)
			}
		})
	}
}

func TestRunPanicsWhereItCannotRun(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a workload that cannot run on 3 GPUs ran")
		}
	}()
	scenario().Start(1).Run(onGPUs(3), 1)
}

// Work is conserved, time never decreases, cost is time held × price, and a run in parts equals the run in one piece.
func TestExecutionInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenario()
		s.Units = rapid.Float64Range(0.5, 30).Draw(t, "units")
		s.Noise = Noise{rapid.Float64Range(0, 0.3).Draw(t, "noise"), rapid.Float64Range(0, 0.99).Draw(t, "memory")}
		s.Interruptions = drawInterruptions(t)
		seed := rapid.Uint64().Draw(t, "seed")
		x, y := s.Start(seed), s.Start(seed)
		sum, before := 0.0, 0.0
		for x.Done < s.Units-1e-6 {
			a := onGPUs(rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus"))
			n := rapid.Float64Range(0.1, 8).Draw(t, "n")
			done := x.Done
			logged := x.Run(a, n)
			y.Run(a, n)
			if want := min(n, s.Units-done); math.Abs(x.Done-done-want) > 1e-6 || len(logged) != int(math.Ceil(want-1e-9)) {
				t.Fatalf("asked %v units: did %v in %d log lines, want %v", n, x.Done-done, len(logged), want)
			}
			for _, u := range logged {
				if !(u > 0) {
					t.Fatalf("a unit of %v s", u)
				}
				sum += u
			}
			if x.Elapsed <= before {
				t.Fatalf("time went from %v to %v", before, x.Elapsed)
			}
			before = x.Elapsed
		}
		away := 0.0
		for _, i := range s.Interruptions {
			away += i.Away
		}
		// All at 1 cent per GPU and second, with 1 to 4 GPUs, except while the machine is away.
		if x.SpentUSD > 0.04*x.Elapsed+1e-9 || x.SpentUSD < 0.01*(x.Elapsed-away)-1e-9 {
			t.Fatalf("%v USD for %v s, %v s away", x.SpentUSD, x.Elapsed, away)
		}
		if x.Elapsed != y.Elapsed || x.SpentUSD != y.SpentUSD || x.Restarts != y.Restarts {
			t.Fatal("the same seed gave another run")
		}
	})
}

func drawInterruptions(t *rapid.T) []Interruption {
	var out []Interruption
	now := 0.0
	for range rapid.IntRange(0, 6).Draw(t, "interruptions") {
		now += rapid.Float64Range(0, 500).Draw(t, "up")
		i := Interruption{now, rapid.Float64Range(1, 300).Draw(t, "away")}
		out = append(out, i)
		now += i.Away
	}
	return out
}

// An interruption costs the unit in progress, the time away and one restart; completed work is kept.
func TestInterruptionLosesOnlyTheUnitUnderWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenario()
		plain := s.Start(1)
		plain.Run(onGPUs(1), s.Units)
		i := Interruption{rapid.Float64Range(0, 1019).Draw(t, "at"), rapid.Float64Range(1, 1000).Draw(t, "away")}
		s.Interruptions = []Interruption{i}
		x := s.Start(1)
		x.Run(onGPUs(1), s.Units)
		extra := x.Elapsed - plain.Elapsed - i.Away - s.Restart
		if extra > 100+1e-6 || extra < -s.Startup-1e-6 || x.Done != s.Units || x.Restarts != 1 {
			t.Fatalf("an interruption at %v cost %v s beside time away and restart; done %v, restarts %d", i.At, extra, x.Done, x.Restarts)
		}
	})
}

// The noise has the specified mean, spread and memory.
func TestNoiseMoments(t *testing.T) {
	s := scenario()
	s.Units, s.Noise = 20000, Noise{Unit: 0.1, Memory: 0.6}
	u := s.Start(4).Run(onGPUs(1), s.Units)
	var mean, sd, lag float64
	for _, x := range u {
		mean += x / float64(len(u))
	}
	for i, x := range u {
		sd += (x - mean) * (x - mean)
		if i > 0 {
			lag += (x - mean) * (u[i-1] - mean)
		}
	}
	lag /= sd
	sd = math.Sqrt(sd/float64(len(u))) / mean
	if math.Abs(mean-100) > 0.6 || math.Abs(sd-0.1) > 0.004 || math.Abs(lag-0.6) > 0.03 {
		t.Errorf("mean %v, relative deviation %v, memory %v; want 100, 0.1, 0.6", mean, sd, lag)
	}
}
