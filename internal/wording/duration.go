// Package wording contains what all messages, reports and tables word alike: lengths of time, the known names nearest to a
// misspelt one, and the problems of settings.
//
//	wording.Duration(7620)                              // 2 h 07 m
//	wording.Nearest("v1oo", []string{"k80", "v100"}, 1) // v100
package wording

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Duration formats seconds with three significant digits and without trailing zeros below a minute, and with two units above:
// "0.8 s", "3 s", "42.3 s", "3 m 05 s", "2 h 07 m", "3 d 04 h". NaN and infinities yield "no data".
func Duration(seconds float64) string {
	whole := math.Round(seconds)
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return "no data"
	case seconds < 0:
		return "-" + Duration(-seconds)
	case seconds < 59.95:
		return short(seconds) + " s"
	case whole < 3600:
		return pair(whole, 60, "m", "s")
	case whole < 48*3600:
		return pair(math.Round(seconds/60), 60, "h", "m")
	case seconds > 1e15: // more hours than the digits below have a meaning for
		return fmt.Sprintf("%.3g d", seconds/86400)
	}
	return pair(math.Round(seconds/3600), 24, "d", "h")
}

// short formats v with three significant digits, without trailing zeros; an exponent is used only below 1e-9.
func short(v float64) string {
	if v != 0 && v < 1e-9 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	decimals := 2
	if v != 0 {
		decimals = max(0, 2-int(math.Floor(math.Log10(v))))
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// pair formats a whole number of small units as large and small ones.
func pair(n float64, per int64, large, small string) string {
	return fmt.Sprintf("%d %s %02d %s", int64(n)/per, large, int64(n)%per, small)
}
