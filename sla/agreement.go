package sla

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/wording"
)

// errNoData reports the absence of data to judge or to forecast from.
var errNoData = errors.New("no data")

// target describes one SLA target: its kind of limit, its unit and its command-line flag.
type target struct {
	objective Objective
	flag      string // name of the command-line flag
	unit      string
	maximum   bool // the limit is a maximum; otherwise a minimum
	// running is true if the value during the run is a mean, which may still move either way. The other values (time,
	// cost, peak memory) only grow.
	running bool
	// projected is true if the value during the run has no meaning without a projection to completion.
	projected bool
	get       func(Spec) float64
	set       func(*Spec, float64)
}

// targets is the table of all targets, in the fixed order of every list.
var targets = [...]target{
	{Time, "deadline", "s", true, false, true,
		func(s Spec) float64 { return s.TimeMax.Seconds() }, func(s *Spec, v float64) { s.TimeMax = seconds(v) }},
	{Cost, "budget", "USD", true, false, true,
		func(s Spec) float64 { return s.CostMaxUSD }, func(s *Spec, v float64) { s.CostMaxUSD = v }},
	{Throughput, "min-throughput", "samples/s", false, true, false,
		func(s Spec) float64 { return s.ThroughputMin }, func(s *Spec, v float64) { s.ThroughputMin = v }},
	{Memory, "max-memory", "GiB", true, false, false,
		func(s Spec) float64 { return s.MemoryMaxGiB }, func(s *Spec, v float64) { s.MemoryMaxGiB = v }},
	{GPUUtil, "min-gpu-util", "%", false, true, false,
		func(s Spec) float64 { return s.GPUUtilMinPct }, func(s *Spec, v float64) { s.GPUUtilMinPct = v }},
	{CPUUtil, "min-cpu-util", "%", false, true, false,
		func(s Spec) float64 { return s.CPUUtilMinPct }, func(s *Spec, v float64) { s.CPUUtilMinPct = v }},
}

// targetOf returns the description of an objective; false if it is unknown.
func targetOf(o Objective) (target, bool) {
	for _, t := range targets {
		if t.objective == o {
			return t, true
		}
	}
	return target{}, false
}

// seconds converts to a Duration without overflow: values out of range become the longest Duration of that sign, NaN
// 0.
func seconds(s float64) time.Duration {
	switch d := s * float64(time.Second); {
	case math.IsNaN(d):
		return 0
	case d >= math.MaxInt64:
		return math.MaxInt64
	case d <= math.MinInt64:
		return math.MinInt64
	default:
		return time.Duration(math.Round(d))
	}
}

// New returns a Spec with the explicitly given limits (time in seconds, cost in USD, memory in GiB, utilization in
// %). Unlike a zero field of Spec, a given 0 is a limit. As a maximum it is an error, because a deadline of 0 has
// already passed and a budget or memory limit of 0 permits nothing; as a minimum it has no effect and is dropped. The
// error joins all problems, each with the name of its command-line flag.
func New(given map[Objective]float64) (Spec, error) {
	var spec Spec
	var problems []error
	for _, t := range targets {
		v, ok := given[t.objective]
		if !ok {
			continue
		}
		if v == 0 && t.maximum {
			problems = append(problems, fmt.Errorf("%s 0: %s", t.flag, infeasibleReason(t.objective)))
			continue
		}
		if err := t.check(v); err != nil {
			problems = append(problems, err)
			continue
		}
		t.set(&spec, v)
	}
	for o := range given {
		if _, ok := targetOf(o); !ok {
			problems = append(problems, fmt.Errorf("%q is not an objective; known are %s", string(o), objectiveList()))
		}
	}
	if len(problems) > 0 {
		return Spec{}, errors.Join(problems...)
	}
	return spec, nil
}

// infeasibleReason explains why a maximum of 0 or less permits no run.
func infeasibleReason(o Objective) string {
	switch o {
	case Time:
		return "it has already passed; give a time from the start of the run, such as 90m"
	case Cost:
		return "nothing could be spent; give an amount in USD above 0, or leave it out"
	default:
		return "nothing could run; give an amount in GiB above 0, or leave it out"
	}
}

