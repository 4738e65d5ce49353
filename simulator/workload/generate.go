package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Options configure Gavel's generator of jobs. The zero value of each switch is off.
type Options struct {
	Seed int64
	// Lambda is the mean time between arrivals in seconds; 0 means that all jobs arrive at time 0.
	Lambda float64
	// MultiGPU draws 1, 2, 4 or 8 GPUs for 70, 10, 15 and 5 % of the jobs; otherwise each has one.
	MultiGPU bool
	// MultiPriority gives 20 % of the jobs weight 5.
	MultiPriority bool
	// SLOs gives 33, 34 and 33 % of the jobs a deadline of 1.2, 2 and 10 times Seconds after their arrival.
	SLOs bool
	// Seconds is the duration of every job; 0 draws each.
	Seconds float64
	// Reference is the device type of the durations; "" means v100.
	Reference string
}

// PerHour returns the mean time between arrivals in seconds for a number of jobs per hour, for Options.Lambda.
func PerHour(jobs float64) (lambda float64) { return 3600 / jobs }

// Validate joins all problems.
func (o Options) Validate() error {
	var errs []error
	if !(o.Lambda >= 0) || o.Lambda > maxSeconds {
		errs = append(errs, fmt.Errorf("mean time between arrivals %v s: want a number from 0", o.Lambda))
	}
	if !(o.Seconds >= 0) || o.Seconds > maxSeconds {
		errs = append(errs, fmt.Errorf("duration %v s: want a number from 0", o.Seconds))
	}
	return errors.Join(errs...)
}

// Generator draws an unlimited sequence of jobs, as the simulations of Gavel (OSDI 2020, section 7.1) do. For the same
// seed, durations and steps equal those of Python's random.Random bit by bit; times between arrivals, which are
// logarithms, may differ in the last bit. The streams are seed+2 for jobs, +3 for arrivals, +6 for SLOs.
type Generator struct {
	options             Options
	table               *Throughputs
	jobs, arrivals, slo *Python
	drawn               int
	at                  float64
}

// NewGenerator returns a generator of jobs whose steps follow from their durations by the table.
func NewGenerator(o Options, table *Throughputs) (*Generator, error) {
	o.Reference = cmp.Or(o.Reference, "v100")
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("generate jobs: %w", err)
	}
	counts := []int{1}
	if o.MultiGPU {
		counts = []int{1, 2, 4, 8}
	}
	if err := requireTemplates(table, o.Reference, counts); err != nil {
		return nil, err
	}
	return &Generator{
		options: o, table: table,
		jobs: NewPython(o.Seed + 2), arrivals: NewPython(o.Seed + 3), slo: NewPython(o.Seed + 6),
	}, nil
}

// requireTemplates returns an error that lists the templates without a rate in the table.
func requireTemplates(table *Throughputs, reference string, counts []int) error {
	var jobs []Job
	for _, t := range Templates {
		for _, n := range counts {
			if n == 1 || t.Distributed {
				jobs = append(jobs, Job{Type: t.Type, GPUs: n})
			}
		}
	}
	if err := table.Require(jobs, []string{reference}); err != nil {
		return fmt.Errorf("generate jobs: %w", err)
	}
	return nil
}

// Next returns the next job. Arrivals do not decrease; the first is at 0.
func (g *Generator) Next() Job {
	if g.drawn > 0 && g.options.Lambda > 0 {
		g.at += -math.Log(1-g.arrivals.Random()) / (1 / g.options.Lambda)
	}
	p := g.jobs
	j := Job{ID: g.drawn, Arrival: g.at, Weight: 1, SLO: math.NaN(), Deadline: math.NaN()}
	g.drawn++

	j.GPUs = gpusOf(p.Uniform(0, 1))
	if !g.options.MultiGPU {
		j.GPUs = 1
	}
	if j.Seconds = g.options.Seconds; j.Seconds == 0 {
		j.Seconds = drawSeconds(p)
	}
	t := Choice(p, Templates)
	for j.GPUs > 1 && !t.Distributed {
		t = Choice(p, Templates)
	}
	j.Type = t.Type
	if g.options.MultiPriority && p.Uniform(0, 1) <= 0.2 {
		j.Weight = 5
	}
	if g.options.SLOs {
		j.SLO = sloOf(g.slo.Uniform(0, 1))
		j.Deadline = j.Arrival + float64(j.SLO*j.Seconds)
	}
	j.Steps = j.Seconds * g.table.Alone(g.options.Reference, j.Type, j.GPUs)
	return j
}

// Take returns the next n jobs.
func (g *Generator) Take(n int) []Job {
	out := make([]Job, n)
	for i := range out {
		out[i] = g.Next()
	}
	return out
}

// gpusOf maps a uniform number to 1, 2, 4 or 8 GPUs.
func gpusOf(u float64) int {
	switch {
	case u < 0.7:
		return 1
	case u <= 0.8:
		return 2
	case u <= 0.95:
		return 4
	}
	return 8
}

// drawSeconds is log-uniform in 32 minutes … 17 hours for 80 % of the jobs, and in 17 hours … 7 days for the others.
func drawSeconds(p *Python) float64 {
	exponent := 0.0
	if p.Random() >= 0.8 {
		exponent = p.Uniform(3, 4)
	} else {
		exponent = p.Uniform(1.5, 3)
	}
	return 60 * pow10(exponent)
}

// sloOf maps a uniform number to an SLO.
func sloOf(u float64) float64 {
	switch {
	case u < 0.33:
		return 1.2
	case u < 0.67:
		return 2
	}
	return 10
}
