package sweep

import "fmt"

// named lists the preferences that have a name.
var named = map[string]string{"balanced": "slowdown=1,energy=1,utilization=1,deadlines=1", "time": "slowdown=1", "cost": "energy=1", "resource": "utilization=1"}

// ParseNamed parses a preference: balanced, time, cost, resource, or weights.
func ParseNamed(text string) (Preference, error) {
	if weights, ok := named[text]; ok {
		return parsePreference(weights)
	}
	p, err := parsePreference(text)
	if err != nil {
		err = fmt.Errorf("%s: %w; or balanced, time, cost, resource", text, err)
	}
	return p, err
}

// Restrict sets the weights of unknown metrics to 0 in a balanced preference; others remain.
func (f *front) Restrict(p Preference) Preference {
	if balanced, err := ParseNamed("balanced"); err != nil || p != balanced {
		return p
	}
	for i, known := range f.Known {
		if !known {
			p[i] = 0
		}
	}
	return p
}
