package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/resources"
	"trainopt/sla"
)

// configuration contains the variables of a prediction and its results. The host of a GPU machine is not among the
// variables.
type configuration struct {
	GPU   string // model; "" without a GPU
	GPUs  int    // per machine
	Nodes int    // machines
	CPUs  int    // per machine, for jobs without GPUs; otherwise 0
	Batch float64

	Rate       transfer.Estimate // units of the work per second
	Seconds    sla.Interval      // of the whole job, start-up included, without interruptions
	HostPeak   sla.Interval      // GiB; unknown without a measurement
	GPUPeak    sla.Interval      // GiB of the GPU with the highest peak; unknown without a measurement
	Throughput sla.Interval      // samples/s; unknown without a measurement
	cheapest   cost.USD          // per hour, of the machines that offer it
	preferred  bool              // this training was measured on its GPU model
}

const (
	// mostConfigurations limits the configurations that are predicted.
	mostConfigurations = 40
	// mostNodes limits the machines per job.
	mostNodes = 16
)

// query returns the predictor's query for the configuration.
func (c *configuration) query(job history.Job) transfer.Query {
	config := history.Config{GPU: c.GPU, GPUs: float64(c.GPUs * c.Nodes), Nodes: c.Nodes, CPUs: math.NaN(), MemoryGiB: math.NaN(), Batch: c.Batch}
	if c.GPUs == 0 {
		config.CPUs = float64(c.devices())
	}
	return transfer.Query{Job: job, Config: config}
}

// devices returns the number of GPUs, or of CPUs for a job without GPUs, over all machines.
func (c *configuration) devices() int {
	if c.GPUs > 0 {
		return c.GPUs * c.Nodes
	}
	return c.CPUs * c.Nodes
}

// same reports whether two configurations are equal in their hardware.
func (c *configuration) same(d *configuration) bool {
	return c.GPU == d.GPU && c.GPUs == d.GPUs && c.Nodes == d.Nodes && c.CPUs == d.CPUs
}

// place is one use of a machine.
type place struct {
	machine *machine
	config  int // position among the configurations
}

// enumerateConfigurations returns the configurations that the machines offer within the bounds of the question, and the
// machines that offer each. At most mostConfigurations are kept; the notes contain the number of those omitted. Equal
// configurations of different machines are merged, with the lowest of their prices.
func enumerateConfigurations(q *Question, same []history.Entry) (configs []configuration, places []place, notes []string) {
	for i := range q.Machines {
		m := &q.Machines[i]
		for _, c := range q.divisions(m) {
			at := slices.IndexFunc(configs, func(d configuration) bool { return c.same(&d) })
			price := m.hourly(&c, m.cheapest())
			if at < 0 {
				at = len(configs)
				c.Batch, c.cheapest = q.Batch, price
				c.preferred = slices.ContainsFunc(same, func(e history.Entry) bool { return e.Observed.GPU == c.GPU })
				configs = append(configs, c)
			}
			configs[at].cheapest = min(configs[at].cheapest, price)
			places = append(places, place{m, at})
		}
	}
	if len(configs) <= mostConfigurations {
		return configs, places, nil
	}
	keep := prune(configs)
	var kept []configuration
	moved := map[int]int{}
	for i, c := range configs {
		if keep[i] {
			moved[i] = len(kept)
			kept = append(kept, c)
		}
	}
	places = slices.DeleteFunc(places, func(p place) bool { return !keep[p.config] })
	for i := range places {
		places[i].config = moved[places[i].config]
	}
	return kept, places, []string{fmt.Sprintf("%d of %d configurations are weighed: those with the most published computing power, and the most of it for their price (all of one GPU model: --gpu MODEL)",
		len(kept), len(configs))}
}

// prune selects mostConfigurations positions: first those on GPU models with measurements of this training, then
// alternately by computing power per dollar and by computing power.
func prune(configs []configuration) map[int]bool {
	devices := history.Peaks()
	power := func(c configuration) float64 {
		if c.GPUs == 0 {
			return float64(c.CPUs * c.Nodes)
		}
		return devices[c.GPU].TFLOPS * float64(c.GPUs*c.Nodes)
	}
	order := func(worth func(configuration) float64) []int {
		list := make([]int, len(configs))
		for i := range list {
			list[i] = i
		}
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(worth(configs[b]), worth(configs[a])) })
		return list
	}
	lists := [][]int{order(func(c configuration) float64 { return power(c) / float64(c.cheapest) }), order(power)}
	keep := map[int]bool{}
	for i, c := range configs {
		if c.preferred && len(keep) < mostConfigurations {
			keep[i] = true
		}
	}
	for at := range configs {
		for _, list := range lists {
			if len(keep) < mostConfigurations {
				keep[list[at]] = true
			}
		}
	}
	return keep
}

