package capacity

import "math"

// TimeSliced divides the time until the deadline into slices and is greedy in each: by the end of a slice the work
// must be on the straight line to the deadline (the paper's policy Time Sliced). One slice equals Greedy, many short
// ones approach Uniform. shift, from 0 to below 1, moves the grid by a part of a slice, so that the first slice is
// shorter; a random shift makes the times at which a job falls behind unpredictable. The shift is our addition; the
// paper's grid has none. Fewer than one slice counts as one.
func TimeSliced(slices int, shift float64) Policy {
	return func(s State) Choice {
		if s.stays() {
			return s.On
		}
		length := s.DeadlineS / float64(max(1, slices))
		end := math.Min(s.DeadlineS, (math.Floor(s.NowS/length+shift)+1-shift)*length)
		owed := s.line(end) - s.DoneS
		behind := owed > 0 && end-s.NowS-s.TickS < owed+2*s.ChangeoverS
		if s.late() || behind {
			return Choice{Machine: OnDemand}
		}
		c, _ := s.spot()
		return c
	}
}