// objectiveList returns the names of all objectives, separated by commas.
func objectiveList() string {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = string(t.objective)
	}
	return strings.Join(names, ", ")
}

// check returns the problem of a limit; nil for a valid one. 0 is valid and means no limit.
func (t target) check(v float64) error {
	switch {
	case math.IsNaN(v):
		return fmt.Errorf("%s is not a number", t.flag)
	case math.IsInf(v, 0):
		return fmt.Errorf("%s is infinite; leave it out for no limit", t.flag)
	case v < 0 && t.maximum:
		return fmt.Errorf("%s %s: %s", t.flag, t.format(v), infeasibleReason(t.objective))
	case v < 0:
		return fmt.Errorf("%s %s is negative", t.flag, t.format(v))
	case v > 100 && t.unit == "%":
		return fmt.Errorf("%s %s is above 100 %%", t.flag, t.format(v))
	case t.objective == Time && v > 0 && seconds(v) == 0:
		return fmt.Errorf("%s %g s is below one nanosecond", t.flag, v)
	case t.objective == Time && seconds(v) == math.MaxInt64:
		return fmt.Errorf("%s %g s is longer than a duration can hold (292 years); leave it out for no limit", t.flag, v)
	}
	return nil
}

// format returns a limit with its unit, a deadline in the notation of the flag.
func (t target) format(v float64) string {
	if t.objective == Time {
		return seconds(v).String() // the notation of --deadline
	}
	return strconv.FormatFloat(v, 'g', -1, 64) + " " + t.unit
}

// Validate returns all problems of the SLA, joined by errors.Join: negative, NaN or infinite limits, and utilization
// above 100 %. The zero Spec is valid and has no limits.
func (s Spec) Validate() error {
	var problems []error
	for _, t := range targets {
		if err := t.check(t.get(s)); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// Agreed returns the objectives that have a limit, in the fixed order.
func (s Spec) Agreed() []Objective {
	var list []Objective
	for _, t := range targets {
		if t.get(s) > 0 {
			list = append(list, t.objective)
		}
	}
	return list
}

// Limit returns the limit of an objective, whether it is a maximum or a minimum, its unit, and whether a limit is set
// at all; without one, limit is 0. An unknown objective has neither a limit nor a unit.
func (s Spec) Limit(o Objective) (limit float64, maximum bool, unit string, agreed bool) {
	t, ok := targetOf(o)
	if !ok {
		return 0, false, "", false
	}
	if limit = t.get(s); !(limit > 0) {
		return 0, t.maximum, t.unit, false
	}
	return limit, t.maximum, t.unit, true
}

// Hash identifies the SLA by 16 hexadecimal digits. Equal limits have the same hash on every machine and in every
// version; objectives without a limit do not affect it.
func (s Spec) Hash() string {
	var b strings.Builder
	b.WriteString("sla/1")
	for _, t := range targets {
		if v := t.get(s); v != 0 {
			fmt.Fprintf(&b, " %s=%s", t.objective, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// String returns one line, such as "deadline 2h0m0s, budget 10 USD"; "no limits" for the zero Spec.
func (s Spec) String() string {
	var parts []string
	for _, t := range targets {
		if v := t.get(s); v != 0 {
			parts = append(parts, t.flag+" "+t.format(v))
		}
	}
	if len(parts) == 0 {
		return "no limits"
	}
	return strings.Join(parts, ", ")
}

// Exhausted returns an error that joins all limits already used up before a run starts or continues; nil if none is.
// elapsed is the time since the run's first start and spentUSD its cost so far, NaN if unknown.
func (s Spec) Exhausted(elapsed time.Duration, spentUSD float64) error {
	var problems []error
	if s.TimeMax > 0 && elapsed >= s.TimeMax {
		problems = append(problems, fmt.Errorf("deadline %s has passed: %s since the start of the run; give a later deadline",
			wording.Duration(s.TimeMax.Seconds()), wording.Duration(elapsed.Seconds())))
	}
	if s.CostMaxUSD > 0 && spentUSD >= s.CostMaxUSD {
		problems = append(problems, fmt.Errorf("budget %g USD is exhausted: %.4g USD spent; give a larger budget",
			s.CostMaxUSD, spentUSD))
	}
	return errors.Join(problems...)
}
