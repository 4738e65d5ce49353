package cost

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Catalogue is a dated list of offers: the embedded table, possibly updated by imported prices.
type Catalogue struct{ Offers []Offer }

// EmbeddedCatalogue returns the table embedded in the binary.
func EmbeddedCatalogue() (*Catalogue, error) {
	list, err := Offers()
	return &Catalogue{Offers: list}, err
}

// OpenCatalogue returns the embedded table updated by the prices imported into state directories; newer prices replace
// older ones. If an imported file cannot be read, it returns the prices of the others together with an error that names
// the file, so that callers may continue without it.
func OpenCatalogue(stateDirs ...string) (*Catalogue, error) {
	c, err := EmbeddedCatalogue()
	if err != nil {
		return c, err
	}
	var errs []error
	for _, dir := range stateDirs {
		imported, err := loadPrices(dir)
		errs = append(errs, err)
		c.update(imported)
	}
	return c, errors.Join(errs...)
}

// update adds imported offers; newer prices replace older ones.
func (c *Catalogue) update(imported []Offer) {
	at := map[string]int{}
	for i, o := range c.Offers {
		at[offerKey(o.Cloud, o.Type)] = i
	}
	for _, o := range imported {
		if i, known := at[offerKey(o.Cloud, o.Type)]; known {
			c.Offers[i], _ = mergeOffer(c.Offers[i], o)
		} else {
			c.Offers = append(c.Offers, o)
		}
	}
}

// Lookup is the function Lookup applied to this catalogue.
func (c *Catalogue) Lookup(name string) (Offer, error) { return lookup(c.Offers, name) }

// Filter selects offers; the zero value selects all.
type Filter struct {
	Clouds       []string
	Type         string // part of the type's name
	GPU          string // canonical model, otherwise part of it ("A100"); "none" for machines without GPUs
	MinGPUs      int
	MinGPUMemory float64 // GiB per GPU
	MinCPUs      int
	MinMemory    float64 // GiB
	MaxHourly    USD     // 0: no limit
	Spot         bool    // only offers with a spot price
}

// Select returns the offers that match the filter in order of price, then of name. With Spot, the price is that
// of spot capacity and the returned offers have UseSpot set; otherwise it is the on-demand price. Names are compared
// ignoring case, "-", "_", "." and blanks. Cost: O(n log n) in the number of offers.
func (c *Catalogue) Select(f Filter) []Offer {
	var list []Offer
	whole := slices.ContainsFunc(c.Offers, func(o Offer) bool { return normalizeName(o.GPU) == normalizeName(f.GPU) }) // distinguishes L4 from L40S
	for _, o := range c.Offers {
		o.UseSpot = f.Spot
		if f.matches(o) && f.matchesGPU(o.GPU, whole) {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Price(), b.Price()), strings.Compare(a.Name(), b.Name()))
	})
	return list
}

// matches reports whether an offer matches all criteria other than the GPU model.
func (f Filter) matches(o Offer) bool {
	cloud := func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), o.Cloud) }
	return (len(f.Clouds) == 0 || slices.ContainsFunc(f.Clouds, cloud)) &&
		(f.Type == "" || strings.Contains(normalizeName(o.Type), normalizeName(f.Type))) &&
		o.GPUs >= f.MinGPUs && float64(o.GPUMemory) >= f.MinGPUMemory &&
		o.CPUs >= f.MinCPUs && float64(o.Memory) >= f.MinMemory &&
		(f.MaxHourly <= 0 || o.Price() <= f.MaxHourly) && (!f.Spot || o.Spot > 0)
}

// matchesGPU reports whether a GPU model matches the filter. With whole, the filter names a complete model.
func (f Filter) matchesGPU(model string, whole bool) bool {
	switch asked := normalizeName(f.GPU); {
	case asked == "":
		return true
	case asked == "none":
		return model == ""
	case whole:
		return normalizeName(model) == asked
	default:
		return model != "" && (strings.Contains(normalizeName(model), asked) || GPUModel(f.GPU) == model)
	}
}

// normalizeName removes differences of spelling from a name: case, "-", "_", "." and blanks.
func normalizeName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
