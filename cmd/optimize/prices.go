package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cost"
)

// offer looks up CLOUD:TYPE[:spot] among the embedded prices and those imported into the state directory.
func (e *env) offer(v *values, name string) (cost.Offer, error) {
	catalogue, err := cost.OpenCatalogue(inDir(e.dir, v.stateDir))
	if err != nil {
		return cost.Offer{}, err
	}
	return catalogue.Lookup(name)
}

// catalogue returns the price catalogue. If the imported prices are unreadable, it returns the embedded ones with a
// warning.
func (e *env) catalogue(c *common) (*cost.Catalogue, []string, error) {
	catalogue, err := cost.OpenCatalogue(c.absoluteState(e))
	if err == nil {
		return catalogue, []string{}, nil
	}
	if len(catalogue.Offers) == 0 {
		return nil, nil, err
	}
	warning := err.Error() + "; going on with the prices of the program"
	fmt.Fprintf(e.stderr, "warning: %s\n", oneLine(warning))
	return catalogue, []string{warning}, nil
}

func pricesCommand(e *env, c *common) *cobra.Command {
	list := pricesListCommand(e, c)
	cmd := &cobra.Command{Use: "prices", Short: "List, show and import dated machine prices", Args: cobra.NoArgs, Long: `The dated price catalogue: machines of several clouds with their prices, on demand and on spot
capacity.

The program carries a table; newer prices are imported over it into the state directory. Every
price has a source and a date, and a run keeps both with what it paid.`,
		Example: `  optimize prices list --gpu a100 --max-hourly 30
  optimize prices show aws:p4d.24xlarge:spot
  optimize prices import prices.csv.gz --dated 2026-07-20 --dry-run`, RunE: list.RunE}
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.AddCommand(list, pricesShowCommand(e, c), pricesImportCommand(e, c))
	return cmd
}

type pricesFlags struct {
	filter       cost.Filter
	maxHourly    float64
	sort, format string
}

func pricesListCommand(e *env, c *common) *cobra.Command {
	f := &pricesFlags{}
	cmd := &cobra.Command{Use: "list", Short: "List machines and prices, the cheapest first", Args: cobra.NoArgs,
		Example: `  optimize prices list --cloud aws,gcp --gpu l4 --sort per-gpu
  optimize prices list --gpu none --min-cpus 8 --min-memory 32 --max-hourly 1
  optimize prices list --spot --min-gpu-memory 40`,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.listPrices(cmd, c, f) }}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringSliceVar(&f.filter.Clouds, "cloud", nil, "`CLOUD`s, such as aws,gcp,lambda")
	fs.StringVar(&f.filter.Type, "type", "", "a `PART` of the type's name")
	fs.StringVar(&f.filter.GPU, "gpu", "", "GPU `MODEL` or a part of it; none for machines without")
	fs.IntVar(&f.filter.MinGPUs, "min-gpus", 0, "at least `N` GPUs")
	fs.Float64Var(&f.filter.MinGPUMemory, "min-gpu-memory", 0, "minimum `GiB` of memory per GPU")
	fs.IntVar(&f.filter.MinCPUs, "min-cpus", 0, "at least `N` CPUs")
	fs.Float64Var(&f.filter.MinMemory, "min-memory", 0, "minimum `GiB` of host memory")
	fs.Float64Var(&f.maxHourly, "max-hourly", 0, "maximum price in `USD` per hour (with --spot: spot price)")
	fs.BoolVar(&f.filter.Spot, "spot", false, "only what has a spot price, and sort by that")
	fs.StringVar(&f.sort, "sort", "hourly", "hourly|per-gpu|name")
	fs.StringVar(&f.format, "format", "text", "text|json|csv")
	return cmd
}

// listPrices writes the offers that pass the filter as text, JSON or CSV.
func (e *env) listPrices(cmd *cobra.Command, c *common, f *pricesFlags) error {
	if c.json && !cmd.Flags().Changed("format") {
		f.format = "json"
	}
	switch {
	case !slices.Contains([]string{"text", "json", "csv"}, f.format):
		return usageError{fmt.Errorf("--format %q: unknown, want text, json or csv", f.format)}
	case !slices.Contains([]string{"hourly", "per-gpu", "name"}, f.sort):
		return usageError{fmt.Errorf("--sort %q: unknown, want hourly, per-gpu or name", f.sort)}
	case cmd.Flags().Changed("max-hourly") && !(f.maxHourly > 0):
		return usageError{fmt.Errorf("--max-hourly %g: want USD above 0", f.maxHourly)}
	}
	f.filter.MaxHourly = cost.USD(f.maxHourly)
	catalogue, warnings, err := e.catalogue(c)
	if err != nil {
		return err
	}
	clouds := map[string]bool{}
	for _, o := range catalogue.Offers {
		clouds[o.Cloud] = true
	}
	for _, asked := range f.filter.Clouds {
		if !clouds[strings.ToLower(strings.TrimSpace(asked))] {
			return usageError{fmt.Errorf("--cloud %q: no such cloud in the catalogue; it has %s", asked, strings.Join(sorted(clouds), ", "))}
		}
	}
	offers := catalogue.Select(f.filter)
	sortOffers(offers, f.sort)
	switch f.format {
	case "csv":
		return cost.WriteList(e.stdout, offers)
	case "json":
		out := struct {
			Schema   int         `json:"schema"`
			Offers   []offerJSON `json:"offers"`
			Warnings []string    `json:"warnings"`
		}{1, make([]offerJSON, 0, len(offers)), warnings}
		for _, o := range offers {
			out.Offers = append(out.Offers, e.offerJSON(o))
		}
		return printJSON(e.stdout, out)
	}
	return e.printOffers(offers, len(catalogue.Offers), c.quiet)
}

