package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cost"
	"trainopt/resources"
)

func pricesShowCommand(e *env, c *common) *cobra.Command {
	return &cobra.Command{Use: "show CLOUD:TYPE[:spot]", Short: "Show a machine and its prices", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			catalogue, warnings, err := e.catalogue(c)
			if err != nil {
				return err
			}
			o, err := catalogue.Lookup(args[0])
			if err != nil {
				return usageError{err}
			}
			if c.json {
				return printJSON(e.stdout, e.shownJSON(o, warnings))
			}
			return e.showOffer(o)
		}}
}

func (e *env) shownJSON(o cost.Offer, warnings []string) any {
	r := o.Rates()
	return struct {
		Schema int `json:"schema"`
		offerJSON
		Rates    cost.Rates `json:"rates"`
		Warnings []string   `json:"warnings"`
	}{1, e.offerJSON(o), r, append(warnings, r.Warnings(e.clock.Now())...)}
}

// showOffer prints all fields of an offer, with the sources of its on-demand and spot prices.
func (e *env) showOffer(o cost.Offer) error {
	b := &strings.Builder{}
	field := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-10s %s\n", name, oneLine(fmt.Sprintf(format, args...)))
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
	field("origin", "%s", map[bool]string{true: "imported", false: "the program's own table"}[o.Imported])
	field("on demand", "%g USD/h%s", float64(o.OnDemand), each(o.OnDemand, o.GPUs))
	e.priceFields(field, o)
	if o.Spot <= 0 {
		field("spot", "not known")
	} else {
		spot.UseSpot = true
		field("spot", "%g USD/h%s, %.0f %% of on demand", float64(o.Spot), each(o.Spot, o.GPUs), 100*float64(o.Spot/o.OnDemand))
		if o.SpotZones > 1 {
			field("", "the median of %d zones, %g to %g", o.SpotZones, float64(o.SpotLow), float64(o.SpotHigh))
		}
		e.priceFields(field, spot)
	}
	return writeAll(e.stdout, []byte(b.String()))
}

func each(price cost.USD, gpus int) string {
	if gpus < 2 {
		return ""
	}
	return fmt.Sprintf(", %.5g for each GPU", float64(price)/float64(gpus))
}

// priceFields prints the date, the source and the shares of the price that an offer uses.
func (e *env) priceFields(field func(name, format string, args ...any), o cost.Offer) {
	r := o.Rates()
	_, source, _ := strings.Cut(r.Source, ", ")
	age := ""
	if days, ok := e.age(r.Dated); ok {
		age = fmt.Sprintf(", %d days old", days)
		if e.stale(r.Dated) {
			age += ": more than " + fmt.Sprintf("%.0f", cost.StaleAfter.Hours()/24)
		}
	}
	field("", "of %s%s; %s", r.Dated, age, source)
	s := r.HourlySplit(resources.Allocation{GPUs: o.GPUs, CPUs: o.CPUs, Memory: o.Memory})
	var parts []string
	for _, p := range []struct {
		name        string
		share, unit cost.USD
		per         string
	}{{"GPUs", s.GPU, r.GPUHour, ""}, {"CPUs", s.CPU, r.CPUHour, ""}, {"memory", s.Memory, r.GiBHour, " a GiB"}} {
		if p.share > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f %% at %.3g%s", p.name, 100*float64(p.share/r.Instance), float64(p.unit), p.per))
		}
	}
	field("", "shared out: %s", strings.Join(parts, ", "))
	if r.Assumed != "" {
		field("", "the shares assume: %s", r.Assumed)
	}
}
