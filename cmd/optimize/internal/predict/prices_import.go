package predict

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
)

func priceImportCommand(e *cli.Env) *cobra.Command {
	o := cost.ImportOptions{}
	cmd := &cobra.Command{Use: "import FILE|URL", Aliases: []string{"update"}, Short: "Update prices from a newer list, a file or a URL", Args: cobra.ExactArgs(1),
		Long: `Import a newer list of prices, plain or .gz, from a file or a URL (http, https). Imported prices apply to all projects; with
--state-dir or OPTIMIZE_STATE_DIR to that directory only.

Layouts are detected by their columns, ignoring case and punctuation:
  ` + strings.ReplaceAll(cost.Layouts(), "; ", "\n  ") + `

A newer price replaces an older one of the same CLOUD:TYPE; an older one does not. On-demand and spot prices have separate
dates. Of several regions one is used: --region, else us-east-1 (AWS), eastus (Azure), us-central1 (GCP), else the one with
the median price; of several zones the median spot price, with the lowest and the highest recorded.`,
		Example: `  optimize prices import aws.csv.gz --dated 2026-07-20 --source "AWS price list API"
  optimize prices import gcp/vms.csv --cloud gcp --region europe-west4 --dated 2026-07-20 --dry-run
  optimize prices update https://prices.example.org/aws.csv.gz
  optimize prices list --format csv > mine.csv    # change it, then import it`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.Today = e.Clock.Now()
			path, done, err := fetched(e, args[0], &o)
			if err != nil {
				return cli.Usage(err)
			}
			defer done()
			got, err := cost.Import(e.PriceDirs()[0], path, o)
			switch {
			case errors.Is(err, cost.ErrNotKept):
				return err
			case err != nil:
				return cli.Usage(err)
			case e.JSON:
				return e.PrintJSON(importJSON(args[0], got, o.DryRun))
			case e.Quiet:
				return nil
			}
			return printImport(e, args[0], got, o.DryRun)
		}}
	fs := e.Options(cmd).Flags
	fs.StringVar(&o.Dated, "dated", "", "the date of the prices, `YYYY-MM-DD`, for lists that do not contain it")
	fs.StringVar(&o.Source, "source", "", "`DESCRIPTION` of the source of the list")
	fs.StringVar(&o.Cloud, "cloud", "", "the `CLOUD` of lists that do not name it (SkyPilot's)")
	fs.StringVar(&o.Region, "region", "", "use the prices of this `REGION`")
	fs.BoolVar(&o.DryRun, "dry-run", false, "only print what would be imported")
	return cmd
}

// importJSON returns the JSON object of an import: counts, changes, and rejected and flagged rows.
func importJSON(file string, got cost.Imported, dry bool) any {
	type rowJSON struct {
		Line int    `json:"line"`
		What string `json:"what"`
	}
	rows := func(list []cost.Rejected) []rowJSON {
		out := make([]rowJSON, 0, len(list))
		for _, r := range list {
			out = append(out, rowJSON(r))
		}
		return out
	}
	names := func(what string) []string {
		out := []string{}
		for _, ch := range got.Changes {
			if ch.What == what {
				out = append(out, ch.New.Name())
			}
		}
		return out
	}
	return struct {
		Schema    int       `json:"schema"`
		File      string    `json:"file"`
		Layout    string    `json:"layout"`
		DryRun    bool      `json:"dry_run"`
		Rows      int       `json:"rows"`
		Added     []string  `json:"added"`
		Replaced  []string  `json:"replaced"`
		Unchanged []string  `json:"unchanged"`
		Older     []string  `json:"older"`
		Elsewhere int       `json:"rows_of_other_regions"`
		Rejected  []rowJSON `json:"rejected"`
		Flagged   []rowJSON `json:"flagged"`
		Stale     int       `json:"stale"`
	}{1, file, got.Layout, dry, got.Rows, names("added"), names("replaced"), names("unchanged"), names("older"), got.OtherRegionRows, rows(got.Rejected),
		rows(got.Flagged), got.Stale}
}

// maxListed is the maximum number of rows printed per category.
const maxListed = 10

// printImport prints the result of an import: counts, changes by kind, rejected and flagged rows, at most maxListed rows
// each.
func printImport(e *cli.Env, file string, got cost.Imported, dry bool) error {
	b := &strings.Builder{}
	line := func(format string, args ...any) { fmt.Fprintln(b, cli.OneLine(fmt.Sprintf(format, args...))) }
	line("%s: %s, %d rows", file, got.Layout, got.Rows)
	counts := fmt.Sprintf("%d added, %d replaced, %d unchanged, %d older than the known price", got.Count("added"), got.Count("replaced"), got.Count("unchanged"), got.Count("older"))
	if got.OtherRegionRows > 0 {
		counts += fmt.Sprintf("; %d rows of other regions left out", got.OtherRegionRows)
	}
	line("%s", counts)
	for _, kind := range []struct{ what, label string }{{"replaced", "replaced"}, {"older", "older, not used"}} {
		n := 0
		for _, ch := range got.Changes {
			if ch.What != kind.what {
				continue
			}
			if n++; n <= maxListed {
				line("  %s: %s", kind.label, changeText(ch))
			}
		}
		if n > maxListed {
			line("  %s: %d more", kind.label, n-maxListed)
		}
	}
	for _, kind := range []struct {
		label string
		list  []cost.Rejected
	}{{"rows rejected", got.Rejected}, {"rows imported, but implausible", got.Flagged}} {
		if len(kind.list) == 0 {
			continue
		}
		line("%s: %d", kind.label, len(kind.list))
		for _, r := range kind.list[:min(maxListed, len(kind.list))] {
			fmt.Fprintf(b, "  line %d: %s\n", r.Line, cli.OneLine(r.What))
		}
		if n := len(kind.list) - maxListed; n > 0 {
			line("  and %d more", n)
		}
	}
	if got.Stale > 0 {
		line("%d of the prices are older than %.0f days", got.Stale, cost.StaleAfter.Hours()/24)
	}
	if dry {
		line("nothing was stored (--dry-run)")
	}
	return e.Print(b.String())
}

func changeText(ch cost.Change) string {
	price := func(o cost.Offer) string {
		text := fmt.Sprintf("%g of %s", float64(o.OnDemand), o.Dated)
		if o.Spot > 0 {
			text += fmt.Sprintf(", spot %.5g of %s", float64(o.Spot), o.SpotDated)
		}
		return text
	}
	if ch.What == "older" {
		return fmt.Sprintf("%s %s; the known price is %s", ch.New.Name(), price(ch.Listed), price(ch.Old))
	}
	return fmt.Sprintf("%s %s → %s", ch.New.Name(), price(ch.Old), price(ch.New))
}
