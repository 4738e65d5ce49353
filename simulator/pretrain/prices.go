package pretrain

import (
	"fmt"

	"trainopt/cost"
)

// gpuOffers maps a GPU to the machine that determines its price: the one on which it was measured if the catalogue
// contains it, else the plainest machine with several of these GPUs.
var gpuOffers = map[string]string{
	"T4":        "aws:g4dn.12xlarge", // machine of the Pollux tables
	"V100 16GB": "aws:p3.16xlarge",
	"V100 32GB": "aws:p3dn.24xlarge",
	"P100":      "gcp:n1-highmem-32-p100x4",
	"K80":       "aws:p2.8xlarge",
	"A100 40GB": "aws:p4d.24xlarge",
}

// gpuStandIns maps GPUs that no cloud of the catalogue rents to a GPU of the same generation (Turing) and class of
// machine, whose price is used instead. Rates.Assumed states the substitution.
var gpuStandIns = map[string]string{
	"RTX 6000":    "T4",
	"RTX 2080 Ti": "T4",
}

// gpuRates returns the rates of one GPU per hour: the price of a whole machine divided by its GPUs, host included, so
// that CPUs and memory are free. With spot it returns the spot price; ok is false if the catalogue has none. The error
// wraps cost.ErrNoOffer for an unknown GPU.
func gpuRates(gpu string, spot bool) (rates cost.Rates, ok bool, err error) {
	assumed := ""
	if other := gpuStandIns[gpu]; other != "" {
		assumed = fmt.Sprintf("no price is known for GPU %q: it is priced as a %s", gpu, other)
		gpu = other
	}
	name, known := gpuOffers[gpu]
	if !known {
		return rates, false, fmt.Errorf("price a GPU %q: it is in no table: %w", gpu, cost.ErrNoOffer)
	}
	o, err := cost.Lookup(name)
	if err != nil {
		return rates, false, fmt.Errorf("price a GPU %q: %w", gpu, err)
	}
	rates = cost.Rates{GPUHour: o.OnDemand / cost.USD(o.GPUs), Source: o.Source + ", " + o.Name() + " / its GPUs", Dated: o.Dated, Assumed: assumed}
	if spot {
		if o.Spot <= 0 {
			return cost.Rates{}, false, nil
		}
		rates.GPUHour, rates.Dated = o.Spot/cost.USD(o.GPUs), o.SpotDated
		rates.Source += ", spot"
	}
	return rates, true, nil
}

// unitPrices returns the rates of machines whose CPUs are chosen too: the unit rates of package cost. With spot, all
// of them are reduced by the same factor as the price of the machine of gpuRates; false if it has no spot price.
func unitPrices(gpu string, spot bool) (cost.Rates, bool) {
	r := cost.Default(gpu)
	if !spot {
		return r, true
	}
	on, _, err := gpuRates(gpu, false)
	off, ok, err2 := gpuRates(gpu, true)
	if err != nil || err2 != nil || !ok {
		return r, false
	}
	f := off.GPUHour / on.GPUHour
	r.GPUHour, r.CPUHour, r.GiBHour = r.GPUHour*f, r.CPUHour*f, r.GiBHour*f
	r.Source, r.Dated = r.Source+", spot", off.Dated
	return r, true
}
