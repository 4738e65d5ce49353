package analysis

import (
	"math"
	"slices"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/chart"
	"trainopt/optimizer/report/page"
)

// Number is a value of the report. NaN and infinities are unknown and null in JSON; other values have nine
// significant digits.
type Number float64

// Known reports whether the value is known.
func (n Number) Known() bool { return known(float64(n)) }

// MarshalJSON encodes an unknown value as null.
func (n Number) MarshalJSON() ([]byte, error) { return page.JSONNumber(float64(n), 9) }

// plain formats a number for machines; an unknown one is empty.
func plain(v float64) string { return page.CSVCell(v, 9) }

func known(v float64) bool { return chart.Known(v) }

func unknown() float64 { return math.NaN() }

// confidence is the level of every interval of the package.
const confidence = 0.90

// Estimate is the geometric mean of positive measurements, one per run, with its 90 % confidence interval: Student's
// t on the logarithms, assuming multiplicative scatter between runs. Lo and Hi are unknown for a single run.
type Estimate struct {
	Mean Number `json:"mean"`
	Lo   Number `json:"lo"`
	Hi   Number `json:"hi"`
	Runs int    `json:"runs"`

	logs []float64
}

// estimate returns the estimate of the positive values. The result is bitwise independent of their order.
func estimate(values []float64) Estimate {
	e := Estimate{Mean: Number(unknown()), Lo: Number(unknown()), Hi: Number(unknown())}
	for _, v := range values {
		if known(v) && v > 0 {
			e.logs = append(e.logs, math.Log(v))
		}
	}
	slices.Sort(e.logs)
	e.Runs = len(e.logs)
	switch e.Runs {
	case 0:
	case 1:
		e.Mean = Number(math.Exp(e.logs[0]))
	default:
		mean, sd := gonum.MeanStdDev(e.logs, nil)
		n := float64(e.Runs)
		half := quantile(n-1) * sd / math.Sqrt(n)
		e.Mean, e.Lo, e.Hi = Number(math.Exp(mean)), Number(math.Exp(mean-half)), Number(math.Exp(mean+half))
	}
	return e
}

// over returns the ratio of two estimates with its 90 % interval, by Welch's t on the logarithms. The interval is
// unknown unless both consist of several runs.
func (e Estimate) over(of Estimate) Estimate {
	r := Estimate{Mean: e.Mean / of.Mean, Lo: Number(unknown()), Hi: Number(unknown()), Runs: min(e.Runs, of.Runs)}
	if r.Runs < 2 {
		return r
	}
	a, b := gonum.Variance(e.logs, nil)/float64(e.Runs), gonum.Variance(of.logs, nil)/float64(of.Runs)
	half := 0.0
	if a+b > 0 {
		freedom := (a + b) * (a + b) / (a*a/float64(e.Runs-1) + b*b/float64(of.Runs-1))
		half = quantile(freedom) * math.Sqrt(a+b)
	}
	mid := math.Log(float64(r.Mean))
	r.Lo, r.Hi = Number(math.Exp(mid-half)), Number(math.Exp(mid+half))
	return r
}

// times returns the estimate scaled by a constant.
func (e Estimate) times(f float64) Estimate {
	return Estimate{Mean: e.Mean * Number(f), Lo: e.Lo * Number(f), Hi: e.Hi * Number(f), Runs: e.Runs}
}

// quantile returns the quantile of Student's t for a two-sided interval.
func quantile(freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1 - (1-confidence)/2)
}

// Summary describes measurements, at most one per run.
type Summary struct {
	Median Number `json:"median"`
	Min    Number `json:"min"`
	Max    Number `json:"max"`
	Runs   int    `json:"runs"` // with a known value
}

func summarize(values []float64) Summary {
	values = knownOf(values)
	s := Summary{Median: Number(stat.Median(values)), Min: Number(unknown()), Max: Number(unknown()), Runs: len(values)}
	if len(values) > 0 {
		s.Min, s.Max = Number(values[0]), Number(values[len(values)-1])
	}
	return s
}

// knownOf returns the known values, sorted.
func knownOf(values []float64) []float64 {
	var out []float64
	for _, v := range values {
		if known(v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// total returns the sum of the known values; unknown without any.
func total(values []float64) Number {
	values = knownOf(values)
	if len(values) == 0 {
		return Number(unknown())
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return Number(sum)
}
