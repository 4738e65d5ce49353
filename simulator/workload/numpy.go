package workload

// NumPy generates the same numbers as numpy.random after numpy.random.seed(seed): the Mersenne twister of Python,
// seeded by one word. It is not safe for concurrent use.
type NumPy struct{ twister }

// NewNumPy implements numpy.random.seed(seed).
func NewNumPy(seed uint32) *NumPy {
	n := &NumPy{twister{next: twisterWords}}
	n.state[0] = seed
	for i := uint32(1); i < twisterWords; i++ {
		before := n.state[i-1]
		n.state[i] = 1812433253*(before^before>>30) + i
	}
	return n
}

// Word returns the next 32 bits, the source of all other draws.
func (n *NumPy) Word() uint32 { return n.word() }
