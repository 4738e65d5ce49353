package wording

import (
	"math"
	"testing"
)

func TestText(t *testing.T) {
	for want, seconds := range map[string]float64{
		"no data": math.NaN(), "0 s": 0, "0.0123 s": .0123, "0.1 s": .09996, "0.8 s": .8, "3 s": 3, "2.5 s": 2.5, "8.33 s": 8.333, "10 s": 9.996, "42.3 s": 42.34, "50 s": 50,
		"1 m 00 s": 59.96, "3 m 05 s": 185, "1 h 00 m": 3599.7, "2 h 05 m": 7500, "3 d 04 h": 3*86400 + 4*3600, "-5 s": -5, "1.5e-12 s": 1.5e-12,
	} {
		if got := Duration(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
	if got := Duration(math.Inf(1)); got != "no data" {
		t.Errorf("infinite: %q", got)
	}
}