// divisions returns the configurations of a machine, and of several such machines if the question allows more than
// one contains.
func (q *Question) divisions(m *machine) []configuration {
	if q.CPUOnly != (m.Offer.GPUs == 0) && !(q.CPUOnly && m.Divide) {
		return nil
	}
	var out []configuration
	add := func(c configuration) {
		if q.Batch < float64(c.GPUs*c.Nodes) {
			return // less than one sample per GPU
		}
		if within(q.GPUs, c.GPUs*c.Nodes) && (q.CPUOnly || c.GPUs > 0) && within(q.CPUs, q.cpusOf(m, &c)) && !(q.OneGPU && c.GPUs*c.Nodes > 1) {
			out = append(out, c)
		}
	}
	whole := m.Offer.GPUs
	if q.CPUOnly {
		whole = m.Offer.CPUs
	}
	for _, n := range counts(whole, m.Divide) {
		c := configuration{GPU: m.Offer.GPU, GPUs: n, Nodes: 1}
		if q.CPUOnly {
			c = configuration{Nodes: 1, CPUs: n}
		}
		add(c)
	}
	if most := q.GPUs.Max; most > whole && q.severalOf(m) {
		for n := 2; n <= mostNodes && n*whole <= most; n *= 2 {
			add(configuration{GPU: m.Offer.GPU, GPUs: whole, Nodes: n})
		}
	}
	return out
}

// severalOf reports whether several such machines may work on the job: only those with the most GPUs per GPU model of
// a cloud.
func (q *Question) severalOf(m *machine) bool {
	if m.Rates != nil || q.CPUOnly {
		return false
	}
	return !slices.ContainsFunc(q.Machines, func(x machine) bool {
		return x.Offer.Cloud == m.Offer.Cloud && x.Offer.GPU == m.Offer.GPU && x.Offer.GPUs > m.Offer.GPUs
	})
}

// cpusOf returns the number of CPUs that a configuration holds on a machine, its share of them on a divided machine.
func (q *Question) cpusOf(m *machine, c *configuration) int {
	if c.GPUs == 0 {
		return c.CPUs * c.Nodes
	}
	if m.Rates != nil {
		return m.part(c).CPUs
	}
	return m.Offer.CPUs * c.Nodes
}

// counts returns 1, 2, 4 … and n, or only n without divide.
func counts(n int, divide bool) []int {
	if n <= 0 {
		return nil
	}
	var out []int
	for k := 1; divide && k < n; k *= 2 {
		out = append(out, k)
	}
	return append(out, n)
}

// within reports whether n is in the range; the zero Range has no bounds.
func within(r resources.Range, n int) bool { return r == resources.Range{} || r.Min <= n && n <= r.Max }

// cheapest returns the market in which a machine is cheapest.
func (m *machine) cheapest() market {
	if m.Rates != nil {
		return marketOwned
	}
	if m.Offer.Spot > 0 {
		return Spot
	}
	return marketOnDemand
}

// part returns the allocation of a configuration on a local machine: its share of the GPUs (CPUs) and the same share
// of the rest.
func (m *machine) part(c *configuration) resources.Allocation {
	part := float64(c.CPUs) / float64(m.Offer.CPUs)
	if c.GPUs > 0 {
		part = float64(c.GPUs) / float64(m.Offer.GPUs)
	}
	return resources.Allocation{GPUs: c.GPUs, CPUs: max(1, int(part*float64(m.Offer.CPUs))), Memory: resources.GiB(part) * m.Offer.Memory}
}

// hourly returns the hourly price of a configuration on a machine.
func (m *machine) hourly(c *configuration, market market) cost.USD {
	switch market {
	case marketOwned:
		return m.Rates.Hourly(m.part(c))
	case Spot:
		return m.Offer.Spot * cost.USD(c.Nodes)
	}
	return m.Offer.OnDemand * cost.USD(c.Nodes)
}

// predictConfiguration predicts the speed and the time of one configuration; ok is false without a basis. Other
// failures of the predictor are errors. Whole trainings of other models are no basis for the amount of work. Their time
// already includes the start-up.
func predictConfiguration(p Predictor, job history.Job, w work, start sla.Interval, c configuration) (configuration, bool, error) {
	rate, err := p.Predict(c.query(job), w.Quantity)
	if err != nil || !known(rate.Value) {
		if err == nil || errors.Is(err, transfer.ErrNoBasis) {
			return c, false, nil
		}
		return c, false, fmt.Errorf("predict %s of %s: %w", w.Quantity, c.words(), err)
	}
	whole := w.Quantity == transfer.Trainings
	if whole && !slices.ContainsFunc(rate.Basis, func(g transfer.BasisGroup) bool { return sameJob(job, g.Job) || sameModel(job, g.Job) }) {
		return c, false, nil
	}
	c.Rate = rate
	c.Seconds = ratio(w.Amount, rate.Value)
	if known(start) && !whole {
		c.Seconds = sum(c.Seconds, start)
	}
	return c, true, nil
}

func sameModel(a, b history.Job) bool { return a.Model != "" && strings.EqualFold(a.Model, b.Model) }

// predictPeaks predicts the memory of a configuration, and its throughput when its speed is in another unit.
func (c *configuration) predictPeaks(p Predictor, job history.Job, w work) {
	q := c.query(job)
	q.Brief = true
	further := func(what transfer.Quantity) sla.Interval {
		if e, err := p.Predict(q, what); err == nil && known(e.Value) {
			return e.Value
		}
		return unknown
	}
	c.HostPeak, c.GPUPeak, c.Throughput = further(transfer.HostMemory), unknown, c.Rate.Value
	if c.GPUs > 0 {
		c.GPUPeak = further(transfer.GPUMemory)
	}
	if w.Quantity != transfer.Throughput {
		c.Throughput = further(transfer.Throughput)
	}
}
