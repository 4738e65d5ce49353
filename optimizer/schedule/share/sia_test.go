package share

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
)

// drawSiaProgram draws jobs with values λ − (r·G)^p and rates that increase with the number of devices.
func drawSiaProgram(r *rapid.T, jobs, devices int) *siaProgram {
	g := &siaProgram{}
	for range rapid.IntRange(1, 3).Draw(r, "types") {
		g.room = append(g.room, rapid.IntRange(1, devices).Draw(r, "room"))
	}
	for range rapid.IntRange(1, jobs).Draw(r, "jobs") {
		var all []size
		for d, n := range g.room {
			rate := rapid.Float64Range(1, 8).Draw(r, "rate")
			for k := 1; k <= n; k *= 2 {
				all = append(all, size{d, k, rate})
				rate *= rapid.Float64Range(0.8, 2).Draw(r, "for twice as many")
			}
		}
		slices.SortStableFunc(all, func(a, b size) int { return a.GPUs - b.GPUs })
		z := newSiaSizes(all, len(g.room))
		j := siaJob{Most: slices.Clone(g.room), Restarts: rapid.IntRange(0, 3).Draw(r, "restarts")}
		if rapid.Bool().Draw(r, "runs") {
			j.Held, j.Ran = rapid.SampledFrom(all).Draw(r, "held"), true
		}
		sizes, value, before := (&sia{}).options(&j, rapid.Float64Range(0, 3600).Draw(r, "age"), z)
		g.sizes, g.value, g.before = append(g.sizes, sizes), append(g.value, value), append(g.before, before)
	}
	return g
}

// most returns the highest value of all solutions from a job on, by enumeration.
func (g *siaProgram) most(i int, left []int) float64 {
	if i == len(g.sizes) {
		return 0
	}
	best := g.most(i+1, left)
	for k, z := range g.sizes[i] {
		if z.GPUs <= left[z.Device] {
			left[z.Device] -= z.GPUs
			best = max(best, g.value[i][k]+g.most(i+1, left))
			left[z.Device] += z.GPUs
		}
	}
	return best
}

// check returns the value of a solution and fails if it exceeds the devices.
func (g *siaProgram) check(r failer, held []*size) float64 {
	worth, left := 0.0, slices.Clone(g.room)
	for i, z := range held {
		if z == nil {
			continue
		}
		k := slices.IndexFunc(g.sizes[i], func(o size) bool { return o == *z })
		if left[z.Device] -= z.GPUs; k < 0 || left[z.Device] < 0 {
			r.Fatalf("job %d has %+v of %v", i, *z, g.room)
			return 0
		}
		worth += g.value[i][k]
	}
	return worth
}

// Solutions are compared with the optimum for few jobs.
func TestSiaIsNearTheBestChoice(t *testing.T) {
	total, best, worst, exact, runs := 0.0, 0.0, 1.0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		g := drawSiaProgram(r, 6, 8)
		worth, most := g.check(r, g.solve()), g.most(0, slices.Clone(g.room))
		if worth > most*(1+1e-9) || most > g.bound*(1+1e-9) {
			r.Fatalf("worth %v, best %v, bound %v", worth, most, g.bound)
		}
		if most == 0 {
			return
		}
		total, best, runs = total+worth, best+most, runs+1
		worst = min(worst, worth/most)
		if worth > most*(1-1e-9) {
			exact++
		}
	})
	t.Logf("%.5f of the best choices on average, worst %.3f, %d of %d exact", total/best, worst, exact, runs)
	if total < 0.995*best {
		t.Errorf("%.5f of the best choices on average", total/best)
	}
}

// With as many jobs and devices as in the paper, solutions are close to the bound.
func TestSiaIsNearItsBoundAtScale(t *testing.T) {
	total, bound := 0.0, 0.0
	rapid.Check(t, func(r *rapid.T) {
		g := drawSiaProgram(r, 60, 32)
		total += g.check(r, g.solve())
		bound += g.bound
	})
	t.Logf("%.5f of the bound on average", total/bound)
	if total < 0.98*bound {
		t.Errorf("%.5f of the bound on average", total/bound)
	}
}

// Evaluating equal jobs once does not change the result, also where several sizes are equal at the prices of the bound.
func TestSiaLooksAtEqualJobsOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		one := drawSiaProgram(r, 1, 16)
		n := rapid.IntRange(2, 30).Draw(r, "copies")
		a, b := &siaProgram{room: one.room}, &siaProgram{room: one.room, same: make([]int, n)}
		for range n {
			a.sizes, a.value = append(a.sizes, one.sizes[0]), append(a.value, one.value[0])
		}
		b.sizes, b.value = a.sizes, a.value
		wa, wb := a.check(r, a.solve()), b.check(r, b.solve())
		if math.Abs(a.bound-b.bound) > 1e-6*a.bound || math.Abs(wa-wb) > 0.01*a.bound {
			r.Fatalf("%d equal jobs: worth %v of %v, grouped %v of %v", n, wa, a.bound, wb, b.bound)
		}
	})
}

