package learned

// tanh replaces each number by its hyperbolic tangent, by Eigen's rational approximation with polynomials of degrees
// 13 and 6. It is accurate to 4 units in the last place, and twenty times as fast as the float64 version.
func tanh(z []float32) {
	for i, x := range z {
		x = max(-7.90531110763549805, min(7.90531110763549805, x))
		s := x * x
		p := s*float32(-2.76076847742355e-16) + float32(2.00018790482477e-13)
		p = s*p + float32(-8.60467152213735e-11)
		p = s*p + float32(5.12229709037114e-08)
		p = s*p + float32(1.48572235717979e-05)
		p = s*p + float32(6.37261928875436e-04)
		p = s*p + float32(4.89352455891786e-03)
		q := s*float32(1.19825839466702e-06) + float32(1.18534705686654e-04)
		q = s*q + float32(2.26843463243900e-03)
		q = s*q + float32(4.89352518554385e-03)
		z[i] = x * p / q
	}
}
