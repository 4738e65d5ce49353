package spot_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/spot"
)

// bruteForce returns the lowest cost over all sequences of choices, by running each.
func bruteForce(t interface{ Fatal(...any) }, j capacity.Job, m spot.Market, from int) float64 {
	choices := []capacity.Choice{{}, {Machine: capacity.OnDemand}}
	for z := range m.Zones {
		choices = append(choices, capacity.Choice{Machine: capacity.Spot, Zone: z})
	}
	ticks := int(math.Ceil(j.DeadlineS/m.TickS - 1e-9))
	plan := make([]int, ticks)
	best := math.Inf(1)
	for {
		got, err := spot.Run(func(s capacity.State) capacity.Choice {
			k := int(math.Round(s.NowS / s.TickS))
			if k >= ticks {
				return capacity.Choice{Machine: capacity.OnDemand}
			}
			c := choices[plan[k]]
			if c.Machine == capacity.Spot && !s.Up[c.Zone] {
				return capacity.Choice{}
			}
			return c
		}, j, m, from)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Missed {
			best = min(best, got.USD)
		}
		k := 0
		for ; k < ticks; k++ {
			if plan[k]++; plan[k] < len(choices) {
				break
			}
			plan[k] = 0
		}
		if k == ticks {
			return best
		}
	}
}

// drawProblem draws a feasible job.
func drawProblem(r *rapid.T, ticks, zones int) (capacity.Job, spot.Market) {
	tick := rapid.SampledFrom([]float64{1, 60, 7.3}).Draw(r, "tick")
	m := spot.Market{TickS: tick}
	for range zones {
		m.Zones = append(m.Zones, spot.Zone{Up: rapid.SliceOfN(rapid.Bool(), ticks, ticks).Draw(r, "up")})
	}
	part := func(name string, lo, hi float64) float64 {
		if v := rapid.Float64Range(lo, hi).Draw(r, name); rapid.Bool().Draw(r, name+" at ticks") {
			return math.Max(1, math.Round(v))
		} else {
			return v
		}
	}
	j := capacity.Job{SpotUSDHour: 1, OnDemandUSDHour: rapid.SampledFrom([]float64{1.1, 2, 3.3, 10}).Draw(r, "price")}
	j.DeadlineS = tick * min(float64(ticks), part("deadline", float64(ticks)/2, float64(ticks)))
	j.ChangeoverS = tick * rapid.SampledFrom([]float64{0, 0.25, 1, 1.5, 2.2}).Draw(r, "changeover")
	if j.ChangeoverS > j.DeadlineS/2 {
		j.ChangeoverS = 0
	}
	j.WorkS = min(tick*part("work", 0.5, float64(ticks)), j.DeadlineS-j.ChangeoverS)
	return j, m
}

func TestOptimumIsThatOfAllSequences(t *testing.T) {
	for name, c := range map[string]struct{ ticks, zones int }{"one zone": {8, 1}, "two zones": {6, 2}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				j, m := drawProblem(r, c.ticks, c.zones)
				from := rapid.IntRange(0, 3).Draw(r, "from")
				got, err := spot.Optimum(j, m, from)
				if err != nil {
					r.Fatal(err)
				}
				if want := bruteForce(r, j, m, from); got.Missed || math.Abs(got.USD-want) > 1e-9*want {
					r.Fatalf("%v USD, missed %v, want %v USD; %+v", got.USD, got.Missed, want, got.Timeline)
				}
			})
		})
	}
}

// TestOptimumByHand has known answers for 60 ticks of work within 120, with changeovers of one tick.
func TestOptimumByHand(t *testing.T) {
	j := capacity.Job{WorkS: 6000, DeadlineS: 12000, ChangeoverS: 100, SpotUSDHour: 1, OnDemandUSDHour: 3}
	up := func(ticks ...int) []bool {
		out := make([]bool, 120)
		for i := 0; i < len(ticks); i += 2 {
			for k := ticks[i]; k < ticks[i+1]; k++ {
				out[k] = true
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		up           []bool
		spot, demand float64 // seconds
	}{
		"always": {up(0, 120), 6100, 0},
		"never":  {up(), 0, 6100},
		"late":   {up(50, 120), 6100, 0},
		// 30 ticks of capacity, 2900 s of work; the other 3100 s on demand.
		"half": {up(20, 50), 3000, 3200},
		// A tick of capacity does no work and does not pay.
		"too short": {up(20, 21, 30, 31), 0, 6100},
		// Two changeovers for 2 × 900 s on spot capacity: 4200 s on demand and their changeover.
		"twice": {up(20, 30, 40, 50), 2000, 4300},
	} {
		m := spot.Market{TickS: 100, Zones: []spot.Zone{{Up: c.up}}}
		got, err := spot.Optimum(j, m, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		want := (c.spot + 3*c.demand) / 3600
		if math.Abs(got.USD-want) > 1e-9 || math.Abs(got.SpotS-c.spot) > 1e-6 || math.Abs(got.OnDemandS-c.demand) > 1e-6 || got.Missed {
			t.Errorf("%s: %+v, want %v USD", name, got, want)
		}
	}
	j.DeadlineS = 6099
	if _, err := spot.Optimum(j, spot.Market{TickS: 100, Zones: []spot.Zone{{Up: up(0, 120)}}}, 0); !errors.Is(err, spot.ErrInfeasible) {
		t.Errorf("%v", err)
	}
	j.DeadlineS, j.SpotUSDHour = 12000, 4 // more expensive than on demand
	if got, err := spot.Optimum(j, spot.Market{TickS: 100, Zones: []spot.Zone{{Up: up(0, 120)}}}, 0); err != nil || got.SpotS != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
