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

// fitKind reports whether a machine satisfies the requirements of the job.
type fitKind string

const (
	fits       fitKind = "fits"
	doesNotFit fitKind = "does not fit"
	notChecked fitKind = "not checked" // requirements unknown
)

// option is a configuration on one machine in one market.
type option struct {
	Config  int // position in answer.Configurations
	Machine string
	Offer   cost.Offer
	Market  market
	Hourly  cost.USD // of all machines of the configuration
	Seconds sla.Interval
	CostUSD sla.Interval
	// PaidHours are the hours billed: Seconds, except that spot capacity costs nothing while it is unavailable.
	PaidHours sla.Interval
	// Interruption is the part of CostUSD.P50 due to expected spot interruptions.
	Interruption cost.USD
	// Resource is the share of the largest number of GPUs that any option holds (CPUs, for jobs without), 0…1. The
	// host of a GPU machine is part of its price.
	Resource float64
	Fit      fitKind
	Lacks    string // unmet or unchecked requirement
	// Chance is the probability that both the deadline and the budget are met. Both depend on the duration of the
	// work, so it is the smaller of the two probabilities.
	Chance   float64
	Feasible bool // no unmet requirement, and Chance is at least 95 %
	OnFront  bool
	Chosen   bool
}

// margin is added to the median of a predicted peak; its P95 must fit in any case.
const margin = 0.15

// need returns the requirements for an offer: the minimum of any machine, and for each predicted peak the larger of
// its P95 and its median with a margin. A GPU job runs on the CPUs of the GPU machine, of any architecture.
func need(c *configuration, least cost.Need) cost.Need {
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

// checkFit reports whether a machine satisfies the requirements of a configuration.
func checkFit(c *configuration, o cost.Offer, least cost.Need) (fitKind, string) {
	n := need(c, least)
	if o.GPUMemory <= 0 {
		n.GPUMemoryGiB = math.NaN() // unknown for a local machine whose driver does not report it
	}
	if ok, lacks := n.Fits(o); !ok {
		return doesNotFit, lacks
	}
	n.CPUs = 0 // if unknown, they are assumed to suffice
	if unchecked := n.Unchecked(); len(unchecked) > 0 {
		return notChecked, strings.Join(unchecked, ", ") + " not known: fit not checked"
	}
	return fits, ""
}

// endless is the maximum ratio of an option's time to its undisturbed time (P95 of both); beyond it, the option
// practically never finishes.
const endless = 1000

// price returns the option of a configuration on a machine in a market; false without a price or for an option that
// practically never finishes.
func price(c *configuration, at int, m *machine, market market, spot cost.Interruptions, least cost.Need) (option, bool) {
	o := option{Config: at, Machine: m.name(), Offer: m.Offer, Market: market, Hourly: m.hourly(c, market)}
	offer := m.Offer
	offer.OnDemand, offer.Spot, offer.UseSpot = o.Hourly, 0, false
	if market == Spot {
		offer.Spot, offer.UseSpot = o.Hourly, true
		spot.PerHour, spot.PerHourLow, spot.PerHourHigh = nodes(c, spot.PerHour), nodes(c, spot.PerHourLow), nodes(c, spot.PerHourHigh)
	}
	hours := scaled(c.Seconds, 1./3600)
	quote, ok := offer.Quote(cost.Spread(hours), spot)
	if !ok {
		return o, false
	}
	o.Seconds, o.PaidHours, o.CostUSD, o.Interruption = scaled(sla.Interval(quote.Wall), 3600), sla.Interval(quote.Paid), sla.Interval(quote.Cost), quote.Interruption
	o.Fit, o.Lacks = checkFit(c, m.Offer, least)
	return o, known(o.Seconds) && known(o.CostUSD) && o.Seconds.P95 <= endless*c.Seconds.P95
}

// name returns the name of the offer or of the local machine.
func (m *machine) name() string {
	if m.Offer.Cloud == "" {
		return m.Offer.Type
	}
	return m.Offer.Name()
}

// nodes returns the interruption rate of all machines of a configuration; an interruption of any one stops the job.
func nodes(c *configuration, perHour float64) float64 { return perHour * float64(c.Nodes) }

// among reports whether an option can be chosen in a market: it fits, and is offered there or on a local machine.
func (o *option) among(market market) bool {
	return o.Fit != doesNotFit && (o.Market == market || o.Market == marketOwned)
}

// tie is the relative difference above which an option counts as cheaper or faster than another.
const tie = 0.01

// selection marks the front of the options in a market (and on local machines) and returns the position of the one
// that the preference selects. When no option is feasible, it returns the one most likely to meet the limits, and −1
// when none fits.
func selection(options []option, market market, l limits, preference plan.Preference) int {
	var feasible, fitting []int
	for i := range options {
		o := &options[i]
		o.Chance = min(chance(o.Seconds, l.seconds), chance(o.CostUSD, l.usd))
		o.Feasible = o.Fit != doesNotFit && o.Chance >= sure-1e-12
		o.OnFront, o.Chosen = false, false
		if !o.among(market) {
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

// likeliest returns the option most likely to meet the limits; among equal chances, to a percent, the one with the
// smallest product of P95 cost and P95 time.
func likeliest(options []option, among []int) int {
	return slices.MaxFunc(among, func(i, j int) int {
		a, b := &options[i], &options[j]
		return cmp.Or(cmp.Compare(math.Round(100*a.Chance), math.Round(100*b.Chance)), cmp.Compare(b.CostUSD.P95*b.Seconds.P95, a.CostUSD.P95*a.Seconds.P95))
	})
}

// cheapest returns the positions of the n cheapest options of a market that fit, with one per configuration and
// cloud. Feasible options come first; ties are ordered by time, resources and name. Spot options with an expected
// cost above the same machine on demand are omitted.
func cheapest(options []option, market market, n int) []int {
	var list []int
	for i := range options {
		if o := &options[i]; o.Market == market && o.Fit != doesNotFit && !(market == Spot && o.CostUSD.P50 >= onDemand(o)) {
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

// onDemand returns the cost of a spot option at the on-demand price, without interruptions, in USD.
func onDemand(o *option) float64 {
	undisturbed := o.CostUSD.P50 - float64(o.Interruption)
	return undisturbed * float64(o.Offer.OnDemand/o.Offer.Spot)
}
