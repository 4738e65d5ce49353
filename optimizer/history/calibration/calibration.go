package calibration

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/optimizer/history"
	"trainopt/sla"
)

// Quantity names a predicted quantity of a whole run.
type Quantity string

const (
	Seconds    Quantity = "seconds"
	CostUSD    Quantity = "cost_usd"
	Throughput Quantity = "throughput" // samples/s
)

// Quantities lists all quantities in display order.
var Quantities = []Quantity{Seconds, CostUSD, Throughput}

// nominal is the coverage of the interval P5…P95.
const nominal = 0.90

// Score compares one prediction with its outcome.
type Score struct {
	Run       string // id
	At        time.Time
	Family    string // model family; "unknown" if the entry has none
	Quantity  Quantity
	Predicted sla.Interval
	Realised  float64
	// Side is −1 when the outcome was below P5, +1 when above P95, 0 inside.
	Side int
	// LogError is log(realised / P50): positive if the outcome exceeded the median.
	LogError float64
	// Z is LogError in standard deviations of the predictive distribution, a normal distribution on log scale whose
	// two halves have the widths P5…P50 and P50…P95. PIT is its distribution function at the outcome, 0…1; uniform if
	// calibrated.
	Z, PIT float64
	// IntervalScore is that of Gneiting & Raftery (2007, section 6.2) for the 90 % interval on log scale; smaller is
	// better.
	IntervalScore float64
}

// score scores one prediction; ok is false if a value is unknown or not positive, or if the percentiles are not
// ordered.
func score(predicted sla.Interval, realised float64) (s Score, ok bool) {
	for _, v := range []float64{predicted.P5, predicted.P50, predicted.P95, realised} {
		if !(v > 0) || math.IsInf(v, 0) {
			return s, false
		}
	}
	if predicted.P5 > predicted.P50 || predicted.P50 > predicted.P95 {
		return s, false
	}
	s = Score{Predicted: predicted, Realised: realised, LogError: math.Log(realised / predicted.P50)}
	lo, hi := math.Log(predicted.P5), math.Log(predicted.P95)
	s.IntervalScore = hi - lo
	switch y := math.Log(realised); {
	case y < lo:
		s.Side = -1
		s.IntervalScore += 2 / (1 - nominal) * (lo - y)
	case y > hi:
		s.Side = 1
		s.IntervalScore += 2 / (1 - nominal) * (y - hi)
	}
	width := math.Log(predicted.P95 / predicted.P50)
	if s.LogError < 0 {
		width = math.Log(predicted.P50 / predicted.P5)
	}
	s.Z = s.LogError / (max(width, leastWidth) / normal(0.95))
	s.PIT = distuv.UnitNormal.CDF(s.Z)
	return s, true
}

// leastWidth is the minimum log distance from P50 to P5 or P95: clocks and prices are not more precise than that.
const leastWidth = 1e-3

// normal returns a quantile of the standard normal distribution.
func normal(p float64) float64 { return distuv.UnitNormal.Quantile(p) }

// Summary holds the accuracy of the predictions of one quantity.
type Summary struct {
	N, Inside, Below, Above int
	// Share is Inside/N, Lo and Hi its 95 % interval (Wilson); NaN for N = 0.
	Share, Lo, Hi float64
	// MedianError is the median of |realised/P50 − 1|, Bias that of realised/P50 − 1, Width that of P95/P5; Interval
	// is the mean interval score. All are NaN for N = 0.
	MedianError, Bias, Width, Interval float64
}

// summarise aggregates the scores of one quantity.
func summarise(scores []Score) Summary {
	nan := math.NaN()
	s := Summary{N: len(scores), Share: nan, Lo: nan, Hi: nan, MedianError: nan, Bias: nan, Width: nan, Interval: nan}
	if s.N == 0 {
		return s
	}
	var errs, biases, widths []float64
	s.Interval = 0
	for _, x := range scores {
		switch x.Side {
		case -1:
			s.Below++
		case 1:
			s.Above++
		default:
			s.Inside++
		}
		relative := math.Expm1(x.LogError)
		errs, biases = append(errs, math.Abs(relative)), append(biases, relative)
		widths = append(widths, x.Predicted.P95/x.Predicted.P5)
		s.Interval += x.IntervalScore / float64(s.N)
	}
	s.Share = float64(s.Inside) / float64(s.N)
	s.Lo, s.Hi = wilson(s.Inside, s.N)
	s.MedianError, s.Bias, s.Width = median(errs), median(biases), median(widths)
	return s
}

