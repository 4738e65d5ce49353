// Package perf predicts one elastic training job: how many seconds a unit of its work takes at
// any allocation, learned from a few measured stretches, with honest intervals. It also defines the
// state vector that learning agents see of such a job.
//
// It is not a scheduler and takes no decisions: optimizer/plan does. It reads no clock and no file;
// the same observations and seed give the same bytes on any number of cores.
//
// The statistical model, the same for every form of curve, for the mean log seconds per unit y of a
// measured stretch of n units at allocation a:
//
//	y = log f(a; θ) + u(a) + v(a) + d + e,   e ~ N(0, σ²/n)
//
// f is the parametric form (amdahl.go, pollux.go), u a smooth model discrepancy of relative size τ that
// pulls the curve to where points were measured (discrepancy.go), v an offset of a measured allocation alone, which is 0
// unless its measurements contradict the form beyond chance: then they decide (contradicted), d the drift of one stretch against the
// long run, of relative size δ with Student tails. θ, τ and δ have weakly informative priors and are
// fitted together: maximum a posteriori, Laplace approximation, importance resampling (posterior.go).
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
