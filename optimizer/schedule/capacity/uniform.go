package capacity

// Cheapest is Uniform, but moves to a cheaper zone if that saves more than the changeover costs within the shorter of the
// remaining work and the time for which the zone has had capacity.
func Cheapest(s State) Choice {
	c := Uniform(s)
	if c.Machine == Spot {
		c.Zone = s.cheaper(c.Zone, s.stays(), !s.late())
	}
	return c
}

// cheaper returns the zone for spot capacity instead of a given one: the cheapest, if the job starts there or may move and
// that pays.
func (s State) cheaper(zone int, stays, mayMove bool) int {
	next, ok := s.spot()
	if s.USDHour == nil || !ok || stays && !mayMove {
		return zone
	}
	ahead := min(s.UpS[next.Zone], s.WorkS-s.DoneS)
	if stays && ahead*(s.zonePrice(zone)-s.zonePrice(next.Zone)) <= s.ChangeoverS*s.zonePrice(next.Zone) {
		return zone
	}
	return next.Zone
}

// Uniform is Uniform Progress (the paper, section 4): it stays on the straight line from the start to the deadline. It
// uses spot capacity whenever available, even when behind. Without capacity, it waits while it is ahead of the line
// and uses a machine on demand when behind, until it is ahead by two changeovers. It has no parameters and requires
// the work and the deadline but no information on future capacity. It misses no deadline that a machine on demand from
// the start would meet. O(zones) per choice.
func Uniform(s State) Choice {
	onDemand := Choice{Machine: OnDemand}
	if s.stays() {
		return s.On
	}
	if s.late() || s.On.Machine == OnDemand && s.DoneS < s.line(s.NowS+2*s.ChangeoverS) {
		return onDemand
	}
	if c, ok := s.spot(); ok {
		return c
	}
	if s.DoneS < s.line(s.NowS) {
		return onDemand
	}
	return Choice{}
}
