package learned

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseZones parses APP=SHARE,…; "none" yields an empty, non-nil list.
func ParseZones(text string, apps []string) ([]Zone, error) {
	zones := []Zone{}
	if text == "none" {
		return zones, nil
	}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		app := slices.Index(apps, name)
		share, err := strconv.ParseFloat(value, 64)
		switch {
		case app < 0:
			return nil, fmt.Errorf("zones %q: no app %q, want APP=SHARE,… of %s, or none", text, name, strings.Join(apps, ", "))
		case err != nil || !(share > 0 && share <= 1):
			return nil, fmt.Errorf("zones %q: share %q of %s: want more than 0, up to 1", text, value, name)
		case slices.ContainsFunc(zones, func(z Zone) bool { return z.App == app }):
			return nil, fmt.Errorf("zones %q: %s is named twice", text, name)
		}
		zones = append(zones, Zone{App: app, Share: share})
	}
	return zones, nil
}
