package cost

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/resources"
)

// Label is the purpose of a segment of paid time.
type Label string

const (
	Probe   Label = "probe"   // a timed trial, whether or not its work is kept
	Run     Label = "run"     // the training itself
	restart Label = "restart" // checkpoint, exit and start, until work resumed
	idle    Label = "idle"    // paid for without running work
)

// segment is a period with one allocation, one price and one label.
type segment struct {
	Label      Label                `json:"label"`
	From       time.Duration        `json:"from_ns"`
	To         time.Duration        `json:"to_ns"`
	Allocation resources.Allocation `json:"allocation"`
	Rates      Rates                `json:"rates"`
	// Cost is its cost; Split is the same amount by resource.
	Cost  USD   `json:"cost_usd"`
	Split Split `json:"split"`
}

// settle computes the cost of a segment from its period.
func (s *segment) settle() {
	hours := (s.To - s.From).Hours()
	s.Split = s.Rates.HourlySplit(s.Allocation).times(hours)
	s.Cost = s.Rates.Hourly(s.Allocation) * USD(hours)
}

// Meter accumulates the cost of one run over changing allocations, prices and restarts. Times are monotonic durations
// since the first start of the run, supplied by the caller; the same clock must continue after a restart of the
// agent.
//
// At most one segment is open at any time, so that no time is charged twice; no time is charged between Stop and the
// next Start. Every call is idempotent, and a time before the latest one seen counts as that latest time: amounts are
// never negative, and the result of Total never decreases except through [Meter.Settle]. The zero Meter has no charges.
// A Meter is not safe for concurrent use.
type Meter struct {
	closed []segment
	open   *segment // To is unused
	seen   time.Duration
	done   USD // sum of closed
}

// clamp returns the later of at and the latest time seen, and stores it.
func (m *Meter) clamp(at time.Duration) time.Duration {
	m.seen = max(m.seen, at)
	return m.seen
}

// Seen returns the latest time seen, before which no charge can begin.
func (m *Meter) Seen() time.Duration { return m.seen }

// Start closes the open segment and charges for an allocation from a time on. Repeating the same start has no effect.
// On an error, which concerns the rates or the amount of memory, the meter is unchanged, including an open segment.
func (m *Meter) Start(at time.Duration, label Label, a resources.Allocation, r Rates) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("start charging %s at %v: rates: %w", label, at, err)
	}
	if err := finiteMemory(a); err != nil {
		return fmt.Errorf("start charging %s at %v: %w", label, at, err)
	}
	if m.open != nil && m.open.Label == label && m.open.Rates == r && sameDevices(m.open.Allocation, a) {
		m.clamp(at)
		return nil
	}
	m.Stop(at)
	a.GPUIDs = append([]string(nil), a.GPUIDs...)
	m.open = &segment{Label: label, From: m.seen, Allocation: a, Rates: r}
	return nil
}

// sameDevices reports whether two allocations are equal including their GPUs.
func sameDevices(a, b resources.Allocation) bool {
	return a.Same(b) && slices.Equal(a.GPUIDs, b.GPUIDs)
}

// Change continues with another label or allocation at the same rates. It reports whether a segment is open; without
// one it has no effect.
func (m *Meter) Change(at time.Duration, label Label, a resources.Allocation) bool {
	if m.open == nil {
		return false
	}
	return m.Start(at, label, a, m.open.Rates) == nil
}

// Reprice continues at other rates. Without an open segment, and with rates that are invalid, it has no effect.
func (m *Meter) Reprice(at time.Duration, r Rates) {
	if m.open != nil {
		_ = m.Start(at, m.open.Label, m.open.Allocation, r)
	}
}

// Stop closes the open segment; without one it only advances the time.
func (m *Meter) Stop(at time.Duration) {
	at = m.clamp(at)
	if m.open == nil {
		return
	}
	s := *m.open
	m.open = nil
	if s.To = at; s.To == s.From {
		return
	}
	s.settle()
	m.done += s.Cost
	m.closed = append(m.closed, s)
}

