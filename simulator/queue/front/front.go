// Package front compares schedules by several metrics at once: which of many ways to schedule a workload are not beaten in all of
// them, and which one a preference picks. A way is a name and a queue.Summary, whatever simulated it: a combination of order,
// backfilling and placement, or an agent that learned.
//
//	f, err := front.Of(map[string]queue.Summary{"saf+easy+best": a.Summary(), "fcfs+none+high_gflops": b.Summary()})
//	…
//	preference, err := front.ParsePreference("slowdown=2,energy=1")
//	choice, err := f.Choose(preference)
//	fmt.Println(choice.Name)
//
// It runs nothing, and it is not for comparing schedules of different workloads.
package front

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/morl/pareto"
	"trainopt/simulator/queue"
)

// Metric is one of what is compared.
type Metric uint8

const (
	Slowdown    Metric = iota // mean bounded slowdown
	Energy                    // J
	Utilization               // 1 − utilization: the share of the machine that nobody had
	Deadlines                 // the share of the jobs with a deadline that missed it
	metrics
)

var names = [metrics]string{"slowdown", "energy", "utilization", "deadlines"}

// Metrics are the names of the metrics.
func Metrics() []string { return names[:] }

// String is the name.
func (m Metric) String() string {
	if m >= metrics {
		return fmt.Sprintf("metric %d", m)
	}
	return names[m]
}

// Vector has a value for each metric, less is better; NaN is unknown.
type Vector [metrics]float64

// VectorOf is the vector of a summary. Energy is unknown where the machine has none, deadlines where no job has one, and everything
// where no job ended.
func VectorOf(s *queue.Summary) Vector {
	v := Vector{s.BoundedSlowdown.Mean, s.Energy, 1 - s.Utilization, math.NaN()}
	if s.Deadlines > 0 {
		v[Deadlines] = float64(s.DeadlineMisses) / float64(s.Deadlines)
	}
	return v
}

// Point is one way to schedule.
type Point struct {
	Name    string
	Vector  Vector
	OnFront bool // no other is at least as good in all metrics and better in one; of equal ones the first by name
}

// Front are all ways, by name.
type Front struct {
	Points []Point
	// Known are the metrics that are compared: those that are known of at least one point. Points of which one of these is unknown
	// are on no front and never chosen.
	Known [metrics]bool
}

// ErrNothing says that there is nothing to choose from.
var ErrNothing = errors.New("no result of which all metrics are known")

// Of finds the front of results by name. Schedules that left jobs unfinished are an error: what they did not do would count for them.
// O(n log n) for up to three known metrics, else O(n·front).
func Of(results map[string]queue.Summary) (*Front, error) {
	f := &Front{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(results)) {
		s := results[name]
		if s.Unfinished > 0 {
			problems = append(problems, fmt.Errorf("front of schedules: %s left %d of %d jobs unfinished", name, s.Unfinished, s.Jobs))
		}
		p := Point{Name: name, Vector: VectorOf(&s)}
		for m, v := range p.Vector {
			f.Known[m] = f.Known[m] || !math.IsNaN(v)
		}
		f.Points = append(f.Points, p)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if len(f.Points) == 0 || f.Known == [metrics]bool{} {
		return nil, fmt.Errorf("front of schedules: %w", ErrNothing)
	}
	on := pareto.Front(f.vectors())
	if len(on) == 0 {
		return nil, fmt.Errorf("front of schedules: %w", ErrNothing)
	}
	for _, i := range on {
		f.Points[i].OnFront = true
	}
	return f, nil
}

// vectors are the known metrics of all points, more is better.
func (f *Front) vectors() [][]float64 {
	var of [][]float64
	for i := range f.Points {
		var v []float64
		for m, known := range f.Known {
			if known {
				v = append(v, -f.Points[i].Vector[m])
			}
		}
		of = append(of, v)
	}
	return of
}

// Preference has a weight for each metric; they count relative to each other.
type Preference [metrics]float64

// Validate names all weights that are none.
func (p Preference) Validate() error {
	var problems []error
	sum := 0.0
	for m, w := range p {
		if !(w >= 0) || math.IsInf(w, 1) {
			problems = append(problems, fmt.Errorf("preference: weight of %s is %v, want 0 or more", Metric(m), w))
		}
		sum += w
	}
	if len(problems) == 0 && sum == 0 {
		problems = append(problems, errors.New("preference: all weights are 0"))
	}
	return errors.Join(problems...)
}

// String is what ParsePreference reads.
func (p Preference) String() string {
	var of []string
	for m, w := range p {
		if w != 0 {
			of = append(of, names[m]+"="+strconv.FormatFloat(w, 'g', -1, 64))
		}
	}
	return strings.Join(of, ",")
}

// ParsePreference reads "slowdown=2,energy=1": weights by metric, those that are not named are 0.
func ParsePreference(s string) (Preference, error) {
	var p Preference
	var problems []error
	seen := map[string]bool{}
	for _, field := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		m := slices.Index(names[:], name)
		if !ok || m < 0 {
			problems = append(problems, fmt.Errorf("preference %q: %q: want metric=weight, of %s", s, field, strings.Join(names[:], ", ")))
			continue
		}
		w, err := strconv.ParseFloat(value, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("preference %q: weight of %s is %q, want a number", s, name, value))
			continue
		}
		if seen[name] {
			problems = append(problems, fmt.Errorf("preference %q: %s twice", s, name))
		}
		seen[name] = true
		p[m] = w
	}
	if len(problems) > 0 {
		return Preference{}, errors.Join(problems...)
	}
	if err := p.Validate(); err != nil {
		return Preference{}, err
	}
	return p, nil
}

// Choice is the point that a preference picks.
type Choice struct {
	Point
	Utility float64 // 1 is the best there is in all metrics that have weight, 0 the worst
	// Scores of the metrics that are known, 1 at the best of the front and 0 at the worst; NaN for the others.
	Scores Vector
}

// Choose is the point of the front with the largest weighted mean of metrics, each relative to its range on the front, as
// pareto.Select has it. A weight for a metric that is not known is an error.
func (f *Front) Choose(p Preference) (Choice, error) {
	if err := p.Validate(); err != nil {
		return Choice{}, err
	}
	var weights []float64
	for m, known := range f.Known {
		switch {
		case known:
			weights = append(weights, p[m])
		case p[m] > 0:
			return Choice{}, fmt.Errorf("choose a schedule by %s: %s is not known of any", p, Metric(m))
		}
	}
	c, err := pareto.Select(f.vectors(), weights, pareto.Normalisation{})
	if err != nil {
		return Choice{}, fmt.Errorf("choose a schedule by %s: %w", p, err)
	}
	choice := Choice{Point: f.Points[c.Index], Utility: c.Utility}
	k := 0
	for m, known := range f.Known {
		choice.Scores[m] = math.NaN()
		if known {
			choice.Scores[m] = c.Scores[k]
			k++
		}
	}
	return choice, nil
}

// SetDeadlines returns the jobs with deadlines where they have none: factor times the requested time after the submission. Factors
// of 0 or less set none.
func SetDeadlines(jobs []queue.Job, factor float64) []queue.Job {
	jobs = slices.Clone(jobs)
	if !(factor > 0) {
		return jobs
	}
	for i := range jobs {
		if d := jobs[i].Deadline; d == 0 || math.IsNaN(d) {
			jobs[i].Deadline = jobs[i].Submit + factor*jobs[i].Request
		}
	}
	return jobs
}
