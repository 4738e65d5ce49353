package predict

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/internal/wording"
)

func pricesCommand(e *cli.Env) *cobra.Command {
	list := priceListCommand(e)
	cmd := &cobra.Command{Use: "prices", GroupID: cli.Plan, Short: "List, show and import dated machine prices", Args: cobra.NoArgs, Long: `The dated price catalogue: machines of several clouds with their on-demand and spot prices.

The binary contains a table; newer prices can be imported into the state directory. Every price has a source and a date,
which are recorded with the runs that use it.`,
		Example: `  optimize prices list --gpu a100 --max-hourly 30
  optimize prices show aws:p4d.24xlarge:spot
  optimize prices import prices.csv.gz --dated 2026-07-20 --dry-run`, RunE: list.RunE}
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.AddCommand(list, priceShowCommand(e), priceImportCommand(e))
	return cmd
}

// priceListOptions holds the flags of `prices list`.
type priceListOptions struct {
	*cli.Env
	filter       cost.Filter
	maxHourly    float64
	sort, format string
}

func priceListCommand(e *cli.Env) *cobra.Command {
	o := &priceListOptions{Env: e}
	cmd := &cobra.Command{Use: "list", Short: "List machines and prices, the cheapest first", Args: cobra.NoArgs,
		Example: `  optimize prices list --cloud aws,gcp --gpu l4 --sort per-gpu
  optimize prices list --gpu none --min-cpus 8 --min-memory 32 --max-hourly 1
  optimize prices list --spot --min-gpu-memory 40`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cli.Options{Env: e, Flags: cmd.Flags()}) }}
	fs := e.Options(cmd).Flags
	fs.StringSliceVar(&o.filter.Clouds, "cloud", nil, "`CLOUD`s, such as aws,gcp,lambda")
	fs.StringVar(&o.filter.Type, "type", "", "a `PART` of the name of the type")
	fs.StringVar(&o.filter.GPU, "gpu", "", "GPU `MODEL` or a part of it; none: machines without GPUs")
	fs.IntVar(&o.filter.MinGPUs, "min-gpus", 0, "at least `N` GPUs")
	fs.Float64Var(&o.filter.MinGPUMemory, "min-gpu-memory", 0, "minimum `GiB` of memory per GPU")
	fs.IntVar(&o.filter.MinCPUs, "min-cpus", 0, "at least `N` CPUs")
	fs.Float64Var(&o.filter.MinMemory, "min-memory", 0, "minimum `GiB` of host memory")
	fs.Float64Var(&o.maxHourly, "max-hourly", 0, "maximum price in `USD` per hour (with --spot: spot price)")
	fs.BoolVar(&o.filter.Spot, "spot", false, "only machines with a spot price, in the order of that")
	fs.StringVar(&o.sort, "sort", "hourly", "hourly|per-gpu|name")
	fs.StringVar(&o.format, "format", "text", "text|json|csv")
	return cmd
}

// run writes the offers that pass the filter as text, JSON or CSV. given holds the flags of the invoked command, which
// may be `prices` itself.
func (o *priceListOptions) run(given cli.Options) error {
	if o.JSON && !given.Changed("format") {
		o.format = "json"
	}
	if err := errors.Join(cli.WantOne("format", o.format, "text", "json", "csv"), cli.WantOne("sort", o.sort, "hourly", "per-gpu", "name"),
		given.Want("max-hourly", o.maxHourly > 0, "USD above 0"), given.Want("min-gpus", o.filter.MinGPUs >= 0, "0 or more"),
		given.Want("min-cpus", o.filter.MinCPUs >= 0, "0 or more"), given.Want("min-memory", o.filter.MinMemory >= 0, "0 or more"),
		given.Want("min-gpu-memory", o.filter.MinGPUMemory >= 0, "0 or more")); err != nil {
		return cli.Usage(err)
	}
	o.filter.MaxHourly = cost.USD(o.maxHourly)
	catalogue, warnings, err := o.Catalogue()
	if err != nil {
		return err
	}
	clouds := map[string]bool{}
	for _, offer := range catalogue.Offers {
		clouds[offer.Cloud] = true
	}
	for _, name := range o.filter.Clouds {
		if !clouds[strings.ToLower(strings.TrimSpace(name))] {
			return cli.Usagef("--cloud %q: no such cloud in the catalogue; it has %s", name, strings.Join(slices.Sorted(maps.Keys(clouds)), ", "))
		}
	}
	if err := o.checkGPU(catalogue); err != nil {
		return err
	}
	offers := catalogue.Select(o.filter)
	sortOffers(offers, o.sort)
	switch o.format {
	case "csv":
		return cost.WriteList(o.Stdout, offers)
	case "json":
		out := struct {
			Schema   int         `json:"schema"`
			Offers   []offerJSON `json:"offers"`
			Warnings []string    `json:"warnings"`
		}{1, make([]offerJSON, 0, len(offers)), warnings}
		for _, offer := range offers {
			out.Offers = append(out.Offers, newOfferJSON(o.Env, offer))
		}
		return o.PrintJSON(out)
	}
	return printOffers(o.Env, offers, len(catalogue.Offers))
}

// checkGPU returns an error if no machine has the GPU of the filter.
func (o *priceListOptions) checkGPU(catalogue *cost.Catalogue) error {
	if o.filter.GPU == "" || len(catalogue.Select(cost.Filter{GPU: o.filter.GPU})) > 0 {
		return nil
	}
	models := map[string]bool{}
	for _, offer := range catalogue.Offers {
		if offer.GPU != "" {
			models[offer.GPU] = true
		}
	}
	nearest := wording.Nearest(o.filter.GPU, slices.Sorted(maps.Keys(models)), 3)
	return cli.Usagef("--gpu %q: no machine of the catalogue has such a GPU; nearest are %s", o.filter.GPU, strings.Join(nearest, ", "))
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

func newOfferJSON(e *cli.Env, o cost.Offer) offerJSON {
	price := func(p cost.USD, dated, source string) priceJSON {
		out := priceJSON{USDPerHour: float64(p), Dated: dated, Source: source}
		if days, stale, ok := cost.PriceAge(dated, e.Clock.Now()); ok {
			out.AgeDays, out.Stale = &days, stale
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
