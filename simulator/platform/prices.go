package platform

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/cost"
	"trainopt/internal/regular"
)

// priceList contains prices of one accelerator per hour, by lower-case name.
type priceList struct {
	// Kinds contains the listed prices; a list may have further ones, see Prices.
	Kinds map[string]nodePrice
	other func(kind string) (nodePrice, bool)
}

// nodePrice is the price of one accelerator, including its share of the rented server.
type nodePrice struct {
	USDHour float64
	From    string // source and date
}

const gavelSource = "Gavel (OSDI 2020), github.com/stanford-futuredata/gavel at c4fa4009 of 2022-01-15: "

// gavelList returns a list of prices from the code or notebooks of Gavel.
func gavelList(from string, v100, p100, k80 float64) priceList {
	from = gavelSource + from
	return priceList{Kinds: map[string]nodePrice{"v100": {v100, from}, "p100": {p100, from}, "k80": {k80, from}}}
}

// Prices returns a price list by name:
//
//	gavel            Google Cloud, preemptible, as used by Gavel's simulator
//	gavel-on-demand  the same on demand, from Gavel's notebook of motivation
//	catalogue        the cheapest offer on demand, per accelerator, of the embedded catalogue of package cost
//
// The date of Gavel's prices is unknown; the stated date is that of the code. Any other name is a file, see
// readPrices.
func Prices(name string) (priceList, error) {
	switch name {
	case "gavel":
		return gavelList("Google Cloud, preemptible", 0.74, 0.43, 0.135), nil
	case "gavel-on-demand":
		return gavelList("Google Cloud, on demand", 2.85, 1.68, 0.52), nil
	case "catalogue":
		c, err := cost.EmbeddedCatalogue()
		if err != nil {
			return priceList{}, fmt.Errorf("read the price catalogue: %w", err)
		}
		return priceList{other: func(kind string) (nodePrice, bool) { return cheapest(c, kind) }}, nil
	}
	f, err := regular.Open(name, regular.Data)
	if err != nil {
		return priceList{}, fmt.Errorf("prices: %q is neither gavel, gavel-on-demand, catalogue nor a file that can be read: %w", name, err)
	}
	defer f.Close()
	return readPrices(f, name)
}

// cheapest returns the lowest price of an accelerator among machines with this kind only.
func cheapest(c *cost.Catalogue, kind string) (best nodePrice, ok bool) {
	model := cost.GPUModel(kind)
	for _, o := range c.Offers {
		if o.GPU != model || o.GPUs < 1 || !(o.OnDemand > 0) {
			continue
		}
		if each := float64(o.OnDemand) / float64(o.GPUs); !ok || each < best.USDHour {
			best, ok = nodePrice{each, fmt.Sprintf("%s / its %d accelerators, %s, %s", o.Name(), o.GPUs, o.Source, o.Dated)}, true
		}
	}
	return best, ok
}

// readPrices reads a CSV list with a header and the columns kind and usd_hour, and optionally source and dated, in any
// order. name is the file name, used in errors and for rows without a source.
func readPrices(r io.Reader, name string) (priceList, error) {
	list := priceList{Kinds: map[string]nodePrice{}}
	rows := csv.NewReader(r)
	rows.TrimLeadingSpace = true
	header, err := rows.Read()
	if err != nil {
		return list, fmt.Errorf("read prices %s: header: %w", name, err)
	}
	column := func(name string) int {
		return slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), name) })
	}
	kind, usd, source, dated := column("kind"), column("usd_hour"), column("source"), column("dated")
	if kind < 0 || usd < 0 {
		return list, fmt.Errorf("read prices %s: columns %s: want kind and usd_hour", name, strings.Join(header, ","))
	}
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return list, fmt.Errorf("read prices %s: %w", name, err)
		}
		line, _ := rows.FieldPos(0)
		price, err := strconv.ParseFloat(strings.TrimSpace(row[usd]), 64)
		if err != nil || !(price > 0) || math.IsInf(price, 1) {
			return list, fmt.Errorf("read prices %s: line %d: %q USD per hour: want a number above 0", name, line, row[usd])
		}
		key := strings.ToLower(strings.TrimSpace(row[kind]))
		if _, twice := list.Kinds[key]; twice || key == "" {
			return list, fmt.Errorf("read prices %s: line %d: kind %q is empty or there twice", name, line, row[kind])
		}
		from := name
		if source >= 0 && row[source] != "" {
			from = row[source]
		}
		if dated >= 0 && row[dated] != "" {
			from += ", " + row[dated]
		}
		list.Kinds[key] = nodePrice{price, from}
	}
	if len(list.Kinds) == 0 {
		return list, fmt.Errorf("read prices %s: no row below the header", name)
	}
	return list, nil
}

// nodePrice sets the price of every kind from the list and returns the kinds that the list does not contain, whose price
// becomes unknown.
func (c Cluster) Price(list priceList) (unpriced []string) {
	for i := range c {
		p, ok := list.Kinds[strings.ToLower(c[i].Name)]
		if !ok && list.other != nil {
			p, ok = list.other(c[i].Name)
		}
		if !ok {
			p.USDHour = math.NaN()
			unpriced = append(unpriced, c[i].Name)
		}
		c[i].USDHour, c[i].PriceFrom = p.USDHour, p.From
	}
	return unpriced
}

// PriceNote describes the prices of a cluster, their source, and the accelerators without a price; "" if there are no
// prices.
func (c Cluster) PriceNote(unpriced []string) string {
	var prices, notes []string
	from := ""
	for _, a := range c {
		if a.PriceFrom != "" {
			prices, from = append(prices, fmt.Sprintf("%s %g", a.Name, a.USDHour)), a.PriceFrom
		}
	}
	if len(prices) > 0 {
		notes = append(notes, fmt.Sprintf("USD per device-hour: %s; %s", strings.Join(prices, ", "), from))
	}
	if len(unpriced) > 0 {
		notes = append(notes, "no price of "+strings.Join(unpriced, ", ")+": costs are unknown")
	}
	return strings.Join(notes, "; ")
}
