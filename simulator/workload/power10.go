package workload

import (
	"math"
	"math/big"
	"sync"
)

// pow10 returns 10^x for x in 0…300 bit by bit as the C library of Linux computes pow(10, x): the method of glibc
// since 2.28 (Szabolcs Nagy, ARM optimized routines) with fused multiply-add, whose error is up to 0.51 units in the
// last place. Python's powers are those of the C library; math.Pow is occasionally one unit off and differs between
// machines.
func pow10(x float64) float64 {
	const (
		// ln 10 in two parts.
		lnHigh = 2.302585092994046
		lnLow  = -2.1707562233822494e-16
		// The exponential is reduced by 2^k/128: 128/ln 2, and ln 2/128 in two parts.
		inverse = 0x1.71547652b82fep0 * powSteps
		lnStep  = 0x1.62e42fefa0000p-8
		lnRest  = 0x1.cf79abc9e3b39p-47
		// e^r − 1 − r ≈ r²(c2 + c3 r) + r⁴(c4 + c5 r) for |r| ≤ ln 2/256.
		c2 = 0x1.ffffffffffdbdp-2
		c3 = 0x1.555555555543cp-3
		c4 = 0x1.55555cf172b91p-5
		c5 = 0x1.1111167a4d017p-7
	)
	high := x * lnHigh
	low := math.FMA(x, lnLow, math.FMA(x, lnHigh, -high))
	k := math.RoundToEven(high * inverse)
	r := math.FMA(k, -lnRest, math.FMA(k, -lnStep, high)) + low
	step := powTable()[int(k)%powSteps]
	r2 := r * r
	rest := math.FMA(r2, math.FMA(r, c3, c2), step.rest+r)
	rest = math.FMA(r2*r2, math.FMA(r, c5, c4), rest)
	scale := math.Ldexp(step.power, int(k)/powSteps)
	return math.FMA(scale, rest, scale)
}

const powSteps = 128

// powStep is 2^(i/128) = power·(1 + rest).
type powStep struct{ power, rest float64 }

// powTable contains the powers 2^(i/128), computed with 200 bits.
var powTable = sync.OnceValue(func() *[powSteps]powStep {
	const precision = 200
	root := big.NewFloat(2).SetPrec(precision)
	for n := 1; n < powSteps; n *= 2 {
		root.Sqrt(root)
	}
	var table [powSteps]powStep
	exact := big.NewFloat(1).SetPrec(precision)
	for i := range table {
		power, _ := exact.Float64()
		ratio := new(big.Float).SetPrec(precision).Quo(exact, big.NewFloat(power))
		rest, _ := ratio.Sub(ratio, big.NewFloat(1)).Float64()
		table[i] = powStep{power, rest}
		exact.Mul(exact, root)
	}
	return &table
})
