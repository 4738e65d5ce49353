package spot_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/spot"
)

// TestInTime checks that every policy except spot-only meets a feasible deadline, that none costs less than the
// optimum, and that seconds and costs add up.
func TestInTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := spot.Market{TickS: rapid.Float64Range(60, 600).Draw(r, "tick")}
		for range rapid.IntRange(1, 3).Draw(r, "zones") {
			m.Zones = append(m.Zones, spot.Zone{Up: drawRuns(r, 60)})
		}
		j := capacity.Job{WorkS: rapid.Float64Range(1800, 20000).Draw(r, "work"), SpotUSDHour: 1, OnDemandUSDHour: rapid.Float64Range(1, 5).Draw(r, "price")}
		j.ChangeoverS = rapid.Float64Range(0, 900).Draw(r, "changeover")
		j.DeadlineS = j.WorkS*rapid.Float64Range(1, 2).Draw(r, "slack") + j.ChangeoverS
		least := math.NaN()
		for _, p := range []string{"optimum", "uniform", "greedy", "sliced", "shifted", "on-demand", "spot-only"} {
			method, err := spot.Find(p)
			if err != nil {
				r.Fatal(err)
			}
			got, err := method.Run(j, m, 3, rapid.Uint64().Draw(r, "seed"))
			if err != nil {
				r.Fatalf("%s: %v", p, err)
			}
			if p == "optimum" {
				least = got.USD
			}
			if !method.Misses && (got.Missed || got.DoneS != j.WorkS) {
				r.Fatalf("%s: %+v", p, got)
			}
			if !got.Missed && got.USD < least*(1-1e-9) {
				r.Fatalf("%s pays %v USD, the optimum %v", p, got.USD, least)
			}
			addsUp(r, p, j, got)
		}
	})
}

// drawRuns draws capacity in runs of several ticks.
func drawRuns(r *rapid.T, ticks int) []bool {
	var up []bool
	for now := rapid.Bool().Draw(r, "first"); len(up) < ticks; now = !now {
		for range rapid.IntRange(1, 25).Draw(r, "run") {
			up = append(up, now)
		}
	}
	return up[:ticks]
}

func addsUp(r *rapid.T, name string, j capacity.Job, got spot.Outcome) {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(b)) }
	on := got.SpotS + got.OnDemandS
	if !near(got.USD, (got.SpotS*j.SpotUSDHour+got.OnDemandS*j.OnDemandUSDHour)/3600) || !near(on-got.ChangeoverS, got.DoneS) {
		r.Fatalf("%s: %+v", name, got)
	}
	at, by := 0.0, map[capacity.Machine]float64{}
	for _, s := range got.Timeline {
		if s.FromS != at || s.ToS <= s.FromS {
			r.Fatalf("%s: %+v after %v s", name, s, at)
		}
		at = s.ToS
		by[s.On.Machine] += s.ToS - s.FromS
	}
	if !near(by[capacity.Spot], got.SpotS) || !near(by[capacity.OnDemand], got.OnDemandS) || !near(by[capacity.None], got.WaitS) || got.Finished() && !near(at, got.ElapsedS) {
		r.Fatalf("%s: %v of %+v", name, by, got)
	}
}

// byTick returns a market of one zone per string; "1" is a tick with capacity.
func byTick(tick float64, zones ...string) spot.Market {
	m := spot.Market{TickS: tick}
	for _, z := range zones {
		var up []bool
		for _, c := range z {
			up = append(up, c == '1')
		}
		m.Zones = append(m.Zones, spot.Zone{Name: z, Up: up})
	}
	return m
}

