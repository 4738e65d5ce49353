// Package estimate guesses how fast two training jobs run when they share a device, from few measurements: Gavel's throughput
// estimator (Narayanan et al., OSDI 2020, section 6 "Throughput estimator"). Some kinds of jobs, the references, were measured beside each
// other before. A new job is measured beside some of them, drawn at random; what it gets done beside any other job follows
// from how it resembles references. It does not guess how fast a job is alone.
//
//	e, err := estimate.New(workload.GavelTable(), estimate.Options{Profiled: 0.2, References: 16, Seed: seed + 4})
//	a, err := e.Profile("ResNet-50 (batch size 64)")
//	b, err := e.Profile("A3C")
//	device, ok := e.Device("v100")
//	partA, partB := e.Beside(device, a, b) // of what each gets done alone
package estimate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/simulator/workload"
)

// Options say how much is measured.
type Options struct {
	// Profiled is the probability, above 0 and at most 1, with which a new job is measured beside a reference on a device type.
	Profiled float64
	// References is how many kinds of jobs were measured beside each other before, drawn at random; 0 is all that the table has.
	References int
	// Seed of all that is drawn. Gavel uses the seed of the run plus 4.
	Seed int64
	// Compat estimates as the published code of Gavel does: it completes what was measured by matrix factorisation and takes the
	// job for the one reference that it resembles most by cosine distance. With less references than kinds of jobs it reads
	// measurements from wrong columns. FactorSeed starts the factorisation; Gavel uses the seed of the run.
	Compat     bool
	FactorSeed int64
}

// Estimator is a set of references, and a stream of random numbers: the order of calls of Profile matters. It is not safe for use
// by several goroutines.
type Estimator struct {
	options    Options
	devices    []string // sorted
	kinds      []string
	part       []float64 // [kind][device][kind]: what the first gets done beside the second, as a part of what it does alone
	references []int     // kinds, ascending
	known      matrix    // reference × device and reference: the part of references beside each other
	draw       *workload.Python
	start      *normals
}

// Profile is what is believed of a job.
type Profile struct {
	likeness []float64 // by reference: how much the job is taken for it; they add up to 1
	beside   []float64 // by device and reference: the part that the job gets done
	others   []float64 // by device and reference: the part that the reference gets done
}

// New draws the references. Kinds of jobs and device types are those of the table on one device, without device types of jobs that
// are spread over machines.
func New(table *workload.Throughputs, o Options) (*Estimator, error) {
	e := &Estimator{options: o, draw: workload.NewPython(o.Seed), start: newNormals(o.FactorSeed)}
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
	if o.References == 0 {
		o.References = len(e.kinds)
	}
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

// gavelsKinds come first, in the order of its generator, so that the same references are drawn as there.
func gavelsKinds() []string {
	out := make([]string, len(workload.Templates))
	for i := range out {
		out[i] = workload.Templates[i].Type
	}
	return out
}

// normalise divides the rates of the table by those of jobs alone. In compat mode they have 32 bits, as in the original.
func (e *Estimator) normalise(table *workload.Throughputs) {
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

func (e *Estimator) true(kind, device, other int) float64 {
	return e.part[(kind*len(e.devices)+device)*len(e.kinds)+other]
}

// Exact says that everything is measured, so that estimates are the truth, to rounding.
func (e *Estimator) Exact() bool {
	return e.options.Profiled == 1 && len(e.references) == len(e.kinds)
}

// Device is the number of a device type for Beside; false when the table does not have it.
func (e *Estimator) Device(name string) (int, bool) { return slices.BinarySearch(e.devices, name) }

// Profile measures a new job of a kind beside some references and says what is believed of it. It fails when the table does not have
// the kind on one device.
func (e *Estimator) Profile(kind string) (*Profile, error) {
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

// Beside is what two jobs get done when they share a device, as parts of what each does there alone. 0, 0 when they are believed
// not to fit.
func (e *Estimator) Beside(device int, a, b *Profile) (partA, partB float64) {
	return e.beside(device, a, b), e.beside(device, b, a)
}

// beside is half what a gets done beside the references that b resembles, and half what the references that a resembles get done
// beside b.
func (e *Estimator) beside(device int, a, b *Profile) float64 {
	from := device * len(e.references)
	direct := dot(b.likeness, a.beside[from:from+len(e.references)])
	mirrored := dot(a.likeness, b.others[from:from+len(e.references)])
	return (direct + mirrored) / 2
}

// clip is a part of what a job does alone.
func clip(part float64) float64 { return math.Min(math.Max(part, 0), 1) }

// below are the numbers from 0 below n.
func below(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
