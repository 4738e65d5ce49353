package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/sla"
)

// elsewhereScene is a job that runs on 16 CPUs at 1.2 s per unit and 0.82 USD per hour, with 90 units left.
func elsewhereScene(t *testing.T, prefer string, spec sla.Spec) Snapshot {
	s := cpuScene().prefer(prefer).agreed(spec).running(cpu(16), 10, 12*time.Second, 0.003, 2)
	s.Limits.CPUs.Min = 16 // no other allocation is allowed here
	return s.snapshot(t)
}

// TestWorthLeaving: a measured place is preferred by the same objectives as an allocation here, the move and the wait
// included.
func TestWorthLeaving(t *testing.T) {
	for name, c := range map[string]struct {
		prefer string
		spec   sla.Spec
		there  Elsewhere
		want   bool
		reason string
	}{
		"faster at the same price":      {"time", sla.Spec{}, Elsewhere{Hourly: 0.82, Seconds: 0.6, Spread: 0.05}, true, "less"},
		"faster and dearer, for time":   {"time", sla.Spec{}, Elsewhere{Hourly: 8, Seconds: 0.6, Spread: 0.05}, true, "less"},
		"faster and dearer, for cost":   {"cost", sla.Spec{}, Elsewhere{Hourly: 8, Seconds: 0.6, Spread: 0.05}, false, ""},
		"slower and cheaper, for cost":  {"cost", sla.Spec{}, Elsewhere{Hourly: 0.1, Seconds: 2.4, Spread: 0.05}, true, "less"},
		"slower, baseline held":         {"cost", sla.Spec{}, Elsewhere{Hourly: 0.1, Seconds: 2.4, Spread: 0.05}, false, "slower"},
		"uncertain":                     {"time", sla.Spec{}, Elsewhere{Hourly: 0.82, Seconds: 1.1, Spread: 1}, false, "not sure enough"},
		"the same":                      {"time", sla.Spec{}, Elsewhere{Hourly: 0.82, Seconds: 1.2, Spread: 0.01}, false, ""},
		"free only when all is done":    {"time", sla.Spec{}, Elsewhere{Hourly: 0.82, Seconds: 0.6, Spread: 0.05, Wait: 3600}, false, ""},
		"would miss the budget":         {"time", sla.Spec{CostMaxUSD: 0.04}, Elsewhere{Hourly: 20, Seconds: 0.6, Spread: 0.05}, false, "the probability of meeting the SLA would be"},
		"alone keeps the deadline":      {"cost", sla.Spec{TimeMax: 80 * time.Second}, Elsewhere{Hourly: 4, Seconds: 0.5, Spread: 0.05}, true, "the probability of meeting the SLA rises"},
		"cheaper but misses a deadline": {"cost", sla.Spec{TimeMax: 150 * time.Second}, Elsewhere{Hourly: 0.1, Seconds: 3, Spread: 0.05}, false, "the probability of meeting the SLA would be"},
	} {
		t.Run(name, func(t *testing.T) {
			s := elsewhereScene(t, c.prefer, c.spec)
			s.HoldBaseline = strings.Contains(name, "held")
			c.there.Name = "there"
			if got, why := WorthLeaving(s, c.there); got != c.want || !strings.Contains(why, c.reason) {
				t.Errorf("%v, %q; want %v, %q", got, why, c.want, c.reason)
			}
		})
	}
}

// TestLeavingUnknown: what is missing for the comparison is named.
func TestLeavingUnknown(t *testing.T) {
	for reason, change := range map[string]func(*Snapshot){
		"nothing is measured yet":                  func(s *Snapshot) { s.Model = nil },
		"the job cannot be resumed":                func(s *Snapshot) { s.Resumable = false },
		"the remaining work is unknown":            func(s *Snapshot) { s.Total = 0 },
		"what a restart costs is not measured yet": func(s *Snapshot) { s.Restart, s.Startup = sla.Interval{}, sla.Interval{} },
		"the rest of the run cannot be predicted":  func(s *Snapshot) { s.Restart.P50, s.Spent = 2, cost.USD(math.NaN()) },
	} {
		s := elsewhereScene(t, "time", sla.Spec{})
		change(&s)
		if ok, why := WorthLeaving(s, Elsewhere{Name: "there", Hourly: 0.82, Seconds: 0.6}); ok || why != reason {
			t.Errorf("%v, %q; want %q", ok, why, reason)
		}
	}
}

// TestWorthMeasuring: a measurement is worth its price while enough work is left to gain from it.
func TestWorthMeasuring(t *testing.T) {
	there := Elsewhere{Name: "there", Hourly: 0.82, Seconds: 1.2, Spread: 0.7}
	for name, c := range map[string]struct {
		change func(*Snapshot, *Elsewhere)
		price  float64
		want   bool
	}{
		"cheap":                  {nil, 0.0005, true},
		"dear":                   {nil, 0.5, false},
		"nothing left":           {func(s *Snapshot, _ *Elsewhere) { s.Done = s.Total }, 0.0005, false},
		"little left":            {func(s *Snapshot, _ *Elsewhere) { s.Done = s.Total - 2 }, 0.0005, false},
		"known":                  {func(_ *Snapshot, e *Elsewhere) { e.Spread = 0.001 }, 0.0005, false},
		"after the end":          {func(_ *Snapshot, e *Elsewhere) { e.Wait = 1e4 }, 0.0005, false},
		"cannot move":            {func(s *Snapshot, _ *Elsewhere) { s.Resumable = false }, 0.0005, false},
		"nothing measured":       {func(s *Snapshot, _ *Elsewhere) { s.Model = nil }, 0.0005, false},
		"total unknown":          {func(s *Snapshot, _ *Elsewhere) { s.Total = 0 }, 0.0005, false},
		"no restart measured":    {func(s *Snapshot, _ *Elsewhere) { s.Restart, s.Startup = sla.Interval{}, sla.Interval{} }, 0.0005, false},
		"far too dear per hour":  {func(_ *Snapshot, e *Elsewhere) { e.Hourly = 500 }, 0.0005, false},
		"only worth it for time": {func(_ *Snapshot, e *Elsewhere) { e.Hourly = 3 }, 0.0005, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := elsewhereScene(t, "cost", sla.Spec{}), there
			if c.change != nil {
				c.change(&s, &e)
			}
			if got := WorthMeasuring(s, e, c.price); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
