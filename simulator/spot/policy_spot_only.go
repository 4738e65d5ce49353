package spot

// SpotOnly never pays for a machine on demand, and misses deadlines where capacity is short.
func SpotOnly(s State) Choice {
	if s.stays() {
		return s.On
	}
	c, _ := s.spot()
	return c
}
