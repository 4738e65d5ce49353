package cost

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"trainopt/resources"
)

// Label says what a stretch of paid time was for.
type Label string

const (
	Probe   Label = "probe"   // a timed trial, its work kept or not
	Run     Label = "run"     // the training itself
	Restart Label = "restart" // checkpoint, exit, start, until work resumed
	Idle    Label = "idle"    // paid for, nothing ran
)

// Segment is one stretch of time at one allocation, one price and one label.
type Segment struct {
	Label      Label                `json:"label"`
	From       time.Duration        `json:"from_ns"`
	To         time.Duration        `json:"to_ns"`
	Allocation resources.Allocation `json:"allocation"`
	Rates      Rates                `json:"rates"`
	// Cost is the money for it; Split is the same money by resource.
	Cost  USD   `json:"cost_usd"`
	Split Split `json:"split"`
}

func (s *Segment) settle() {
	hours := (s.To - s.From).Hours()
	s.Split = s.Rates.HourlySplit(s.Allocation).times(hours)
	s.Cost = s.Rates.Hourly(s.Allocation) * USD(hours)
}

// Meter adds up the money of one run over changing allocations, prices and restarts. Times are durations since the first start of
// the run, monotonic, given by the caller; the same clock must go on after a restart of the agent.
//
// At most one stretch is open at any time, so nothing is charged twice; between Stop and the next Start nothing is charged.
// Every call is idempotent, and a call with a time before one that the meter has already seen counts as made at that
// latest time: money is never negative, and what Total returns never decreases, but for [Meter.Settle]. A Meter is not safe for concurrent use.
type Meter struct {
	closed []Segment
	open   *Segment // To is not used
	seen   time.Duration
	done   USD // the sum of closed
}

// NewMeter returns a meter that charges nothing yet.
func NewMeter() *Meter { return &Meter{} }

func (m *Meter) clamp(at time.Duration) time.Duration {
	m.seen = max(m.seen, at)
	return m.seen
}

// Start charges for an allocation from a moment on, after ending what was charged before. The same start again changes nothing. The
// error, about the rates or the amount of memory, leaves everything as it was, an open stretch included.
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
	m.open = &Segment{Label: label, From: m.seen, Allocation: a, Rates: r}
	return nil
}

func sameDevices(a, b resources.Allocation) bool {
	if !a.Same(b) || len(a.GPUIDs) != len(b.GPUIDs) {
		return false
	}
	for i := range a.GPUIDs {
		if a.GPUIDs[i] != b.GPUIDs[i] {
			return false
		}
	}
	return true
}

// Change goes on with an other label or allocation at the same rates. It reports whether anything is being charged; when nothing is,
// it does nothing.
func (m *Meter) Change(at time.Duration, label Label, a resources.Allocation) bool {
	if m.open == nil {
		return false
	}
	return m.Start(at, label, a, m.open.Rates) == nil
}

// Stop ends the charging; again, it does nothing.
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

// Settle ends the charging at the true end of what is charged, which lies before moments that the meter has already seen
// when the end was noticed late: what was charged beyond it is taken back. It is the one call that makes Total
// smaller. Without an open stretch it does nothing.
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

// Running reports whether money is being charged, and its price per hour.
func (m *Meter) Running() (hourly USD, ok bool) {
	if m.open == nil {
		return 0, false
	}
	return m.open.Rates.Hourly(m.open.Allocation), true
}

// Total is all the money up to a moment, the open stretch included. It remembers the moment: see [Meter].
func (m *Meter) Total(at time.Duration) USD {
	at = m.clamp(at)
	total := m.done
	if m.open != nil {
		total += m.open.Rates.Hourly(m.open.Allocation) * USD((at - m.open.From).Hours())
	}
	return total
}

// Segments are all stretches up to a moment, in order, the open one as if it ended there; stretches of no length are left out.
func (m *Meter) Segments(at time.Duration) []Segment {
	at = m.clamp(at)
	list := append([]Segment{}, m.closed...)
	if m.open != nil && at > m.open.From {
		s := *m.open
		s.To = at
		s.settle()
		list = append(list, s)
	}
	return list
}

// ByLabel is the money up to a moment by what it was for.
func (m *Meter) ByLabel(at time.Duration) map[Label]USD {
	sums := map[Label]USD{}
	for _, s := range m.Segments(at) {
		sums[s.Label] += s.Cost
	}
	return sums
}

// Split is the money up to a moment by resource.
func (m *Meter) Split(at time.Duration) Split {
	var sum Split
	for _, s := range m.Segments(at) {
		sum = sum.plus(s.Split)
	}
	return sum
}

const meterVersion = 1

type meterState struct {
	Version int           `json:"version"`
	Seen    time.Duration `json:"seen_ns"`
	Closed  []Segment     `json:"closed"`
	Open    *Segment      `json:"open"`
}

// State is what a restarted agent needs to go on with this meter: JSON. An open stretch stays open, since the job runs on
// without the agent; charge it to its true end by calling Stop with that.
func (m *Meter) State() []byte {
	data, err := json.Marshal(meterState{meterVersion, m.seen, m.closed, m.open})
	if err != nil {
		panic(fmt.Sprintf("meter state: %v", err)) // validated rates have finite prices
	}
	return data
}

// RestoreMeter makes a meter from State. It refuses, in words, a newer version and anything that cannot have come from a meter: overlapping
// stretches, negative or infinite money, invalid rates.
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
			return nil, fmt.Errorf("restore the cost meter: stretch %d: %w", i+1, err)
		}
		seg.settle()
		m.closed = append(m.closed, seg)
		m.done += seg.Cost
		last = seg.To
	}
	if s.Open != nil {
		if err := s.Open.check(last, s.Seen); err != nil {
			return nil, fmt.Errorf("restore the cost meter: open stretch: %w", err)
		}
	}
	if s.Seen < last || math.IsInf(float64(m.done), 0) {
		return nil, errors.New("restore the cost meter: its times or sums make no sense")
	}
	return m, nil
}

// check says whether a stretch can follow one that ended at last.
func (s Segment) check(last, to time.Duration) error {
	if s.From < last || to < s.From {
		return fmt.Errorf("from %v to %v does not follow %v", s.From, to, last)
	}
	if err := finiteMemory(s.Allocation); err != nil {
		return err
	}
	return s.Rates.Validate()
}

func finiteMemory(a resources.Allocation) error {
	if m := float64(a.Memory); math.IsNaN(m) || math.IsInf(m, 0) {
		return fmt.Errorf("an allocation of %g GiB has no price", m)
	}
	return nil
}
