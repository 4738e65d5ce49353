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

// jsonNumber is a value of the report. NaN and infinities are unknown and null in JSON; other values have nine
// significant digits.
type jsonNumber float64

// Known reports whether the value is known.
func (n jsonNumber) Known() bool { return known(float64(n)) }

// MarshalJSON encodes an unknown value as null.
func (n jsonNumber) MarshalJSON() ([]byte, error) { return page.JSONNumber(float64(n), 9) }

// plain formats a number for machines; an unknown one is empty.
func plain(v float64) string { return page.CSVCell(v, 9) }

func known(v float64) bool { return chart.Known(v) }

func unknown() float64 { return math.NaN() }

// confidence is the level of every interval of the package.
const confidence = 0.90

// estimated is the geometric mean of positive measurements, one per run, with its 90 % confidence interval: Student's
// t on the logarithms, assuming multiplicative scatter between runs. Lo and Hi are unknown for a single run.
type estimated struct {
	Mean jsonNumber `json:"mean"`
	Lo   jsonNumber `json:"lo"`
	Hi   jsonNumber `json:"hi"`
	Runs int        `json:"runs"`

	logs []float64
}

// estimate returns the estimate of the positive values. The result is bitwise independent of their order.
func estimate(values []float64) estimated {
	e := estimated{Mean: jsonNumber(unknown()), Lo: jsonNumber(unknown()), Hi: jsonNumber(unknown())}
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
		e.Mean = jsonNumber(math.Exp(e.logs[0]))
	default:
		mean, sd := gonum.MeanStdDev(e.logs, nil)
		n := float64(e.Runs)
		half := quantile(n-1) * sd / math.Sqrt(n)
		e.Mean, e.Lo, e.Hi = jsonNumber(math.Exp(mean)), jsonNumber(math.Exp(mean-half)), jsonNumber(math.Exp(mean+half))
	}
	return e
}

// over returns the ratio of two estimates with its 90 % interval, by Welch's t on the logarithms. The interval is
// unknown unless both consist of several runs.
func (e estimated) over(of estimated) estimated {
	r := estimated{Mean: e.Mean / of.Mean, Lo: jsonNumber(unknown()), Hi: jsonNumber(unknown()), Runs: min(e.Runs, of.Runs)}
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
	r.Lo, r.Hi = jsonNumber(math.Exp(mid-half)), jsonNumber(math.Exp(mid+half))
	return r
}

// times returns the estimate scaled by a constant.
func (e estimated) times(f float64) estimated {
	return estimated{Mean: e.Mean * jsonNumber(f), Lo: e.Lo * jsonNumber(f), Hi: e.Hi * jsonNumber(f), Runs: e.Runs}
}

// quantile returns the quantile of Student's t for a two-sided interval.
func quantile(freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1 - (1-confidence)/2)
}

// valueSummary describes measurements, at most one per run.
type valueSummary struct {
	Median jsonNumber `json:"median"`
	Min    jsonNumber `json:"min"`
	Max    jsonNumber `json:"max"`
	Runs   int        `json:"runs"` // with a known value
}

func summarize(values []float64) valueSummary {
	values = knownOf(values)
	s := valueSummary{Median: jsonNumber(stat.Median(values)), Min: jsonNumber(unknown()), Max: jsonNumber(unknown()), Runs: len(values)}
	if len(values) > 0 {
		s.Min, s.Max = jsonNumber(values[0]), jsonNumber(values[len(values)-1])
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
func total(values []float64) jsonNumber {
	values = knownOf(values)
	if len(values) == 0 {
		return jsonNumber(unknown())
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return jsonNumber(sum)
}
