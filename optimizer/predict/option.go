package predict

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/morl/pareto"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// Fit says whether a machine holds what the job needs.
type Fit string

const (
	Fits    Fit = "fits"
	TooFew  Fit = "does not fit"
	NotSeen Fit = "not checked" // what it needs is not known
)

// Option is one configuration on one machine in one market.
type Option struct {
	Config  int // position in Answer.Configurations
	Machine string
	Offer   cost.Offer
	Market  Market
	Hourly  cost.USD // of all machines of the configuration
	Seconds sla.Interval
	CostUSD sla.Interval
	// PaidHours are hours that are paid for: those of Seconds but on spot capacity, which costs nothing while it is away.
	PaidHours sla.Interval
	// Interruption is the part of CostUSD.P50 that interruptions of spot capacity are expected to cost.
	Interruption cost.USD
	// Resource is the share of the most GPUs that any option holds (CPUs, for jobs without), 0…1. What comes with the GPUs of
	// a machine is in its price.
	Resource float64
	Fit      Fit
	Lacks    string // why it does not fit, or what could not be checked
	// Chance is the probability that the deadline and the budget both hold. Both are functions of how long the work takes, so
	// it is the smaller of the two probabilities.
	Chance   float64
	Feasible bool // it does not lack anything, and Chance is at least 95 %
	OnFront  bool
	Chosen   bool
}

// margin is added to the median of a predicted peak; its P95 must fit anyway.
const margin = 0.15

// need is what the offers must have: the least that any must, the P95 of a predicted peak, and its median with a margin. A job
// on GPUs runs on the CPUs that come with them.
func need(c *Configuration, least cost.Need) cost.Need {
	peak := func(i sla.Interval) float64 {
		if !known(i) {
			return math.NaN()
		}
		return max(i.P95, (1+margin)*i.P50)
	}
	if c.GPUs > 0 {
		least.Arch = ""
	}
	return cost.Need{GPUs: c.GPUs, GPU: c.GPU, GPUMemoryGiB: peak(c.GPUPeak), CPUs: least.CPUs, MemoryGiB: peak(c.HostPeak), Arch: least.Arch, Margin: -1}
}

// checkFit says whether a machine holds what a configuration of the job needs.
func checkFit(c *Configuration, o cost.Offer, least cost.Need) (Fit, string) {
	n := need(c, least)
	if o.GPUMemory <= 0 {
		n.GPUMemoryGiB = math.NaN() // of a machine at hand whose driver does not say
	}
	if ok, lacks := n.Fits(o); !ok {
		return TooFew, lacks
	}
	n.CPUs = 0 // nothing fails for want of CPUs: it is slower
	if unchecked := n.Unchecked(); len(unchecked) > 0 {
		return NotSeen, strings.Join(unchecked, ", ") + " not known: fit not checked"
	}
	return Fits, ""
}

// endless is how many times its undisturbed time (P95 of both) an option may take: what is beyond hardly ever ends.
const endless = 1000

// price makes the option of a configuration on a machine in a market; false when it has no price there or hardly ever ends.
func price(c *Configuration, at int, m *Machine, market Market, spot cost.Interruptions, least cost.Need) (Option, bool) {
	o := Option{Config: at, Machine: m.name(), Offer: m.Offer, Market: market, Hourly: m.hourly(c, market)}
	offer := m.Offer
	offer.OnDemand, offer.Spot, offer.UseSpot = o.Hourly, 0, false
	if market == Spot {
		offer.Spot, offer.UseSpot = o.Hourly, true
		spot.PerHour, spot.PerHourLow, spot.PerHourHigh = nodes(c, spot.PerHour), nodes(c, spot.PerHourLow), nodes(c, spot.PerHourHigh)
	}
	hours := scaled(c.Seconds, 1./3600)
	quote, ok := cost.QuoteOffer(offer, cost.Spread(hours), spot)
	if !ok {
		return o, false
	}
	o.Seconds, o.PaidHours, o.CostUSD, o.Interruption = scaled(sla.Interval(quote.Wall), 3600), sla.Interval(quote.Paid), sla.Interval(quote.Cost), quote.Interruption
	o.Fit, o.Lacks = checkFit(c, m.Offer, least)
	return o, known(o.Seconds) && known(o.CostUSD) && o.Seconds.P95 <= endless*c.Seconds.P95
}

