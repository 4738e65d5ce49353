package share

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// failer is implemented by testing.T and rapid.T.
type failer interface {
	Fatalf(format string, args ...any)
}

// With jobs of one size the assignment is nearly always optimal; its value is compared with the optimum.
func TestAssignerIsNearTheOptimum(t *testing.T) {
	worst, exact, n, gotAll, bestAll := 1.0, 0, 0, 0.0, 0.0
	rapid.Check(t, func(r *rapid.T) {
		s := &schedule.Snapshot{Devices: []schedule.DeviceType{{Count: rapid.IntRange(1, 5).Draw(r, "a")}, {Count: rapid.IntRange(1, 5).Draw(r, "b")}, {Count: rapid.IntRange(1, 5).Draw(r, "c")}}}
		jobs := rapid.IntRange(1, 20).Draw(r, "jobs")
		for range jobs {
			s.Jobs = append(s.Jobs, schedule.JobState{Job: &schedule.Job{GPUs: 1}})
		}
		a := new(assigner)
		a.reset(s)
		for k := range a.value {
			a.value[k] = rapid.Float64Range(0.01, 1).Draw(r, "value")
		}
		a.run()
		got, best := 0.0, optimum(s, a)
		used := make([]int, 3)
		for i, d := range a.at {
			got += a.of(i, d)
			if d < 3 {
				used[d]++
			}
		}
		for d := range used {
			if used[d] > s.Devices[d].Count || used[d]+a.room[d] != s.Devices[d].Count {
				r.Fatalf("%d jobs on %d devices, %d thought free", used[d], s.Devices[d].Count, a.room[d])
			}
		}
		if got > best*(1+1e-9) || got < 0.9*best {
			r.Fatalf("worth %v, the optimum %v", got, best)
		}
		n++
		gotAll += got
		bestAll += best
		worst = min(worst, got/best)
		if got >= best*(1-1e-9) {
			exact++
		}
	})
	t.Logf("optimal in %d of %d, at worst %.4f of it", exact, n, worst)
	if gotAll < 0.99*bestAll {
		t.Errorf("worth %.4f of the optimum on average", gotAll/bestAll)
	}
}

// optimum returns the highest value of an assignment of single-device jobs.
func optimum(s *schedule.Snapshot, a *assigner) float64 {
	var types []int
	for d := range s.Devices {
		for range s.Devices[d].Count {
			types = append(types, d)
		}
	}
	cost := make([][]float64, a.jobs)
	for i := range cost {
		for _, d := range types {
			cost[i] = append(cost[i], -a.of(i, d))
		}
		cost[i] = append(cost[i], make([]float64, a.jobs)...) // unassigned
	}
	sum := 0.0
	for i, k := range solve.Assign(cost) {
		sum -= cost[i][k]
	}
	return sum
}

// The prices of Sia prove an upper bound, and the solution is close to it.
func TestSiaIsNearItsBound(t *testing.T) {
	total, bound := 0.0, 0.0
	rapid.Check(t, func(r *rapid.T) {
		g := &siaProgram{room: []int{rapid.IntRange(1, 16).Draw(r, "a"), rapid.IntRange(1, 16).Draw(r, "b")}}
		for range rapid.IntRange(1, 20).Draw(r, "jobs") {
			var sizes []size
			var value []float64
			for d := range g.room {
				for n := 1; n <= g.room[d]; n *= 2 {
					sizes = append(sizes, size{Device: d, GPUs: n})
					value = append(value, rapid.Float64Range(0.1, 1.1).Draw(r, "value"))
				}
			}
			g.sizes, g.value = append(g.sizes, sizes), append(g.value, value)
		}
		worth, used := 0.0, make([]int, 2)
		for i, z := range g.solve() {
			if z != nil {
				worth += g.value[i][slices.Index(g.sizes[i], *z)]
				used[z.Device] += z.GPUs
			}
		}
		if worth > g.bound*(1+1e-9) || used[0] > g.room[0] || used[1] > g.room[1] {
			r.Fatalf("worth %v of at most %v with %v of %v devices", worth, g.bound, used, g.room)
		}
		total += worth
		bound += g.bound
	})
	t.Logf("%.4f of the bound on average", total/bound)
	if total < 0.93*bound {
		t.Errorf("%.3f of the bound on average", total/bound)
	}
}
