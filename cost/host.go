package cost

import (
	"strings"

	"trainopt/resources"
)

// DescribeHost returns a machine other than the local one, with its prices: an offer named CLOUD:TYPE of the catalogue of
// the state directories, or the description in the file path if name is not of that form. The rates are nil if the
// description contains no price.
func DescribeHost(stateDirs []string, name, path string) (resources.Host, *Rates, error) {
	if cloud, _, ok := strings.Cut(name, ":"); ok && !strings.ContainsAny(cloud, "/.") {
		catalogue, err := OpenCatalogue(stateDirs...)
		if err != nil {
			return resources.Host{}, nil, err
		}
		offer, err := catalogue.Lookup(name)
		if err != nil {
			return resources.Host{}, nil, err
		}
		rates := offer.Rates()
		return offer.Host(), &rates, nil
	}
	d, err := resources.LoadHostDescription(path)
	if err != nil {
		return resources.Host{}, nil, err
	}
	if d.Price == nil {
		return d.Host(), nil, nil
	}
	value := func(v *float64) USD {
		if v == nil {
			return 0
		}
		return USD(*v)
	}
	p := d.Price
	return d.Host(), &Rates{Instance: value(p.Instance), GPUHour: value(p.GPUHour), CPUHour: value(p.CPUHour), GiBHour: value(p.GiBHour),
		Source: p.Source, Dated: p.Dated}, nil
}
