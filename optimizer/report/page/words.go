package page

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"trainopt/internal/wording"
)

// NoData replaces every number that was not measured or predicted.
const NoData = "no data"

// Blank is the no-break space between a number and its unit. PlainBlanks replaces it.
const Blank = "\u00a0"

// PlainBlanks replaces no-break spaces by plain ones, for terminals and files.
func PlainBlanks(s string) string { return strings.ReplaceAll(s, Blank, " ") }

// Known reports whether v is a number: neither NaN nor infinite.
func Known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Significant formats v with three significant digits; from 100 up it writes whole numbers with thousands separators.
// An exponent is used only below 1e-9.
func Significant(v float64) string {
	switch a := math.Abs(v); {
	case !Known(v):
		return NoData
	case a == 0:
		return "0"
	case a >= 99.95:
		return Thousands(v)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 1e-9:
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(a))), 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Thousands formats a whole number with thousands separators: "12,345".
func Thousands(v float64) string {
	sign, s := "", Fixed(v, 0)
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Fixed formats v with a number of decimals. A value that rounds to zero has no sign.
func Fixed(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

// WithUnit formats a number with its unit: "42.3 GiB".
func WithUnit(v float64, unit string) string {
	if !Known(v) {
		return NoData
	}
	return Significant(v) + Blank + unit
}

// Duration formats seconds as wording.Duration does, unbreakable: "0.8 s", "42.3 s", "3 m 05 s", "2 h 07 m", "3 d 04 h".
func Duration(s float64) string {
	if !Known(s) {
		return NoData
	}
	return strings.ReplaceAll(wording.Duration(s), " ", Blank)
}

// Clock formats a local time of day, with the date and without seconds if it is of another day than reference.
func Clock(t, reference time.Time) string {
	if t = t.Local(); t.Format(time.DateOnly) != reference.Local().Format(time.DateOnly) {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format(time.TimeOnly)
}

// USD formats money: with cents from one dollar up, with three significant digits and no trailing zeros below.
func USD(v float64) string {
	switch a := math.Abs(v); {
	case !Known(v):
		return NoData
	case v < 0:
		return "-" + USD(-v)
	case a >= 999.995:
		cents := strconv.FormatFloat(a-math.Floor(a), 'f', 2, 64)
		if cents == "1.00" {
			return "$" + Thousands(math.Floor(a)+1) + ".00"
		}
		return "$" + Thousands(math.Floor(a)) + cents[1:]
	case a >= 0.9995 || a == 0:
		return "$" + strconv.FormatFloat(a, 'f', 2, 64)
	}
	s := Significant(v)
	for strings.Contains(s, ".") && strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1] // $0.01, not $0.0100
	}
	return "$" + s
}

// GiB formats memory given in GiB, in MiB below 0.1 GiB.
func GiB(v float64) string {
	if v != 0 && math.Abs(v) < 0.09995 {
		return WithUnit(v*1024, "MiB")
	}
	return WithUnit(v, "GiB")
}

// Percent formats a number of percent.
func Percent(v float64) string { return WithUnit(v, "%") }

// Change formats a change in percent with its sign: "+12.3 %", "−0.4 %"; changes of ten times and more are written as a
// factor: "18.9 times".
func Change(v float64) string {
	switch {
	case !Known(v):
		return NoData
	case v >= 900:
		return Significant(1+v/100) + Blank + "times"
	}
	s := Fixed(v, 1)
	if v > 0 && s != "0.0" {
		s = "+" + s
	}
	return strings.Replace(s, "-", "−", 1) + Blank + "%"
}

// Rate returns the formatter of a throughput in a unit such as steps/s; an empty unit means samples/s.
func Rate(unit string) func(float64) string {
	return func(v float64) string { return WithUnit(v, cmp.Or(unit, "samples/s")) }
}

// Share formats a fraction of 1 as whole percent.
func Share(v float64) string {
	if !Known(v) {
		return NoData
	}
	return Fixed(100*v, 0) + Blank + "%"
}

// Count formats a count; whole numbers have no decimals.
func Count(v float64) string {
	if Known(v) && v == math.Trunc(v) {
		return Thousands(v)
	}
	return Significant(v)
}

// Plural formats a count with its noun, in the plural unless n is 1: "3 runs".
func Plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return Thousands(float64(n)) + " " + word
}

// Letter returns A, B, … Z, AA, AB, … for 0, 1, …
func Letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return Letter(i/26-1) + Letter(i%26)
}

// Clean makes text from scripts and logs safe to print on any terminal on a single line: control characters (escape
// sequences) and bidirectional formatting characters are replaced by spaces or removed.
func Clean(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t' || c == '\r':
			return ' '
		case unicode.IsControl(c) || c == unicode.ReplacementChar:
			return '·'
		case unicode.Is(unicode.Bidi_Control, c) || c == '\u2028' || c == '\u2029':
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "·"))
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == ' ' || unicode.IsSpace(c) && string(c) != Blank }), " ")
}
