package workload

import (
	"math"
	"math/bits"

	"gonum.org/v1/gonum/mathext/prng"
)

// Python generates the same numbers as random.Random of CPython (3.2 and newer) for the same integer seed: the
// Mersenne twister MT19937 of Matsumoto and Nishimura (1998), seeded by key. It reproduces workloads that were
// generated in Python. It is not safe for concurrent use.
type Python struct{ twister }

// twister is the Mersenne twister MT19937.
type twister struct{ words prng.MT19937 }

// NewPython returns random.Random(seed). As in Python, the sign of the seed is ignored.
func NewPython(seed int64) *Python {
	magnitude := uint64(seed)
	if seed < 0 {
		magnitude = -magnitude
	}
	key := []uint32{uint32(magnitude)}
	if high := uint32(magnitude >> 32); high != 0 {
		key = append(key, high)
	}
	p := &Python{}
	p.words.SeedFromKeys(key)
	return p
}

// Random implements random(): uniform in [0, 1), a multiple of 2⁻⁵³.
func (p *twister) Random() float64 {
	a, b := p.words.Uint32()>>5, p.words.Uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// Uniform implements uniform(a, b).
func (p *Python) Uniform(a, b float64) float64 {
	return a + float64((b-a)*p.Random()) // the conversion rounds the product as Python does, without fused multiply-add
}

// Bits implements getrandbits(k) for k in 0…64.
func (p *Python) Bits(k int) uint64 {
	switch {
	case k <= 0:
		return 0
	case k <= 32:
		return uint64(p.words.Uint32() >> (32 - k))
	}
	low := uint64(p.words.Uint32())
	return uint64(p.words.Uint32()>>(64-min(k, 64)))<<32 | low
}

// Below implements randrange(n): uniform in 0…n−1, for n at least 1.
func (p *Python) Below(n int) int {
	if n < 1 {
		panic("draw a number below one: nothing to draw from")
	}
	k := bits.Len(uint(n))
	for {
		if r := p.Bits(k); r < uint64(n) {
			return int(r)
		}
	}
}

// Choice implements choice(s).
func Choice[T any](p *Python, s []T) T { return s[p.Below(len(s))] }

// Shuffle implements shuffle(s).
func Shuffle[T any](p *Python, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := p.Below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// Sample implements sample(s, k): k elements in the order drawn. s is not modified; k is at most its length.
func Sample[T any](p *Python, s []T, k int) []T {
	if k < 0 || k > len(s) {
		panic("draw a sample: it is larger than what it is drawn from, or negative")
	}
	drawn := make([]T, k)
	small := 21 // Python copies the list up to this size and records the drawn indices above it
	if k > 5 {
		small += 1 << (2 * int(math.Ceil(math.Log(float64(3*k))/math.Log(4))))
	}
	if len(s) <= small {
		pool := append([]T(nil), s...)
		for i := range drawn {
			j := p.Below(len(pool) - i)
			drawn[i] = pool[j]
			pool[j] = pool[len(pool)-i-1]
		}
		return drawn
	}
	taken := make(map[int]bool, k)
	for i := range drawn {
		j := p.Below(len(s))
		for taken[j] {
			j = p.Below(len(s))
		}
		taken[j] = true
		drawn[i] = s[j]
	}
	return drawn
}
