package cluster

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
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
		c.Devices = append(c.Devices, schedule.DeviceType{Name: name, Count: n, PerServer: rapid.SampledFrom([]int{1, 2, 4}).Draw(r, "per server"), USDHour: float64(i + 1), Watts: math.NaN()})
	}
	c.Generate = &workload.Options{
		Seed: rapid.Int64Range(0, 99).Draw(r, "seed"), MultiGPU: rapid.Bool().Draw(r, "multi"), SLOs: rapid.Bool().Draw(r, "SLOs"),
		Lambda: rapid.SampledFrom([]float64{0, 100, 3000}).Draw(r, "lambda"),
	}
	c.WholeRounds = rapid.Bool().Draw(r, "whole rounds")
	c.Preemption = schedule.Preemption{Seconds: rapid.SampledFrom([]float64{0, 30}).Draw(r, "lost"), Steps: rapid.SampledFrom([]float64{0, 50}).Draw(r, "steps lost")}
	c.MinRecompute = rapid.SampledFrom([]float64{0, 1920}).Draw(r, "between decisions")
	return c
}

func TestRoundDriverKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { checkBooks(r, drawConfig(r)) })
	// Jobs that move up release devices for which another job waits.
	checkBooks(t, Config{
		Policy: "gandiva", Total: 8, Generate: &workload.Options{Seed: 1, MultiGPU: true},
		Devices: []schedule.DeviceType{{Name: "p100", Count: 1, PerServer: 1, USDHour: 1, Watts: math.NaN()}, {Name: "v100", Count: 8, PerServer: 1, USDHour: 2, Watts: math.NaN()}},
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
	m := newRoundDriver(s)
	for steps := 0; s.inWindow < s.expected; steps++ {
		before, decisions, leases := s.now, s.decisions, s.lease
		if err := m.step(); err != nil {
			r.Fatalf("%v", err)
		}
		if s.now < before || steps > 1e6 { // sia_exploring decides every minute, and jobs take months
			r.Fatalf("step %d goes from %v to %v s", steps, before, s.now)
		}
		left := checkDevices(r, m)
		if s.decisions > decisions || s.lease != leases {
			checkIdle(r, m, left)
		}
	}
	checkWork(r, m)
}

// checkDevices checks that no device and no job is used twice, and returns the number of idle devices by type.
func checkDevices(r failer, m *roundDriver) (left []int) {
	taken := make([]map[int32]bool, len(m.Devices))
	for d := range taken {
		taken[d] = map[int32]bool{}
		left = append(left, m.Devices[d].Count)
	}
	seen := map[*job]bool{}
	for _, u := range m.engine.Running() {
		if len(u.Where) != u.GPUs {
			r.Fatalf("job %d has %d devices, not %d", u.A.ID, len(u.Where), u.GPUs)
		}
		for _, g := range u.Where {
			if taken[u.Device][g] || int(g) >= m.Devices[u.Device].Count {
				r.Fatalf("device %d of type %d is used twice, or does not exist", g, u.Device)
			}
			taken[u.Device][g] = true
		}
		left[u.Device] -= u.GPUs
		a := m.jobs[u.A.Number]
		if a.stretch.runnable != u {
			r.Fatalf("job %d does not work on its devices", a.ID)
		}
		for _, j := range []*job{a, a.stretch.b} {
			if j != nil && (seen[j] || j.gone) {
				r.Fatalf("job %d runs twice, or has ended", j.ID)
			}
			if held, device := m.heldBy(j); j != nil && (held != u.GPUs || device != u.Device) {
				r.Fatalf("job %d holds %d devices of type %d", j.ID, held, device)
			}
			seen[j] = j != nil
		}
	}
	return left
}

// heldBy returns the number and type of the devices of a job, or of none.
func (m *roundDriver) heldBy(j *job) (held, device int) {
	if j == nil {
		return 0, -1
	}
	return j.round.Held()
}

// checkIdle checks that no device is idle that a waiting job could use, unless the policy permits it.
func checkIdle(r failer, m *roundDriver, left []int) {
	if m.traits.OnlyShares {
		return
	}
	for _, j := range m.active {
		if held, _ := j.round.Held(); j.gone || held > 0 {
			continue
		}
		for d, n := range left {
			if n >= j.GPUs && j.kind.rate[d] > 0 {
				r.Fatalf("at %v s job %d waits, and %d devices of type %s are idle", m.now, j.ID, n, m.Devices[d].Name)
			}
		}
	}
}

// checkWork checks that no job ended sooner than the fastest devices allow, and that all use was charged.
func checkWork(r failer, m *roundDriver) {
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
		if !m.elastic() && float64(e.JCTS) < least[e.ID]*(1-1e-9) {
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

// elastic reports whether the policy chooses the number of devices of each job.
func (m *roundDriver) elastic() bool {
	return m.Policy == "sia" || m.Policy == "sia_exploring" || m.Policy == "elasticflow"
}
