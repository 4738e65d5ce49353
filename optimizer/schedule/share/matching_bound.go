package share

// maxLoss returns the most by which the value of the matching can be below the optimum, relative to it. For any
// nonnegative prices of devices, the devices at these prices and the largest gain of every job above them are an upper
// bound (linear programming duality). The price of a type is the gain from one more device of it, along any chain of
// moves: with an optimal matching the bound is its value. O(types³ · kinds + jobs · types).
func (m *matching) maxLoss() float64 {
	m.findMovers()
	price := m.prices()
	value, bound := 0.0, 0.0
	for d, p := range price {
		bound += p * float64(m.devices[d].Count)
	}
	for _, j := range m.jobs {
		k := m.kinds[j.kind]
		own := m.shortness(k, j)
		if j.at < m.types {
			value += k.relative[j.at] + own
		}
		most := 0.0
		for d, r := range k.relative {
			if r > 0 {
				most = max(most, r+own-price[d]*float64(m.size))
			}
		}
		bound += most
	}
	if bound == 0 {
		return 0
	}
	return max(0, 1-value/bound)
}

// prices returns the gain per device from devices for one more job on each type; 0 where devices are free.
func (m *matching) prices() []float64 {
	n := m.types + 1
	gain := make([]float64, n) // from one more place on a type, by chains of moves into it
	for range n {
		for to := range m.types {
			if m.room[to] >= m.size {
				continue
			}
			for from := range n {
				if b := m.best[from*n+to]; from != to && b.job >= 0 {
					gain[to] = max(gain[to], b.gain+gain[from])
				}
			}
		}
	}
	price := gain[:m.types]
	for d := range price {
		price[d] /= float64(m.size)
	}
	return price
}
