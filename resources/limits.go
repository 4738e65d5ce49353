package resources

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// DefaultLimits returns the limits used if the user sets none: the resources of the host. A job that uses no GPU gets
// none; otherwise it gets 1 to all of them. A twentieth of the memory, at most 2 GiB, is reserved for the agent and
// the system, so that a job that exceeds its share is stopped before the machine runs out of memory. The batch size
// remains the script's own.
func (h Host) DefaultLimits(usesGPU bool) Limits {
	l := Limits{CPUs: Range{1, h.wholeCPUs()}}
	if usesGPU && len(h.GPUs) > 0 {
		l.GPUs = Range{1, len(h.GPUs)}
	}
	m := float64(h.Memory)
	keep := min(2, m/20)
	l.MemoryMax = GiB(m - keep)
	if l.MemoryMax > 1 {
		l.MemoryMax = GiB(math.Floor(float64(l.MemoryMax)*4) / 4)
	}
	l.MemoryMin = min(1, l.MemoryMax)
	return l
}

// Ranges are restrictions of Limits as a user writes them, in the form "A:B"; empty restricts nothing.
type Ranges struct {
	GPUs, CPUs, Memory, BatchSize string
}

// Restrict replaces the limits by the given ranges, in which a missing end is that of l. The error joins the problems of
// all ranges, each with the name of its flag; invalid ranges change nothing.
func (l *Limits) Restrict(r Ranges) error {
	var errs []error
	whole := func(flag, text string, into *Range) {
		if text == "" {
			return
		}
		restricted, err := ParseRange(text, *into)
		if err == nil && flag == "batch-size" && restricted.Max < 1 {
			err = fmt.Errorf("range %q: want at least 1", text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		*into = restricted
	}
	whole("gpus", r.GPUs, &l.GPUs)
	whole("cpus", r.CPUs, &l.CPUs)
	whole("batch-size", r.BatchSize, &l.BatchSize)
	if r.Memory != "" {
		lo, hi, err := parseMemoryRange(r.Memory, l.MemoryMin, l.MemoryMax)
		if err != nil {
			errs = append(errs, fmt.Errorf("--memory: %w", err))
		} else {
			l.MemoryMin, l.MemoryMax = lo, hi
		}
	}
	return errors.Join(errs...)
}

// wholeCPUs returns the number of CPUs that can be allocated: at least one, even of half a CPU.
func (h Host) wholeCPUs() int { return max(1, int(math.Floor(h.CPUs+1e-9))) }

// FractionalCPUs returns the number of CPUs if it is not a whole one, as by the quota of a container; 0 otherwise.
func (h Host) FractionalCPUs() float64 {
	if h.CPUs == math.Trunc(h.CPUs) {
		return 0
	}
	return h.CPUs
}

// ParseRange parses "A:B", "A" (exactly A), "A:" and ":B"; a missing end is that of within. Only integers from 0 on
// are accepted. A within.Max of 0 means no upper end: "A:" is then an error.
func ParseRange(s string, within Range) (Range, error) {
	lo, hi, err := splitRange(s)
	if err != nil {
		return Range{}, err
	}
	r := within
	if lo != "" {
		if r.Min, err = wholeNumber(lo); err != nil {
			return Range{}, fmt.Errorf("range %q: %w", s, err)
		}
	}
	if hi != "" {
		if r.Max, err = wholeNumber(hi); err != nil {
			return Range{}, fmt.Errorf("range %q: %w", s, err)
		}
	} else if within.Max == 0 && r.Min > 0 {
		return Range{}, fmt.Errorf("range %q: the upper end is needed here", s)
	}
	if r.Min > r.Max {
		return Range{}, fmt.Errorf("range %q: from %d to %d is empty", s, r.Min, r.Max)
	}
	return r, nil
}

// parseMemoryRange parses the same forms in GiB; fractions and the suffixes GiB, G, MiB and M are accepted
// ("512M:16").
func parseMemoryRange(s string, withinMin, withinMax GiB) (lo, hi GiB, err error) {
	a, b, err := splitRange(s)
	if err != nil {
		return 0, 0, err
	}
	lo, hi = withinMin, withinMax
	if a != "" {
		if lo, err = memoryAmount(a); err != nil {
			return 0, 0, fmt.Errorf("memory range %q: %w", s, err)
		}
	}
	if b != "" {
		if hi, err = memoryAmount(b); err != nil {
			return 0, 0, fmt.Errorf("memory range %q: %w", s, err)
		}
	} else if withinMax <= 0 {
		return 0, 0, fmt.Errorf("memory range %q: the upper end is needed here", s)
	}
	if lo > hi {
		return 0, 0, fmt.Errorf("memory range %q: from %.4g to %.4g GiB is empty", s, float64(lo), float64(hi))
	}
	return lo, hi, nil
}

// splitRange separates the ends; "A" yields A twice, and a missing end is empty.
func splitRange(s string) (lo, hi string, err error) {
	lo, hi, ranged := strings.Cut(strings.TrimSpace(s), ":")
	lo, hi = strings.TrimSpace(lo), strings.TrimSpace(hi)
	if !ranged {
		hi = lo
	}
	if lo == "" && hi == "" {
		return "", "", fmt.Errorf("range %q: write A:B, A: or A", s)
	}
	return lo, hi, nil
}

// wholeNumber parses an integer from 0 on.
func wholeNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is too large", s)
	}
	if err != nil {
		if _, ferr := strconv.ParseFloat(s, 64); ferr == nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return n, nil
}

// memoryAmount parses a positive amount of memory with an optional unit; the default unit is GiB.
func memoryAmount(s string) (GiB, error) {
	unit := 1.0
	number := strings.ToLower(s)
	for _, u := range []struct {
		suffix string
		gib    float64
	}{{"gib", 1}, {"g", 1}, {"mib", 1. / 1024}, {"m", 1. / 1024}} {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.gib
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || math.IsNaN(v):
		return 0, fmt.Errorf("%q is not an amount of memory in GiB", s)
	case v < 0:
		return 0, fmt.Errorf("%q is negative", s)
	case v == 0:
		return 0, fmt.Errorf("%q is no memory at all", s)
	case v*unit > 1<<30:
		return 0, fmt.Errorf("%q is too large", s)
	}
	return GiB(v * unit), nil
}

// name returns the host's name for error messages.
func (h Host) name() string {
	if h.Described != "" {
		return h.Described
	}
	if h.Nodes > 0 {
		return "a node"
	}
	return "this machine"
}

// Check returns all problems of allocating a to a job on h within the limits, joined: too large, zero, negative or
// not a number, a duplicate device, or a device that no longer exists. Nil means that the allocation is possible.
func (l Limits) Check(a Allocation, h Host) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	within := func(name string, n, least int, r Range, has int) {
		switch {
		case n < 0:
			bad("%s: %d is negative", name, n)
		case n < least:
			bad("%s: %d given, at least %d is needed", name, n, least)
		case n > has:
			bad("%s: %d given, %s has %d", name, n, h.name(), has)
		case n < r.Min || n > r.Max:
			bad("%s: %d is outside the limits %d to %d", name, n, r.Min, r.Max)
		}
	}
	within("GPUs", a.GPUs, 0, l.GPUs, len(h.GPUs))
	within("CPUs", a.CPUs, 1, l.CPUs, h.wholeCPUs())
	switch m := float64(a.Memory); {
	case math.IsNaN(m) || math.IsInf(m, 0):
		bad("memory: %v GiB is not an amount", m)
	case m < 0:
		bad("memory: %.4g GiB is negative", m)
	case m == 0:
		bad("memory: none given")
	case a.Memory > h.Memory:
		bad("memory: %.6g GiB given, %s has %.4g GiB", m, h.name(), float64(h.Memory))
	case a.Memory < l.MemoryMin || a.Memory > l.MemoryMax:
		bad("memory: %.4g GiB is outside the limits %.4g to %.4g GiB", m, float64(l.MemoryMin), float64(l.MemoryMax))
	}
	if b := l.BatchSize; a.BatchSize < 0 || (a.BatchSize > 0 && b != (Range{}) && (a.BatchSize < b.Min || a.BatchSize > b.Max)) {
		bad("batch size: %d is outside the limits %d to %d", a.BatchSize, b.Min, b.Max)
	}
	if a.NumWorkers < 0 {
		bad("workers: %d is negative", a.NumWorkers)
	}
	if a.Threads < 0 {
		bad("threads: %d is negative", a.Threads)
	}
	return errors.Join(append(errs, checkDevices(a, h)...)...)
}

