package cli

import (
	"errors"
	"fmt"

	"trainopt/cost"
)

// UnitPrices lists the settings for the prices of single resources, with the rates that they set.
var UnitPrices = []struct {
	Key  string
	Rate func(*cost.Rates) *cost.USD
}{
	{"cost.gpu_hour", func(r *cost.Rates) *cost.USD { return &r.GPUHour }},
	{"cost.cpu_hour", func(r *cost.Rates) *cost.USD { return &r.CPUHour }},
	{"cost.gb_hour", func(r *cost.Rates) *cost.USD { return &r.GiBHour }},
}

// Catalogue returns the price catalogue. If the imported prices are unreadable, it returns the embedded ones with a
// warning.
func (e *Env) Catalogue() (*cost.Catalogue, []string, error) {
	catalogue, err := cost.OpenCatalogue(e.PriceDirs()...)
	if err == nil {
		return catalogue, []string{}, nil
	}
	if len(catalogue.Offers) == 0 {
		return nil, nil, err
	}
	warning := err.Error() + "; using the embedded prices"
	fmt.Fprintf(e.Stderr, "warning: %s\n", OneLine(warning))
	return catalogue, []string{warning}, nil
}

// MachineRates returns the rates of the file or the instance given by the settings; nil if neither is given.
func (e *Env) MachineRates(v *Values) (*cost.Rates, error) {
	file, instance := v.Text("cost.rates"), v.Text("cost.instance")
	switch {
	case file != "" && instance != "":
		return nil, errors.New("--rates cannot be combined with --instance: both set the prices of the machine")
	case file != "":
		rates, err := cost.LoadRates(e.Path(file))
		if err != nil {
			return nil, fmt.Errorf("--rates: %w", err)
		}
		return &rates, nil
	case instance != "":
		catalogue, err := cost.OpenCatalogue(e.PriceDirs()...)
		if err != nil {
			return nil, fmt.Errorf("--instance: %w", err)
		}
		offer, err := catalogue.Lookup(instance)
		if err != nil {
			return nil, fmt.Errorf("--instance: %w", err)
		}
		rates := offer.Rates()
		return &rates, nil
	}
	return nil, nil
}

// PriceConflict returns the error for a price of a single resource that is given together with a file or an instance,
// nil if there is no such conflict.
func (v *Values) PriceConflict(key string) error {
	if !v.Set(key) || v.Text("cost.rates") == "" && v.Text("cost.instance") == "" {
		return nil
	}
	return fmt.Errorf("%s cannot be combined with --rates or --instance: both set the prices of the machine", v.Source(key))
}

// Rates returns the prices given by the settings: a file, an instance, or prices of single resources that override those
// of base; nil if none is given.
func (e *Env) Rates(v *Values, base func() cost.Rates) (*cost.Rates, error) {
	rates, err := e.MachineRates(v)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, p := range UnitPrices {
		if !v.Set(p.Key) {
			continue
		}
		if err := v.PriceConflict(p.Key); err != nil {
			errs = append(errs, err)
			continue
		}
		if rates == nil {
			r := base()
			rates, r.Source, r.Instance = &r, "given by hand, else "+r.Source, 0
		}
		*p.Rate(rates) = cost.USD(v.Number(p.Key, &errs))
	}
	if rates != nil && len(errs) == 0 {
		errs = append(errs, rates.Validate())
	}
	return rates, errors.Join(errs...)
}
