package cost

import (
	"cmp"
	"slices"
	"strings"
)

// Catalogue is a dated list of offers: the embedded one, or that with newer prices imported over it.
type Catalogue struct{ Offers []Offer }

// EmbeddedCatalogue is the table in the binary.
func EmbeddedCatalogue() (*Catalogue, error) {
	list, err := Offers()
	return &Catalogue{Offers: list}, err
}

// OpenCatalogue is the embedded table with what was imported into a state directory over it, newer prices over older. When the imported
// file cannot be read, the catalogue is the embedded one and the error, which names the file, says why: who only wants some price can go on.
// "" is no state directory.
func OpenCatalogue(stateDir string) (*Catalogue, error) {
	c, err := EmbeddedCatalogue()
	if err != nil || stateDir == "" {
		return c, err
	}
	imported, err := loadPrices(stateDir)
	if err != nil {
		return c, err
	}
	at := map[string]int{}
	for i, o := range c.Offers {
		at[offerKey(o.Cloud, o.Type)] = i
	}
	for _, o := range imported {
		if i, known := at[offerKey(o.Cloud, o.Type)]; known {
			c.Offers[i], _ = over(c.Offers[i], o)
		} else {
			c.Offers = append(c.Offers, o)
		}
	}
	return c, nil
}

// Lookup finds an offer as the function of the same name does, in this catalogue.
func (c *Catalogue) Lookup(name string) (Offer, error) { return lookup(c.Offers, name) }

// Filter selects offers; the zero value selects all.
type Filter struct {
	Clouds         []string
	Type           string // a part of the type's name
	GPU            string // canonical model, else a part of it ("A100"); "none" for machines without
	MinGPUs        int
	MinGPUMemory   float64 // GiB of each
	MinCPUs        int
	MinMemory      float64 // GiB
	MaxHourly      USD     // 0: no limit
	Spot, OnDemand bool    // only offers that have that price; both false: any
}

// Select returns the offers that the filter lets through, the cheapest first; at the same price by name. With Spot alone, the
// price that counts is that of spot capacity, and the offers returned have UseSpot set; else it is the price on demand. Names
// are compared without regard to case, "-", "_", "." and blanks.
func (c *Catalogue) Select(f Filter) []Offer {
	var list []Offer
	whole := slices.ContainsFunc(c.Offers, func(o Offer) bool { return plain(o.GPU) == plain(f.GPU) }) // so that L4 is not L40S
	for _, o := range c.Offers {
		o.UseSpot = f.Spot && !f.OnDemand
		if f.lets(o) && f.letsGPU(o.GPU, whole) {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Price(), b.Price()), strings.Compare(a.Name(), b.Name()))
	})
	return list
}

func (f Filter) lets(o Offer) bool {
	cloud := func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), o.Cloud) }
	return (len(f.Clouds) == 0 || slices.ContainsFunc(f.Clouds, cloud)) &&
		(f.Type == "" || strings.Contains(plain(o.Type), plain(f.Type))) &&
		o.GPUs >= f.MinGPUs && float64(o.GPUMemory) >= f.MinGPUMemory &&
		o.CPUs >= f.MinCPUs && float64(o.Memory) >= f.MinMemory &&
		(f.MaxHourly <= 0 || o.Price() <= f.MaxHourly) && (!f.Spot || o.Spot > 0) && (!f.OnDemand || o.OnDemand > 0)
}

func (f Filter) letsGPU(model string, whole bool) bool {
	switch asked := plain(f.GPU); {
	case asked == "":
		return true
	case asked == "none":
		return model == ""
	case whole:
		return plain(model) == asked
	default:
		return model != "" && (strings.Contains(plain(model), asked) || GPUModel(f.GPU) == model)
	}
}

// plain is a name without what people write differently.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
