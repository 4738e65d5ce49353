package sla

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newGuard(t rapid.TB, spec Spec, o GuardOptions) *Guard {
	t.Helper()
	g, err := NewGuard(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGuard(t *testing.T) {
	nan := math.NaN()
	at := func(s float64, usd, rate float64) Tick {
		return Tick{Elapsed: seconds(s), SpentUSD: usd, USDPerHour: rate}
	}
	reserve := func(t Tick, s float64) Tick { t.Reserve = seconds(s); return t }
	stopping := func(t Tick) Tick { t.Stopping = true; return t }
	type want struct {
		action  action
		limit   Objective
		already bool
		next    float64 // s, −1 for never
	}
	tests := map[string]struct {
		spec    Spec
		latency time.Duration
		ticks   []Tick
		want    []want
	}{
		"nothing agreed stops nothing": {
			spec: Spec{}, ticks: []Tick{at(1e6, 1e6, 1e6)}, want: []want{{KeepGoing, "", false, -1}},
		},
		"deadline: reserve before it, kill half a percent after": {
			spec:  Spec{TimeMax: 1000 * time.Second},
			ticks: []Tick{reserve(at(960, 0, 0), 30), reserve(at(970, 0, 0), 30), reserve(at(1004, 0, 0), 30), reserve(at(1005, 0, 0), 30), at(2000, 0, 0)},
			want: []want{{KeepGoing, "", false, 10}, {Checkpoint, Time, false, 35}, {KeepGoing, Time, false, 1},
				{Kill, Time, false, -1}, {KeepGoing, Time, false, -1}},
		},
		"budget: one USD a second, reserve 5 s": {
			spec:  Spec{CostMaxUSD: 100},
			ticks: []Tick{reserve(at(94, 94, 3600), 5), reserve(at(95, 95, 3600), 5), at(100.4, 100.4, 3600), at(100.5, 100.5, 3600)},
			want:  []want{{KeepGoing, "", false, 1}, {Checkpoint, Cost, false, 5.5}, {KeepGoing, Cost, false, 0.1}, {Kill, Cost, false, -1}},
		},
		"crossed while a restart is saving: said once, nothing sent again": {
			spec:  Spec{CostMaxUSD: 100, TimeMax: 200 * time.Second},
			ticks: []Tick{stopping(at(100, 100, 3600)), stopping(at(100.1, 100.1, 3600)), at(100.2, 100.2, 3600)},
			want:  []want{{Checkpoint, Cost, true, 0.5}, {KeepGoing, Cost, false, 0.4}, {KeepGoing, Cost, false, 0.3}},
		},
		"already far over at the first tick: no checkpoint": {
			spec: Spec{CostMaxUSD: 1}, ticks: []Tick{at(5, 1.2, 1), at(6, 1.2, 1)},
			want: []want{{Kill, Cost, false, -1}, {KeepGoing, Cost, false, -1}},
		},
		"price and spending lost: last known carries on": {
			spec:  Spec{CostMaxUSD: 10},
			ticks: []Tick{at(0, 0, 3600), at(5, nan, nan), at(10, nan, nan), at(10.05, nan, nan)},
			want:  []want{{KeepGoing, "", false, 10}, {KeepGoing, "", false, 5}, {Checkpoint, Cost, false, 0.05}, {Kill, Cost, false, -1}},
		},
		"price never known: the mean so far": {
			spec: Spec{CostMaxUSD: 10}, ticks: []Tick{at(9.6, 9.6, nan), at(10, nan, nan)},
			want: []want{{KeepGoing, "", false, 0.4}, {Checkpoint, Cost, false, 0.05}},
		},
		"clock and meter step back: nothing is given back": {
			spec: Spec{CostMaxUSD: 10}, ticks: []Tick{at(9, 9.6, 3600), at(1, 0, 3600), at(9.4, 0, math.Inf(1))},
			want: []want{{KeepGoing, "", false, 0.4}, {KeepGoing, "", false, 0.4}, {Checkpoint, Cost, false, 0.05}},
		},
		"both at once: the budget is named": {
			spec: Spec{CostMaxUSD: 10, TimeMax: 10 * time.Second}, ticks: []Tick{at(10, 10, 3600)},
			want: []want{{Checkpoint, Cost, false, 0.05}},
		},
		"a slow caller is killed for earlier": {
			spec: Spec{CostMaxUSD: 10}, latency: 80 * time.Millisecond, ticks: []Tick{at(10.01, 10.01, 3600), at(10.02, 10.02, 3600)},
			want: []want{{Checkpoint, Cost, false, 0.01}, {Kill, Cost, false, -1}},
		},
		"free machine: no crossing in sight": {
			spec: Spec{CostMaxUSD: 10}, ticks: []Tick{at(10, 9.9, 0)}, want: []want{{KeepGoing, "", false, -1}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, test.spec, GuardOptions{WarnAt: []float64{}, Latency: test.latency})
			for i, tick := range test.ticks {
				d := g.Step(tick)
				next := -1.0
				if d.Next != Never {
					next = d.Next.Seconds()
				}
				w := test.want[i]
				if d.Action != w.action || d.Limit != w.limit || d.AlreadyStopping != w.already || math.Abs(next-w.next) > 1e-6 {
					t.Errorf("tick %d: got %s %q already %t next %g; want %+v", i, d.Action, d.Limit, d.AlreadyStopping, next, w)
				}
				if (d.Action == KeepGoing) != (d.Explanation == "") {
					t.Errorf("tick %d: %s with words %q", i, d.Action, d.Explanation)
				}
			}
		})
	}
}

func TestGuardWarnsOnceAtEachThreshold(t *testing.T) {
	g := newGuard(t, Spec{CostMaxUSD: 100}, GuardOptions{})
	var got []string
	for s := 0; s <= 99; s++ {
		tick := Tick{Elapsed: seconds(float64(s)), SpentUSD: float64(s), USDPerHour: 3600}
		if s >= 50 {
			tick.ProjectedUSD = 130
		}
		d := g.Step(tick)
		if s == 60 && d.Next != 20*time.Second {
			t.Errorf("at 60 USD: next %v, want the warning at 80 in 20s", d.Next)
		}
		got = append(got, d.Warnings...)
	}
	want := []string{"projected cost $130: 30 % over the budget of $100", "80 % of the budget is used", "95 % of the budget is used"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("warnings %q, want %q", got, want)
	}
}

// TestProjectionWords: projections far from the limit are described without exponents and without percentages in
// thousands.
func TestProjectionWords(t *testing.T) {
	for want, c := range map[string]struct {
		objective        Objective
		limit, projected float64
	}{
		"projected finish after 15 m 00 s: 50 % over the deadline of 10 m 00 s":  {Time, 600, 900},
		"projected finish after 3 m 09 s: 18.9 times the deadline of 10 s":       {Time, 10, 189},
		"projected finish after 2 h 05 m: 89 % of the deadline of 2 h 20 m":      {Time, 8400, 7500},
		"projected cost $0.0945: 18.9 times the budget of $0.005":                {Cost, 0.005, 0.0945},
		"projected finish after 12 d 05 h: 10.0 times the deadline of 29 h 15 m": {Time, 105300, 1053000},
		"projected cost $1.2e+06: 20 % over the budget of $1e+06":                {Cost, 1e6, 1.2e6},
	} {
		if got := (limitUsage{objective: c.objective, limit: c.limit}).projectionWords(c.projected); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestGuardContinuesFromState(t *testing.T) {
	spec := Spec{CostMaxUSD: 100}
	g := newGuard(t, spec, GuardOptions{})
	g.Step(Tick{Elapsed: 90 * time.Second, SpentUSD: 90, USDPerHour: 3600})
	g.Step(Tick{Elapsed: 100 * time.Second, SpentUSD: 100, USDPerHour: 3600})

	h := newGuard(t, spec, GuardOptions{})
	if err := h.Restore(g.State()); err != nil {
		t.Fatal(err)
	}
	if h.state.Reason != Cost {
		t.Errorf("restored guard stopped for %q, want cost", h.state.Reason)
	}
	if d := h.Step(Tick{Elapsed: 100 * time.Second, SpentUSD: math.NaN(), USDPerHour: math.NaN()}); d.Action != KeepGoing || len(d.Warnings) > 0 {
		t.Errorf("after restoring: %+v, want neither a second stop nor the old warnings", d)
	}
	if d := h.Step(Tick{Elapsed: 101 * time.Second, SpentUSD: math.NaN(), USDPerHour: math.NaN()}); d.Action != Kill {
		t.Errorf("a second later at 1 USD/s: %s, want kill", d.Action)
	}
	for _, bad := range []string{"", "{", `{"spent_usd":-1}`, `{"reason":"memory"}`, `{"killed":true}`} {
		if err := h.Restore([]byte(bad)); err == nil {
			t.Errorf("state %q was taken", bad)
		}
	}
}

func TestNewGuardListsEveryProblem(t *testing.T) {
	_, err := NewGuard(Spec{CostMaxUSD: -1}, GuardOptions{WarnAt: []float64{math.NaN()}, Latency: -1})
	for _, part := range []string{"budget", "NaN", "latency"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %q", err, part)
		}
	}
}

// With any price changes and any loss of telemetry, a run is stopped once and killed once, and neither limit is
// exceeded by more than 1 % if ticks are no later than the latency.
func TestGuardNeverExceedsByOnePercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{CostMaxUSD: rapid.Float64Range(0.001, 1000).Draw(t, "budget")}
		if rapid.Bool().Draw(t, "deadline too") {
			spec.TimeMax = time.Duration(rapid.Int64Range(int64(time.Second), int64(1000*time.Hour)).Draw(t, "deadline"))
		}
		latency := time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "latency"))
		reserve := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "reserve"))
		g := newGuard(t, spec, GuardOptions{Latency: latency})
		rates := rapid.Float64Range(0.01, 500)

		var now time.Duration
		var spent float64
		rate := rates.Draw(t, "USD/h")
		known := true
		checkpoints, kills, ticks := 0, 0, 0
		for kills == 0 {
			if ticks++; ticks > 400 {
				rate = 500 // forces an end
			}
			tick := Tick{Elapsed: now, SpentUSD: spent, USDPerHour: rate, Reserve: reserve, Stopping: rapid.Bool().Draw(t, "stopping")}
			if !known {
				tick.SpentUSD, tick.USDPerHour = math.NaN(), math.NaN()
			}
			d := g.Step(tick)
			if d.Next < 0 || (d.Next == 0 && d.Action == KeepGoing) {
				t.Fatalf("next transition in %v", d.Next)
			}
			switch d.Action {
			case Checkpoint:
				if checkpoints++; checkpoints > 1 || kills > 0 {
					t.Fatalf("checkpoint asked %d times, after %d kills", checkpoints, kills)
				}
			case Kill:
				kills++
				tolerance := 1 + 1e-9
				if tick.Elapsed == 0 { // a limit that the latency alone exceeds causes an immediate kill
					break
				}
				if spent > hardShare*spec.CostMaxUSD*tolerance {
					t.Fatalf("killed at %g USD, budget %g", spent, spec.CostMaxUSD)
				}
				if spec.TimeMax > 0 && now.Seconds() > hardShare*spec.TimeMax.Seconds()*tolerance {
					t.Fatalf("killed after %v, deadline %v", now, spec.TimeMax)
				}
			}
			step := d.Next
			if rapid.IntRange(0, 3).Draw(t, "early") == 0 && step != Never {
				step = time.Duration(float64(step) * rapid.Float64Range(0, 1).Draw(t, "share"))
			}
			if step == Never {
				step = time.Hour
			}
			step += time.Duration(rapid.Int64Range(0, int64(latency)).Draw(t, "late"))
			now += step
			spent += rate * step.Hours()
			if known = rapid.IntRange(0, 2).Draw(t, "telemetry") > 0; known && rapid.Bool().Draw(t, "new price") {
				rate = rates.Draw(t, "USD/h")
			}
		}
		for range 3 {
			now += time.Second
			if d := g.Step(Tick{Elapsed: now, SpentUSD: spent, USDPerHour: rate}); d.Action != KeepGoing || d.Limit == "" {
				t.Fatalf("after the kill: %+v", d)
			}
		}
	})
}

// A guard without telemetry after the first tick stops at the same tick as a guard with complete telemetry.
func TestMissingTelemetryNeverDelaysAStop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{CostMaxUSD: rapid.Float64Range(0.01, 100).Draw(t, "budget")}
		rate := rapid.Float64Range(0.1, 100).Draw(t, "USD/h")
		reserve := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "reserve"))
		full, poor := newGuard(t, spec, GuardOptions{}), newGuard(t, spec, GuardOptions{})
		var now time.Duration
		var early action
		for first := true; ; first = false {
			tick := Tick{Elapsed: now, SpentUSD: rate * now.Hours(), USDPerHour: rate, Reserve: reserve}
			heard := full.Step(tick)
			if !first {
				tick.SpentUSD, tick.USDPerHour = math.NaN(), math.NaN()
			}
			if d := poor.Step(tick); d.Action != KeepGoing {
				early = d.Action
			}
			if heard.Action != KeepGoing && early != heard.Action {
				t.Fatalf("at %v: %s with telemetry, %q so far without", now, heard.Action, early)
			}
			if heard.Action == Kill {
				return
			}
			now += time.Duration(float64(heard.Next) * rapid.Float64Range(0.3, 1).Draw(t, "share"))
		}
	})
}
