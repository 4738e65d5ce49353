package profile

import (
	"fmt"

	"trainopt/cost"
)

// gpuOffers names the machine whose price stands for a GPU: on which it was measured, where the catalogue has that one, else
// the plainest with several of that GPU.
var gpuOffers = map[string]string{
	"T4":        "aws:g4dn.12xlarge", // the machine of the Pollux tables
	"V100 16GB": "aws:p3.16xlarge",
	"V100 32GB": "aws:p3dn.24xlarge",
	"P100":      "gcp:n1-highmem-32-p100x4",
	"K80":       "aws:p2.8xlarge",
	"A100 40GB": "aws:p4d.24xlarge",
}

// gpuStandIns are GPUs that no cloud of the catalogue rents, with the one whose price stands for theirs: same generation
// (Turing) and class of machine. The price is the stand-in's and says so.
var gpuStandIns = map[string]string{
	"RTX 6000":    "T4",
	"RTX 2080 Ti": "T4",
}

// PricesOf are the rates of one GPU and hour: the price of a whole machine divided by its GPUs, host included, so CPUs and
// memory cost nothing more. spot asks for the spot price; ok is false when the catalogue has none.
func PricesOf(gpu string, spot bool) (rates cost.Rates, ok bool, err error) {
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

// unitPrices are the rates of machines whose CPUs are chosen too: the unit rates of package cost; with spot, all of them
// lowered as the spot price of the machine of PricesOf is.
func unitPrices(gpu string, spot bool) (cost.Rates, bool) {
	r := cost.Default(gpu)
	if !spot {
		return r, true
	}
	on, _, err := PricesOf(gpu, false)
	off, ok, err2 := PricesOf(gpu, true)
	if err != nil || err2 != nil || !ok {
		return r, false
	}
	f := off.GPUHour / on.GPUHour
	r.GPUHour, r.CPUHour, r.GiBHour = r.GPUHour*f, r.CPUHour*f, r.GiBHour*f
	r.Source, r.Dated = r.Source+", spot", off.Dated
	return r, true
}
