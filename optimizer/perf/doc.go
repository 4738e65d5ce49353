// Package perf predicts the performance of one elastic training job: the seconds per unit of work at any allocation,
// fitted to a few measured segments, with calibrated intervals. It also defines the state vector that learning agents
// observe of such a job.
//
// It is not a scheduler and makes no decisions: optimizer/plan does. It reads no clock and no file; the same
// observations and seed give the same bytes on any number of cores.
//
// The statistical model has the same structure for every form of curve. For the mean log seconds per unit y of a
// measured segment of n units at allocation a:
//
//	y = log f(a; θ) + u(a) + v(a) + d + e,   e ~ N(0, σ²/n)
//
// f is the parametric form (amdahl.go, pollux.go). u is a smooth model discrepancy of relative size τ that pulls the
// curve to the measured points (discrepancy.go). v is an offset of a single measured allocation; it is 0 unless the
// measurements there significantly contradict the form, in which case they take precedence (contradicted). d is the
// drift of a segment against the long run, of relative size δ with Student tails. θ, τ and δ have weakly informative
// priors and are fitted jointly: maximum a posteriori, Laplace approximation, importance resampling (posterior.go).
//
// The utilization measured in a segment, if any, enters the likelihood of θ (use.go): the same pace means other things for
// GPUs that wait for their input, for GPUs without work, and for a job that keeps one CPU busy.
//
// Example:
//
//	m, err := perf.Fit([]perf.Observation{
//		{Allocation: resources.Allocation{CPUs: 8}, UnitSeconds: []float64{2.1, 2.0, 2.1}},
//		{Allocation: resources.Allocation{CPUs: 2}, UnitSeconds: []float64{6.9, 7.0}},
//	}, perf.FitOptions{})
//	if err != nil { … }
//	m.UnitSeconds(resources.Allocation{CPUs: 4}) // about {3.5, 3.7, 4.1}
package perf