// wilson returns the 95 % score interval of a share (Wilson 1927).
func wilson(k, n int) (lo, hi float64) {
	z, N := normal(0.975), float64(n)
	p := float64(k) / N
	middle := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	lo, hi = middle-half, middle+half
	if k == 0 {
		lo = 0 // exact: the formula leaves a rounding error
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}

// median sorts v and returns its median; v must not be empty.
func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Line holds the accuracy of the predictions for one model family.
type Line struct {
	Family string
	// Runs counts the runs with a prediction. Scored finished their work; Stopped and Failed did not and cannot be
	// scored.
	Runs, Scored, Stopped, Failed int
	// Of holds one Summary for each quantity.
	Of map[Quantity]Summary
	// Widen is the factor for the log width of the family's next interval.
	Widen float64
}

// Table holds the accuracy of predictions per model family and overall.
type Table struct {
	Families []Line  // by name
	All      Line    // Family ""
	Scores   []Score // newest first, then by run and quantity
}

// unknown is the family of entries without a model family.
const unknown = "unknown"

// Of scores the runs of a history that have a prediction. Runs that were stopped or failed are counted but not
// scored, since their work was not completed. Runs whose allocation was changed are scored: the prediction was made
// to the user all the same. Entries of other kinds and runs without a prediction are ignored; the order of entries
// has no effect.
func Of(entries []history.Entry) *Table {
	t := &Table{}
	byFamily := map[string]*Line{}
	for i := range entries {
		e := &entries[i]
		if e.Kind != history.Run || e.Predicted == nil {
			continue
		}
		family := cmp.Or(e.Job.Family, unknown)
		line := byFamily[family]
		if line == nil {
			line = &Line{Family: family}
			byFamily[family] = line
		}
		line.Runs++
		switch e.State {
		case "done":
			if s := scoresOf(e, family); len(s) > 0 {
				line.Scored++
				t.Scores = append(t.Scores, s...)
			}
		case "failed":
			line.Failed++
		default:
			line.Stopped++
		}
	}
	slices.SortFunc(t.Scores, func(a, b Score) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Run, b.Run), cmp.Compare(slices.Index(Quantities, a.Quantity), slices.Index(Quantities, b.Quantity)))
	})
	for _, line := range byFamily {
		t.All.Runs, t.All.Scored = t.All.Runs+line.Runs, t.All.Scored+line.Scored
		t.All.Stopped, t.All.Failed = t.All.Stopped+line.Stopped, t.All.Failed+line.Failed
		t.Families = append(t.Families, *line)
	}
	slices.SortFunc(t.Families, func(a, b Line) int { return cmp.Compare(a.Family, b.Family) })
	t.All.summarise(t.Scores)
	for i := range t.Families {
		t.Families[i].summarise(t.scoresOf(t.Families[i].Family))
	}
	t.scale()
	return t
}

// scoresOf scores the quantities of one run that were both predicted and measured.
func scoresOf(e *history.Entry, family string) []Score {
	var out []Score
	for _, q := range []struct {
		quantity  Quantity
		predicted sla.Interval
		realised  float64
	}{{Seconds, e.Predicted.Seconds, e.Seconds}, {CostUSD, e.Predicted.CostUSD, e.CostUSD}, {Throughput, e.Predicted.Throughput, e.Throughput}} {
		if s, ok := score(q.predicted, q.realised); ok {
			s.Run, s.At, s.Family, s.Quantity = e.ID, e.At, family, q.quantity
			out = append(out, s)
		}
	}
	return out
}

func (t *Table) scoresOf(family string) []Score {
	var out []Score
	for _, s := range t.Scores {
		if s.Family == family {
			out = append(out, s)
		}
	}
	return out
}

func (l *Line) summarise(scores []Score) {
	l.Of = map[Quantity]Summary{}
	for _, q := range Quantities {
		var of []Score
		for _, s := range scores {
			if s.Quantity == q {
				of = append(of, s)
			}
		}
		l.Of[q] = summarise(of)
	}
}
