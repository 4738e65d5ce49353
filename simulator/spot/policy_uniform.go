package spot

// Uniform is Uniform Progress (the paper, section 4): it stays on the straight line from the start to the deadline. It takes spot capacity whenever there
// is some, also when behind; without, it waits while it is ahead of the line and takes a machine on demand when behind, until it is ahead by two changeovers. It has no
// parameters, knows the work and the deadline, and nothing of what capacity there will be. It misses no deadline that a machine on demand from the start would
// meet. O(zones) a choice.
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
