package spot

// SpotOnly never uses a machine on demand and misses deadlines where capacity is scarce.
func SpotOnly(s State) Choice {
	if s.stays() {
		return s.On
	}
	c, _ := s.spot()
	return c
}