// The restart factor of the paper, and the numbers of devices available to a job.
func TestSiaOptions(t *testing.T) {
	z := newSiaSizes([]size{{0, 1, 1}, {1, 1, 4}, {0, 2, 2}, {1, 2, 9}, {0, 4, 4}, {1, 4, 16}}, 2)
	for name, c := range map[string]struct {
		job  siaJob
		age  float64
		want map[size]float64
	}{
		"new": {siaJob{Most: []int{0, 0}}, 0, map[size]float64{{0, 1, 1}: 0.1, {1, 1, 4}: 0.6}},
		// Twice the number that it ran on; the restart factor elsewhere is (600 − 2·60)/(600 + 60) = 8/11.
		"runs": {siaJob{Most: []int{2, 0}, Held: size{0, 2, 2}, Restarts: 2}, 600, map[size]float64{
			{0, 2, 2}: 1.1 - math.Pow(2, -0.5), {0, 4, 4}: 1.1 - math.Pow(4*8./11, -0.5), {1, 1, 4}: 1.1 - math.Pow(4*8./11, -0.5),
		}},
		"young":           {siaJob{Most: []int{0, 0}, Held: size{0, 1, 1}}, 30, map[size]float64{{0, 1, 1}: 0.1, {1, 1, 4}: 0.6}},
		"restarts alone":  {siaJob{Most: []int{4, 4}, Held: size{0, 1, 1}, Restarts: 9}, 500, map[size]float64{{0, 1, 1}: 0.1}},
		"waits, lost all": {siaJob{Most: []int{1, 0}, Restarts: 9}, 500, map[size]float64{{0, 1, 1}: 0.1, {1, 1, 4}: 0.6, {0, 2, 2}: 1.1 - math.Pow(2, -0.5)}},
	} {
		sizes, value, before := (&sia{explores: true}).options(&c.job, c.age, z)
		got := map[size]float64{}
		for k := range sizes {
			got[sizes[k]] = value[k]
		}
		same := len(got) == len(c.want)
		for k, v := range c.want {
			same = same && math.Abs(got[k]-v) < 1e-9
		}
		if !same || before >= 0 != (c.job.Held.GPUs > 0) || before >= 0 && sizes[before] != c.job.Held {
			t.Errorf("%s: %v, before %d, want %v", name, got, before, c.want)
		}
	}
}

// Continuing after a pause or at another size is a restart; starting, waiting and continuing unchanged are not.
func TestSiaCountsRestarts(t *testing.T) {
	var j siaJob
	one, two := &size{0, 1, 1}, &size{0, 2, 2}
	for at, c := range []struct {
		takes *size
		want  int
	}{{nil, 0}, {one, 0}, {one, 0}, {two, 1}, {nil, 1}, {two, 2}, {two, 2}} {
		if j.take(c.takes, float64(at)); j.Restarts != c.want {
			t.Errorf("%d restarts after step %d, want %d", j.Restarts, at, c.want)
		}
	}
	if j.Since != 5 || j.Held != *two {
		t.Errorf("has %+v since %v", j.Held, j.Since)
	}
}

// Sizes are powers of two within a server and then whole servers.
func TestSiaConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		count, server int
		want          string
	}{
		"T4":             {24, 4, "[1 2 4 8 12 16 20 24]"},
		"A100":           {16, 8, "[1 2 4 8 16]"},
		"servers of six": {12, 6, "[1 2 4 6 12]"},
		"unknown":        {10, 1, "[1 2 4 8 10]"},
	} {
		s := &schedule.Snapshot{
			Devices: []schedule.DeviceType{{Name: "a", Count: c.count, PerServer: c.server}}, Jobs: make([]schedule.JobState, 1),
			SizedRate: func(*schedule.Job, int, int) float64 { return 1 },
		}
		var got []int
		for _, z := range siaConfigurations(s, 0) {
			got = append(got, z.GPUs)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// BenchmarkSiaDecision measures one decision for 64 devices. Sia (SOSP 2023, section 5.6) takes a median of 96 ms
// with GLPK.
func BenchmarkSiaDecision(b *testing.B) {
	g := rapid.Custom(func(r *rapid.T) *siaProgram { return drawSiaProgram(r, 60, 24) }).Example(3)
	b.ReportMetric(float64(len(g.sizes)), "jobs")
	for b.Loop() {
		p := siaProgram{sizes: g.sizes, value: g.value, room: g.room, before: g.before}
		p.solve()
	}
}

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
