package colocate

import (
	"math"
	"slices"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/internal/stat"
)

// Estimate is a mean with its 90 % interval. Lo and Hi are NaN if the number of measurements allows no interval.
type Estimate struct{ Mean, Lo, Hi float64 }

// Half returns half the width of the interval; NaN without one.
func (e Estimate) Half() float64 { return (e.Hi - e.Lo) / 2 }

// none is the estimate of an absent app.
var none = Estimate{math.NaN(), math.NaN(), math.NaN()}

// estimate returns the mean of independent measurements and its interval by Student's t.
func estimate(v []float64) Estimate {
	if len(v) == 0 {
		return none
	}
	e := Estimate{Mean: stat.Mean(v), Lo: math.NaN(), Hi: math.NaN()}
	if n := float64(len(v)); n > 1 {
		half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.95) * gonum.StdDev(v, nil) / math.Sqrt(n)
		e.Lo, e.Hi = math.Max(0, e.Mean-half), e.Mean+half
	}
	return e
}

// reading is the work of the containers of one app in one window, per container.
type reading struct {
	Ops  float64 // completed operations
	CPU  float64 // CPU-seconds of the program, without its load generator
	Wall float64 // seconds
	// Free is the number of CPUs that the program would have used without foreign programs, Demand that without any
	// other program; both differ from CPU/Wall only by time that it waited for a CPU.
	Free, Demand float64
}

// rate returns the operations per second without foreign programs.
func (r *reading) rate() float64 {
	if r.CPU == 0 {
		return r.Ops / r.Wall
	}
	return r.Ops / r.CPU * r.Free
}

// cycle is one repetition of a duet: quotients of a container in the pattern and alone, by app, NaN for absent apps.
type cycle struct {
	RPS, CPU, Wall values
	Alone          values  // operations per second of a container alone, without foreign programs
	Foreign, Steal float64 // largest shares of the node's CPU time taken by other programs and by the hypervisor
}

// newCycle compares the readings of a pattern with those of the windows alone before and after it.
func newCycle(pattern, before, after []*reading, foreign, steal float64) cycle {
	blank := func() values { return slices.Repeat([]float64{math.NaN()}, len(pattern)) }
	c := cycle{blank(), blank(), blank(), blank(), foreign, steal}
	for a, r := range pattern {
		if r == nil {
			continue
		}
		mean := func(by func(*reading) float64) float64 { return (by(before[a]) + by(after[a])) / 2 }
		cpu := func(r *reading) float64 { return r.Ops / r.CPU }
		wall := func(r *reading) float64 { return r.Ops / r.Wall }
		c.Alone[a] = mean((*reading).rate)
		c.RPS[a], c.Wall[a] = r.rate()/c.Alone[a], wall(r)/mean(wall)
		if c.CPU[a] = cpu(r) / mean(cpu); math.IsInf(c.CPU[a], 0) || r.Ops == 0 {
			c.CPU[a] = math.NaN()
		}
	}
	return c
}

// Row is the result of measuring a pattern.
type Row struct {
	Counts         []uint8
	RPS, CPU, Wall []Estimate // by app, relative to alone
	Alone          []float64  // operations per second of a container alone, without foreign programs; NaN for absent apps
	Cycles         int        // repetitions; 0: by definition (a single container)
	Foreign, Steal float64    // medians of those of the cycles
	// Wide is set if an interval of RPS exceeds the wanted precision, Disturbed if other programs took more of the node
	// than was permitted.
	Wide, Disturbed bool
}

// Limits are the conditions on a measurement.
type Limits struct {
	Precision float64 // half the width of the interval of RPS, relative to the mean; 0: 0.05
	Foreign   float64 // share of the node's CPU time that others may take; 0: 0.5
}

func (l Limits) withDefaults() Limits {
	if l.Precision == 0 {
		l.Precision = 0.05
	}
	if l.Foreign == 0 {
		l.Foreign = 0.5
	}
	return l
}

// leastCycles is the number of cycles below which no interval is trusted.
const leastCycles = 3

// newRow summarises cycles. Those disturbed by others are left out if at least leastCycles remain.
func newRow(counts []uint8, cycles []cycle, l Limits) Row {
	clean := slices.DeleteFunc(slices.Clone(cycles), func(c cycle) bool { return c.Foreign+c.Steal > l.Foreign })
	r := Row{Counts: counts, Disturbed: len(clean) < leastCycles && len(clean) < len(cycles)}
	if r.Disturbed {
		clean = cycles
	}
	r.Cycles, r.Wide = len(clean), len(clean) < leastCycles
	column := func(by func(cycle) float64) []float64 {
		var v []float64
		for _, c := range clean {
			if x := by(c); !math.IsNaN(x) {
				v = append(v, x)
			}
		}
		return v
	}
	for a := range counts {
		rps := estimate(column(func(c cycle) float64 { return c.RPS[a] }))
		r.RPS = append(r.RPS, rps)
		r.CPU = append(r.CPU, estimate(column(func(c cycle) float64 { return c.CPU[a] })))
		r.Wall = append(r.Wall, estimate(column(func(c cycle) float64 { return c.Wall[a] })))
		r.Alone = append(r.Alone, stat.Median(column(func(c cycle) float64 { return c.Alone[a] })))
		r.Wide = r.Wide || counts[a] > 0 && !(rps.Half() <= l.Precision*rps.Mean)
	}
	r.Foreign = stat.Median(column(func(c cycle) float64 { return c.Foreign }))
	r.Steal = stat.Median(column(func(c cycle) float64 { return c.Steal }))
	return r
}

// singleRow is the row of one container alone.
func singleRow(apps, app int) Row {
	r := Row{Counts: make([]uint8, apps), Foreign: math.NaN(), Steal: math.NaN()}
	r.Counts[app] = 1
	for a := range apps {
		e := none
		if a == app {
			e.Mean = 1
		}
		r.RPS, r.CPU, r.Wall, r.Alone = append(r.RPS, e), append(r.CPU, e), append(r.Wall, e), append(r.Alone, math.NaN())
	}
	return r
}

// sizeOf returns the number of containers of a pattern.
func sizeOf(counts []uint8) int {
	n := 0
	for _, k := range counts {
		n += int(k)
	}
	return n
}
