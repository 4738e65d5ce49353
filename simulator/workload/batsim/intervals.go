package batsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxIntervals bounds how many numbers a set of intervals may have.
const maxIntervals = 1 << 24

// FormatIntervals writes a set of numbers as Batsim does: closed intervals as long as can be, ascending, "0-3 7"; "" is empty.
// Numbers may be in any order, and there more than once.
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

// ParseIntervals reads a set of intervals, parted by blanks or commas: its numbers ascending, each once. At most 2²⁴.
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