func sorted(set map[string]bool) []string {
	var list []string
	for s := range set {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

func sortOffers(offers []cost.Offer, by string) {
	perGPU := func(o cost.Offer) cost.USD {
		if o.GPUs == 0 {
			return 1e9 // sort after all offers with GPUs
		}
		return o.Price() / cost.USD(o.GPUs)
	}
	switch by {
	case "per-gpu":
		slices.SortStableFunc(offers, func(a, b cost.Offer) int { return cmp.Compare(perGPU(a), perGPU(b)) })
	case "name":
		slices.SortStableFunc(offers, func(a, b cost.Offer) int { return strings.Compare(a.Name(), b.Name()) })
	}
}

// age returns the age of a price in days; ok is false if its date is unknown.
func (e *env) age(dated string) (days int, ok bool) {
	day, err := time.Parse(time.DateOnly, dated)
	if err != nil {
		return 0, false
	}
	return int(e.clock.Now().Sub(day).Hours() / 24), true
}

func (e *env) stale(dated string) bool {
	days, ok := e.age(dated)
	return ok && time.Duration(days)*24*time.Hour > cost.StaleAfter
}

// offerJSON is the JSON form of an offer; unknown values are null.
type offerJSON struct {
	Name         string    `json:"name"`
	Cloud        string    `json:"cloud"`
	Type         string    `json:"type"`
	GPUs         int       `json:"gpus"`
	GPU          *string   `json:"gpu"`
	GPUMemory    *float64  `json:"gpu_memory_gib"`
	CPUs         int       `json:"cpus"`
	Arch         string    `json:"arch"`
	Memory       float64   `json:"memory_gib"`
	OnDemand     priceJSON `json:"on_demand"`
	OnDemandGPU  *float64  `json:"on_demand_usd_per_gpu_hour"`
	Spot         *spotJSON `json:"spot"`
	Region       *string   `json:"region"`
	FromImported bool      `json:"imported"`
}

type priceJSON struct {
	USDPerHour float64 `json:"usd_per_hour"`
	Dated      string  `json:"dated"`
	AgeDays    *int    `json:"age_days"`
	Stale      bool    `json:"stale"`
	Source     string  `json:"source"`
}

type spotJSON struct {
	priceJSON
	Low   *float64 `json:"low_usd_per_hour"`
	High  *float64 `json:"high_usd_per_hour"`
	Zones *int     `json:"zones"`
}

func (e *env) offerJSON(o cost.Offer) offerJSON {
	price := func(p cost.USD, dated, source string) priceJSON {
		out := priceJSON{USDPerHour: float64(p), Dated: dated, Stale: e.stale(dated), Source: source}
		if days, ok := e.age(dated); ok {
			out.AgeDays = &days
		}
		return out
	}
	o.UseSpot = false
	j := offerJSON{Name: o.Name(), Cloud: o.Cloud, Type: o.Type, GPUs: o.GPUs, CPUs: o.CPUs, Arch: o.Arch(), Memory: float64(o.Memory),
		OnDemand: price(o.OnDemand, o.Dated, o.Source), FromImported: o.Imported}
	if o.GPUs > 0 {
		each := float64(o.OnDemand) / float64(o.GPUs)
		memory := float64(o.GPUMemory)
		j.GPU, j.GPUMemory, j.OnDemandGPU = &o.GPU, &memory, &each
	}
	if o.Region != "" {
		j.Region = &o.Region
	}
	if o.Spot > 0 {
		j.Spot = &spotJSON{priceJSON: price(o.Spot, o.SpotDated, o.SpotSource)}
		if o.SpotZones > 1 {
			low, high := float64(o.SpotLow), float64(o.SpotHigh)
			j.Spot.Low, j.Spot.High, j.Spot.Zones = &low, &high, &o.SpotZones
		}
	}
	return j
}
