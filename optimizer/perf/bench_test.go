package perf

import (
	"testing"

	"trainopt/resources"
)

// BenchmarkFit measures Fit. It runs inside the supervisor, at most once per few units of work, and must take far
// less than the 50 ms that would delay a tick.
func BenchmarkFit(b *testing.B) {
	for name, c := range map[string]struct {
		job    func() *synthetic
		probes []resources.Allocation
	}{
		"amdahl-3":  {func() *synthetic { return newSynthetic(1, amdahlJob) }, []resources.Allocation{cpus(8), cpus(1), cpus(3)}},
		"amdahl-12": {func() *synthetic { return newSynthetic(1, amdahlJob) }, []resources.Allocation{cpus(8), cpus(1), cpus(3), cpus(2), cpus(4), cpus(5), cpus(6), cpus(7), cpus(9), cpus(10), cpus(12), cpus(16)}},
		"pollux-4":  {func() *synthetic { return newSynthetic(1, polluxJob) }, []resources.Allocation{gpus(8, 8), gpus(1, 8), gpus(8, 2), gpus(4, 8)}},
	} {
		j := c.job()
		var obs []Observation
		for _, a := range c.probes {
			obs = append(obs, j.observe(a, 5))
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Fit(obs, FitOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDraws(b *testing.B) {
	j := newSynthetic(1, polluxJob)
	m, err := Fit([]Observation{j.observe(gpus(8, 8), 5), j.observe(gpus(1, 8), 5)}, FitOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m.predict(m.pointer.at(gpus(4, 8)))
	}
}
