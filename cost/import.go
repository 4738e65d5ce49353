package cost

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/internal/regular"
	"trainopt/internal/stat"
)

// Change is the effect of an import on one offer.
type Change struct {
	What     string // "added", "replaced", "unchanged", "older"
	Old, New Offer  // Old is zero for an added offer; New is valid from now on
	Listed   Offer  // as listed
}

// ImportOptions supplements an imported list; see [ListOptions].
type ImportOptions struct {
	ListOptions
	DryRun bool // report the changes without storing them
}

// Imported is the result of an import.
type Imported struct {
	List
	Changes []Change // one per offer of the list, by name
	Stale   int      // number of accepted offers with prices older than StaleAfter
}

// Count returns the number of changes of a kind.
func (i Imported) Count(what string) int {
	return stat.Count(i.Changes, func(c Change) bool { return c.What == what })
}

// Import reads a list of prices, see [ReadList], and stores in the state directory the prices that are as recent as
// those of the catalogue or newer. On-demand and spot prices have separate dates and are compared separately; a list
// without spot prices leaves known ones unchanged. Dates are never assumed: a list without a date, if Dated is empty
// too, is rejected with errUndated.
func Import(stateDir, path string, o ImportOptions) (Imported, error) {
	catalogue, err := OpenCatalogue(stateDir)
	if err != nil {
		return Imported{}, err
	}
	stored, err := loadPrices(stateDir)
	if err != nil {
		return Imported{}, err
	}
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return Imported{}, fmt.Errorf("import prices: %w", err)
	}
	defer f.Close()
	label := cmp.Or(o.Name, path)
	o.Name = cmp.Or(o.Name, filepath.Base(path))
	list, err := ReadList(f, catalogue, o.ListOptions)
	if errors.Is(err, errUndated) {
		return Imported{}, fmt.Errorf("import prices from %s: %w; give it with --dated YYYY-MM-DD%s", label, err, changedOn(f))
	}
	if err == nil && len(list.Offers) == 0 {
		err = fmt.Errorf("none of its %d rows can be used%s", list.Rows, firstReason(list.Rejected))
	}
	if err != nil {
		return Imported{}, fmt.Errorf("import prices from %s: %w", label, err)
	}
	result := catalogue.take(list, o.Today)
	if o.DryRun {
		return result, nil
	}
	kept := map[string]Offer{}
	for _, s := range stored {
		kept[offerKey(s.Cloud, s.Type)] = s
	}
	for _, c := range result.Changes {
		if c.What == "added" || c.What == "replaced" {
			kept[offerKey(c.New.Cloud, c.New.Type)] = c.New
		}
	}
	all := make([]Offer, 0, len(kept))
	for _, k := range kept {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b Offer) int { return strings.Compare(a.Name(), b.Name()) })
	if result.Count("added")+result.Count("replaced") == 0 {
		return result, nil
	}
	return result, savePrices(stateDir, all)
}

// changedOn returns the modification date of a file as a hint for the user; empty if unknown.
func changedOn(f io.Reader) string {
	file, ok := f.(*os.File)
	if !ok {
		return ""
	}
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (the file was last changed on %s, which need not be the day of its prices)", info.ModTime().UTC().Format(time.DateOnly))
}

// firstReason describes the first rejected row; empty if none exists.
func firstReason(list []Rejected) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("; line %d: %s", list[0].Line, list[0].What)
}

// take returns the changes that a list makes to the catalogue.
func (c *Catalogue) take(list List, today time.Time) Imported {
	result := Imported{List: list}
	have := map[string]Offer{}
	for _, o := range c.Offers {
		have[offerKey(o.Cloud, o.Type)] = o
	}
	for _, listed := range list.Offers {
		listed.Imported = true
		old, known := have[offerKey(listed.Cloud, listed.Type)]
		change := Change{What: "added", Old: old, New: listed, Listed: listed}
		if known {
			change.New, change.What = mergeOffer(old, listed)
		}
		if day, err := time.Parse(time.DateOnly, change.New.Dated); err == nil && change.New.Imported && today.Sub(day) > StaleAfter {
			result.Stale++
		}
		result.Changes = append(result.Changes, change)
	}
	return result
}

// mergeOffer merges a newer offer into an older one of the same name. The on-demand price together with the shape of the
// machine, and the spot price, are replaced according to their own dates; on equal dates the listed ones apply. A
// spot price that is not below the on-demand price is dropped.
func mergeOffer(old, listed Offer) (held Offer, what string) {
	held, what = old, "older"
	if listed.Dated >= old.Dated {
		held = listed.withoutSpot()
		held.Spot, held.SpotLow, held.SpotHigh, held.SpotZones = old.Spot, old.SpotLow, old.SpotHigh, old.SpotZones
		held.SpotDated, held.SpotSource = old.SpotDated, old.SpotSource
		what = "unchanged"
	}
	if listed.Spot > 0 && listed.Spot < held.OnDemand && (old.Spot == 0 || listed.SpotDated >= old.SpotDated) {
		held.Spot, held.SpotLow, held.SpotHigh, held.SpotZones = listed.Spot, listed.SpotLow, listed.SpotHigh, listed.SpotZones
		held.SpotDated, held.SpotSource = listed.SpotDated, listed.SpotSource
		what = "unchanged"
	}
	if held.Spot >= held.OnDemand {
		held = held.withoutSpot()
	}
	before, after := old, held
	for _, o := range []*Offer{&before, &after} { // other text alone is not a change
		o.Source, o.SpotSource, o.Imported, o.Region = "", "", false, ""
	}
	if after == before {
		return old, what
	}
	held.Imported = true
	return held, "replaced"
}
