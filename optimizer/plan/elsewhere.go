package plan

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Elsewhere is another kind of machine on which the running job could continue, at Current or at the part of it that
// fits there.
type Elsewhere struct {
	Name    string  // for the reason
	Hourly  float64 // USD per hour
	Seconds float64 // per unit of work: measured or, before that, assumed
	Spread  float64 // standard deviation of the logarithm of Seconds
	Wait    float64 // seconds until its place is obtained, during which the job continues here
}

// comparison contains, draw by draw, the outcomes of the whole run here and elsewhere.
type comparison struct {
	b           *evaluation
	sc          scale
	share       float64 // of the limits that the job holds
	here, there []spending
}

// spending is the outcome of a whole run.
type spending struct{ seconds, usd float64 }

// compareElsewhere evaluates a move; its duration is multiplied by weight. The text is the reason why it cannot, if
// something required is unknown.
func compareElsewhere(s Snapshot, e Elsewhere, weight float64) (c comparison, unknown string) {
	cost := s.Restart.P50
	switch {
	case s.Current == nil || s.Model == nil || !(e.Seconds > 0):
		return c, "nothing is measured yet"
	case !s.Resumable:
		return c, s.stays()
	case !(s.Total > s.Done):
		return c, "the remaining work is unknown"
	case cost <= 0 && s.Startup.P50 <= 0:
		return c, "what a restart costs is not measured yet"
	}
	c.b = newEvaluation(s)
	among := where(c.b.cs, feasible)
	if len(among) == 0 {
		among = where(c.b.cs, finite)
	}
	if len(among) == 0 {
		return c, "the rest of the run cannot be predicted"
	}
	c.sc = scaleOf(pointsOf(c.b.cs), frontAmong(c.b.cs, among))
	c.share = c.b.forecast.heldShare(*s.Current)
	units := s.Model.Draws(*s.Current)
	hourly, left := float64(s.Rates.Hourly(*s.Current)), s.Total-s.Done
	for k, u := range units {
		// The draws of two places are independent: quantiles in an order without relation to those of the model.
		z := distuv.UnitNormal.Quantile((float64(k*389%len(units)) + 0.5) / float64(len(units)))
		v := e.Seconds * math.Exp(e.Spread*z)
		here := min(e.Wait, left*u)
		rest := left - here/u
		there := cost*weight + rest*v
		c.here = append(c.here, spending{s.Elapsed.Seconds() + left*u, float64(s.Spent) + left*u/3600*hourly})
		c.there = append(c.there, spending{s.Elapsed.Seconds() + here + there, float64(s.Spent) + (here*hourly+there*e.Hourly)/3600})
	}
	return c, ""
}

// loss returns the regret of an outcome, plus three times the relative excess over its limits, as runLoss does.
func (c *comparison) loss(x spending) float64 {
	s := c.b.forecast.s
	over := excess(x.seconds, lessReserve(s.Spec.TimeMax.Seconds(), s.Reserve.Seconds())) + excess(x.usd, s.Spec.CostMaxUSD)
	return c.sc.regret([3]float64{x.seconds, x.usd, c.share}, c.b.preference) + 3*over
}

// chance returns the share of outcomes that meet both limits.
func (c *comparison) chance(all []spending) float64 {
	s := c.b.forecast.s
	return shareOf(all, func(x spending) bool {
		return excess(x.seconds, lessReserve(s.Spec.TimeMax.Seconds(), s.Reserve.Seconds())) == 0 && excess(x.usd, s.Spec.CostMaxUSD) == 0
	})
}

// tooSlow reports whether a run that may not become slower would.
func (s Snapshot) tooSlow(here, there float64) bool {
	return s.HoldBaseline && there > 1.02*here
}

// WorthMeasuring reports whether a measurement elsewhere, which costs price in USD and no time of the job, is expected
// to improve the run by more than twice its cost: the gain over those of the assumed paces there with which a move would
// pay.
func WorthMeasuring(s Snapshot, e Elsewhere, price float64) bool {
	c, unknown := compareElsewhere(s, e, 1)
	if unknown != "" {
		return false
	}
	value, paid := 0.0, 0.0
	n := float64(len(c.here))
	for k, x := range c.here {
		now := c.loss(x)
		if y := c.there[k]; !s.tooSlow(x.seconds, y.seconds) {
			value += max(0, now-c.loss(y)) / n
		}
		paid += (c.loss(spending{x.seconds, x.usd + price}) - now) / n
	}
	return value > leastGain && value > probeWeight*paid
}

// WorthLeaving reports whether the job should continue elsewhere, by the rule of Worth, with the reason.
func WorthLeaving(s Snapshot, e Elsewhere) (bool, string) {
	c, unknown := compareElsewhere(s, e, 1)
	if unknown != "" {
		return false, unknown
	}
	slow, _ := compareElsewhere(s, e, restartWeight)
	better, mean := 0, 0.0
	var seconds, money []float64
	n := float64(len(c.here))
	for k, x := range c.here {
		y := c.there[k]
		if c.loss(y) < c.loss(x) {
			better++
		}
		mean += (c.loss(x) - c.loss(slow.there[k])) / n
		seconds, money = append(seconds, y.seconds-x.seconds), append(money, y.usd-x.usd)
	}
	here, there := c.chance(c.here), c.chance(c.there)
	slices.Sort(seconds)
	slices.Sort(money)
	words := fmt.Sprintf("%s for the rest, the move included: %s, %s (better with %.0f %% probability)", e.Name,
		change(seconds[len(seconds)/2], duration), change(money[len(money)/2], usd), 100*float64(better)/n)
	switch {
	case here < feasibleProbability && there-here >= chanceGain && (here < likelyChance || mean > 0):
		return true, fmt.Sprintf("the probability of meeting the SLA rises from %.0f %% to %.0f %% at %s", 100*here, 100*there, e.Name)
	case there < min(feasibleProbability, here):
		return false, fmt.Sprintf("the probability of meeting the SLA would be %.0f %%, it is now %.0f %%", 100*there, 100*here)
	case s.tooSlow(0, seconds[len(seconds)/2]):
		return false, "slower: " + words
	case float64(better)/n < minBetterProbability:
		return false, "not sure enough: " + words
	case mean < leastGain:
		return false, "the gain does not pay the restart: " + words
	}
	return true, words
}