// name is the offer's, or what the machine at hand is called.
func (m *Machine) name() string {
	if m.Offer.Cloud == "" {
		return m.Offer.Type
	}
	return m.Offer.Name()
}

// nodes is a rate of interruptions of all machines of a configuration: any of them stops the job.
func nodes(c *Configuration, perHour float64) float64 { return perHour * float64(c.Nodes) }

// judge sets how likely an option keeps the limits.
func (o *Option) judge(l limits) {
	o.Chance = min(chance(o.Seconds, l.seconds), chance(o.CostUSD, l.usd))
	o.Feasible = o.Fit != TooFew && o.Chance >= sure-1e-12
}

// tie is the relative difference from which on an option counts as cheaper or faster than another.
const tie = 0.01

// selection marks the front of the options of a market (and of machines at hand) and returns the position of the one that
// the preference selects; where none is feasible, of the one that is most likely to keep the limits; −1 when nothing fits.
func selection(options []Option, market Market, l limits, preference plan.Preference) int {
	var feasible, fitting []int
	for i := range options {
		o := &options[i]
		o.judge(l)
		o.OnFront, o.Chosen = false, false
		if o.Fit == TooFew || o.Market != market && o.Market != Owned {
			continue
		}
		fitting = append(fitting, i)
		if o.Feasible {
			feasible = append(feasible, i)
		}
	}
	among := feasible
	if len(among) == 0 {
		among = fitting
	}
	if len(among) == 0 {
		return -1
	}
	points, amounts := make([][]float64, len(among)), make([][3]float64, len(among))
	for k, i := range among {
		o := &options[i]
		amounts[k] = [3]float64{o.Seconds.P50, o.CostUSD.P50, o.Resource}
		points[k] = []float64{-o.Seconds.P50, -o.CostUSD.P50, -o.Resource} // package pareto maximises
	}
	edge := pareto.Front(points)
	for _, k := range edge {
		options[among[k]].OnFront = true
	}
	chosen := among[max(0, plan.Select(amounts, edge, preference))]
	if len(feasible) == 0 {
		chosen = likeliest(options, fitting)
	}
	options[chosen].Chosen = true
	return chosen
}

// likeliest is the option most likely to keep the limits; where hardly any can, the one that misses them by least.
func likeliest(options []Option, among []int) int {
	return slices.MaxFunc(among, func(i, j int) int {
		a, b := &options[i], &options[j]
		return cmp.Or(cmp.Compare(math.Round(100*a.Chance), math.Round(100*b.Chance)), cmp.Compare(b.CostUSD.P95*b.Seconds.P95, a.CostUSD.P95*a.Seconds.P95))
	})
}

// cheapest are the positions of the n cheapest options of a market that fit, of each configuration the cheapest of a cloud,
// those that keep the limits first; then by time, resources and name. Spot capacity that is expected to cost more than the
// same machine on demand is left out.
func cheapest(options []Option, market Market, n int) []int {
	var list []int
	for i := range options {
		if o := &options[i]; o.Market == market && o.Fit != TooFew && !(market == Spot && o.CostUSD.P50 >= onDemand(o)) {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(i, j int) int {
		a, b := &options[i], &options[j]
		if a.Feasible != b.Feasible {
			return map[bool]int{true: -1, false: 1}[a.Feasible]
		}
		return cmp.Or(cmp.Compare(a.CostUSD.P50, b.CostUSD.P50), cmp.Compare(a.Seconds.P50, b.Seconds.P50), cmp.Compare(a.Resource, b.Resource), strings.Compare(a.Machine, b.Machine))
	})
	type kind struct {
		config int
		cloud  string
	}
	seen := map[kind]bool{}
	list = slices.DeleteFunc(list, func(i int) bool {
		k := kind{options[i].Config, options[i].Offer.Cloud}
		double := seen[k]
		seen[k] = true
		return double
	})
	return list[:min(n, len(list))]
}

// onDemand is what an option on spot capacity would cost at the price on demand, uninterrupted, USD.
func onDemand(o *Option) float64 {
	undisturbed := o.CostUSD.P50 - float64(o.Interruption)
	return undisturbed * float64(o.Offer.OnDemand/o.Offer.Spot)
}
