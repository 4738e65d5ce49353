package cost

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// simulate runs one job through interruptions, step by step, with checkpoints every 2·LostHours of work.
func (i Interruptions) simulate(rng *rand.Rand, hours float64) (paid, wall float64) {
	stretch := hours
	if i.Resumable {
		stretch = min(2*i.LostHours, hours)
	}
	saved, starting := 0.0, 0.0
	for saved < hours {
		target := min(saved+stretch, hours)
		if hours-target < 1e-9 {
			target = hours
		}
		needs := starting + target - saved
		up := rng.ExpFloat64() / i.PerHour
		if up < needs {
			away := rng.ExpFloat64() * i.AwayHours
			paid, wall, starting = paid+up, wall+up+away, i.RestartHours
			continue
		}
		paid, wall, saved, starting = paid+needs, wall+needs, target, 0
	}
	return paid, wall
}

func TestExpectedInterruptionsAgreeWithSimulation(t *testing.T) {
	tests := map[string]struct {
		hours float64
		i     Interruptions
	}{
		"resumable, checkpoint every 30 min":  {20, Interruptions{PerHour: 0.38, RestartHours: 0.1, LostHours: 0.25, AwayHours: 1.2, Resumable: true}},
		"resumable, rare":                     {8, Interruptions{PerHour: 0.05, RestartHours: 0.2, LostHours: 0.5, AwayHours: 3, Resumable: true}},
		"resumable, long restart, often":      {5, Interruptions{PerHour: 0.9, RestartHours: 0.7, LostHours: 0.3, AwayHours: 0.5, Resumable: true}},
		"resumable, one checkpoint does not":  {1, Interruptions{PerHour: 0.5, RestartHours: 0.1, LostHours: 3, AwayHours: 1, Resumable: true}},
		"not resumable":                       {4, Interruptions{PerHour: 0.38, RestartHours: 0.1, LostHours: 0.1, AwayHours: 1.2}},
		"not resumable, away for nothing":     {2, Interruptions{PerHour: 1, RestartHours: 0.05}},
		"not resumable, hardly interrupted":   {3, Interruptions{PerHour: 0.001, RestartHours: 0.5, AwayHours: 2}},
		"a part of a stretch at the end":      {2.7, Interruptions{PerHour: 0.6, RestartHours: 0.2, LostHours: 0.5, AwayHours: 0.3, Resumable: true}},
		"so rare that the series takes over":  {5, Interruptions{PerHour: 1e-4, RestartHours: 0.5, LostHours: 1, AwayHours: 1, Resumable: true}},
		"just above where the series is used": {5, Interruptions{PerHour: 2e-4, RestartHours: 0, LostHours: 2.6, AwayHours: 1, Resumable: true}},
	}
	const n = 60000
	for name, test := range tests {
		rng := rand.New(rand.NewPCG(7, 11))
		var sum, square, walls, wallSquare float64
		for range n {
			p, w := test.i.simulate(rng, test.hours)
			d, e := p-test.hours, w-test.hours
			sum, square, walls, wallSquare = sum+d, square+d*d, walls+e, wallSquare+e*e
		}
		mean, wallMean := sum/n, walls/n
		sd, wallSD := math.Sqrt(square/n-mean*mean), math.Sqrt(wallSquare/n-wallMean*wallMean)
		paid, wall := test.i.Expected(test.hours)
		devPaid, devWall := test.i.Deviation(test.hours)
		t.Logf("%-36s paid %.4f ± %.4f (simulated %.4f ± %.4f), wall %.4f ± %.4f (%.4f ± %.4f)", name, paid, devPaid, test.hours+mean, sd, wall, devWall,
			test.hours+wallMean, wallSD)
		if math.Abs(paid-test.hours-mean) > 5*sd/math.Sqrt(n) || math.Abs(wall-test.hours-wallMean) > 5*wallSD/math.Sqrt(n) {
			t.Errorf("%s: expected %.5f paid, %.5f wall; simulated %.5f, %.5f", name, paid, wall, test.hours+mean, test.hours+wallMean)
		}
		if sd > 0.1 && math.Abs(devPaid/sd-1) > 0.03 {
			t.Errorf("%s: deviation %.4f, simulated %.4f", name, devPaid, sd)
		}
		if sd > 0.1 && (devWall/wallSD < 0.98 || devWall/wallSD > 1.1) {
			t.Errorf("%s: deviation of the wall clock %.4f, simulated %.4f", name, devWall, wallSD)
		}
	}
}

