package spot

import "math"

// TimeSliced cuts the time until the deadline into slices and is greedy in each: by the end of a slice the work must be on the straight line
// to the deadline (the paper's policy Time Sliced). One slice is Greedy, many small ones come near Uniform. The grid of slices is shifted by a part of a slice, from 0 to below
// 1, so that the first one is shorter: drawn at random, nobody can know when a job will be behind. The shift is ours; the paper's grid has none. Less than one slice counts as one.
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
