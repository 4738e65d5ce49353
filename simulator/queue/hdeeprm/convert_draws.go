package hdeeprm

// numpyDraws draws the numbers that the converter draws after numpy.random.seed(seed): the Mersenne twister MT19937 of Matsumoto and
// Nishimura (1998), seeded by one word. It is not safe for use by several goroutines.
type numpyDraws struct {
	state [twisterWords]uint32
	next  int
}

const (
	twisterWords = 624
	twisterShift = 397
)

func newNumpyDraws(seed uint32) *numpyDraws {
	d := &numpyDraws{next: twisterWords}
	d.state[0] = seed
	for i := uint32(1); i < twisterWords; i++ {
		before := d.state[i-1]
		d.state[i] = 1812433253*(before^before>>30) + i
	}
	return d
}

func (d *numpyDraws) word() uint32 {
	s := &d.state
	if d.next == twisterWords {
		for i := range s {
			y := s[i]&(1<<31) | s[(i+1)%twisterWords]&(1<<31-1)
			s[i] = s[(i+twisterShift)%twisterWords] ^ y>>1 ^ -(y&1)&0x9908b0df
		}
		d.next = 0
	}
	y := s[d.next]
	d.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// share is numpy.random.choice of the shares of the requested time that jobs use, by their probabilities.
func (d *numpyDraws) share() float64 {
	a, b := d.word()>>5, d.word()>>6
	x := (float64(a)*(1<<26) + float64(b)) / (1 << 53)
	k := 0
	for k < len(usedBelow)-1 && usedBelow[k] <= x {
		k++
	}
	return 0.05 + float64(float64(k)*0.05) // as numpy.arange: 0.3 is 0.3, not 6·0.05
}

// bandwidth is numpy.random.choice of 4, 8, … 24 GB/s.
func (d *numpyDraws) bandwidth() int {
	for {
		if n := d.word() & 7; n <= 5 {
			return 4 * int(n+1)
		}
	}
}

// usedBelow[k] is how likely a job uses at most the k-th share, 0.05·(k+1), of the time that its user asks for, after Tsafrir,
// Etsion and Feitelson (TPDS 18(6), 2007): the sums of 0.15, 0.09, 0.07, five of 0.04, five of 0.03, ten of 0.02, 0.06 and 0.08,
// divided by the last of them.
var usedBelow = func() (below [25]float64) {
	sum := 0.0
	for k := range below {
		switch {
		case k < 3:
			sum += [3]float64{0.15, 0.09, 0.07}[k]
		case k < 8:
			sum += 0.04
		case k < 13:
			sum += 0.03
		case k < 23:
			sum += 0.02
		default:
			sum += [2]float64{0.06, 0.08}[k-23]
		}
		below[k] = sum
	}
	for k := range below {
		below[k] /= sum
	}
	return below
}()
