package wording

import "fmt"

// Problems collects what is wrong with settings, to be joined by errors.Join.
type Problems []error

// If adds a problem, as fmt.Errorf formats it, if a condition holds.
func (p *Problems) If(wrong bool, format string, args ...any) {
	if wrong {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}
