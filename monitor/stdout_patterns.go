package monitor

import (
	"fmt"
	"math"
	"regexp"
)

// match applies the user's patterns; the first pattern that yields a value determines the row.
func (p *progress) match(text []byte, r *Row) bool {
	for _, re := range p.opts.patterns {
		m := re.FindSubmatch(text)
		if m == nil {
			continue
		}
		some := false
		for i, name := range re.SubexpNames() {
			if name == "" || m[i] == nil {
				continue
			}
			t := resolveName(normalizeName(name))
			if v, _ := parseNumber(m[i], t.column.counts()); !math.IsNaN(v) && (v >= 0 || t.column.signed()) {
				r.Set(t.column, v)
				some = true
			}
		}
		if some {
			return true
		}
	}
	return false
}

// checkPatterns returns an error unless each pattern has at least one named group and all named groups are numeric
// columns.
func checkPatterns(patterns []*regexp.Regexp) error {
	for _, re := range patterns {
		named := 0
		for _, name := range re.SubexpNames() {
			if name == "" {
				continue
			}
			if t := resolveName(normalizeName(name)); t.kind != toColumn {
				return fmt.Errorf("pattern %q: group %q is not a column", re, name)
			}
			named++
		}
		if named == 0 {
			return fmt.Errorf("pattern %q has no named group such as (?P<epoch>\\d+)", re)
		}
	}
	return nil
}
