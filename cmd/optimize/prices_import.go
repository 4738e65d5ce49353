package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cost"
)

func pricesImportCommand(e *env, c *common) *cobra.Command {
	o := cost.ImportOptions{}
	cmd := &cobra.Command{Use: "import FILE", Short: "Import a newer list of prices, plain or .gz", Args: cobra.ExactArgs(1),
		Long: `Import a newer list of prices, plain or .gz, into the state directory.

Layouts, told by their columns, in which case and punctuation do not matter:
  ` + strings.ReplaceAll(cost.Layouts(), "; ", "\n  ") + `

A newer price replaces an older one of the same CLOUD:TYPE; an older one does not. On demand and
spot go by their own dates. Of several regions one is taken: --region, else us-east-1 (AWS), eastus
(Azure), us-central1 (GCP), else the one in the middle; of several zones the median spot price, with
the lowest and the highest noted.`,
		Example: `  optimize prices import aws.csv.gz --dated 2026-07-20 --source "AWS price list API"
  optimize prices import gcp/vms.csv --cloud gcp --region europe-west4 --dated 2026-07-20 --dry-run
  optimize prices list --format csv > mine.csv    # change it, then import it`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Today = e.clock.Now()
			got, err := cost.Import(c.absoluteState(e), inDir(e.dir, args[0]), o)
			switch {
			case errors.Is(err, cost.ErrNotKept):
				return err
			case err != nil:
				return usageError{err}
			case c.json:
				return printJSON(e.stdout, importJSON(args[0], got, o.DryRun))
			case c.quiet:
				return nil
			}
			return e.printImport(args[0], got, o.DryRun)
		}}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringVar(&o.Dated, "dated", "", "the day of the prices, `YYYY-MM-DD`, for lists that do not say it")
	fs.StringVar(&o.Source, "source", "", "where they come from, in `WORDS`")
	fs.StringVar(&o.Cloud, "cloud", "", "the `CLOUD` of lists that do not name it (SkyPilot's)")
	fs.StringVar(&o.Region, "region", "", "take the prices of this `REGION`")
	fs.BoolVar(&o.DryRun, "dry-run", false, "only say what would be taken")
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
	}{1, file, got.Layout, dry, got.Rows, names("added"), names("replaced"), names("unchanged"), names("older"), got.Elsewhere, rows(got.Rejected),
		rows(got.Flagged), got.Stale}
}

// named is the maximum number of rows printed per category.
const named = 10

// printImport prints the result of an import: counts, changes by kind, rejected and flagged rows, at most named rows
// each.
func (e *env) printImport(file string, got cost.Imported, dry bool) error {
	b := &strings.Builder{}
	say := func(format string, args ...any) { fmt.Fprintln(b, oneLine(fmt.Sprintf(format, args...))) }
	say("%s: %s, %d rows", file, got.Layout, got.Rows)
	counts := fmt.Sprintf("%d added, %d replaced, %d unchanged, %d older than what is known", got.Count("added"), got.Count("replaced"), got.Count("unchanged"), got.Count("older"))
	if got.Elsewhere > 0 {
		counts += fmt.Sprintf("; %d rows of other regions left out", got.Elsewhere)
	}
	say("%s", counts)
	for _, kind := range []struct{ what, words string }{{"replaced", "replaced"}, {"older", "older, not taken"}} {
		n := 0
		for _, ch := range got.Changes {
			if ch.What != kind.what {
				continue
			}
			if n++; n <= named {
				say("  %s: %s", kind.words, changeWords(ch))
			}
		}
		if n > named {
			say("  %s: %d more", kind.words, n-named)
		}
	}
	for _, kind := range []struct {
		words string
		list  []cost.Rejected
	}{{"rows rejected", got.Rejected}, {"rows taken, but look at them", got.Flagged}} {
		if len(kind.list) == 0 {
			continue
		}
		say("%s: %d", kind.words, len(kind.list))
		for _, r := range kind.list[:min(named, len(kind.list))] {
			fmt.Fprintf(b, "  line %d: %s\n", r.Line, oneLine(r.What))
		}
		if n := len(kind.list) - named; n > 0 {
			say("  and %d more", n)
		}
	}
	if got.Stale > 0 {
		say("%d of the prices are older than %.0f days", got.Stale, cost.StaleAfter.Hours()/24)
	}
	if dry {
		say("nothing was kept (--dry-run)")
	}
	return writeAll(e.stdout, []byte(b.String()))
}

func changeWords(ch cost.Change) string {
	price := func(o cost.Offer) string {
		text := fmt.Sprintf("%g of %s", float64(o.OnDemand), o.Dated)
		if o.Spot > 0 {
			text += fmt.Sprintf(", spot %.5g of %s", float64(o.Spot), o.SpotDated)
		}
		return text
	}
	if ch.What == "older" {
		return fmt.Sprintf("%s %s; known is %s", ch.New.Name(), price(ch.Listed), price(ch.Old))
	}
	return fmt.Sprintf("%s %s → %s", ch.New.Name(), price(ch.Old), price(ch.New))
}
