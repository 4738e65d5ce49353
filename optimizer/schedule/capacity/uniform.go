package capacity

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
