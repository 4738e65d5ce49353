package measured

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// number parses a finite number.
func number(s string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("%q is not a finite number", s)
	}
	return x, err
}

// whole parses an integer from 1 to a billion; "20.0" is accepted.
func whole(s string) (int, error) {
	x, err := number(s)
	if err != nil || x < 1 || x > 1e9 || x != math.Trunc(x) {
		return 0, fmt.Errorf("%q, want a whole number from 1", s)
	}
	return int(x), nil
}
