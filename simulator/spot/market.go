package spot

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/capacity"
)

// Market is the spot capacity of one or several zones at the same equidistant ticks. A job is in one zone at a time,
// and a move costs a changeover.
type Market struct {
	Name  string
	TickS float64 // seconds
	Zones []zone
}

// zone is a zone of spot capacity. All zones of a market have the same number of ticks.
type zone struct {
	Name string
	Up   []bool // by tick
	// USDHour is the price at each tick; nil: that of the job.
	USDHour []float64
}

// Priced reports whether a zone has prices of its own.
func (m Market) Priced() bool {
	return slices.ContainsFunc(m.Zones, func(z zone) bool { return z.USDHour != nil })
}

// usdHour returns the price of a zone at a tick.
func (m Market) usdHour(j capacity.Job, zone, tick int) float64 {
	if prices := m.Zones[zone].USDHour; prices != nil {
		return prices[tick%m.Ticks()]
	}
	return j.SpotUSDHour
}

// Ticks returns the number of ticks of the market, after which it repeats.
func (m Market) Ticks() int {
	if len(m.Zones) == 0 {
		return 0
	}
	return len(m.Zones[0].Up)
}

// NewMarket returns a market with each trace as a zone. The traces must have the same tick length and start time;
// longer ones are truncated.
func NewMarket(name string, traces ...capacity.Trace) (Market, error) {
	m := Market{Name: name}
	short := math.MaxInt
	for i, t := range traces {
		if i > 0 && t.TickS != m.TickS {
			return Market{}, fmt.Errorf("spot capacity of several zones: %s has ticks of %v s and %s of %v s: want the same", traces[0].Name, m.TickS, t.Name, t.TickS)
		}
		m.TickS = t.TickS
		short = min(short, len(t.Up))
		m.Zones = append(m.Zones, zone{t.Name, t.Up, t.USDHour})
	}
	for z := range m.Zones {
		if m.Zones[z].Up = m.Zones[z].Up[:short]; m.Zones[z].USDHour != nil {
			m.Zones[z].USDHour = m.Zones[z].USDHour[:short]
		}
	}
	return m, m.validate()
}

// validate checks the tick length and that all zones have the same number of ticks, at least one.
func (m Market) validate() error {
	if !(m.TickS > 0) || math.IsInf(m.TickS, 1) {
		return fmt.Errorf("ticks of %v s: want more than 0", m.TickS)
	}
	if m.Ticks() == 0 {
		return errors.New("no tick of any zone of spot capacity")
	}
	for _, z := range m.Zones {
		if len(z.Up) != m.Ticks() {
			return fmt.Errorf("zone %s has %d ticks and zone %s %d: want the same", m.Zones[0].Name, m.Ticks(), z.Name, len(z.Up))
		}
		if z.USDHour != nil && len(z.USDHour) != len(z.Up) {
			return fmt.Errorf("zone %s has %d ticks and %d prices: want as many", z.Name, len(z.Up), len(z.USDHour))
		}
	}
	return nil
}

// Availability is spot capacity without a trace: times up and down are memoryless.
type Availability struct {
	UpS, DownS float64 // mean seconds with capacity, and without
}

// mostDrawn bounds the number of generated ticks.
const mostDrawn = 20_000_000

// Generate draws the capacity of independent zones. Each is a two-state Markov chain that goes down with probability
// tick/UpS and up with tick/DownS at each tick, starting in its stationary distribution. The means hold for ticks no
// longer than either. Zone z depends on the seed and z alone. O(ticks × zones).
func Generate(a Availability, tickS float64, ticks, zones int, seed uint64) (Market, error) {
	for _, v := range []float64{a.UpS, a.DownS} {
		if !(v >= tickS) || math.IsInf(v, 1) || !(tickS > 0) {
			return Market{}, fmt.Errorf("draw spot capacity: up for %v s and away for %v s, ticks of %v s: want ticks above 0 and times no shorter", a.UpS, a.DownS, tickS)
		}
	}
	if ticks < 1 || zones < 1 || ticks > mostDrawn/zones {
		return Market{}, fmt.Errorf("draw spot capacity: %d ticks of %d zones: want 1 to %d", ticks, zones, mostDrawn)
	}
	m := Market{Name: "drawn", TickS: tickS}
	for z := range zones {
		rng := rand.New(rand.NewPCG(seed, 0x590700+uint64(z)))
		zone := zone{Name: fmt.Sprintf("zone %d", z), Up: make([]bool, ticks)}
		up := rng.Float64() < a.UpS/(a.UpS+a.DownS)
		for k := range zone.Up {
			zone.Up[k] = up
			mean := a.DownS
			if up {
				mean = a.UpS
			}
			if rng.Float64() < tickS/mean {
				up = !up
			}
		}
		m.Zones = append(m.Zones, zone)
	}
	return m, nil
}
