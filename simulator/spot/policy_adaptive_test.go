package spot_test

import (
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/spot"
)

// TestAdaptiveInTime checks on arbitrary capacity, of which more than a day is known, that adaptive meets every feasible
// deadline and pays at most three changeovers, and 5 %, more than a machine on demand alone.
func TestAdaptiveInTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := spot.Market{TickS: 600}
		for range rapid.IntRange(1, 3).Draw(r, "zones") {
			m.Zones = append(m.Zones, spot.Zone{Up: drawRuns(r, 400)})
		}
		j := capacity.Job{WorkS: rapid.Float64Range(1800, 60000).Draw(r, "work"), SpotUSDHour: 1, OnDemandUSDHour: rapid.Float64Range(1, 5).Draw(r, "price")}
		j.ChangeoverS = rapid.Float64Range(0, 2000).Draw(r, "changeover")
		j.DeadlineS = j.WorkS*rapid.Float64Range(1, 2).Draw(r, "slack") + j.ChangeoverS
		got, err := spot.Run(new(capacity.Adaptive).Choose, j, m, rapid.IntRange(144, 399).Draw(r, "from"))
		if err != nil {
			r.Fatal(err)
		}
		if got.Missed || got.DoneS != j.WorkS || got.USD > (j.AloneUSD()+min(0.05*j.AloneUSD(), 3*j.ChangeoverS/3600*j.OnDemandUSDHour))*(1+2e-9) {
			r.Fatalf("missed %v, %v s done, %v USD; on demand alone %v USD", got.Missed, got.DoneS, got.USD, j.AloneUSD())
		}
		addsUp(r, "adaptive", j, got)
	})
}

// TestAdaptiveWithoutHistory: in the first day of a trace, adaptive decides as Uniform Progress.
func TestAdaptiveWithoutHistory(t *testing.T) {
	m, err := spot.Generate(spot.Availability{UpS: 7200, DownS: 3600}, 300, 600, 2, 7)
	if err != nil {
		t.Fatal(err)
	}
	j := capacity.Job{WorkS: 15 * 3600, DeadlineS: 20 * 3600, ChangeoverS: 400, SpotUSDHour: 1, OnDemandUSDHour: 3}
	adaptive, err := spot.Run(new(capacity.Adaptive).Choose, j, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	uniform, err := spot.Run(capacity.Uniform, j, m, 0)
	if err != nil || adaptive.USD != uniform.USD || adaptive.Starts != uniform.Starts {
		t.Errorf("adaptive pays %v USD with %d starts, uniform %v with %d (%v)", adaptive.USD, adaptive.Starts, uniform.USD, uniform.Starts, err)
	}
}

// TestAdaptiveLearns: with the same price and requirements, adaptive uses capacity that has lasted, avoids capacity that
// has always been lost within a changeover, and waits for none that has never returned.
func TestAdaptiveLearns(t *testing.T) {
	j := capacity.Job{WorkS: 10 * 3600, DeadlineS: 14 * 3600, ChangeoverS: 1200, SpotUSDHour: 1, OnDemandUSDHour: 3}
	for name, c := range map[string]struct {
		up   func(tick int) bool
		spot bool
	}{
		"always":   {func(int) bool { return true }, true},
		"flickers": {func(k int) bool { return k%2 == 0 }, false},
		"never":    {func(int) bool { return false }, false},
	} {
		m := spot.Market{TickS: 600, Zones: []spot.Zone{{Up: make([]bool, 2000)}}}
		for k := range m.Zones[0].Up {
			m.Zones[0].Up[k] = c.up(k)
		}
		got, err := spot.Run(new(capacity.Adaptive).Choose, j, m, 1008)
		if err != nil {
			t.Fatal(name, err)
		}
		if c.spot && (got.OnDemandS > 0 || got.Starts != 1) || !c.spot && (got.SpotS > 0 || got.USD != j.AloneUSD()) {
			t.Errorf("%s: %v s on spot capacity, %v s on demand, %d starts, %v USD", name, got.SpotS, got.OnDemandS, got.Starts, got.USD)
		}
	}
}

// TestAdaptiveOnPublishedTraces: with a week of history and changeovers of 6 minutes, adaptive pays at least 4 points of
// the price on demand less than Uniform Progress.
func TestAdaptiveOnPublishedTraces(t *testing.T) {
	markets := published(t, "availability")
	saved, runs := 0.0, 0.0
	j := capacity.Job{WorkS: 48 * 3600, DeadlineS: 60 * 3600, ChangeoverS: 360, SpotUSDHour: 0.918, OnDemandUSDHour: 3.06}
	for _, m := range markets {
		week := int(7 * 24 * 3600 / m.TickS)
		for i := range 3 {
			from := week + (m.Ticks()-week)*i/3
			adaptive, err := spot.Run(new(capacity.Adaptive).Choose, j, m, from)
			if err != nil {
				t.Fatal(err)
			}
			uniform, err := spot.Run(capacity.Uniform, j, m, from)
			if err != nil {
				t.Fatal(err)
			}
			saved += (uniform.USD - adaptive.USD) / j.AloneUSD()
			runs++
		}
	}
	if saved/runs < 0.04 {
		t.Errorf("adaptive pays %.1f points less than uniform on %.0f jobs, want at least 4", 100*saved/runs, runs)
	}
}