// TestPoliciesByHand: 10 ticks of work in 20, no changeover, spot capacity at a third of the price; USD are ticks ×
// price.
func TestPoliciesByHand(t *testing.T) {
	j := capacity.Job{WorkS: 36000, DeadlineS: 72000, SpotUSDHour: 1, OnDemandUSDHour: 3}
	for name, c := range map[string]struct {
		zones  []string
		policy string
		spot   float64 // ticks
		demand float64
		starts int
	}{
		"greedy waits":                 {[]string{"00000000000000000000"}, "greedy", 0, 10, 1},
		"greedy takes what there is":   {[]string{"00001111000000000000"}, "greedy", 4, 6, 2},
		"on demand takes none":         {[]string{"11111111111111111111"}, "on-demand", 0, 10, 1},
		"uniform takes what there is":  {[]string{"11111111111111111111"}, "uniform", 10, 0, 1},
		"uniform keeps to the line":    {[]string{"00000000000000000000"}, "uniform", 0, 10, 10},
		"uniform is ahead and waits":   {[]string{"11110000000011111111"}, "uniform", 8, 2, 4},
		"spot only waits":              {[]string{"00000000000000001111"}, "spot-only", 10, 0, 3},
		"uniform moves":                {[]string{"11111000000000000000", "00000111110000000000"}, "uniform", 10, 0, 2},
		"optimum uses the last moment": {[]string{"00000000001111111111"}, "optimum", 10, 0, 1},
		"sliced at its eighth":         {[]string{"00000000001111111111"}, "sliced", 5, 5, 5},
	} {
		method, err := spot.Find(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		got, err := method.Run(j, byTick(3600, c.zones...), 0, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		if math.Abs(got.SpotS/3600-c.spot) > 1e-9 || math.Abs(got.OnDemandS/3600-c.demand) > 1e-9 || c.starts > 0 && got.Starts != c.starts {
			t.Errorf("%s: %v ticks on spot capacity, %v on demand, %d starts; want %v, %v and %d", name, got.SpotS/3600, got.OnDemandS/3600, got.Starts, c.spot, c.demand, c.starts)
		}
	}
}

// TestTimeline covers an interruption, a changeover, and progress.
func TestTimeline(t *testing.T) {
	j := capacity.Job{WorkS: 250, DeadlineS: 1000, ChangeoverS: 30, SpotUSDHour: 1, OnDemandUSDHour: 3}
	got, err := spot.Run(capacity.Greedy, j, byTick(100, "1101111111"), 0)
	if err != nil {
		t.Fatal(err)
	}
	on := capacity.Choice{Machine: capacity.Spot}
	want := []spot.Stretch{{FromS: 0, ToS: 200, ReadyS: 30, On: on, DoneS: 170}, {FromS: 200, ToS: 300, ReadyS: 200, DoneS: 170}, {FromS: 300, ToS: 410, ReadyS: 330, On: on, DoneS: 250}}
	if !reflect.DeepEqual(got.Timeline, want) || got.Taken != 1 || got.Starts != 2 || got.ChangeoverS != 60 || got.WaitS != 100 {
		t.Errorf("%+v", got)
	}
}

func TestGivesUp(t *testing.T) {
	j := capacity.Job{WorkS: 500, DeadlineS: 1000, ChangeoverS: 100, SpotUSDHour: 1, OnDemandUSDHour: 3}
	got, err := spot.Run(capacity.SpotOnly, j, byTick(100, "1000"), 0)
	if err != nil || got.Finished() || !got.Missed || got.DoneS != 0 || got.USD == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRunRefuses(t *testing.T) {
	good := capacity.Job{WorkS: 500, DeadlineS: 1000, ChangeoverS: 100, SpotUSDHour: 1, OnDemandUSDHour: 3}
	for want, change := range map[string]func(j *capacity.Job, m *spot.Market, from *int){
		"work of 0":               func(j *capacity.Job, _ *spot.Market, _ *int) { j.WorkS = 0 },
		"changeover of NaN":       func(j *capacity.Job, _ *spot.Market, _ *int) { j.ChangeoverS = math.NaN() },
		"price on demand of -1":   func(j *capacity.Job, _ *spot.Market, _ *int) { j.OnDemandUSDHour = -1 },
		"ticks of 0":              func(_ *capacity.Job, m *spot.Market, _ *int) { m.TickS = 0 },
		"no tick":                 func(_ *capacity.Job, m *spot.Market, _ *int) { m.Zones = nil },
		"start at tick -1":        func(_ *capacity.Job, _ *spot.Market, from *int) { *from = -1 },
		"ticks of 0.0001 s until": func(_ *capacity.Job, m *spot.Market, _ *int) { m.TickS = 1e-4 },
		"has 2 ticks":             func(_ *capacity.Job, m *spot.Market, _ *int) { m.Zones = append(m.Zones, spot.Zone{Up: []bool{true}}) },
	} {
		j, m, from := good, byTick(100, "11"), 0
		change(&j, &m, &from)
		for name, run := range map[string]func() (spot.Outcome, error){
			"run": func() (spot.Outcome, error) { return spot.Run(capacity.Greedy, j, m, from) }, "optimum": func() (spot.Outcome, error) { return spot.Optimum(j, m, from) },
		} {
			if _, err := run(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	for want, c := range map[string]capacity.Choice{"which has none": {Machine: capacity.Spot}, "zone 2 of 1": {Machine: capacity.Spot, Zone: 2}, "no machine": {Machine: 7}} {
		if _, err := spot.Run(func(capacity.State) capacity.Choice { return c }, good, byTick(100, "01"), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestMethodsAreFound(t *testing.T) {
	for i, m := range spot.Methods() {
		if got, err := spot.Find(m.Name); err != nil || got.Name != m.Name || i > 0 && spot.Methods()[i-1].Name >= m.Name {
			t.Errorf("%s: %v, %v", m.Name, got.Name, err)
		}
	}
	if m, err := spot.Find("Uniform_Progress"); err != nil || m.Name != "uniform" {
		t.Error(m.Name, err)
	}
	if _, err := spot.Find("best"); err == nil || !strings.Contains(err.Error(), "greedy, on-demand") {
		t.Error(err)
	}
}