// Settle closes the open segment at the actual end of the charged work, which is before the latest time seen if the
// end was noticed late; charges beyond it are refunded. It is the only call that reduces Total. Without an open
// segment it has no effect.
func (m *Meter) Settle(at time.Duration) {
	if m.open == nil {
		return
	}
	m.Stop(at)
	for n := len(m.closed); n > 0 && m.closed[n-1].To > at; n = len(m.closed) {
		last := m.closed[n-1]
		m.closed = m.closed[:n-1]
		if last.To = at; last.From < at {
			last.settle()
			m.closed = append(m.closed, last)
		}
	}
	m.done, m.seen = 0, max(at, 0)
	for _, s := range m.closed {
		m.done += s.Cost
	}
}

// Running reports whether a segment is open, and its hourly price.
func (m *Meter) Running() (hourly USD, ok bool) {
	if m.open == nil {
		return 0, false
	}
	return m.open.Rates.Hourly(m.open.Allocation), true
}

// Total returns the total cost up to a time, including the open segment. The time counts as seen: see [Meter].
func (m *Meter) Total(at time.Duration) USD {
	at = m.clamp(at)
	total := m.done
	if m.open != nil {
		total += m.open.Rates.Hourly(m.open.Allocation) * USD((at - m.open.From).Hours())
	}
	return total
}

// Segments returns all segments up to a time, in order, with the open one as if it ended there; empty segments are
// omitted.
func (m *Meter) Segments(at time.Duration) []segment {
	at = m.clamp(at)
	list := append([]segment{}, m.closed...)
	if m.open != nil && at > m.open.From {
		s := *m.open
		s.To = at
		s.settle()
		list = append(list, s)
	}
	return list
}

const meterVersion = 1

// meterState is the persistent form of a Meter.
type meterState struct {
	Version int           `json:"version"`
	Seen    time.Duration `json:"seen_ns"`
	Closed  []segment     `json:"closed"`
	Open    *segment      `json:"open"`
}

// State returns the state that a restarted agent passes to RestoreMeter, as JSON. An open segment stays open, because
// the job continues without the agent; a call of Stop with its actual end charges it up to that time.
func (m *Meter) State() []byte {
	data, err := json.Marshal(meterState{meterVersion, m.seen, m.closed, m.open})
	if err != nil {
		panic(fmt.Sprintf("meter state: %v", err)) // validated rates have finite prices
	}
	return data
}

// RestoreMeter returns the meter of a State. It returns an error for another version and for a state that no meter
// could have produced: overlapping segments, negative or infinite amounts, invalid rates.
func RestoreMeter(state []byte) (*Meter, error) {
	var s meterState
	if err := json.Unmarshal(state, &s); err != nil {
		return nil, fmt.Errorf("restore the cost meter: %w", err)
	}
	if s.Version != meterVersion {
		return nil, fmt.Errorf("restore the cost meter: version %d, this program knows %d", s.Version, meterVersion)
	}
	m := &Meter{seen: s.Seen, open: s.Open}
	var last time.Duration
	for i, seg := range s.Closed {
		if err := seg.check(last, seg.To); err != nil {
			return nil, fmt.Errorf("restore the cost meter: segment %d: %w", i+1, err)
		}
		seg.settle()
		m.closed = append(m.closed, seg)
		m.done += seg.Cost
		last = seg.To
	}
	if s.Open != nil {
		if err := s.Open.check(last, s.Seen); err != nil {
			return nil, fmt.Errorf("restore the cost meter: open segment: %w", err)
		}
	}
	if s.Seen < last || math.IsInf(float64(m.done), 0) {
		return nil, errors.New("restore the cost meter: its times or sums make no sense")
	}
	return m, nil
}

// check returns an error if a segment cannot follow one that ended at last.
func (s segment) check(last, to time.Duration) error {
	if s.From < last || to < s.From {
		return fmt.Errorf("from %v to %v does not follow %v", s.From, to, last)
	}
	if err := finiteMemory(s.Allocation); err != nil {
		return err
	}
	return s.Rates.Validate()
}

// finiteMemory returns an error if the memory of an allocation is NaN or infinite.
func finiteMemory(a resources.Allocation) error {
	if m := float64(a.Memory); math.IsNaN(m) || math.IsInf(m, 0) {
		return fmt.Errorf("an allocation of %g GiB has no price", m)
	}
	return nil
}
