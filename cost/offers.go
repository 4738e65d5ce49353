package cost

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"trainopt/internal/wording"
	"trainopt/resources"
)

// Offer is one machine type of one cloud with its prices.
type Offer struct {
	Cloud     string        // lower case, such as "aws"
	Type      string        // the cloud's name; generated as "8x-a100-80gb" where the list has none
	GPU       string        // canonical model, see GPUModel; empty for none
	GPUs      int           // number of GPUs
	GPUMemory resources.GiB // per GPU
	CPUs      int           // logical CPUs
	Memory    resources.GiB // host memory
	OnDemand  USD           // per hour
	Spot      USD           // per hour; 0 if unknown
	Source    string        // source of the on-demand price, free text
	Dated     string        // date of the on-demand price, YYYY-MM-DD
	SpotDated string        // date of the spot price; empty if unknown
	// SpotSource is the source of the spot price; empty if unknown. The price is the median over SpotZones zones of
	// Region, and SpotLow and SpotHigh are the extremes; 0 where the list does not distinguish zones.
	SpotSource        string
	SpotLow, SpotHigh USD
	SpotZones         int
	Region            string // region of the prices; empty if the list does not contain it
	Imported          bool   // not from the embedded table
	// UseSpot selects the spot price in Price and Rates.
	UseSpot bool
}

// priceSource describes one source of the table. The figures are from
//
//	aws-2026-07    the prices in aws/karpenter-provider-aws (Apache-2.0), generated 2026-07-20
//	azure-2026-06  the prices in Azure/karpenter-provider-azure (Apache-2.0), generated 2026-06-18
//	list-2025-03   docs/cloud-gpus of the-full-stack/website (MIT), last changed 2025-03-07
//
// and are merged by `go run ./internal/gen prices`.
type priceSource struct{ words, dated string }

var priceSources = map[string]priceSource{
	"aws-2026-07":   {"AWS on-demand price list, us-east-1", awsDated},
	"azure-2026-06": {"Azure on-demand price list, eastus", "2026-06-18"},
	"list-2025-03":  {"cross-cloud list of GPU prices", listDated},
}

//go:embed offers.csv
var offersCSV []byte

// The spot column of offers.csv comes from the cross-cloud list, even where the on-demand price is newer.
const spotDated = listDated

var embeddedOffers = sync.OnceValues(func() ([]Offer, error) { return parseOffers(bytes.NewReader(offersCSV)) })

// Offers returns a copy of the embedded table, ordered by cloud. The error joins every row that fails
// [Offer.Validate]; it is nil in a released build.
func Offers() ([]Offer, error) {
	list, err := embeddedOffers()
	return slices.Clone(list), err
}

var offerColumns = []string{"cloud", "type", "gpu", "gpus", "gpu_gib", "vcpus", "ram_gib", "on_demand", "spot", "source"}

// parseOffers parses the embedded table. It returns the valid rows and an error that joins all invalid or duplicate
// ones.
func parseOffers(r io.Reader) ([]Offer, error) {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = len(offerColumns)
	records, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the table of offers: %w", err)
	}
	if len(records) == 0 || !slices.Equal(records[0], offerColumns) {
		return nil, fmt.Errorf("read the table of offers: the first line is not %q", strings.Join(offerColumns, ","))
	}
	var offers []Offer
	var problems []error
	seen := map[string]bool{}
	for i, rec := range records[1:] {
		o, err := parseOffer(rec)
		if err == nil {
			err = o.Validate()
		}
		if err == nil && seen[o.Name()] {
			err = errors.New("listed twice")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("table of offers: line %d: %s:%s: %w", i+2, rec[0], rec[1], err))
			continue
		}
		seen[o.Name()] = true
		offers = append(offers, o)
	}
	return offers, errors.Join(problems...)
}

// parseOffer parses one row of the embedded table; the error joins all problems.
func parseOffer(rec []string) (Offer, error) {
	var problems []error
	number := func(i int) float64 {
		if rec[i] == "" {
			return 0
		}
		v, err := strconv.ParseFloat(rec[i], 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %q is not a number", offerColumns[i], rec[i]))
		}
		return v
	}
	whole := func(i int) int {
		v := number(i)
		if v != math.Trunc(v) || math.Abs(v) > 1e6 {
			problems = append(problems, fmt.Errorf("%s %q is not a count", offerColumns[i], rec[i]))
			return 0
		}
		return int(v)
	}
	source, ok := priceSources[rec[9]]
	if !ok {
		problems = append(problems, fmt.Errorf("source %q is not known", rec[9]))
	}
	o := Offer{Cloud: rec[0], Type: rec[1], GPU: rec[2], GPUs: whole(3), GPUMemory: resources.GiB(number(4)), CPUs: whole(5),
		Memory: resources.GiB(number(6)), OnDemand: USD(number(7)), Spot: USD(number(8)), Source: source.words, Dated: source.dated}
	if o.Spot != 0 {
		o.SpotDated, o.SpotSource = spotDated, priceSources["list-2025-03"].words
	}
	return o, errors.Join(problems...)
}

