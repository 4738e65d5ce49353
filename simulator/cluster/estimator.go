package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"trainopt/simulator/workload"
)

// estimatorOptions determine the extent of measurements.
type estimatorOptions struct {
	// Profiled is the probability, above 0 and at most 1, with which a new job is measured beside a reference on a
	// device type.
	Profiled float64
	// References is the number of kinds of jobs measured beside each other in advance, drawn at random; 0: all kinds
	// in the table.
	References int
	// Seed of all random draws. Gavel uses the seed of the run plus 4.
	Seed int64
	// Compat reproduces the published code of Gavel: it completes the measurements by matrix factorization and
	// identifies the job with the nearest reference by cosine distance. With fewer references than kinds of jobs it
	// reads measurements from wrong columns. FactorSeed initializes the factorization; Gavel uses the seed of the
	// run.
	Compat     bool
	FactorSeed int64
}

// estimator estimates the throughputs of two co-located training jobs from few measurements: the throughput estimator
// of Gavel (Narayanan et al., OSDI 2020, section 6 "Throughput estimator"). Some kinds of jobs, the references, were
// measured beside each other in advance. A new job is measured beside some of them, drawn at random; its throughput
// beside any other job follows from its similarity to the references. The throughput of a job alone is not estimated.
//
// It is a set of references with a stream of random numbers: results depend on the order of calls of pairProfile.
// It is not safe for concurrent use.
type estimator struct {
	options    estimatorOptions
	devices    []string // sorted
	kinds      []string
	part       []float64 // [kind][device][kind]: throughput of the first beside the second, relative to that alone
	references []int     // kinds, ascending
	known      matrix    // reference × device and reference: relative throughput of references beside each other
	draw       *workload.Python
	start      *normals
}

// pairProfile contains the estimates for a job.
type pairProfile struct {
	likeness []float64 // by reference: weight of the reference in the mixture; the sum is 1
	beside   []float64 // by device and reference: relative throughput of the job
	others   []float64 // by device and reference: relative throughput of the reference
}

// New draws the references. The kinds of jobs and device types are those of the table for single-device jobs, without
// the device types of jobs that span machines.
func newEstimator(table *workload.Throughputs, o estimatorOptions) (*estimator, error) {
	e := &estimator{options: o, draw: workload.NewPython(o.Seed), start: newNormals(o.FactorSeed)}
	for _, d := range table.Devices() {
		if !strings.Contains(d, "unconsolidated") {
			e.devices = append(e.devices, d)
		}
	}
	for _, k := range append(gavelsKinds(), table.Types()...) {
		if !slices.Contains(e.kinds, k) && slices.ContainsFunc(e.devices, func(d string) bool { return table.Alone(d, k, 1) > 0 }) {
			e.kinds = append(e.kinds, k)
		}
	}
	o.References = cmp.Or(o.References, len(e.kinds))
	var errs []error
	if !(o.Profiled > 0 && o.Profiled <= 1) {
		errs = append(errs, fmt.Errorf("a share of %v of the pairs is measured: want above 0 and at most 1", o.Profiled))
	}
	if o.References < 1 || o.References > len(e.kinds) {
		errs = append(errs, fmt.Errorf("%d reference models: want 1 to %d, as many as kinds of jobs in the throughput table", o.References, len(e.kinds)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e.normalise(table)
	e.references = workload.Sample(e.draw, below(len(e.kinds)), o.References)
	slices.Sort(e.references)
	e.known = newMatrix(o.References, len(e.devices)*o.References)
	for i, a := range e.references {
		for d := range e.devices {
			for j, b := range e.references {
				e.known.row(i)[d*o.References+j] = e.true(a, d, b)
			}
		}
	}
	return e, nil
}

// gavelsKinds returns the kinds in the order of Gavel's generator. They come first so that the same references are
// drawn.
func gavelsKinds() []string {
	out := make([]string, len(workload.Templates))
	for i := range out {
		out[i] = workload.Templates[i].Type
	}
	return out
}

// normalise computes the rates of the table relative to those of jobs alone, in compat mode with 32 bits as in the
// original.
func (e *estimator) normalise(table *workload.Throughputs) {
	n := len(e.kinds)
	e.part = make([]float64, n*len(e.devices)*n)
	for i, a := range e.kinds {
		for d, device := range e.devices {
			alone := table.Alone(device, a, 1)
			for j, b := range e.kinds {
				rate, _, ok := table.Beside(device, a, b, 1)
				if !ok || alone <= 0 {
					continue
				}
				part := rate / alone
				if e.options.Compat {
					part = float64(float32(part))
				}
				e.part[(i*len(e.devices)+d)*n+j] = part
			}
		}
	}
}

// true returns the actual relative throughput of a kind beside another.
func (e *estimator) true(kind, device, other int) float64 {
	return e.part[(kind*len(e.devices)+device)*len(e.kinds)+other]
}

// exact reports whether everything is measured, so that estimates are exact up to rounding.
func (e *estimator) exact() bool {
	return e.options.Profiled == 1 && len(e.references) == len(e.kinds)
}

// device returns the number of a device type for relativeRates; false if the table does not contain it.
func (e *estimator) device(name string) (int, bool) { return slices.BinarySearch(e.devices, name) }

// pairProfile measures a new job of a kind beside some references and returns the resulting estimates. It returns an
// error if the table does not contain the kind on one device.
func (e *estimator) profile(kind string) (*pairProfile, error) {
	k := slices.Index(e.kinds, kind)
	if k < 0 {
		return nil, fmt.Errorf("profile a job of kind %q: the throughput table does not have it on one device", kind)
	}
	refs := len(e.references)
	where := make([]bool, len(e.devices)*refs)
	for i := range where {
		where[i] = e.draw.Random() <= e.options.Profiled
	}
	if e.options.Compat {
		return e.matched(k, where), nil
	}
	return e.resembling(k, where), nil
}

// relativeRates returns the estimated throughputs of two co-located jobs relative to those alone; 0, 0 if they are estimated
// not to fit.
func (e *estimator) relativeRates(device int, a, b *pairProfile) (partA, partB float64) {
	return e.beside(device, a, b), e.beside(device, b, a)
}

// beside averages two estimates for a: its throughput beside the references that b resembles, and the throughput
// beside b of the references that a resembles.
func (e *estimator) beside(device int, a, b *pairProfile) float64 {
	from := device * len(e.references)
	direct := dot(b.likeness, a.beside[from:from+len(e.references)])
	mirrored := dot(a.likeness, b.others[from:from+len(e.references)])
	return (direct + mirrored) / 2
}

// below returns the integers from 0 to n − 1.
func below(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
