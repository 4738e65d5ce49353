package cost

import (
	"math"
	"testing"
)

func TestJudgeIntervals(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		cost, time Factors
		want       Quality
	}{
		"cheaper and faster for sure":     {Factors{0.5, 0.8}, Factors{0.7, 0.9}, Excellent},
		"anything from half to twice":     {Factors{0.48, 1.9}, Factors{0.5, 2}, Unchanged},
		"cheaper for sure, time unclear":  {Factors{0.5, 0.8}, Factors{0.6, 1.5}, Excellent},
		"slower for sure, cost unclear":   {Factors{0.7, 1.4}, Factors{1.2, 1.6}, Bad},
		"ends in the wrong order":         {Factors{0.8, 0.5}, Factors{0.9, 0.7}, Excellent},
		"an end unknown":                  {Factors{0.5, nan}, Factors{0.7, 0.9}, Undecided},
		"an end without bound":            {Factors{0.5, 0.8}, Factors{0.7, math.Inf(1)}, Undecided},
		"nothing measured":                {Factors{}, Factors{}, Undecided},
		"a point is judged as Judge does": {Factors{0.5, 0.5}, Factors{1.02, 1.02}, Judge(0.5, 1.02)},
	} {
		if got := JudgeIntervals(c.cost, c.time); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
