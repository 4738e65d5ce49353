package network

func (l level) String() string {
	return [...]string{"Go", "C", "C, AVX2", "C, AVX-512"}[l]
}

// Products runs only the matrix products of a training step, forward and backward: the lower bound of the time of a
// step.
func Products(c Config, rows int) func() {
	type work struct {
		layer
		x, w, wt, y, g []float32
	}
	layers, _ := c.layers()
	var all []work
	for _, l := range layers {
		all = append(all, work{l, make([]float32, rows*l.in), make([]float32, l.in*l.out), make([]float32, l.in*l.out),
			make([]float32, rows*l.out), make([]float32, l.in*l.out)})
	}
	return func() {
		for i, l := range all {
			product(rows, l.out, l.in, l.x, l.in, 1, l.w, l.y, nil, 0)
			product(l.in, l.out, rows, l.x, 1, l.in, l.y, l.g, nil, accumulate)
			if i > 0 {
				product(rows, l.in, l.out, l.y, l.out, 1, l.wt, l.x, nil, 0)
			}
		}
	}
}

// Flops returns the number of floating-point operations of Products.
func Flops(c Config, rows int) (n float64) {
	layers, _ := c.layers()
	for i, l := range layers {
		passes := 3
		if i == 0 {
			passes = 2
		}
		n += 2 * float64(passes*rows*l.in*l.out)
	}
	return n
}
