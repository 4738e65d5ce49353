package spot_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/spot"
)

// drawPrices gives every zone prices of its own, which may exceed that on demand.
func drawPrices(r *rapid.T, m *spot.Market) {
	for z := range m.Zones {
		n := len(m.Zones[z].Up)
		m.Zones[z].USDHour = rapid.SliceOfN(rapid.Float64Range(0.1, 4), n, n).Draw(r, "prices")
	}
}

func TestOptimumWithPricesIsThatOfAllSequences(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		j, m := drawProblem(r, 6, 2)
		j.ChangeoverS = m.TickS * rapid.SampledFrom([]float64{0, 0.25, 1, 1.5}).Draw(r, "parts")
		j.WorkS = m.TickS * float64(rapid.IntRange(1, 5).Draw(r, "ticks"))
		if j.DeadlineS = 6 * m.TickS; !j.Feasible() {
			j.ChangeoverS = 0
		}
		drawPrices(r, &m)
		if rapid.Bool().Draw(r, "loses work") {
			j.CheckpointS, j.SaveS = m.TickS, 0.5*m.TickS
			j.NoticeS = j.SaveS
		}
		from := rapid.IntRange(0, 3).Draw(r, "from")
		got, err := spot.Optimum(j, m, from)
		if err != nil {
			r.Fatal(err)
		}
		if want := bruteForce(r, j, m, from); got.Missed || math.Abs(got.USD-want) > 1e-9*want {
			r.Fatalf("%v USD, missed %v, want %v USD; %+v", got.USD, got.Missed, want, got.Timeline)
		}
	})
}

// TestInTimeWithPricesAndLosses: with arbitrary prices, and work that is lost, every policy but spot-only meets the
// deadline where a machine on demand would, never pays less than the optimum, and adaptive at most 5 % more than on demand.
func TestInTimeWithPricesAndLosses(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := spot.Market{TickS: 600}
		for range rapid.IntRange(1, 3).Draw(r, "zones") {
			m.Zones = append(m.Zones, spot.Zone{Up: drawRuns(r, 400)})
		}
		j := capacity.Job{WorkS: 600 * float64(rapid.IntRange(3, 60).Draw(r, "work")), SpotUSDHour: 1, OnDemandUSDHour: rapid.Float64Range(1, 5).Draw(r, "price")}
		j.ChangeoverS = 60 * float64(rapid.IntRange(0, 30).Draw(r, "changeover"))
		if rapid.Bool().Draw(r, "priced") {
			drawPrices(r, &m)
		}
		if rapid.Bool().Draw(r, "loses work") {
			j.CheckpointS = 60 * float64(rapid.IntRange(1, 60).Draw(r, "checkpoint"))
			j.SaveS = min(j.CheckpointS, 60*float64(rapid.IntRange(0, 3).Draw(r, "save")))
			j.NoticeS = rapid.SampledFrom([]float64{0, 120}).Draw(r, "notice")
		}
		j.DeadlineS = j.WorkS*rapid.Float64Range(1, 2).Draw(r, "slack") + j.ChangeoverS
		from := rapid.IntRange(144, 399).Draw(r, "from")
		for _, method := range spot.Methods() {
			got, err := method.Run(j, m, from, 1)
			if err != nil {
				r.Fatal(method.Name, err)
			}
			if !method.Misses && (got.Missed || got.DoneS != j.WorkS) {
				r.Fatalf("%s: missed; %v of %v s done", method.Name, got.DoneS, j.WorkS)
			}
			if method.Name == "adaptive" && got.USD > 1.05*j.AloneUSD()*(1+1e-9) {
				r.Fatalf("adaptive pays %v USD, on demand alone %v", got.USD, j.AloneUSD())
			}
		}
	})
}

// TestLossOfWork has known answers: capacity for 50 minutes in ticks of 10, then none; checkpoints every 20 minutes of work.
func TestLossOfWork(t *testing.T) {
	m := spot.Market{TickS: 600, Zones: []spot.Zone{{Up: []bool{true, true, true, true, true, false, false, false, false, false, false, false}}}}
	for name, c := range map[string]struct{ notice, save, lost float64 }{
		"no notice":             {0, 120, 600}, // 50 minutes of work, 40 of them saved
		"notice for a save":     {120, 100, 100},
		"notice too short":      {60, 100, 600},
		"saves in no time":      {120, 0, 0},
		"saves within a moment": {120, 120, 120},
	} {
		j := capacity.Job{WorkS: 3600, DeadlineS: 12 * 600, SpotUSDHour: 1, OnDemandUSDHour: 3, CheckpointS: 1200, SaveS: c.save, NoticeS: c.notice}
		got, err := spot.Run(capacity.Greedy, j, m, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.LostS != c.lost || got.SpotS != 3000 || math.Abs(got.OnDemandS-(600+c.lost)) > 1e-6 || got.Missed || got.Taken != 1 {
			t.Errorf("%s: %+v, want %v s lost", name, got, c.lost)
		}
	}
}

// TestCheapestZone: the job runs where capacity is cheapest, moves if that pays for the changeover, and never pays more
// than on demand by the hour.
func TestCheapestZone(t *testing.T) {
	up := make([]bool, 400)
	flat := func(usd float64) []float64 {
		out := make([]float64, 400)
		for i := range out {
			out[i] = usd
		}
		return out
	}
	for i := range up {
		up[i] = true
	}
	rising, above := flat(0.5), flat(0.5)
	for i := 170; i < 400; i++ {
		rising[i], above[i] = 2, 5
	}
	j := capacity.Job{WorkS: 100 * 600, DeadlineS: 150 * 600, ChangeoverS: 300, SpotUSDHour: 1, OnDemandUSDHour: 3}
	for name, c := range map[string]struct {
		prices [][]float64
		zone   int
		starts int
	}{
		"cheapest":            {[][]float64{flat(1.2), flat(0.7), flat(0.9)}, 1, 1},
		"moves when it rises": {[][]float64{rising, flat(0.9)}, 1, 2},
		"leaves above demand": {[][]float64{above, flat(0.9)}, 1, 2},
	} {
		m := spot.Market{TickS: 600}
		for _, p := range c.prices {
			m.Zones = append(m.Zones, spot.Zone{Up: up, USDHour: p})
		}
		for _, policy := range []capacity.Policy{capacity.Cheapest, new(capacity.Adaptive).Choose} {
			got, err := spot.Run(policy, j, m, 150) // with a day of history
			if err != nil {
				t.Fatal(err)
			}
			last := got.Timeline[len(got.Timeline)-1]
			if last.On != (capacity.Choice{Machine: capacity.Spot, Zone: c.zone}) || got.Starts != c.starts {
				t.Errorf("%s: %d starts, ends on %v", name, got.Starts, last.On)
			}
		}
	}
}
