package cost

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"trainopt/resources"
)

// reference contains known machines: it completes the shapes of list rows and detects absurd prices.
type reference struct {
	silent bool                     // empty: compares nothing
	offers map[string]Offer         // by offerKey
	memory map[string]resources.GiB // by GPU model
	perGPU map[string]USD           // by GPU model: median price of a machine divided by its GPUs
}

// neuronMemory is the memory of AWS's own accelerators, which the price lists omit (AWS Neuron documentation,
// architecture of Inf1, Inf2 and Trn1).
var neuronMemory = map[string]resources.GiB{"Inferentia": 8, "Inferentia2": 32, "Trainium": 32}

// newReference indexes a catalogue; nil yields a reference that compares nothing.
func newReference(c *Catalogue) reference {
	r := reference{silent: c == nil, offers: map[string]Offer{}, memory: map[string]resources.GiB{}, perGPU: map[string]USD{}}
	maps.Copy(r.memory, neuronMemory)
	if r.silent {
		return r
	}
	prices := map[string][]USD{}
	for _, o := range c.Offers {
		r.offers[offerKey(o.Cloud, o.Type)] = o
		if o.GPUs > 0 {
			r.memory[o.GPU] = o.GPUMemory
			prices[o.GPU] = append(prices[o.GPU], o.OnDemand/USD(o.GPUs))
		}
	}
	for model, list := range prices {
		slices.Sort(list)
		r.perGPU[model] = list[len(list)/2]
	}
	return r
}

// complete fills in the machine shape if the list omits it. A shape in the list is kept.
func (r reference) complete(o Offer) (Offer, error) {
	same, known := r.offers[offerKey(o.Cloud, o.Type)]
	if known {
		o.Type = same.Type
		if o.CPUs == 0 && o.Memory == 0 && o.GPUs == 0 {
			o.GPU, o.GPUs, o.GPUMemory, o.CPUs, o.Memory = same.GPU, same.GPUs, same.GPUMemory, same.CPUs, same.Memory
		}
	}
	if o.GPUs > 0 && o.GPUMemory == 0 {
		o.GPUMemory = r.memory[o.GPU]
	}
	switch {
	case !known && o.CPUs == 0 && o.Memory == 0:
		return o, errors.New("its CPUs and memory are neither in the list nor known")
	case o.GPUs > 0 && o.GPUMemory == 0:
		return o, fmt.Errorf("the memory of GPU %s is neither in the list nor known", o.GPU)
	}
	return o, nil
}

// check returns the reason to reject a row; a bad spot price alone is not one, see doubt.
func (r reference) check(o Offer, today time.Time) error {
	if what := wrongDate(o.Dated, today); what != "" {
		return errors.New(what)
	}
	if err := o.withoutSpot().Validate(); err != nil {
		return err
	}
	if usual, of := r.usual(o); usual > 0 && !r.silent {
		if ratio := float64(o.OnDemand / usual); ratio > absurd || ratio < 1.0/absurd {
			return fmt.Errorf("%g USD/h is absurd beside %.4g, %s", float64(o.OnDemand), float64(usual), of)
		}
	}
	return nil
}

// usual returns the expected price of a machine and its basis; 0 if unknown.
func (r reference) usual(o Offer) (price USD, of string) {
	if same, ok := r.offers[offerKey(o.Cloud, o.Type)]; ok {
		return same.OnDemand, "the known price of " + same.Dated
	}
	if o.GPUs == 0 {
		return Default("").Hourly(resources.Allocation{CPUs: o.CPUs, Memory: o.Memory}), "usual for its CPUs and memory"
	}
	return r.perGPU[o.GPU] * USD(o.GPUs), fmt.Sprintf("usual for %d × %s", o.GPUs, o.GPU)
}

// dropUnusableSpot removes an unusable spot price and describes what is unusual about the offer; empty if nothing is.
func (r reference) dropUnusableSpot(o *Offer) string {
	switch what := implausible(o.Spot, maxInstance); {
	case what != "":
		*o = o.withoutSpot()
		return "spot price " + what + ": taken without it"
	case o.Spot >= o.OnDemand:
		spot := o.Spot
		*o = o.withoutSpot()
		return fmt.Sprintf("spot price %g USD/h is not below the %g on demand: taken without it", float64(spot), float64(o.OnDemand))
	case o.Spot > 0 && o.Spot < o.OnDemand/100:
		spot := o.Spot
		*o = o.withoutSpot()
		return fmt.Sprintf("spot price %g USD/h is below a hundredth of the %g on demand: taken without it", float64(spot), float64(o.OnDemand))
	case o.Spot > 0 && wrongDate(o.SpotDated, time.Time{}) != "":
		*o = o.withoutSpot()
		return "the spot price has no date: taken without it"
	}
	if !(o.SpotLow > 0) || !(o.SpotHigh < o.OnDemand) || o.SpotLow > o.Spot || o.SpotHigh < o.Spot || o.SpotZones < 2 {
		o.SpotLow, o.SpotHigh, o.SpotZones = 0, 0, 0
	}
	usual, of := r.usual(*o)
	switch {
	case r.silent:
		return ""
	case usual <= 0:
		return "no price of GPU " + o.GPU + " is known to compare with"
	}
	if ratio := float64(o.OnDemand / usual); ratio > unusual || ratio < 1.0/unusual {
		return fmt.Sprintf("%g USD/h is %.2g times %.4g, %s", float64(o.OnDemand), ratio, float64(usual), of)
	}
	return ""
}
