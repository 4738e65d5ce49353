package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// Quantity names a predicted quantity of a whole run.
type Quantity string

const (
	QuantitySeconds    Quantity = "seconds"
	QuantityCostUSD    Quantity = "cost_usd"
	QuantityThroughput Quantity = "throughput" // samples/s
)

// Quantities lists all quantities in display order.
var Quantities = []Quantity{QuantitySeconds, QuantityCostUSD, QuantityThroughput}

// nominalCoverage is the coverage of the interval P5…P95.
const nominalCoverage = 0.90

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
	// Widen is the factor by which the width was multiplied; 1 if unknown.
	Widen float64
	// IntervalScore is that of Gneiting & Raftery (2007, section 6.2) for the 90 % interval on log scale; smaller is
	// better.
	IntervalScore float64
}

// scorePrediction scores one prediction; ok is false if a value is unknown or not positive, or if the percentiles are not
// ordered.
func scorePrediction(predicted sla.Interval, realised float64) (s Score, ok bool) {
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
		s.IntervalScore += 2 / (1 - nominalCoverage) * (lo - y)
	case y > hi:
		s.Side = 1
		s.IntervalScore += 2 / (1 - nominalCoverage) * (y - hi)
	}
	width := math.Log(predicted.P95 / predicted.P50)
	if s.LogError < 0 {
		width = math.Log(predicted.P50 / predicted.P5)
	}
	s.Z = s.LogError / (max(width, minWidth) / normalQuantile(0.95))
	s.PIT = distuv.UnitNormal.CDF(s.Z)
	return s, true
}

// minWidth is the minimum log distance from P50 to P5 or P95: clocks and prices are not more precise than that.
const minWidth = 1e-3

// normalQuantile returns a quantile of the standard normal distribution.
func normalQuantile(p float64) float64 { return distuv.UnitNormal.Quantile(p) }

// calibrationSummary holds the accuracy of the predictions of one quantity.
type calibrationSummary struct {
	N      int `json:"n"`
	Inside int `json:"inside"`
	Below  int `json:"below"`
	Above  int `json:"above"`
	// Share is Inside/N, Lo and Hi its 95 % interval (Wilson); unknown for N = 0.
	Share journal.Number `json:"share"`
	Lo    journal.Number `json:"lo"`
	Hi    journal.Number `json:"hi"`
	// MedianError is the median of |realised/P50 − 1|, Bias that of realised/P50 − 1, Width that of P95/P5; Interval
	// is the mean interval score. All are unknown for N = 0.
	MedianError journal.Number `json:"median_error"`
	Bias        journal.Number `json:"bias"`
	Width       journal.Number `json:"width"`
	Interval    journal.Number `json:"interval_score"`
}

// summarise aggregates the scores of one quantity.
func summarise(scores []Score) calibrationSummary {
	nan := journal.Unknown()
	s := calibrationSummary{N: len(scores), Share: nan, Lo: nan, Hi: nan, MedianError: nan, Bias: nan, Width: nan, Interval: nan}
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
		s.Interval += journal.Number(x.IntervalScore / float64(s.N))
	}
	lo, hi := stat.Wilson(s.Inside, s.N)
	s.Share, s.Lo, s.Hi = journal.Number(s.Inside)/journal.Number(s.N), journal.Number(lo), journal.Number(hi)
	s.MedianError, s.Bias, s.Width = journal.Number(stat.Median(errs)), journal.Number(stat.Median(biases)), journal.Number(stat.Median(widths))
	return s
}

// FamilyCalibration holds the accuracy of the predictions for one model family.
type FamilyCalibration struct {
	Family string `json:"family"`
	// Runs counts the runs with a prediction. Scored finished their work; Stopped and Failed did not and cannot be
	// scored.
	Runs    int `json:"runs"`
	Scored  int `json:"scored"`
	Stopped int `json:"stopped"`
	Failed  int `json:"failed"`
	// Widen is the factor for the log width of the family's next interval.
	Widen journal.Number `json:"widen"`
	// ByQuantity holds one summary for each quantity.
	ByQuantity map[Quantity]calibrationSummary `json:"of"`
}

// Calibration holds the accuracy of predictions per model family and overall.
type Calibration struct {
	Families []FamilyCalibration // by name
	All      FamilyCalibration   // Family ""
	Scores   []Score             // newest first, then by run and quantity
}

// unknownFamily is the family of entries without a model family.
const unknownFamily = "unknown"

// Calibrate scores the runs of a history that have a prediction. Runs that were stopped or failed are counted but not
// scored, since their work was not completed. Runs whose allocation was changed are scored: the prediction was made
// to the user all the same. Entries of other kinds and runs without a prediction are ignored; the order of entries
// has no effect.
func Calibrate(entries []Entry) *Calibration {
	t := &Calibration{}
	byFamily := map[string]*FamilyCalibration{}
	for i := range entries {
		e := &entries[i]
		if e.Kind != Run || e.Predicted == nil {
			continue
		}
		family := cmp.Or(e.Job.Family, unknownFamily)
		line := byFamily[family]
		if line == nil {
			line = &FamilyCalibration{Family: family}
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
	slices.SortFunc(t.Families, func(a, b FamilyCalibration) int { return cmp.Compare(a.Family, b.Family) })
	t.All.summarise(t.Scores)
	for i := range t.Families {
		t.Families[i].summarise(t.scoresOf(t.Families[i].Family))
	}
	t.setFactors()
	return t
}

// scoresOf scores the quantities of one run that were both predicted and measured.
func scoresOf(e *Entry, family string) []Score {
	var out []Score
	for _, q := range []struct {
		quantity  Quantity
		predicted sla.Interval
		realised  float64
	}{{QuantitySeconds, e.Predicted.Seconds, e.Seconds}, {QuantityCostUSD, e.Predicted.CostUSD, e.CostUSD}, {QuantityThroughput, e.Predicted.Throughput, e.Throughput}} {
		if s, ok := scorePrediction(q.predicted, q.realised); ok {
			s.Run, s.At, s.Family, s.Quantity, s.Widen = e.ID, e.At, family, q.quantity, 1
			if w := e.Predicted.Widen; w > 0 && !math.IsInf(w, 0) {
				s.Widen = w
			}
			out = append(out, s)
		}
	}
	return out
}

func (t *Calibration) scoresOf(family string) []Score {
	var out []Score
	for _, s := range t.Scores {
		if s.Family == family {
			out = append(out, s)
		}
	}
	return out
}

func (l *FamilyCalibration) summarise(scores []Score) {
	l.ByQuantity = map[Quantity]calibrationSummary{}
	for _, q := range Quantities {
		var of []Score
		for _, s := range scores {
			if s.Quantity == q {
				of = append(of, s)
			}
		}
		l.ByQuantity[q] = summarise(of)
	}
}
