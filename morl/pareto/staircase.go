package pareto

import "math/bits"

// staircase is the front of a set of points in the plane whose x are all known in advance: a point is identified by
// its rank in x (ties: by y, then arbitrary). The ranks on the front are stored in a bit set with summary levels of
// non-empty words above it, so that the next and the previous rank are found in O(log n / 6) steps. The y of unused
// ranks is never read.
type staircase struct {
	y      []float64
	levels [][]uint64
}

// reset empties the staircase for ranks 0 … n−1; buffers are reused.
func (s *staircase) reset(n int) {
	if cap(s.y) < n {
		s.y = make([]float64, n)
	}
	s.y = s.y[:n]
	for level := 0; ; level++ {
		n = (n + 63) / 64
		if level == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		if cap(s.levels[level]) < n {
			s.levels[level] = make([]uint64, n)
		}
		s.levels[level] = s.levels[level][:n]
		clear(s.levels[level])
		if n <= 1 {
			s.levels = s.levels[:level+1]
			return
		}
	}
}

// set adds a rank to the front.
func (s *staircase) set(rank int) {
	for _, words := range s.levels {
		words[rank>>6] |= 1 << (rank & 63)
		rank >>= 6
	}
}

// unset removes a rank from the front.
func (s *staircase) unset(rank int) {
	for _, words := range s.levels {
		words[rank>>6] &^= 1 << (rank & 63)
		if words[rank>>6] != 0 {
			return
		}
		rank >>= 6
	}
}

// next returns the lowest rank on the front above the given one; −1 if none exists.
func (s *staircase) next(rank int) int {
	for level := range s.levels {
		at := rank >> 6
		if rest := s.levels[level][at] >> (rank & 63) >> 1; rest != 0 {
			rank += 1 + bits.TrailingZeros64(rest)
			for level--; level >= 0; level-- {
				rank = rank<<6 + bits.TrailingZeros64(s.levels[level][rank])
			}
			return rank
		}
		rank = at
	}
	return -1
}

// previous returns the highest rank on the front below the given one; −1 if none exists.
func (s *staircase) previous(rank int) int {
	for level := range s.levels {
		at := rank >> 6
		if rest := s.levels[level][at] & (1<<(rank&63) - 1); rest != 0 {
			rank = at<<6 + 63 - bits.LeadingZeros64(rest)
			for level--; level >= 0; level-- {
				rank = rank<<6 + 63 - bits.LeadingZeros64(s.levels[level][rank])
			}
			return rank
		}
		rank = at
	}
	return -1
}

// covered reports whether a point on the front is at least as good in x and y.
func (s *staircase) covered(rank int, y float64) bool {
	n := s.next(rank)
	return n >= 0 && s.y[n] >= y
}
