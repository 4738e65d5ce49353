package share

import (
	"math/rand/v2"
	"testing"
)

// A large program solved in passes is close to its bound and uses no device twice.
func TestPassesAreNearTheBound(t *testing.T) {
	for name, kinds := range map[string]int{"kinds": 20, "all different": 0} {
		t.Run(name, func(t *testing.T) {
			const jobs = 3 * manyJobs
			random := rand.New(rand.NewPCG(1, 2))
			g := &siaProgram{room: []int{200, 300, 400}, same: make([]int, jobs)}
			for i := range jobs {
				g.same[i] = i
				if kinds > 0 && i >= kinds {
					g.same[i] = i % kinds
					g.sizes, g.value = append(g.sizes, g.sizes[i%kinds]), append(g.value, g.value[i%kinds])
					continue
				}
				var sizes []size
				var value []float64
				for d := range g.room {
					v := 0.2 + 0.6*random.Float64()
					for n := 1; n <= 16; n *= 2 {
						sizes, value = append(sizes, size{Device: d, GPUs: n}), append(value, v)
						v += (1.1 - v) * 0.3
					}
				}
				g.sizes, g.value = append(g.sizes, sizes), append(g.value, value)
			}
			used := make([]int, len(g.room))
			for _, z := range g.solve() {
				if z != nil {
					used[z.Device] += z.GPUs
				}
			}
			for d, n := range used {
				if n > g.room[d] {
					t.Errorf("%d of %d devices of type %d are used", n, g.room[d], d)
				}
			}
			t.Logf("at most %.4f %% below the optimum", 100*g.maxLoss())
			if loss := g.maxLoss(); loss > 0.01 {
				t.Errorf("up to %.4f below the optimum", loss)
			}
		})
	}
}
