package schedule

import (
	"math"
	"slices"
)

// sorter sorts claims by strength: by radix on the leading bits of the weights, then by comparison among those with
// equal bits.
type sorter struct {
	keys, other []weighed
	counts      [radixPasses][1 << radixBits]int32
}

// weighed is the index of a claim and its weight as an integer that decreases with the weight.
type weighed struct {
	key   uint64
	claim int32
}

const (
	radixBits   = 11
	radixPasses = 3
	fewClaims   = 128 // below which comparisons are faster
)

// sorted returns the claims in descending order of strength.
func (s *sorter) sorted(claims []claim) []weighed {
	s.keys = slices.Grow(s.keys[:0], len(claims))[:len(claims)]
	for i := range claims {
		bits := math.Float64bits(claims[i].weight + 0) // −0 becomes 0
		if bits>>63 == 0 {
			bits = ^(bits | 1<<63)
		}
		s.keys[i] = weighed{bits, int32(i)}
	}
	if len(claims) < fewClaims {
		s.compare(claims, s.keys)
		return s.keys
	}
	s.radix()
	// Among equal leading bits, compare.
	const shift = 64 - radixBits*radixPasses
	for from := 0; from < len(s.keys); {
		to := from + 1
		for to < len(s.keys) && s.keys[to].key>>shift == s.keys[from].key>>shift {
			to++
		}
		if to > from+1 {
			s.compare(claims, s.keys[from:to])
		}
		from = to
	}
	return s.keys
}

// compare sorts keys by comparisons.
func (s *sorter) compare(claims []claim, keys []weighed) {
	slices.SortFunc(keys, func(a, b weighed) int {
		switch {
		case a.key < b.key:
			return -1
		case a.key > b.key:
			return 1
		}
		return claims[a.claim].compare(&claims[b.claim])
	})
}

// radix sorts the keys by their leading bits.
func (s *sorter) radix() {
	const mask = 1<<radixBits - 1
	shift := func(pass int) int { return 64 - radixBits*(radixPasses-pass) }
	clear(s.counts[:])
	for _, k := range s.keys {
		for pass := range radixPasses {
			s.counts[pass][k.key>>shift(pass)&mask]++
		}
	}
	s.other = slices.Grow(s.other[:0], len(s.keys))[:len(s.keys)]
	for pass := range radixPasses {
		counts, sum := &s.counts[pass], int32(0)
		for i, n := range counts {
			counts[i] = sum
			sum += n
		}
		for _, k := range s.keys {
			at := &counts[k.key>>shift(pass)&mask]
			s.other[*at] = k
			*at++
		}
		s.keys, s.other = s.other, s.keys
	}
}
