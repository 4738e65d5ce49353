package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/simulator/ancestors/metis/learned"
)

// zone sets the zones of george, their budget and the separation of containers of the same app.
func (f *placementFlags) zone(_ *env, cmd *cobra.Command, p *placing) error {
	changed := cmd.Flags().Changed
	if changed("zone-budget") {
		if !(f.zoneBudget >= 0 && f.zoneBudget <= 1) {
			return fmt.Errorf("--zone-budget %v: want 0 to 1", f.zoneBudget)
		}
		p.options.Budget = f.zoneBudget
		if f.zoneBudget == 0 {
			p.options.Budget = -1
		}
	}
	p.options.Apart = f.apart
	if !changed("zones") {
		return nil
	}
	var err error
	p.options.Zones, err = parseZones(f.zones, p.apps())
	return err
}

// parseZones parses APP=SHARE,…; "none" yields an empty, non-nil list.
func parseZones(text string, apps []string) ([]learned.Zone, error) {
	zones := []learned.Zone{}
	if text == "none" {
		return zones, nil
	}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		app := slices.Index(apps, name)
		share, err := strconv.ParseFloat(value, 64)
		switch {
		case app < 0:
			return nil, fmt.Errorf("--zones %q: no app %q, want APP=SHARE,… of %s, or none", text, name, strings.Join(apps, ", "))
		case err != nil || !(share > 0 && share <= 1):
			return nil, fmt.Errorf("--zones %q: share %q of %s: want more than 0, up to 1", text, value, name)
		case slices.ContainsFunc(zones, func(z learned.Zone) bool { return z.App == app }):
			return nil, fmt.Errorf("--zones %q: %s is named twice", text, name)
		}
		zones = append(zones, learned.Zone{App: app, Share: share})
	}
	return zones, nil
}