func TestExpectedInterruptionsAtTheEdges(t *testing.T) {
	busy := Interruptions{PerHour: 0.5, RestartHours: 0.1, LostHours: 0.2, AwayHours: 1, Resumable: true}
	always := busy
	always.LostHours = 0
	wild := busy
	wild.PerHour, wild.LostHours, wild.AwayHours = math.NaN(), -1, math.Inf(-1)
	tests := map[string]struct {
		i          Interruptions
		hours      float64
		paid, wall float64
	}{
		"capacity that stays":          {Interruptions{}, 5, 5, 5},
		"no work":                      {busy, 0, 0, 0},
		"a checkpoint at every moment": {always, 10, 10 * math.Exp(0.05), 10 * math.Exp(0.05) * 1.5},
		"unknown counts as none":       {wild, 5, 5, 5},
		"negative hours":               {busy, -1, math.NaN(), math.NaN()},
		"unknown hours":                {busy, math.NaN(), math.NaN(), math.NaN()},
		"never done":                   {Interruptions{PerHour: 1}, 1e4, math.Inf(1), math.Inf(1)},
	}
	same := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-12 || (math.IsNaN(a) && math.IsNaN(b)) }
	for name, test := range tests {
		if paid, wall := test.i.Expected(test.hours); !same(paid, test.paid) || !same(wall, test.wall) {
			t.Errorf("%s: %g paid, %g wall; want %g, %g", name, paid, wall, test.paid, test.wall)
		}
	}
}

// Interruptions never shorten a job, more of them never make it cheaper, and resuming never costs more than starting
// over.
func TestInterruptionsNeverHelp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
		i := Interruptions{PerHour: number("rate", 2), RestartHours: number("restart", 1), LostHours: number("lost", 3), AwayHours: number("away", 5), Resumable: true}
		hours := number("hours", 40)
		paid, wall := i.Expected(hours)
		if !(paid >= hours) || !(wall >= paid) {
			t.Fatalf("%+v: %g hours become %g paid, %g wall", i, hours, paid, wall)
		}
		more := i
		more.PerHour *= 1.5
		if p, w := more.Expected(hours); p < paid*(1-1e-12)-1e-12 || w < wall*(1-1e-12)-1e-12 {
			t.Fatalf("%+v: more interruptions make %g, %g of %g, %g", i, p, w, paid, wall)
		}
		again := i
		again.Resumable = false
		if p, _ := again.Expected(hours); p < paid*(1-1e-12)-1e-12 {
			t.Fatalf("%+v: to begin again takes %g, to go on %g", i, p, paid)
		}
		if dp, dw := i.Deviation(hours); !(dp >= 0) || !(dw >= 0) {
			t.Fatalf("%+v: deviations %g, %g", i, dp, dw)
		}
	})
}

func TestAssumedSpotSaysSo(t *testing.T) {
	i := AssumedSpot(0.1, 0.2, true)
	if i.Assumed == "" || !(i.PerHourLow < i.PerHour && i.PerHour < i.PerHourHigh) || !(i.AwayLow < i.AwayHours && i.AwayHours < i.AwayHigh) ||
		math.Abs(i.PerHour-0.3823) > 1e-3 || math.Abs(i.AwayHours-1.2354) > 1e-3 || i.RestartHours != 0.1 || i.LostHours != 0.2 || !i.Resumable {
		t.Errorf("%+v", i)
	}
}