// Validate returns all problems of an offer, joined: a price that is 0, negative, not a number or a placeholder of a
// catalogue; a spot price not below the on-demand price (catalogues write an equal one for unknown); a missing name,
// CPU count or memory; GPUs without a model.
func (o Offer) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.Cloud == "" || o.Type == "" {
		wrong("cloud or type is missing")
	} else if name := o.Cloud + o.Type; len(name) > longestName || strings.ContainsFunc(name, notInNames) {
		wrong("%q is no name of a machine", name)
	}
	if o.CPUs <= 0 {
		wrong("%d CPUs", o.CPUs)
	}
	if !(o.Memory > 0) || math.IsInf(float64(o.Memory), 0) {
		wrong("%g GiB of memory", float64(o.Memory))
	}
	if o.GPUs < 0 || (o.GPUs > 0) != (o.GPU != "") || (o.GPUs > 0) != (o.GPUMemory > 0) {
		wrong("%d GPUs of model %q with %g GiB", o.GPUs, o.GPU, float64(o.GPUMemory))
	}
	if p := implausible(o.OnDemand, maxInstance); p != "" {
		wrong("on-demand price %s", p)
	} else if o.OnDemand == 0 {
		wrong("on-demand price is 0")
	}
	if p := implausible(o.Spot, maxInstance); p != "" {
		wrong("spot price %s", p)
	} else if o.Spot >= o.OnDemand && o.OnDemand > 0 {
		wrong("spot price %g is not below the on-demand price %g", float64(o.Spot), float64(o.OnDemand))
	}
	return errors.Join(problems...)
}

const longestName = 120 // bytes

// notInNames reports characters that would break CLOUD:TYPE on a command line or a terminal.
func notInNames(r rune) bool {
	return r == ':' || r == '/' || r == utf8.RuneError || !unicode.IsGraphic(r)
}

// Name returns the name by which Lookup finds the offer: "aws:p4d.24xlarge", with ":spot" if UseSpot is set.
func (o Offer) Name() string {
	name := o.Cloud + ":" + o.Type
	if o.UseSpot {
		name += ":spot"
	}
	return name
}

// Price returns the hourly price of the machine: the spot price if UseSpot is set, otherwise the on-demand price.
func (o Offer) Price() USD {
	if o.UseSpot {
		return o.Spot
	}
	return o.OnDemand
}

// Rates returns the rates of the whole machine: Instance is its price. The unit rates divide this price in the
// proportions of [Default] for its GPU, so that the whole machine costs exactly the price.
func (o Offer) Rates() Rates {
	r := Default(o.GPU)
	whole := r.Hourly(resources.Allocation{GPUs: o.GPUs, CPUs: o.CPUs, Memory: o.Memory})
	price := o.Price()
	scale := price / whole
	dated, source, market := o.Dated, o.Source, "on demand"
	if o.UseSpot {
		dated, source, market = o.SpotDated, o.SpotSource, "spot"
	}
	return Rates{GPUHour: r.GPUHour * scale, CPUHour: r.CPUHour * scale, GiBHour: r.GiBHour * scale, Instance: price,
		Source: fmt.Sprintf("%s:%s %s, %s", o.Cloud, o.Type, market, source), Dated: dated}
}

// Host returns a description of the machine for planning without access to it. Its GPUs have generated identities
// ("described-0" …) that no real device has.
func (o Offer) Host() resources.Host {
	h := resources.Host{CPUs: float64(o.CPUs), CPUIDs: make([]int, o.CPUs), Memory: o.Memory, GPUs: []resources.GPU{},
		Described: o.Cloud + ":" + o.Type,
		Notes:     []string{fmt.Sprintf("described by the price table (%s, %s), not measured", o.Source, o.Dated)}}
	for i := range h.CPUIDs {
		h.CPUIDs[i] = i
	}
	for i := range o.GPUs {
		h.GPUs = append(h.GPUs, resources.GPU{Index: i, UUID: fmt.Sprintf("described-%d", i), Name: o.GPU, Memory: o.GPUMemory})
	}
	return h
}

