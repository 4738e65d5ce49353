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

// Quantity is what was predicted of a whole run.
type Quantity string

const (
	Seconds    Quantity = "seconds"
	CostUSD    Quantity = "cost_usd"
	Throughput Quantity = "throughput" // samples/s
)

// Quantities are all of them, in the order in which they are shown.
var Quantities = []Quantity{Seconds, CostUSD, Throughput}

// nominal is the coverage that P5…P95 claim.
const nominal = 0.90

// Score is one prediction and what came.
type Score struct {
	Run       string // id
	At        time.Time
	Family    string // model family; "unknown" where none was known
	Quantity  Quantity
	Predicted sla.Interval
	Realised  float64
	// Side is −1 when the outcome was below P5, +1 when above P95, 0 inside.
	Side int
	// LogError is log(realised / P50): positive when it came to more than was predicted.
	LogError float64
	// Z is LogError in standard deviations of the predictive distribution, a normal on log scale whose two halves have the
	// widths of P5…P50 and P50…P95. PIT is its distribution function at the outcome, 0…1; uniform when calibrated.
	Z, PIT float64
	// IntervalScore is that of Gneiting & Raftery (2007, section 6.2) for the 90 % interval on log scale; small is good.
	IntervalScore float64
}

// score scores one prediction; ok is false when either side is not known.
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

// leastWidth is the least log distance from P50 to P5 or P95 that a prediction is taken to mean: clocks and prices are no
// surer than that.
const leastWidth = 1e-3

func normal(p float64) float64 { return distuv.UnitNormal.Quantile(p) }

// Summary is how the predictions of one quantity held.
type Summary struct {
	N, Inside, Below, Above int
	// Share is Inside/N, Lo and Hi its 95 % interval (Wilson); NaN for N = 0.
	Share, Lo, Hi float64
	// MedianError is the median of |realised/P50 − 1|, Bias of realised/P50 − 1, Width the median of P95/P5; Interval the
	// mean interval score.
	MedianError, Bias, Width, Interval float64
}

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

// wilson is the 95 % score interval of a share (Wilson 1927).
func wilson(k, n int) (lo, hi float64) {
	z, N := normal(0.975), float64(n)
	p := float64(k) / N
	middle := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	lo, hi = middle-half, middle+half
	if k == 0 {
		lo = 0 // exactly: the formula leaves a rounding error
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}

func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Line is how the predictions for one model family held.
type Line struct {
	Family string
	// Runs were predicted: Scored finished their work; Stopped and Failed did not, so that nothing can be said of them.
	Runs, Scored, Stopped, Failed int
	// Of holds one Summary for each quantity.
	Of map[Quantity]Summary
	// Widen is the factor on the log-width of the family's next interval.
	Widen float64
}

// Table is how predictions held, per model family and over all.
type Table struct {
	Families []Line  // by name
	All      Line    // Family ""
	Scores   []Score // the newest first, then by run and quantity
}

// unknown is the family of a model that no family is known of.
const unknown = "unknown"

// Of scores the runs of a history that were predicted. A run that was stopped or failed is counted and not scored: its work
// was not done. One whose allocation was changed on the way is scored: what was foretold for it was foretold to the user.
// Entries of other kinds and runs without a prediction are left out; the order of entries does not matter.
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
