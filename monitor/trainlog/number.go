package trainlog

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reading is the result of parsing a numeric field.
type reading uint8

const (
	readNumber reading = iota
	readEmpty          // empty, or a word for no value
	readNaN            // written as nan
	readInf            // written as inf
	readRange          // too large for a float64, such as 1e400
	readComma          // a number with a comma
	readText           // not a number
)

// parseNumber parses one field. whole marks a column of integers, in which "60,000" is sixty thousand. The value is
// NaN unless the reading is readNumber or readComma. A trailing % is dropped.
func parseNumber(b []byte, whole bool) (float64, reading) {
	if v, ok := plainFloat(b); ok {
		return v, readNumber
	}
	b = bytes.TrimSpace(b)
	if n := len(b); n > 1 && b[n-1] == '%' {
		b = bytes.TrimSpace(b[:n-1])
	}
	if len(b) == 0 {
		return math.NaN(), readEmpty
	}
	comma := false
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		case c == ',':
			comma = true
		default:
			return math.NaN(), wordReading(b)
		}
	}
	if comma {
		plain, ok := plainNumber(string(b), whole)
		if !ok {
			return math.NaN(), readText
		}
		v, err := strconv.ParseFloat(plain, 64)
		if err != nil {
			return math.NaN(), readText
		}
		return v, readComma
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case err == nil:
		return v, readNumber
	case errors.Is(err, strconv.ErrRange):
		return math.NaN(), readRange
	}
	return math.NaN(), readText
}

// tens are the powers of ten that a float64 represents exactly.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// plainFloat parses digits with an optional sign and decimal point if a float64 represents both the digits and the
// power of ten exactly, so that one division yields the nearest number (Clinger 1990). ok is false for all other
// input.
func plainFloat(b []byte) (v float64, ok bool) {
	signed := len(b) > 0 && (b[0] == '-' || b[0] == '+')
	at := 0
	if signed {
		at = 1
	}
	v, end := leadingFloat(b, at)
	if signed && b[0] == '-' {
		v = -v
	}
	return v, end == len(b)
}

// leadingFloat parses the digits with an optional decimal point at an index as plainFloat does, and returns the index after
// them. end is -1 if the number is not that simple.
func leadingFloat(b []byte, at int) (v float64, end int) {
	start, mantissa, fraction := at, uint64(0), 0
	for ; at < len(b) && b[at]-'0' <= 9; at++ {
		mantissa = mantissa*10 + uint64(b[at]-'0')
	}
	digits := at - start
	if at < len(b) && b[at] == '.' {
		at++
		start = at
		for ; at < len(b) && b[at]-'0' <= 9; at++ {
			mantissa = mantissa*10 + uint64(b[at]-'0')
		}
		fraction = at - start
	}
	if digits+fraction-1 >= 19 || digits+fraction == 0 || mantissa > 1<<53 {
		return 0, -1
	}
	if v = float64(mantissa); fraction > 0 {
		v /= tens[fraction]
	}
	return v, at
}

// wordReading classifies a field that is not numeric, ignoring case.
func wordReading(b []byte) reading {
	if len(b) > 16 {
		return readText
	}
	var lower [16]byte
	n := copy(lower[:], b)
	for i, c := range lower[:n] {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	switch string(lower[:n]) {
	case "na", "n/a", "null", "none", "<na>", "undefined":
		return readEmpty
	case "nan", "-nan", "+nan":
		return readNaN
	case "inf", "+inf", "-inf", "infinity", "-infinity", "+infinity":
		return readInf
	}
	return readText
}

// plainNumber converts "0,5", "1.234,5" and "1,234.5" to the notation of strconv.
func plainNumber(s string, whole bool) (string, bool) {
	comma, dot := strings.LastIndexByte(s, ','), strings.LastIndexByte(s, '.')
	switch {
	case dot > comma: // 1,234.5
		return strings.ReplaceAll(s, ",", ""), grouped(strings.Split(s[:dot], ","))
	case dot >= 0: // 1.234,5
		if strings.Count(s, ",") > 1 || !grouped(strings.Split(s[:comma], ".")) {
			return "", false
		}
		return strings.ReplaceAll(s[:comma], ".", "") + "." + s[comma+1:], true
	case strings.Count(s, ",") > 1 || (whole && len(s)-comma-1 == 3): // 1,234,567
		return strings.ReplaceAll(s, ",", ""), grouped(strings.Split(s, ","))
	}
	return s[:comma] + "." + s[comma+1:], true // 0,5
}

// grouped reports whether all groups after the first have three digits.
func grouped(groups []string) bool {
	return !slices.ContainsFunc(groups[1:], func(g string) bool { return len(g) != 3 })
}

// stampLayouts are the timestamp layouts that scripts write. Those without a zone are in the location of the options.
var stampLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05,999",
	"2006/01/02 15:04:05",
	"02.01.2006 15:04:05",
	"20060102-150405",
	"20060102_150405",
}

// parseStamp parses a timestamp: a date and time, or seconds, milliseconds, microseconds or nanoseconds since 1970.
// It returns the zero time on failure.
func parseStamp(b []byte, loc *time.Location) time.Time {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || len(b) > 40 {
		return time.Time{}
	}
	if t, ok := plainStamp(b, loc); ok {
		return t
	}
	if v, r := parseNumber(b, false); r == readNumber {
		for v >= 1e11 { // later than the year 5000 in seconds: a finer unit
			v /= 1000
		}
		if v < 1e8 { // before 1973: not a timestamp
			return time.Time{}
		}
		sec, frac := math.Modf(v)
		return time.Unix(int64(sec), int64(frac*1e9))
	}
	s := string(b)
	for _, layout := range stampLayouts {
		if len(layout) >= 19 && (len(s) < 11 || layout[10] != s[10]) {
			continue // cheaper than a failed parse
		}
		if t, err := time.ParseInLocation(layout, s, loc); err == nil {
			return t
		}
	}
	return time.Time{}
}

// plainStamp parses "2006-01-02 15:04:05" and "2006-01-02T15:04:05" with an optional fraction of a second, the
// layouts of most scripts. The result equals that of time.ParseInLocation. ok is false for all other input.
func plainStamp(b []byte, loc *time.Location) (t time.Time, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[10] != ' ' && b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return time.Time{}, false
	}
	year, month, day := digitsOf(b[:4]), digitsOf(b[5:7]), digitsOf(b[8:10])
	hour, minute, second := digitsOf(b[11:13]), digitsOf(b[14:16]), digitsOf(b[17:19])
	nanos := 0
	if len(b) > 19 {
		fraction := b[20:]
		if b[19] != '.' || len(fraction) == 0 || len(fraction) > 9 {
			return time.Time{}, false
		}
		if nanos = digitsOf(fraction); nanos >= 0 {
			nanos *= int(tens[9-len(fraction)])
		}
	}
	if year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || nanos < 0 {
		return time.Time{}, false
	}
	if day > 28 && day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, nanos, loc), true
}

// digitsOf parses up to nine digits; it returns -1 if b contains anything else.
func digitsOf(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
