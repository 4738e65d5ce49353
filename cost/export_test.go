package cost

import "time"

// ByLabel returns the cost up to a time by label.
func (m *Meter) ByLabel(at time.Duration) map[Label]USD {
	sums := map[Label]USD{}
	for _, s := range m.Segments(at) {
		sums[s.Label] += s.Cost
	}
	return sums
}

// Split returns the cost up to a time by resource.
func (m *Meter) Split(at time.Duration) Split {
	var sum Split
	for _, s := range m.Segments(at) {
		sum = sum.plus(s.Split)
	}
	return sum
}

func (s Split) plus(o Split) Split {
	return Split{s.GPU + o.GPU, s.CPU + o.CPU, s.Memory + o.Memory, s.Rest + o.Rest}
}
