package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	for name, c := range map[string]struct {
		v    []float64
		want float64
	}{
		"one":       {[]float64{3}, 3},
		"odd":       {[]float64{9, 1, 3}, 3},
		"even":      {[]float64{4, 1, 3, 2}, 2.5},
		"very high": {[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.v)
			if got := Median(c.v); got != c.want {
				t.Errorf("got %g, want %g", got, c.want)
			}
			if !slices.Equal(c.v, before) {
				t.Errorf("the argument became %v", c.v)
			}
		})
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("of no values: %g, want NaN", got)
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{1, 2, 4, 8}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 3, 1: 8, 0.9: 6.8} {
		if got := Quantile(v, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of no values: %g, want NaN", got)
	}
}

// TestMedianIsAQuantile requires that both definitions agree, and that a quantile is within the values.
func TestMedianIsAQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "v")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		m := Median(v)
		slices.Sort(v)
		if x := Quantile(v, q); x < v[0]-1e-9 || x > v[len(v)-1]+1e-9 {
			t.Fatalf("quantile %g of %v is %g", q, v, x)
		}
		if x := Quantile(v, 0.5); math.Abs(x-m) > 1e-9*(1+math.Abs(m)) {
			t.Fatalf("median %g, quantile %g", m, x)
		}
	})
}

func TestMean(t *testing.T) {
	if got := Mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("got %g, want 3", got)
	}
	if got := Mean(nil); !math.IsNaN(got) {
		t.Errorf("of no values: %g, want NaN", got)
	}
}

func TestCount(t *testing.T) {
	if got := Count([]float64{1, math.NaN(), 3}, func(v float64) bool { return v > 0 }); got != 2 {
		t.Errorf("got %d, want 2", got)
	}
}

// TestWilson compares the interval of 9 of 10 with the formula evaluated by hand, and shares of 0 and 1.
func TestWilson(t *testing.T) {
	if lo, hi := Wilson(9, 10); math.Abs(lo-0.5958) > 5e-5 || math.Abs(hi-0.9821) > 5e-5 {
		t.Errorf("9 of 10: %.4f…%.4f, want 0.5958…0.9821", lo, hi)
	}
	if lo, hi := Wilson(0, 3); lo != 0 || hi >= 1 {
		t.Errorf("0 of 3: %g…%g", lo, hi)
	}
	if lo, hi := Wilson(3, 3); hi != 1 || lo <= 0 {
		t.Errorf("3 of 3: %g…%g", lo, hi)
	}
}
