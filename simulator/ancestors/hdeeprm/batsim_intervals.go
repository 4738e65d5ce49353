package hdeeprm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxIntervals is the maximum number of elements of a set of intervals.
const maxIntervals = 1 << 24

// FormatIntervals formats a set of numbers as Batsim does: maximal closed intervals, ascending, "0-3 7"; "" if empty.
// Numbers may be unsorted and repeated.
func FormatIntervals(numbers []int32) string {
	if !slices.IsSorted(numbers) {
		numbers = slices.Sorted(slices.Values(numbers))
	}
	var b strings.Builder
	for i := 0; i < len(numbers); {
		k := i
		for k+1 < len(numbers) && numbers[k+1]-numbers[k] <= 1 {
			k++
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(int(numbers[i])))
		if numbers[k] != numbers[i] {
			b.WriteString("-" + strconv.Itoa(int(numbers[k])))
		}
		i = k + 1
	}
	return b.String()
}

// ParseIntervals parses a set of intervals separated by spaces or commas and returns its numbers, ascending and
// without duplicates. At most 2²⁴.
func ParseIntervals(text string) ([]int32, error) {
	var out []int32
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		low, high, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseInt(low, 10, 32)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseInt(high, 10, 32)
		}
		if err != nil || a < 0 || b < a {
			return nil, fmt.Errorf("intervals %q: %q is neither a number nor two as 0-3", clip([]byte(text)), part)
		}
		if len(out)+int(b-a) >= maxIntervals {
			return nil, fmt.Errorf("intervals %q: more than %d numbers", clip([]byte(text)), maxIntervals)
		}
		for n := a; n <= b; n++ {
			out = append(out, int32(n))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
