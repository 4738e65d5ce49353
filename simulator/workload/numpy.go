package workload

// NumPy generates the same numbers as numpy.random after numpy.random.seed(seed): the Mersenne twister of Python,
// seeded by one word. It is not safe for concurrent use.
type NumPy struct{ twister }

// NewNumPy implements numpy.random.seed(seed).
func NewNumPy(seed uint32) *NumPy {
	n := &NumPy{}
	n.words.Seed(uint64(seed))
	return n
}

// Word returns the next 32 bits, the source of all other draws.
func (n *NumPy) Word() uint32 { return n.words.Uint32() }
