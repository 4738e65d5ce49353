package cli

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// errNoDuration is the error for a text that is not a duration.
var errNoDuration = errors.New("want a duration such as 90m, 2h30m or 5d, or seconds")

// days matches a leading number of days, of 24 hours each.
var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d(.*)$`)

// ParseDuration parses a duration as users write it and as optimize prints it: 90m, 2h30m, 5d, 1d12h, "5 d 00 h", or a
// number of seconds.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return secondsToDuration(f)
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
			return secondsToDuration(sign * whole)
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' && whole > 0 {
		return 0, errNoDuration
	}
	if whole == 0 {
		return time.Duration(sign) * d, nil
	}
	return secondsToDuration(sign * (whole + d.Seconds()))
}

// secondsToDuration converts seconds to a duration, or fails if they exceed its range.
func secondsToDuration(seconds float64) (time.Duration, error) {
	if !(math.Abs(seconds) < 9e9) {
		return 0, errNoDuration
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// DurationVar registers a flag for a duration.
func DurationVar(fs *pflag.FlagSet, into *time.Duration, name, help string) {
	fs.Var(durationFlag{into}, name, help)
}

// durationFlag is a flag value that holds a duration.
type durationFlag struct{ into *time.Duration }

func (f durationFlag) String() string {
	if f.into == nil {
		return ""
	}
	return f.into.String()
}

func (f durationFlag) Set(text string) error {
	d, err := ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("want a duration of 0 or more")
	}
	if err == nil {
		*f.into = d
	}
	return err
}

func (f durationFlag) Type() string { return "duration" }
