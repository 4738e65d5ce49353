package problems

import (
	"math"
	"testing"
)

// TestTreasureFrontIsTheListedOne compares the shortest ways to the treasures with the fronts listed by Vamplew et
// al. (2011) and Yang et al. (2019).
func TestTreasureFrontIsTheListedOne(t *testing.T) {
	steps := []int{1, 3, 5, 7, 8, 9, 13, 14, 17, 19}
	worths := map[kind][]float64{
		Convex:  {0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7},
		Concave: {1, 2, 3, 5, 8, 16, 24, 50, 74, 124},
	}
	for kind, worth := range worths {
		p := DeepSeaTreasure(kind)
		for _, gamma := range []float64{1, 0.99, 0.98, 0.9} {
			front, exact := p.(solved).KnownFront(gamma)
			if !exact {
				t.Fatalf("%s: not exact", p.Name())
			}
			want := [][]float64{}
			for i, n := range steps {
				time := 0.0
				for k := range n {
					time -= math.Pow(gamma, float64(k))
				}
				want = append(want, []float64{worth[i] * math.Pow(gamma, float64(n-1)), time})
			}
			want = sorted(nonDominated(want))
			samePoints(t, front, want)
		}
	}
}