// checkDevices checks that the chosen devices match their number, are distinct and exist on the host.
func checkDevices(a Allocation, h Host) (errs []error) {
	if len(a.GPUIDs) > 0 && len(a.GPUIDs) != a.GPUs {
		errs = append(errs, fmt.Errorf("GPUs: %d given, %d devices named", a.GPUs, len(a.GPUIDs)))
	}
	for i, id := range a.GPUIDs {
		if slices.Contains(a.GPUIDs[:i], id) {
			errs = append(errs, fmt.Errorf("GPUs: device %s is named twice", id))
		} else if !slices.ContainsFunc(h.GPUs, func(g GPU) bool { return g.UUID == id }) {
			errs = append(errs, fmt.Errorf("GPUs: device %s is not (or no longer) there on %s", id, h.name()))
		}
	}
	return errs
}

// Clip moves every number to the nearest value within the limits. Chosen devices are cleared if their number changes;
// an unknown batch size stays unknown.
func (l Limits) Clip(a Allocation) Allocation {
	gpus := l.GPUs.clip(a.GPUs)
	if gpus != a.GPUs {
		a.GPUs, a.GPUIDs = gpus, nil
	}
	a.CPUs = l.CPUs.clip(a.CPUs)
	if math.IsNaN(float64(a.Memory)) {
		a.Memory = l.MemoryMin
	}
	a.Memory = max(l.MemoryMin, min(l.MemoryMax, a.Memory))
	if a.BatchSize != 0 && l.BatchSize != (Range{}) {
		a.BatchSize = l.BatchSize.clip(a.BatchSize)
	}
	a.NumWorkers, a.Threads = max(0, a.NumWorkers), max(0, a.Threads)
	return a
}

func (r Range) clip(n int) int { return max(r.Min, min(r.Max, n)) }
