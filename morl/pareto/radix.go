package pareto

import (
	"cmp"
	"slices"
)

// keyed is an index with the key by which it is sorted: the bits of a positive number, which are ordered as the number.
type keyed struct {
	key   uint64
	index int
}

const (
	digit  = 11 // bits per pass
	passes = 3
	// low is the number of bits that no pass covers; keys that differ only in these are sorted by comparisons.
	low = 64 - passes*digit
	// fewKeys is the number of keys below which comparisons are faster.
	fewKeys = 200
)

// radix sorts by key in ascending order, stably, and returns the result and a buffer for the next call. O(n), and
// O(n log n) for keys that are equal in all but the low bits.
func radix(in, buffer []keyed) (sorted, spare []keyed) {
	if len(in) < fewKeys {
		slices.SortStableFunc(in, byKey)
		return in, buffer
	}
	buffer = slices.Grow(buffer[:0], len(in))[:len(in)]
	var counts [passes][1 << digit]int32
	for _, k := range in {
		for p := range passes {
			counts[p][k.key>>(low+p*digit)&(1<<digit-1)]++
		}
	}
	for p := range passes {
		c := &counts[p]
		if len(in) > 0 && int(c[in[0].key>>(low+p*digit)&(1<<digit-1)]) == len(in) {
			continue // all have the same digit
		}
		at := int32(0)
		for d, n := range c {
			c[d], at = at, at+n
		}
		for _, k := range in {
			d := k.key >> (low + p*digit) & (1<<digit - 1)
			buffer[c[d]] = k
			c[d]++
		}
		in, buffer = buffer, in
	}
	for from := 0; from < len(in); {
		to := from + 1
		for to < len(in) && in[to].key>>low == in[from].key>>low {
			to++
		}
		if to > from+1 {
			slices.SortStableFunc(in[from:to], byKey)
		}
		from = to
	}
	return in, buffer
}

func byKey(a, b keyed) int { return cmp.Compare(a.key, b.key) }
