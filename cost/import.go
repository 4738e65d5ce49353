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
)

// Change is what an import does to one offer.
type Change struct {
	What     string // "added", "replaced", "unchanged", "older"
	Old, New Offer  // Old is zero when it is added; New is what holds from now on
	Listed   Offer  // as the list has it
}

// ImportOptions say what an imported list does not say itself; see [ListOptions].
type ImportOptions struct {
	ListOptions
	DryRun bool // change nothing, only say what would be
}

// Imported is what came of an import.
type Imported struct {
	List
	Changes []Change // one for each offer of the list, by name
	Stale   int      // of the offers taken: prices older than StaleAfter
}

// Count is the number of changes of a kind.
func (i Imported) Count(what string) int {
	n := 0
	for _, c := range i.Changes {
		if c.What == what {
			n++
		}
	}
	return n
}

// Import reads a list of prices, see [ReadList], and keeps in the state directory what is newer than the catalogue has, or of the same day. The
// price on demand and that of spot capacity are dated, and so compared, apart; a list without spot prices leaves those that are known. A
// date is never made up: a list without one, and without Dated, is refused with ErrUndated.
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
	o.Name = cmp.Or(o.Name, filepath.Base(path))
	list, err := ReadList(f, catalogue, o.ListOptions)
	if errors.Is(err, ErrUndated) {
		return Imported{}, fmt.Errorf("import prices from %s: %w; give it with --dated YYYY-MM-DD%s", path, err, changedOn(f))
	}
	if err == nil && len(list.Offers) == 0 {
		err = fmt.Errorf("none of its %d rows can be used%s", list.Rows, firstReason(list.Rejected))
	}
	if err != nil {
		return Imported{}, fmt.Errorf("import prices from %s: %w", path, err)
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

// changedOn says when a file was last changed, as a hint only.
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

func firstReason(list []Rejected) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("; line %d: %s", list[0].Line, list[0].What)
}

// take says what a list changes.
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
			change.New, change.What = over(old, listed)
		}
		if day, err := time.Parse(time.DateOnly, change.New.Dated); err == nil && change.New.Imported && today.Sub(day) > StaleAfter {
			result.Stale++
		}
		result.Changes = append(result.Changes, change)
	}
	return result
}

// over lays a newer offer over an older one of the same name. The price on demand, with the shape of the machine, and the spot price
// go by their own dates; of the same day, the newcomer's hold. A spot price that is not below the price on demand is dropped.
func over(old, listed Offer) (held Offer, what string) {
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
	for _, o := range []*Offer{&before, &after} { // words alone are no change
		o.Source, o.SpotSource, o.Imported, o.Region = "", "", false, ""
	}
	if after == before {
		return old, what
	}
	held.Imported = true
	return held, "replaced"
}
