package spot

// Greedy uses spot capacity alone until only a machine on demand can still be in time (section 4 of the paper: the rules thrifty, exploitation and safety
// net). In the worst case it pays for the whole job on demand although there was capacity later. O(zones) a choice.
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