// graviton matches the names of AWS families with Graviton CPUs: a1, or a generation followed by attributes with a
// "g".
var graviton = regexp.MustCompile(`^(a1|[a-z]+[0-9]+[a-z]*g[a-z]*)\.`)

// Arch returns the architecture of the machine's CPUs in the notation of Go: "arm64" for AWS's Graviton families and
// NVIDIA's Grace (GH200, GB200), "amd64" for all others in the lists.
func (o Offer) Arch() string {
	if o.Cloud == "aws" && graviton.MatchString(o.Type) || strings.HasPrefix(o.GPU, "GH200") || strings.HasPrefix(o.GPU, "GB200") {
		return "arm64"
	}
	return "amd64"
}

// ownSoftware contains the accelerators that do not run CUDA, which an ordinary training script does not use.
var ownSoftware = map[string]bool{"Inferentia": true, "Inferentia2": true, "Trainium": true, "Radeon Pro V520": true}

// ErrNoOffer is wrapped by the error of a failed Lookup.
var ErrNoOffer = errors.New("no such offer")

// Lookup finds "cloud:type", "cloud:type:spot" or "cloud:type:ondemand" in the embedded table. It ignores case, the
// characters "-", "_", "." and blanks in the type, and Azure's "Standard_". The error wraps ErrNoOffer and names the
// most similar known offers.
func Lookup(name string) (Offer, error) {
	offers, err := embeddedOffers()
	if err != nil {
		return Offer{}, err
	}
	return lookup(offers, name)
}

// lookup finds an offer by name in O(len(offers)); a miss costs an edit distance per offer.
func lookup(offers []Offer, name string) (Offer, error) {
	cloud, kind, market, err := splitOfferName(name)
	if err != nil {
		return Offer{}, err
	}
	key := offerKey(cloud, kind)
	for _, o := range offers {
		if offerKey(o.Cloud, o.Type) != key {
			continue
		}
		if market != "spot" {
			return o, nil
		}
		if o.Spot <= 0 {
			return Offer{}, fmt.Errorf("look up %q: %w: the spot price of %s is unknown (on demand it is $%g/h of %s); give it with --rates",
				name, ErrNoOffer, o.Name(), float64(o.OnDemand), o.Dated)
		}
		o.UseSpot = true
		return o, nil
	}
	return Offer{}, fmt.Errorf("look up %q: %w in the price table; nearest are %s", name, ErrNoOffer, nearestOffers(offers, key))
}

// splitOfferName splits CLOUD:TYPE[:MARKET]. A name without a cloud yields only a type.
func splitOfferName(name string) (cloud, kind, market string, err error) {
	parts := strings.Split(strings.ToLower(strings.TrimSpace(name)), ":")
	switch {
	case len(parts) == 1:
		return "", parts[0], "", nil // has no match; the error names the nearest offers with their clouds
	case len(parts) > 3, len(parts) == 3 && parts[2] != "spot" && parts[2] != "ondemand" && parts[2] != "on-demand":
		return "", "", "", fmt.Errorf("look up %q: %w: want CLOUD:TYPE, CLOUD:TYPE:spot or CLOUD:TYPE:ondemand", name, ErrNoOffer)
	case len(parts) == 3:
		market = parts[2]
	}
	return parts[0], parts[1], market, nil
}

// offerKey returns the normalised name under which an offer is compared.
func offerKey(cloud, kind string) string {
	return strings.ToLower(strings.TrimSpace(cloud)) + ":" + strings.TrimPrefix(normalizeName(kind), "standard")
}

// longestKey cuts what is compared, in bytes: longer than any name.
const longestKey = 80

// nearestOffers returns the names of three offers: those whose names begin with key, then those with the smallest edit
// distance; ties by the longest common prefix.
func nearestOffers(offers []Offer, key string) string {
	key = key[:min(len(key), longestKey)]
	type near struct {
		name            string
		distance, alike int
	}
	list := make([]near, len(offers))
	for i, o := range offers {
		other := offerKey(o.Cloud, o.Type)
		alike := 0
		for alike < min(len(key), len(other)) && key[alike] == other[alike] {
			alike++
		}
		list[i] = near{o.Name(), wording.Distance(key, other), alike}
		if alike == len(key) {
			list[i].distance = 0
		}
	}
	slices.SortStableFunc(list, func(a, b near) int { return cmp.Or(a.distance-b.distance, b.alike-a.alike) })
	var names []string
	for _, n := range list[:min(3, len(list))] {
		names = append(names, n.name)
	}
	return strings.Join(names, ", ")
}
