package slurm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// longest bounds durations.
	longest = 100 * 366 * 24 * time.Hour
	// sentinel is the value from which a number is one of Slurm's marks for unknown or infinite (2^64−2, 2^64−1).
	sentinel = 1e18
	// mebibyte and oneByte are the GiB of one MiB, Slurm's unit of requested memory, and of one byte, that of used memory.
	mebibyte = 1. / 1024
	oneByte  = 1. / (1 << 30)
)

// noLimit reports a time limit that is no duration.
func noLimit(text string) bool {
	return strings.EqualFold(text, "UNLIMITED") || strings.EqualFold(text, "Partition_Limit") || strings.EqualFold(text, "NOT_SET")
}

// parseDuration reads a duration of the form 1-02:03:04, as parseSeconds does; nil for no limit.
func parseDuration(text string) (*time.Duration, error) {
	s, err := parseSeconds(text)
	if s == nil || err != nil {
		return nil, err
	}
	if *s > longest.Seconds() {
		return nil, fmt.Errorf("%q is longer than a century", text)
	}
	d := time.Duration(math.Round(*s*1e6)) * time.Microsecond
	return &d, nil
}

// parseSeconds reads [days-]hours:minutes:seconds or minutes:seconds, with a fraction of the seconds; nil for no limit.
// Hours alone or with minutes may follow days.
func parseSeconds(text string) (*float64, error) {
	if noLimit(text) {
		return nil, nil
	}
	wrong := fmt.Errorf("%q is no duration of the form 1-02:03:04", text)
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	units := []float64{3600, 60, 1}
	switch {
	case len(parts) > 3, len(parts) < 2 && !hasDays:
		return nil, wrong
	case !hasDays:
		units = units[3-len(parts):]
	}
	d, err := strconv.ParseUint(days, 10, 32)
	if err != nil {
		return nil, wrong
	}
	seconds := float64(d) * 86400
	for i, part := range parts {
		if part == "" || strings.Trim(part, "0123456789.") != "" {
			return nil, wrong
		}
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || v > sentinel {
			return nil, wrong
		}
		seconds += v * units[i]
	}
	return &seconds, nil
}

// whole returns a count as an integer, bounded.
func whole(v float64) int { return int(min(v, math.MaxInt32)) }

// binary contains the powers of 1024 of Slurm's suffixes.
var binary = map[byte]float64{'K': 1, 'M': 2, 'G': 3, 'T': 4, 'P': 5, 'E': 6}

// parseCount reads a number from 0 on, with a binary suffix that Slurm writes for large ones.
func parseCount(text string) (float64, error) {
	digits, factor := text, 1.0
	if n := len(text); n > 0 {
		if power, ok := binary[text[n-1]]; ok {
			digits, factor = text[:n-1], math.Pow(1024, power)
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if v *= factor; err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no number from 0 on", text)
	}
	return v, nil
}

// parseSize reads an amount of memory in GiB; plain is the GiB of one unit of a number without a suffix.
func parseSize(text string, plain float64) (gib float64, err error) {
	v, err := parseCount(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no amount of memory", text)
	}
	if _, suffix := binary[text[len(text)-1]]; suffix {
		plain = oneByte
	}
	return v * plain, nil
}

// parseTRES reads a list of resources such as cpu=4,mem=16G,gres/gpu:a100=2; nil for an empty one. Memory is in GiB,
// where plain is the GiB of one unit without a suffix, and cpu in seconds where it is a time. Slurm's marks for
// unknown values are left out.
func parseTRES(text string, plain float64) (map[string]float64, error) {
	if text == "" {
		return nil, nil
	}
	m := map[string]float64{}
	for _, part := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q: want NAME=VALUE", part)
		}
		v, err := parseResource(name, value, plain)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if amount, err := parseCount(value); err == nil && amount >= sentinel {
			continue
		}
		m[name] = v
	}
	return m, nil
}

// parseResource reads the value of one resource.
func parseResource(name, value string, plain float64) (float64, error) {
	switch name {
	case "mem", "vmem", "gres/gpumem":
		return parseSize(value, plain)
	case "cpu":
		if strings.Contains(value, ":") {
			s, err := parseSeconds(value)
			if err != nil {
				return 0, err
			}
			return *s, nil
		}
	}
	return parseCount(value)
}

// unknownWords are the cells by which the versions of Slurm mark a missing value.
var unknownWords = []string{"", "unknown", "none", "n/a", "(null)", "invalid", "none assigned", "noval"}

// known returns a cell without surrounding space, "" if it marks a missing value. A ? in place of a unit marks a number
// that is not yet recorded: sacct prints the memory of a job as 16? for a moment after the submission.
func known(cell string) string {
	cell = strings.TrimSpace(cell)
	if slices.Contains(unknownWords, strings.ToLower(cell)) || strings.HasSuffix(cell, "?") {
		return ""
	}
	return cell
}

// timeLayouts are the formats of times: Slurm's own, and those that users set by SLURM_TIME_FORMAT.
var timeLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05"}

// parseTime reads a point in time, in UTC unless the text states its zone, or seconds since 1970; zero for "" and 0.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds >= 1<<40 {
		return time.Time{}, fmt.Errorf("%q is no time (set SLURM_TIME_FORMAT=standard)", text)
	}
	if seconds == 0 {
		return time.Time{}, nil
	}
	return time.Unix(seconds, 0).UTC(), nil
}
