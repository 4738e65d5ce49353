package estimate

import "math"

// normals draws the same numbers as numpy.random.seed(seed) and numpy.random.randn: the Mersenne twister MT19937 (Matsumoto and
// Nishimura 1998), seeded by one word, and Marsaglia's polar method. The original starts its factorisation from these.
type normals struct {
	state  [twisterWords]uint32
	next   int
	kept   float64 // the second of two that come together
	isKept bool
}

const (
	twisterWords = 624
	twisterShift = 397
)

func newNormals(seed int64) *normals {
	n := &normals{next: twisterWords}
	n.state[0] = uint32(seed)
	for i := uint32(1); i < twisterWords; i++ {
		before := n.state[i-1]
		n.state[i] = 1812433253*(before^before>>30) + i
	}
	return n
}

func (n *normals) word() uint32 {
	if n.next == twisterWords {
		s := &n.state
		for i := range s {
			y := s[i]&(1<<31) | s[(i+1)%twisterWords]&(1<<31-1)
			s[i] = s[(i+twisterShift)%twisterWords] ^ y>>1 ^ -(y&1)&0x9908b0df
		}
		n.next = 0
	}
	y := n.state[n.next]
	n.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (n *normals) uniform() float64 {
	a, b := n.word()>>5, n.word()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// draw is one standard normal number.
func (n *normals) draw() float64 {
	if n.isKept {
		n.isKept = false
		return n.kept
	}
	for {
		x := float64(2*n.uniform()) - 1
		y := float64(2*n.uniform()) - 1
		square := float64(x*x) + float64(y*y)
		if square >= 1 || square == 0 {
			continue
		}
		f := math.Sqrt(-2 * math.Log(square) / square)
		n.kept, n.isKept = f*x, true
		return f * y
	}
}
