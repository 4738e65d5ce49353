//go:build cgo

package network

// #cgo CFLAGS: -std=c11 -O3 -Wno-unknown-pragmas
// #cgo LDFLAGS: -lm
// #cgo noescape net_product
// #cgo nocallback net_product
// #cgo noescape net_adam
// #cgo nocallback net_adam
// #cgo noescape net_drop
// #cgo nocallback net_drop
// #cgo noescape net_relu_backward
// #cgo nocallback net_relu_backward
// #cgo noescape net_column_sums
// #cgo nocallback net_column_sums
// #cgo noescape net_blend
// #cgo nocallback net_blend
// #cgo noescape net_sum_of_squares
// #cgo nocallback net_sum_of_squares
// #cgo noescape net_transpose
// #cgo nocallback net_transpose
// #include "vector.h"
import "C"

import "unsafe"

func bestLevel() level { return level(C.net_best_level()) }

// at returns the address of the first number; nil for an empty slice without capacity.
func at(s []float32) *C.float { return (*C.float)(unsafe.SliceData(s)) }

// product computes c (m×n) from a (m×k, element (i, p) at a[i·rs + p·cs]) times b (k×n), starting from c, the bias of
// each column if not nil, or zero, according to flags; rectified at the end if requested. Every element is summed
// over k in order.
func product(m, n, k int, a []float32, rs, cs int, b, c, bias []float32, flags int) {
	if current == levelGo {
		goProduct(m, n, k, a, rs, cs, b, c, bias, flags)
		return
	}
	if m > 0 && n > 0 {
		C.net_product(C.int(current), C.long(m), C.long(n), C.long(k), at(a), C.long(rs), C.long(cs), at(b), at(c), at(bias), C.int(flags))
	}
}

// adam updates p by one step of Adam, see goAdam.
func adam(p, g, m, v []float32, f adamFactors) {
	if current == levelGo {
		goAdam(p, g, m, v, f)
		return
	}
	C.net_adam(C.int(current), C.long(len(p)), at(p), at(g), at(m), at(v), (*C.float)(&f.scale))
}

// drop applies a dropout mask, see goDrop.
func drop(h []float32, key uint64, threshold uint32, scale float32) {
	if current == levelGo {
		goDrop(h, key, threshold, scale)
		return
	}
	C.net_drop(C.int(current), C.long(len(h)), at(h), C.uint64_t(key), C.uint32_t(threshold), C.float(scale))
}

// reluBackward applies the derivative of ReLU, see goReluBackward.
func reluBackward(d, h []float32, scale float32) {
	if current == levelGo {
		goReluBackward(d, h, scale)
		return
	}
	C.net_relu_backward(C.int(current), C.long(len(h)), at(d), at(h), C.float(scale))
}

// addColumnSums adds the column sums of d to g, see goColumnSums.
func addColumnSums(g, d []float32, rows, out int) {
	if current == levelGo {
		goColumnSums(g, d, rows, out)
		return
	}
	C.net_column_sums(C.int(current), C.long(rows), C.long(out), at(g), at(d))
}

// blend moves p towards o, see goBlend.
func blend(p, o []float32, tau float32) {
	if current == levelGo {
		goBlend(p, o, tau)
		return
	}
	C.net_blend(C.int(current), C.long(len(p)), at(p), at(o), C.float(tau))
}

// sumOfSquares returns the sum of squares in float64, see goSumOfSquares.
func sumOfSquares(g []float32) float64 {
	if current == levelGo {
		return goSumOfSquares(g)
	}
	return float64(C.net_sum_of_squares(C.int(current), C.long(len(g)), at(g)))
}

// transpose writes w (in×out) to t (out×in), see goTranspose.
func transpose(t, w []float32, in, out int) {
	if current == levelGo {
		goTranspose(t, w, in, out)
		return
	}
	C.net_transpose(C.int(current), C.long(in), C.long(out), at(t), at(w))
}
