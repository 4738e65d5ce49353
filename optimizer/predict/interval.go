package predict

import (
	"math"

	"trainopt/sla"
)

// An interval represents a log-normal distribution with two different halves: P50 is the median, and the standard
// deviation of the logarithm is log(P50/P5)/z95 below it and log(P95/P50)/z95 above it. Products and quotients of
// independent intervals are then exact in the median and add the variances of the halves.

const (
	z95 = 1.6448536269514722 // standard normal quantile of 0.95
	// sure is the probability with which a limit must be met to count as met, as in optimizer/plan.
	sure = 0.95
)

var unknown = sla.Interval{P5: math.NaN(), P50: math.NaN(), P95: math.NaN()}

// known reports whether an interval consists of three positive finite numbers in order.
func known(i sla.Interval) bool {
	return i.P5 > 0 && i.P5 <= i.P50 && i.P50 <= i.P95 && !math.IsInf(i.P95, 0)
}

func exactly(v float64) sla.Interval { return sla.Interval{P5: v, P50: v, P95: v} }

// around returns the interval with the given median and standard deviation of the logarithm.
func around(median, sd float64) sla.Interval {
	f := math.Exp(z95 * sd)
	return sla.Interval{P5: median / f, P50: median, P95: median * f}
}

// spreads returns the standard deviations of the logarithm below and above the median.
func spreads(i sla.Interval) (below, above float64) {
	return math.Log(i.P50/i.P5) / z95, math.Log(i.P95/i.P50) / z95
}

// width returns the relative width of an interval: the mean of the two spreads.
func width(i sla.Interval) float64 {
	below, above := spreads(i)
	return (below + above) / 2
}

func scaled(i sla.Interval, k float64) sla.Interval {
	return sla.Interval{P5: i.P5 * k, P50: i.P50 * k, P95: i.P95 * k}
}

// ratio returns a/b for independent a and b.
func ratio(a, b sla.Interval) sla.Interval {
	aBelow, aAbove := spreads(a)
	bBelow, bAbove := spreads(b)
	median := a.P50 / b.P50
	return sla.Interval{P5: median * math.Exp(-z95*math.Hypot(aBelow, bAbove)), P50: median, P95: median * math.Exp(z95*math.Hypot(aAbove, bBelow))}
}

// sum returns a+b for independent a and b: the medians add, and the distances to the ends add in quadrature.
func sum(a, b sla.Interval) sla.Interval {
	median := a.P50 + b.P50
	return sla.Interval{P5: median - math.Hypot(a.P50-a.P5, b.P50-b.P5), P50: median, P95: median + math.Hypot(a.P95-a.P50, b.P95-b.P50)}
}

// chance returns the probability that a value of the interval is at most limit; 1 when limit is 0 (none). It is at
// least sure exactly when P95 is at most the limit.
func chance(i sla.Interval, limit float64) float64 {
	if limit <= 0 {
		return 1
	}
	below, above := spreads(i)
	sd := above
	if limit < i.P50 {
		sd = below
	}
	distance := math.Log(limit / i.P50)
	switch {
	case limit == i.P95:
		return sure
	case sd > 0:
		return 0.5 * math.Erfc(-distance/sd/math.Sqrt2)
	case distance >= 0:
		return 1
	}
	return 0
}
