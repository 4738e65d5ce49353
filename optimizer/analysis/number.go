package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

// plain formats a number for machines; an unknown one is empty.
func plain(v float64) string { return page.CSVCell(v, 9) }

func unknown() float64 { return math.NaN() }

// none is an unknown result.
var none = page.Number(math.NaN())

// confidence is the level of every interval of the package.
const confidence = 0.90

// estimated is the geometric mean of positive measurements, one per run, with its 90 % confidence interval: Student's
// t on the logarithms, assuming multiplicative scatter between runs. Lo and Hi are unknown for a single run.
type estimated struct {
	Mean page.Number `json:"mean"`
	Lo   page.Number `json:"lo"`
	Hi   page.Number `json:"hi"`
	Runs int         `json:"runs"`

	logs []float64
}

// estimate returns the estimate of the positive values. The result is bitwise independent of their order.
func estimate(values []float64) estimated {
	e := estimated{Mean: none, Lo: none, Hi: none}
	for _, v := range values {
		if page.Known(v) && v > 0 {
			e.logs = append(e.logs, math.Log(v))
		}
	}
	slices.Sort(e.logs)
	e.Runs = len(e.logs)
	switch e.Runs {
	case 0:
	case 1:
		e.Mean = page.Number(math.Exp(e.logs[0]))
	default:
		mean, sd := gonum.MeanStdDev(e.logs, nil)
		n := float64(e.Runs)
		half := quantile(n-1) * sd / math.Sqrt(n)
		e.Mean, e.Lo, e.Hi = page.Number(math.Exp(mean)), page.Number(math.Exp(mean-half)), page.Number(math.Exp(mean+half))
	}
	return e
}

// over returns the ratio of two estimates with its 90 % interval, by Welch's t on the logarithms. The interval is
// unknown unless both consist of several runs.
func (e estimated) over(of estimated) estimated {
	r := estimated{Mean: e.Mean / of.Mean, Lo: none, Hi: none, Runs: min(e.Runs, of.Runs)}
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
	r.Lo, r.Hi = page.Number(math.Exp(mid-half)), page.Number(math.Exp(mid+half))
	return r
}

// times returns the estimate scaled by a constant.
func (e estimated) times(f float64) estimated {
	return estimated{Mean: e.Mean * page.Number(f), Lo: e.Lo * page.Number(f), Hi: e.Hi * page.Number(f), Runs: e.Runs}
}

// quantile returns the quantile of Student's t for a two-sided interval.
func quantile(freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1 - (1-confidence)/2)
}

// valueSummary describes measurements, at most one per run.
type valueSummary struct {
	Median page.Number `json:"median"`
	Min    page.Number `json:"min"`
	Max    page.Number `json:"max"`
	Runs   int         `json:"runs"` // with a known value
}

func summarize(values []float64) valueSummary {
	values = knownOf(values)
	s := valueSummary{Median: page.Number(stat.Median(values)), Min: none, Max: none, Runs: len(values)}
	if len(values) > 0 {
		s.Min, s.Max = page.Number(values[0]), page.Number(values[len(values)-1])
	}
	return s
}

// knownOf returns the known values, sorted.
func knownOf(values []float64) []float64 {
	var out []float64
	for _, v := range values {
		if page.Known(v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// total returns the sum of the known values; unknown without any.
func total(values []float64) page.Number {
	if values = knownOf(values); len(values) == 0 {
		return none
	}
	return page.Number(floats.Sum(values))
}
