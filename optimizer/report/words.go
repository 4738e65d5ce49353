package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// noData stands wherever a number was not measured or predicted.
const noData = "no data"

// nb is the fixed blank between a number and its unit: no line is broken there. plainBlanks takes it back.
const nb = "\u00a0"

func plainBlanks(s string) string { return strings.ReplaceAll(s, nb, " ") }

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// predicted reports whether an interval says anything: the zero Interval stands for "not predicted".
func predicted(i sla.Interval) bool {
	return i != sla.Interval{} && known(i.P5) && known(i.P50) && known(i.P95)
}

// significant writes v with three significant digits, and whole numbers from 100 up with thousands separated.
func significant(v float64) string {
	switch a := math.Abs(v); {
	case !known(v):
		return noData
	case a == 0:
		return "0"
	case a >= 99.95:
		return thousands(v)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.0001:
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(a))), 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func thousands(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		return "-" + s
	}
	return s
}

func withUnit(v float64, unit string) string {
	if !known(v) {
		return noData
	}
	return significant(v) + nb + unit
}

// duration writes seconds: "0.8 s", "42.3 s", "3 m 05 s", "2 h 07 m", "3 d 04 h".
func duration(s float64) string {
	if !known(s) {
		return noData
	}
	if s < 0 {
		return "-" + duration(-s)
	}
	if s < 59.95 {
		if s >= 9.995 {
			return strconv.FormatFloat(s, 'f', 1, 64) + nb + "s"
		}
		return significant(s) + nb + "s"
	}
	whole := int64(math.Round(s))
	switch {
	case whole < 3600:
		return fmt.Sprintf("%d m %02d s", whole/60, whole%60)
	case whole < 48*3600:
		whole = int64(math.Round(s / 60))
		return fmt.Sprintf("%d h %02d m", whole/60, whole%60)
	}
	whole = int64(math.Round(s / 3600))
	return fmt.Sprintf("%d d %02d h", whole/24, whole%24)
}

// usd writes money: cents from a dollar up, three significant digits below.
func usd(v float64) string {
	switch a := math.Abs(v); {
	case !known(v):
		return noData
	case v < 0:
		return "-" + usd(-v)
	case a >= 999.995:
		cents := strconv.FormatFloat(a-math.Floor(a), 'f', 2, 64)
		if cents == "1.00" {
			return "$" + thousands(math.Floor(a)+1) + ".00"
		}
		return "$" + thousands(math.Floor(a)) + cents[1:]
	case a >= 0.9995 || a == 0:
		return "$" + strconv.FormatFloat(a, 'f', 2, 64)
	}
	s := significant(v)
	for strings.Contains(s, ".") && strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1] // $0.01, not $0.0100
	}
	return "$" + s
}

func gib(v float64) string        { return withUnit(v, "GiB") }
func percent(v float64) string    { return withUnit(v, "%") }
func throughput(v float64) string { return withUnit(v, "samples/s") }
func share(v float64) string {
	if !known(v) {
		return noData
	}
	return strconv.FormatFloat(100*v, 'f', 0, 64) + nb + "%"
}

// count writes a number of things: whole numbers without decimals.
func count(v float64) string {
	if known(v) && v == math.Trunc(v) {
		return thousands(v)
	}
	return significant(v)
}

// change writes a percentage with its sign: "+12.3 %", "-0.4 %".
func change(v float64) string {
	if !known(v) {
		return "not measured"
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	if s == "-0.0" {
		s = "0.0"
	}
	if v > 0 && s != "0.0" {
		s = "+" + s
	}
	return strings.Replace(s, "-", "−", 1) + nb + "%"
}

// interval writes "80.1 s (75.0 s to 92.3 s)" with the given way to write one number.
func interval(i sla.Interval, one func(float64) string) string {
	if !predicted(i) {
		return noData
	}
	return one(i.P50) + " (" + between(i, one) + ")"
}

func between(i sla.Interval, one func(float64) string) string {
	lo, hi := one(i.P5), one(i.P95)
	if lo == hi {
		return lo
	}
	// Say a unit once: "75.0 to 92.3 s".
	if a, unit, ok := strings.Cut(lo, nb); ok && !strings.Contains(unit, nb) && strings.HasSuffix(hi, nb+unit) && strings.Count(hi, nb) == 1 {
		lo = a
	}
	return lo + " to " + hi
}

// given writes an allocation so that "8 CPU, 4 GiB" is broken after the comma only.
func given(a resources.Allocation) string {
	return strings.ReplaceAll(strings.ReplaceAll(a.String(), " ", nb), ","+nb, ", ")
}

// number formats the Number of a record.
func number(n journal.Number, one func(float64) string) string { return one(float64(n)) }

func optional(s *string) string {
	if s == nil || strings.TrimSpace(*s) == "" {
		return noData
	}
	return *s
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return noData
	case *b:
		return "yes"
	}
	return "no"
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return thousands(float64(n)) + " " + word
}

// clean makes text from scripts and logs safe to print on any terminal and in one line: control characters
// (escape sequences), and the marks that turn the direction of writing, become spaces or go.
func clean(s string) string {
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
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == ' ' || unicode.IsSpace(c) && string(c) != nb }), " ")
}

// objectiveName is how people call an objective.
func objectiveName(o sla.Objective) string {
	names := map[sla.Objective]string{sla.Time: "finish within", sla.Cost: "spend at most", sla.Throughput: "throughput at least",
		sla.Memory: "memory at most", sla.GPUUtil: "GPU utilisation at least", sla.CPUUtil: "CPU utilisation at least"}
	if n := names[o]; n != "" {
		return n
	}
	return string(o)
}

// quantity gives the way to write a value of an objective.
func quantity(o sla.Objective) func(float64) string {
	switch o {
	case sla.Time:
		return duration
	case sla.Cost:
		return usd
	case sla.Throughput:
		return throughput
	case sla.Memory:
		return gib
	case sla.GPUUtil, sla.CPUUtil:
		return percent
	}
	return significant
}
