package plan

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// scene is a job with a known pace, measured at the given allocations, on a machine with given limits. It is the
// harness of all planner tests.
type scene struct {
	pace     func(a resources.Allocation) float64 // seconds per unit
	measured []resources.Allocation
	Snapshot
}

func cpu(n int) resources.Allocation { return resources.Allocation{CPUs: n, Memory: 8} }

func gpu(g, c int) resources.Allocation { return resources.Allocation{GPUs: g, CPUs: c, Memory: 8} }

func amdahl(serial, parallel float64) func(resources.Allocation) float64 {
	return func(a resources.Allocation) float64 { return serial + parallel/float64(a.CPUs) }
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }

// cpuScene is a CPU job of 100 units on 16 CPUs: 10 s per unit on one CPU, 1.2 s on 16, at $0.05 per CPU-hour.
func cpuScene() scene {
	return scene{
		pace: amdahl(0.6, 9.4), measured: []resources.Allocation{cpu(16), cpu(1), cpu(4)},
		Snapshot: Snapshot{
			Limits: resources.Limits{CPUs: resources.Range{Min: 1, Max: 16}, MemoryMin: 1, MemoryMax: 16},
			Rates:  cost.Rates{CPUHour: 0.05, GiBHour: 0.005}, Total: 100, Baseline: cpu(16), Memory: 4, Resumable: true,
			GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN(),
		},
	}
}

// gpuScene is a GPU job of 50 units on up to 8 GPUs: 60 s per unit on one GPU.
func gpuScene() scene {
	s := scene{
		pace: func(a resources.Allocation) float64 {
			return 60 * (1 + 0.06*float64(a.GPUs-1)) / float64(a.GPUs)
		},
		measured: []resources.Allocation{gpu(8, 32), gpu(1, 32), gpu(8, 8), gpu(4, 32)},
		Snapshot: Snapshot{
			Limits: resources.Limits{GPUs: resources.Range{Min: 1, Max: 8}, CPUs: resources.Range{Min: 4, Max: 32}, MemoryMax: 128},
			Rates:  cost.Rates{GPUHour: 3, CPUHour: 0.04, GiBHour: 0.005}, Total: 50, Baseline: gpu(8, 32), Memory: 32, Resumable: true,
			GPUUtil: 85, CPUUtil: math.NaN(), Throughput: math.NaN(),
		},
	}
	return s
}

func (s scene) snapshot(t testing.TB) Snapshot {
	t.Helper()
	out := s.Snapshot
	if len(s.measured) == 0 {
		return out
	}
	var obs []perf.Observation
	for _, a := range s.measured {
		u := s.pace(a)
		obs = append(obs, perf.Observation{Allocation: a, UnitSeconds: []float64{1.01 * u, 0.99 * u, u, u}, UnitSamples: 1000})
	}
	m, err := perf.Fit(obs, perf.FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out.Model = m
	return out
}

func (s scene) prefer(text string) scene {
	p, err := ParsePreference(text)
	if err != nil {
		panic(err)
	}
	s.Preference = p
	return s
}

func (s scene) agreed(spec sla.Spec) scene {
	s.Spec = spec
	return s
}

func (s scene) running(at resources.Allocation, done float64, elapsed time.Duration, spent cost.USD, restart float64) scene {
	s.Current, s.Done, s.Elapsed, s.Spent = &at, done, elapsed, spent
	s.Restart = sla.Interval{P5: 0.8 * restart, P50: restart, P95: 1.5 * restart}
	s.Startup = s.Restart
	return s
}

// transcript renders a decision for the golden file.
func transcript(name string, s Snapshot, planner Planner) string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s, %s, prefer %s\n", name, planner.Name(), s.Preference)
	p, err := planner.Decide(s)
	var no *Infeasible
	if errors.As(err, &no) {
		fmt.Fprintf(&b, "infeasible: %s\n", no.Why)
		p = no.Plan
	} else if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
		return b.String()
	}
	fmt.Fprintf(&b, "choice:  %s\nreason:  %s\nbinding: %s\n", p.Allocation, p.Reason, p.Binding)
	for _, o := range p.Options {
		c := o.Candidate
		fmt.Fprintf(&b, "  %-9s %-35s %9s %8s %5.2f  time %s cost %s resource %s\n", o.Prefer, c.Allocation,
			duration(c.Seconds.P50), usd(c.CostUSD.P50), c.Resource, signed(o.SecondsPct), signed(o.CostPct), signed(o.ResourcePct))
	}
	if s.Current != nil {
		worth, why := Worth(s, p)
		fmt.Fprintf(&b, "worth:   %v, %s\n", worth, why)
	}
	return b.String()
}

func signed(p *float64) string {
	if p == nil {
		return "?"
	}
	return fmt.Sprintf("%+.0f%%", *p)
}
