package sweep

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/morl/pareto"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// criterion is a metric by which schedules are preferred.
type criterion uint8

const (
	bySlowdown    criterion = iota // mean bounded slowdown
	byEnergy                       // J
	byUtilization                  // 1 − utilization: the unused share of the machine
	ByDeadlines                    // share of the jobs with a deadline that missed it
	criteria
)

var criterionNames = [criteria]string{"slowdown", "energy", "utilization", "deadlines"}

// String returns the name of the criterion.
func (c criterion) String() string {
	if c >= criteria {
		return fmt.Sprintf("metric %d", c)
	}
	return criterionNames[c]
}

// vector holds a value for each criterion; lower is better, NaN means unknown.
type vector [criteria]float64

// vectorOf returns the vector of a summary. Energy is unknown if the machine has none, deadlines if no job has one,
// and all metrics if no job ended.
func vectorOf(s *queue.Summary) vector {
	v := vector{s.BoundedSlowdown.Mean, s.Energy, 1 - s.Utilization, math.NaN()}
	if s.Deadlines > 0 {
		v[ByDeadlines] = float64(s.DeadlineMisses) / float64(s.Deadlines)
	}
	return v
}

// point is one schedule.
type point struct {
	Name    string
	Vector  vector
	OnFront bool // not dominated; of equal points, the first by name
}

// front holds all schedules, by name.
type front struct {
	Points []point
	// Known marks the criteria that are compared: those known for at least one point. A point for which one of them is
	// unknown is never on the front.
	Known [criteria]bool
}

// errNoFront means that no schedule can be selected.
var errNoFront = errors.New("no result of which all metrics are known")

// frontOf determines the Pareto-optimal schedules among results by name. Schedules with unfinished jobs are an error, because incomplete work
// would improve their metrics. O(n log n) for up to three known metrics, else O(n·front).
func frontOf(results map[string]queue.Summary) (*front, error) {
	f := &front{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(results)) {
		s := results[name]
		if s.Unfinished > 0 {
			problems = append(problems, fmt.Errorf("front of schedules: %s left %d of %d jobs unfinished", name, s.Unfinished, s.Jobs))
		}
		p := point{Name: name, Vector: vectorOf(&s)}
		for m, v := range p.Vector {
			f.Known[m] = f.Known[m] || !math.IsNaN(v)
		}
		f.Points = append(f.Points, p)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if len(f.Points) == 0 || f.Known == [criteria]bool{} {
		return nil, fmt.Errorf("front of schedules: %w", errNoFront)
	}
	on := pareto.Front(f.vectors())
	if len(on) == 0 {
		return nil, fmt.Errorf("front of schedules: %w", errNoFront)
	}
	for _, i := range on {
		f.Points[i].OnFront = true
	}
	return f, nil
}

// vectors returns the known values of all points, negated so that higher is better.
func (f *front) vectors() [][]float64 {
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

// Preference holds a weight for each criterion; only their ratios matter.
type Preference [criteria]float64

// Validate returns an error for each weight that is negative or not finite, or if all weights are 0.
func (p Preference) Validate() error {
	var problems []error
	sum := 0.0
	for m, w := range p {
		if !(w >= 0) || math.IsInf(w, 1) {
			problems = append(problems, fmt.Errorf("preference: weight of %s is %v, want 0 or more", criterion(m), w))
		}
		sum += w
	}
	if len(problems) == 0 && sum == 0 {
		problems = append(problems, errors.New("preference: all weights are 0"))
	}
	return errors.Join(problems...)
}

// String returns the form that parsePreference accepts.
func (p Preference) String() string {
	var of []string
	for m, w := range p {
		if w != 0 {
			of = append(of, criterionNames[m]+"="+strconv.FormatFloat(w, 'g', -1, 64))
		}
	}
	return strings.Join(of, ",")
}

// parsePreference parses "slowdown=2,energy=1". Metrics that are not named have weight 0.
func parsePreference(s string) (Preference, error) {
	var p Preference
	var problems []error
	seen := map[string]bool{}
	for _, field := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		m := slices.Index(criterionNames[:], name)
		if !ok || m < 0 {
			problems = append(problems, fmt.Errorf("preference %q: %q: want metric=weight, of %s", s, field, strings.Join(criterionNames[:], ", ")))
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

// Choose returns the point of the front with the largest weighted mean of metrics, each normalised to its range on
// the front, as in pareto.Select. A positive weight for an unknown metric is an error.
func (f *front) Choose(p Preference) (point, error) {
	if err := p.Validate(); err != nil {
		return point{}, err
	}
	var weights []float64
	for m, known := range f.Known {
		switch {
		case known:
			weights = append(weights, p[m])
		case p[m] > 0:
			return point{}, fmt.Errorf("choose a schedule by %s: %s is not known of any", p, criterion(m))
		}
	}
	c, err := pareto.Select(f.vectors(), weights, pareto.Normalisation{})
	if err != nil {
		return point{}, fmt.Errorf("choose a schedule by %s: %w", p, err)
	}
	return f.Points[c.Index], nil
}

// SetDeadlines returns a copy of the jobs in which jobs without a deadline receive one: submission time plus factor
// times requested time. With a factor of 0 or less, none is set.
func SetDeadlines(jobs []order.Job, factor float64) []order.Job {
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
