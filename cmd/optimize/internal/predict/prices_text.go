package predict

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
)

// priceWidth is the width of a price list without a terminal.
const priceWidth = 100

// priceColumn is a column of the list. On a narrow screen, columns with a positive rank are dropped, the highest first.
type priceColumn struct {
	head  string
	right bool
	rank  int
	cell  func(cost.Offer) string
}

// priceColumns returns the columns of the list in order. An asterisk marks an outdated price.
func priceColumns(e *cli.Env) []priceColumn {
	mark := func(text, dated string) string {
		if _, stale, _ := cost.PriceAge(dated, e.Clock.Now()); stale {
			return text + "*"
		}
		return text
	}
	return []priceColumn{
		{"cloud:type", false, 0, func(o cost.Offer) string { return shortName(o) }},
		{"GPUs (GiB each)", false, 0, gpuText},
		{"vCPU", true, 0, func(o cost.Offer) string { return fmt.Sprint(o.CPUs) }},
		{"GiB", true, 0, func(o cost.Offer) string { return fmt.Sprintf("%.4g", float64(o.Memory)) }},
		{"$/h", true, 0, func(o cost.Offer) string { return mark(hourly(o.OnDemand), o.Dated) }},
		{"$/GPU-h", true, 3, func(o cost.Offer) string {
			if o.GPUs == 0 {
				return ""
			}
			return hourly(o.OnDemand / cost.USD(o.GPUs))
		}},
		{"spot/h", true, 0, func(o cost.Offer) string {
			if o.Spot <= 0 {
				return ""
			}
			return mark(hourly(o.Spot), o.SpotDated)
		}},
		{"dated", false, 2, func(o cost.Offer) string { return o.Dated }},
		{"days", true, 1, func(o cost.Offer) string {
			if days, _, known := cost.PriceAge(o.Dated, e.Clock.Now()); known {
				return strconv.Itoa(days)
			}
			return ""
		}},
	}
}

// shortName returns the name of an offer without the common prefix of Azure types; lookups accept this form.
func shortName(o cost.Offer) string {
	o.UseSpot = false
	return cli.OneLine(o.Cloud + ":" + strings.TrimPrefix(o.Type, "Standard_"))
}

func gpuText(o cost.Offer) string {
	if o.GPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%d×%s (%.3g)", o.GPUs, cli.OneLine(o.GPU), float64(o.GPUMemory))
}

// hourly formats a price with four or five digits.
func hourly(p cost.USD) string {
	switch {
	case p >= 100:
		return fmt.Sprintf("%.1f", float64(p))
	case p >= 10:
		return fmt.Sprintf("%.2f", float64(p))
	case p >= 1:
		return fmt.Sprintf("%.3f", float64(p))
	}
	return fmt.Sprintf("%.4f", float64(p))
}

func printOffers(e *cli.Env, offers []cost.Offer, of int) error {
	width := e.Columns()
	if width <= 0 {
		width = priceWidth
	}
	table := ""
	if len(offers) > 0 {
		table = priceTable(priceColumns(e), offers, width)
		if err := e.Print(table); err != nil {
			return err
		}
	}
	if e.Quiet {
		return nil
	}
	foot := fmt.Sprintf("%d of %d machines; days: price age", len(offers), of)
	if strings.Contains(table, "*") {
		foot += fmt.Sprintf("; * the price is older than %.0f days", cost.StaleAfter.Hours()/24)
	}
	return e.Print(foot + "\n")
}

// priceTable returns a table without the columns that do not fit the width.
func priceTable(columns []priceColumn, offers []cost.Offer, width int) string {
	cells := make([][]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		cells[i] = []string{c.head}
		for _, o := range offers {
			cells[i] = append(cells[i], c.cell(o))
		}
		for _, text := range cells[i] {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	hidden := map[int]bool{}
	for {
		total, last := -2, -1
		for i, c := range columns {
			if hidden[i] {
				continue
			}
			total += widths[i] + 2
			if c.rank > 0 && (last < 0 || c.rank > columns[last].rank) {
				last = i
			}
		}
		if total <= width || last < 0 {
			break
		}
		hidden[last] = true
	}
	var b strings.Builder
	for r := range cells[0] {
		var line strings.Builder
		for i, c := range columns {
			if hidden[i] {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cells[i][r]))
			if c.right {
				line.WriteString(pad + cells[i][r] + "  ")
			} else {
				line.WriteString(cells[i][r] + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
