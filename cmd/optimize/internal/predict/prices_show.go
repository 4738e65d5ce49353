package predict

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/resources"
)

func priceShowCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "show CLOUD:TYPE[:spot]", Short: "Show a machine and its prices", Args: cobra.ExactArgs(1),
		Example: `  optimize prices show aws:p4d.24xlarge`,
		RunE: func(_ *cobra.Command, args []string) error {
			catalogue, warnings, err := e.Catalogue()
			if err != nil {
				return err
			}
			o, err := catalogue.Lookup(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			if !e.JSON {
				return showOffer(e, o)
			}
			r := o.Rates()
			return e.PrintJSON(struct {
				Schema int `json:"schema"`
				offerJSON
				Rates    cost.Rates `json:"rates"`
				Warnings []string   `json:"warnings"`
			}{1, newOfferJSON(e, o), r, append(warnings, r.Warnings(e.Clock.Now())...)})
		}}
}

// showOffer prints all fields of an offer, with the sources of its on-demand and spot prices.
func showOffer(e *cli.Env, o cost.Offer) error {
	b := &strings.Builder{}
	field := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-10s %s\n", name, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	spot := o
	o.UseSpot = false
	field("machine", "%s", o.Name())
	if o.GPUs > 0 {
		field("GPUs", "%d × %s, %.4g GiB each", o.GPUs, o.GPU, float64(o.GPUMemory))
	} else {
		field("GPUs", "none")
	}
	field("CPUs", "%d (%s)", o.CPUs, o.Arch())
	field("memory", "%.6g GiB", float64(o.Memory))
	if o.Region != "" {
		field("region", "%s", o.Region)
	}
	field("origin", "%s", map[bool]string{true: "imported", false: "embedded table"}[o.Imported])
	field("on demand", "%g USD/h%s", float64(o.OnDemand), each(o.OnDemand, o.GPUs))
	priceFields(e, field, o)
	if o.Spot <= 0 {
		field("spot", "unknown")
	} else {
		spot.UseSpot = true
		field("spot", "%g USD/h%s, %.0f %% of on demand", float64(o.Spot), each(o.Spot, o.GPUs), 100*float64(o.Spot/o.OnDemand))
		if o.SpotZones > 1 {
			field("", "the median of %d zones, %g to %g", o.SpotZones, float64(o.SpotLow), float64(o.SpotHigh))
		}
		priceFields(e, field, spot)
	}
	return e.Print(b.String())
}

func each(price cost.USD, gpus int) string {
	if gpus < 2 {
		return ""
	}
	return fmt.Sprintf(", %.5g per GPU", float64(price)/float64(gpus))
}

// priceFields prints the date, the source and the shares of the price that an offer uses.
func priceFields(e *cli.Env, field func(name, format string, args ...any), o cost.Offer) {
	r := o.Rates()
	_, source, _ := strings.Cut(r.Source, ", ")
	field("", "of %s%s; %s", r.Dated, cost.AgeWords(r.Dated, e.Clock.Now()), source)
	s := r.HourlySplit(resources.Allocation{GPUs: o.GPUs, CPUs: o.CPUs, Memory: o.Memory})
	var parts []string
	for _, p := range []struct {
		name        string
		share, unit cost.USD
		per         string
	}{{"GPUs", s.GPU, r.GPUHour, ""}, {"CPUs", s.CPU, r.CPUHour, ""}, {"memory", s.Memory, r.GiBHour, " per GiB"}} {
		if p.share > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f %% at %.3g%s", p.name, 100*float64(p.share/r.Instance), float64(p.unit), p.per))
		}
	}
	field("", "shares: %s", strings.Join(parts, ", "))
	if r.Assumed != "" {
		field("", "the shares assume: %s", r.Assumed)
	}
}
