package rounds

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/solve"
	"trainopt/simulator/workload"
)

// anyPolicies are the policies without a solver.
var anyPolicies = []string{"best_match", "best_match_packed", "srtf_packed", "elasticflow", "fifo_packed", "fifo_perf", "gandiva", "isolated", "sia", "sia_exploring", "srtf", "themis", "tiresias", "cheapest"}

func drawConfig(r *rapid.T) Config {
	c := Config{Policy: rapid.SampledFrom(anyPolicies).Draw(r, "policy"), Total: rapid.IntRange(1, 40).Draw(r, "jobs")}
	for i, name := range []string{"k80", "p100", "v100"} {
		n := rapid.IntRange(0, 9).Draw(r, name)
		if name == "v100" {
			n = max(n, 8)
		}
		c.Devices = append(c.Devices, DeviceType{Name: name, Count: n, PerServer: rapid.SampledFrom([]int{1, 2, 4}).Draw(r, "per server"), USDHour: float64(i + 1), Watts: math.NaN()})
	}
	c.Generate = &workload.Options{
		Seed: rapid.Int64Range(0, 99).Draw(r, "seed"), MultiGPU: rapid.Bool().Draw(r, "multi"), SLOs: rapid.Bool().Draw(r, "SLOs"),
		Lambda: rapid.SampledFrom([]float64{0, 100, 3000}).Draw(r, "lambda"),
	}
	c.WholeRounds = rapid.Bool().Draw(r, "whole rounds")
	c.Preemption = Preemption{Seconds: rapid.SampledFrom([]float64{0, 30}).Draw(r, "lost"), Steps: rapid.SampledFrom([]float64{0, 50}).Draw(r, "steps lost")}
	c.MinRecompute = rapid.SampledFrom([]float64{0, 1920}).Draw(r, "between decisions")
	return c
}

func TestImprovedKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { checkBooks(r, drawConfig(r)) })
	// Jobs that move up release devices for which another job waits.
	checkBooks(t, Config{
		Policy: "gandiva", Total: 8, Generate: &workload.Options{Seed: 1, MultiGPU: true},
		Devices: []DeviceType{{Name: "p100", Count: 1, PerServer: 1, USDHour: 1, Watts: math.NaN()}, {Name: "v100", Count: 8, PerServer: 1, USDHour: 2, Watts: math.NaN()}},
	})
}

// failer is implemented by testing.T and rapid.T.
type failer interface {
	Fatalf(format string, args ...any)
}

// checkBooks checks all invariants after every event.
func checkBooks(r failer, c Config) {
	s, err := newSimulation(context.Background(), c.withDefaults())
	if err != nil {
		r.Fatalf("%v", err)
	}
	m := newImproved(s)
	for steps := 0; s.inWindow < s.expected; steps++ {
		before := s.now
		if err := m.step(); err != nil {
			r.Fatalf("%v", err)
		}
		if s.now < before || steps > 100000 {
			r.Fatalf("step %d goes from %v to %v s", steps, before, s.now)
		}
		checkFloor(r, m)
		if s.now < m.tick && s.now == m.roundStart {
			checkIdle(r, m)
		}
	}
	checkWork(r, m)
}

// checkFloor checks that no device and no job is used twice.
func checkFloor(r failer, m *improved) {
	taken := make([]map[int32]bool, len(m.Devices))
	for d := range taken {
		taken[d] = map[int32]bool{}
	}
	seen := map[*job]bool{}
	for _, t := range m.running {
		if len(t.where) != t.gpus {
			r.Fatalf("job %d has %d devices, not %d", t.a.ID, len(t.where), t.gpus)
		}
		for _, g := range t.where {
			if taken[t.device][g] || !m.floor.kinds[t.device].taken[g] {
				r.Fatalf("device %d of type %d is used twice, or thought free", g, t.device)
			}
			taken[t.device][g] = true
		}
		for _, j := range t.jobs() {
			if seen[j] || j.gone {
				r.Fatalf("job %d runs twice, or has ended", j.ID)
			}
			seen[j] = true
		}
	}
	for d, k := range m.floor.kinds {
		idle := 0
		for _, n := range k.idle {
			idle += n
		}
		if len(taken[d])+idle != len(k.taken) {
			r.Fatalf("%d of %d devices of type %d run and %d are idle", len(taken[d]), len(k.taken), d, idle)
		}
	}
}

// checkIdle checks that no device is idle that a waiting job could use, unless the policy permits it.
func checkIdle(r failer, m *improved) {
	if m.traits.OnlyShares {
		return
	}
	for _, j := range m.active {
		if j.gone || slices.ContainsFunc(m.running, func(t *tenant) bool { return t.a == j || t.b == j }) {
			continue
		}
		for d, n := range m.left {
			if n >= j.GPUs && j.kind.rate[d] > 0 {
				r.Fatalf("at %v s job %d waits, and %d devices of type %s are idle", m.now, j.ID, n, m.Devices[d].Name)
			}
		}
	}
}

// checkWork checks that no job ended sooner than the fastest devices allow, and that all use was charged.
func checkWork(r failer, m *improved) {
	usd := 0.0
	g, err := workload.NewGenerator(*m.Generate, m.Throughputs)
	if err != nil {
		r.Fatalf("%v", err)
	}
	least := map[int]float64{}
	for _, j := range g.Take(m.Total) {
		least[j.ID] = j.Steps / slices.Max(m.rates.kind(&j).rate)
	}
	for i := range m.ended {
		e := &m.ended[i]
		if m.sized == nil && float64(e.JCTS) < least[e.ID]*(1-1e-9) {
			r.Fatalf("job %d takes %v s, and at best %v s", e.ID, e.JCTS, least[e.ID])
		}
		usd += float64(e.CostUSD)
	}
	all := 0.0
	for d, used := range m.used {
		if capacity := m.now * float64(m.Devices[d].Count); used > capacity*(1+1e-9) {
			r.Fatalf("type %d was used for %v of %v device-seconds", d, used, capacity)
		}
		all += used / 3600 * m.Devices[d].USDHour
	}
	if len(m.ended) == m.arrived && math.Abs(all-usd) > 1e-6*all {
		r.Fatalf("devices cost %v USD, and jobs paid %v", all, usd)
	}
}

// With jobs of one size the assignment is nearly always optimal; its value is compared with the optimum.
func TestAssignerIsNearTheOptimum(t *testing.T) {
	worst, exact, n, gotAll, bestAll := 1.0, 0, 0, 0.0, 0.0
	rapid.Check(t, func(r *rapid.T) {
		s := &Snapshot{Devices: []DeviceType{{Count: rapid.IntRange(1, 5).Draw(r, "a")}, {Count: rapid.IntRange(1, 5).Draw(r, "b")}, {Count: rapid.IntRange(1, 5).Draw(r, "c")}}}
		jobs := rapid.IntRange(1, 20).Draw(r, "jobs")
		for range jobs {
			s.Jobs = append(s.Jobs, JobState{Job: &workload.Job{GPUs: 1}})
		}
		a := newAssigner(s)
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
func optimum(s *Snapshot, a *assigner) float64 {
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
					sizes = append(sizes, size{device: d, gpus: n})
					value = append(value, rapid.Float64Range(0.1, 1.1).Draw(r, "value"))
				}
			}
			g.sizes, g.value = append(g.sizes, sizes), append(g.value, value)
		}
		worth, used := 0.0, make([]int, 2)
		for i, z := range g.solve() {
			if z != nil {
				worth += g.value[i][slices.Index(g.sizes[i], *z)]
				used[z.device] += z.gpus
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
