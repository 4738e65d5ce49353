//go:build !cgo

package network

func bestLevel() level { return levelGo }

// product is documented in vector_cgo.go.
func product(m, n, k int, a []float32, rs, cs int, b, c, bias []float32, flags int) {
	goProduct(m, n, k, a, rs, cs, b, c, bias, flags)
}

func adam(p, g, m, v []float32, f adamFactors) { goAdam(p, g, m, v, f) }

func drop(h []float32, key uint64, threshold uint32, scale float32) {
	goDrop(h, key, threshold, scale)
}

func reluBackward(d, h []float32, scale float32) { goReluBackward(d, h, scale) }

func addColumnSums(g, d []float32, rows, out int) { goColumnSums(g, d, rows, out) }

func blend(p, o []float32, tau float32) { goBlend(p, o, tau) }

func sumOfSquares(g []float32) float64 { return goSumOfSquares(g) }

func transpose(t, w []float32, in, out int) { goTranspose(t, w, in, out) }
