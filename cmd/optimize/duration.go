package main

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// errNoDuration is the error for a text that is not a duration.
var errNoDuration = errors.New("want a duration such as 90m, 2h30m or 5d, or seconds")

// days matches a leading number of days, of 24 hours each.
var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d(.*)$`)

// parseDuration parses a duration as users write it and as optimize prints it: 90m, 2h30m, 5d, 1d12h, "5 d 00 h", or a
// number of seconds.
func parseDuration(text string) (time.Duration, error) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return lasting(f)
	}
	sign, rest := 1., text
	if cut, ok := strings.CutPrefix(rest, "-"); ok {
		sign, rest = -1, cut
	}
	var whole float64
	if m := days.FindStringSubmatch(rest); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, errNoDuration
		}
		whole, rest = n*86400, m[2]
		if rest == "" {
			return lasting(sign * whole)
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' && whole > 0 {
		return 0, errNoDuration
	}
	if whole == 0 {
		return time.Duration(sign) * d, nil
	}
	return lasting(sign * (whole + d.Seconds()))
}

// lasting converts seconds to a duration, or fails if they exceed its range.
func lasting(seconds float64) (time.Duration, error) {
	if !(math.Abs(seconds) < 9e9) {
		return 0, errNoDuration
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// span is a flag value that holds a duration.
type span struct{ into *time.Duration }

func (s span) String() string {
	if s.into == nil {
		return ""
	}
	return s.into.String()
}

func (s span) Set(text string) error {
	d, err := parseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("want a duration from 0")
	}
	if err == nil {
		*s.into = d
	}
	return err
}

func (s span) Type() string { return "duration" }
