package capacity

// Greedy uses spot capacity alone until only a machine on demand can still meet the deadline (section 4 of the paper:
// the rules thrifty, exploitation and safety net). In the worst case it pays for the whole job on demand although
// capacity was available later. O(zones) per choice.
func Greedy(s State) Choice {
	if s.stays() {
		return s.On
	}
	if s.late() {
		return Choice{Machine: OnDemand}
	}
	c, _ := s.spot()
	return c
}

// SpotOnly never uses a machine on demand and misses deadlines where capacity is scarce.
func SpotOnly(s State) Choice {
	if s.stays() {
		return s.On
	}
	c, _ := s.spot()
	return c
}

// AlwaysOnDemand never uses spot capacity.
func AlwaysOnDemand(State) Choice { return Choice{Machine: OnDemand} }
