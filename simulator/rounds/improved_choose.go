package rounds

import (
	"cmp"
	"slices"
)

// chooser assigns device types in a round.
type chooser struct {
	chosen []*tenant
	left   []int // unassigned devices by type
	round  int
	owed   []claim
	gains  []claim
	order  []weighed
}

// weighed is the index of a claim and its weight.
type weighed struct {
	weight float64
	claim  int
}

// claim is a candidate assignment of a device type to a tenant with its sort keys.
type claim struct {
	tenant *tenant
	device int
	weight float64
	debt   float64
}

// compare orders claims by descending strength. It is a total order.
func (a claim) compare(b claim) int {
	switch {
	case a.weight != b.weight:
		return cmp.Compare(b.weight, a.weight)
	case a.debt != b.debt:
		return cmp.Compare(b.debt, a.debt)
	case a.tenant.a.number != b.tenant.a.number:
		return a.tenant.a.number - b.tenant.a.number
	case a.tenant.b != b.tenant.b:
		return number(a.tenant.b) - number(b.tenant.b)
	}
	return b.device - a.device
}

func number(j *job) int {
	if j == nil {
		return -1
	}
	return j.number
}

// choose assigns device types for this round: first to tenants with a full share, then in descending order of time
// owed and, unless the policy forbids it, the remaining devices in descending order of gain.
func (m *improved) choose() {
	m.round++
	m.chosen, m.left = m.chosen[:0], m.left[:0]
	for d := range m.Devices {
		m.left = append(m.left, m.Devices[d].Count)
	}
	m.owed = m.owed[:0]
	for _, t := range m.list {
		t.want, t.counted = -1, -1
		m.claimShares(t)
	}
	for _, w := range m.sorted(m.owed) {
		c := &m.owed[w.claim]
		if m.give(c.tenant, c.device) {
			c.tenant.counted = c.device
		}
	}
	if !m.traits.OnlyShares {
		for m.fill(); m.moveUp(); m.fill() {
		}
	}
}

// sorted returns the claims in descending order of strength. It sorts weights, which nearly always suffice.
func (c *chooser) sorted(claims []claim) []weighed {
	c.order = c.order[:0]
	for i := range claims {
		c.order = append(c.order, weighed{claims[i].weight, i})
	}
	slices.SortFunc(c.order, func(a, b weighed) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return claims[a.claim].compare(claims[b.claim])
	})
	return c.order
}

// claimShares assigns the type of a full share, or else lists the tenant's claims on each type.
func (m *improved) claimShares(t *tenant) {
	for d, x := range t.x {
		switch {
		case x <= leastShare || t.gone() || !t.runs(d):
		case x >= wholeShare && m.give(t, d):
			t.counted = d
			return
		default:
			debt := t.deficit[d] + float64(x*m.Interval)
			if t.device == d {
				debt += m.leaseSeconds()
			}
			m.owed = append(m.owed, claim{t, d, debt, x})
		}
	}
}

// leaseSeconds returns the advantage in time owed of the current holder of a device.
func (m *improved) leaseSeconds() float64 { return m.Interval/2 + 20*m.Preemption.Seconds }

// give assigns a device type to a tenant if enough devices are left and its jobs have not been chosen.
func (m *improved) give(t *tenant, device int) bool {
	if t.gpus > m.left[device] || t.chosen(m.round) {
		return false
	}
	m.left[device] -= t.gpus
	t.want = device
	t.choose(m.round)
	m.chosen = append(m.chosen, t)
	return true
}

// fill assigns remaining devices to jobs without any, in descending order of their rate relative to that on their
// fastest type.
func (m *improved) fill() {
	if !m.anyLeft() {
		return
	}
	m.gains = m.gains[:0]
	for _, t := range m.list {
		if t.b != nil || t.gone() || t.chosen(m.round) {
			continue
		}
		debt := 0.0
		for d := range t.x {
			debt += t.deficit[d]
		}
		for d, r := range t.rate {
			if r > 0 && t.gpus <= m.left[d] {
				m.gains = append(m.gains, claim{t, d, r / t.best, debt})
			}
		}
	}
	for _, w := range m.sorted(m.gains) {
		c := &m.gains[w.claim]
		m.give(c.tenant, c.device)
	}
}

func (m *improved) anyLeft() bool {
	return slices.ContainsFunc(m.left, func(n int) bool { return n > 0 })
}

// best returns the rate of a single job on its fastest type with enough devices.
func (m *improved) best(t *tenant) float64 {
	most := 0.0
	for d, r := range t.rate {
		if t.gpus <= m.Devices[d].Count {
			most = max(most, r)
		}
	}
	return most
}

// moveUp moves the job with the largest gain to a better device type that would be idle. It returns false if none
// exists.
func (m *improved) moveUp() bool {
	if !m.anyLeft() {
		return false
	}
	var most claim
	for _, t := range m.chosen {
		if t.b != nil {
			continue
		}
		here := t.rate[t.want]
		if here >= t.best {
			continue
		}
		for d, r := range t.rate {
			if t.gpus > m.left[d] || r <= here {
				continue
			}
			c := claim{tenant: t, device: d, weight: (r - here) / t.best}
			if c.weight > m.leastGain(t, d) && (most.tenant == nil || c.compare(most) < 0) {
				most = c
			}
		}
	}
	if most.tenant == nil {
		return false
	}
	m.left[most.tenant.want] += most.tenant.gpus
	m.left[most.device] -= most.tenant.gpus
	most.tenant.want = most.device
	return true
}

// leastGain returns the minimum relative gain for a move: nearly 0, unless a move costs time.
func (m *improved) leastGain(t *tenant, device int) float64 {
	if t.device == device || t.device < 0 {
		return 1e-9
	}
	return max(1e-9, 2*m.Preemption.Seconds/m.Interval)
}
