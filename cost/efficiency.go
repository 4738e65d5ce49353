package cost

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Work is an amount of completed work with its time and cost.
type Work struct {
	Units float64       // epochs, steps or samples, consistently
	Time  time.Duration // taken for them
	Cost  USD           // NaN if unknown
}

// EfficiencyOptions configures a monitor; the zero value selects the defaults of all fields.
type EfficiencyOptions struct {
	Tolerance float64 // relative excess over the baseline that is tolerated; 0 means 0.15 (15 %)
	Window    int     // number of latest observations considered; 0 means 8
	// Persistence is the number of consecutive observations for which the median must be beyond (or back within) the
	// tolerance before this is reported; 0 means 3.
	Persistence int
	Unit        string // of the work, in reports; empty means "unit of work"
}

// efficiencyChange reports that a run has become more expensive or slower than its baseline, by default its first work, or has returned to it.
type efficiencyChange struct {
	Kind  string // "slower" or "dearer"
	Over  bool   // false: the drift has begun; true: it has ended
	Ratio float64
	Words string // one sentence for the user
}

// EfficiencyMonitor compares time and money per unit of work with a baseline. The median over a window (at least half
// full) must leave the tolerance for several consecutive observations, so that single slow epochs and ordinary
// scatter are not reported. It is pure: its reports depend only on the observations. It is not safe for concurrent
// use.
type EfficiencyMonitor struct {
	options        EfficiencyOptions
	seconds, usd   float64 // baseline per unit; NaN: unknown
	learning       []Work
	recent         []Work
	slower, dearer drift
}

// drift is the state of one kind of change.
type drift struct {
	raised bool
	streak int // consecutive observations that contradict the current state
}

// NewEfficiencyMonitor returns a monitor with the given baseline. With the zero Work, the first window of
// observations becomes the baseline.
func NewEfficiencyMonitor(baseline Work, o EfficiencyOptions) *EfficiencyMonitor {
	if !(o.Tolerance > 0) {
		o.Tolerance = 0.15
	}
	if o.Window <= 0 {
		o.Window = 8
	}
	if o.Persistence <= 0 {
		o.Persistence = 3
	}
	o.Unit = cmp.Or(o.Unit, "unit of work")
	m := &EfficiencyMonitor{options: o}
	m.seconds, m.usd = perUnit([]Work{baseline})
	return m
}

// perUnit returns the medians of seconds and of USD per unit of work, weighted by units; NaN if no observation has
// the value.
func perUnit(list []Work) (seconds, usd float64) {
	var times, costs []rate
	for _, w := range list {
		if !(w.Units > 0) || math.IsInf(w.Units, 0) {
			continue
		}
		if w.Time > 0 {
			times = append(times, rate{w.Time.Seconds() / w.Units, w.Units})
		}
		if w.Cost > 0 && !math.IsInf(float64(w.Cost), 0) {
			costs = append(costs, rate{float64(w.Cost) / w.Units, w.Units})
		}
	}
	return median(times), median(costs)
}

// rate is an amount per unit and the number of units it was measured over.
type rate struct{ perUnit, units float64 }

// median returns the weighted median and sorts list; NaN for an empty list.
func median(list []rate) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	slices.SortFunc(list, func(a, b rate) int { return cmp.Compare(a.perUnit, b.perUnit) })
	var half, sum float64
	for _, r := range list {
		half += r.units / 2
	}
	for i, r := range list {
		if sum += r.units; sum > half {
			return r.perUnit
		} else if sum == half && i+1 < len(list) {
			return (r.perUnit + list[i+1].perUnit) / 2
		}
	}
	return list[len(list)-1].perUnit
}

// Observe adds the work since the last observation and returns the changes: at most one of each kind. Work
// without units or without time is ignored.
func (m *EfficiencyMonitor) Observe(w Work) []efficiencyChange {
	if !(w.Units > 0) || math.IsInf(w.Units, 0) || w.Time <= 0 {
		return nil
	}
	if math.IsNaN(m.seconds) {
		m.learning = append(m.learning, w)
		if len(m.learning) == m.options.Window {
			m.seconds, m.usd = perUnit(m.learning)
		}
		return nil
	}
	m.recent = append(m.recent, w)
	if len(m.recent) > m.options.Window {
		m.recent = m.recent[1:]
	}
	if 2*len(m.recent) < m.options.Window {
		return nil
	}
	seconds, usd := perUnit(m.recent)
	var list []efficiencyChange
	list = m.slower.judge(list, m.options, "slower", "s", seconds, m.seconds)
	return m.dearer.judge(list, m.options, "dearer", "USD", usd, m.usd)
}

// judge updates the state of one kind of drift with the current value per unit and appends a report of a change to
// list.
func (d *drift) judge(list []efficiencyChange, o EfficiencyOptions, kind, unit string, now, baseline float64) []efficiencyChange {
	ratio := now / baseline
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return list
	}
	if beyond := ratio > 1+o.Tolerance; beyond == d.raised {
		d.streak = 0
		return list
	}
	if d.streak++; d.streak < o.Persistence {
		return list
	}
	d.raised, d.streak = !d.raised, 0
	words := fmt.Sprintf("the run has become %s: %.4g %s per %s, %.4g at first (%+.0f %%)", kind, now, unit, o.Unit, baseline, 100*(ratio-1))
	if !d.raised {
		words = fmt.Sprintf("the run is no longer %s than at first: %.4g %s per %s, %.4g at first", kind, now, unit, o.Unit, baseline)
	}
	return append(list, efficiencyChange{kind, !d.raised, ratio, words})
}
