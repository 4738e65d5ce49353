package cli

import (
	"slices"
	"strings"
)

// Nearest returns the known word with the smallest edit distance; ties are broken alphabetically.
func Nearest(word string, known []string) string {
	best, bestD := "", 1<<30
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := EditDistance(strings.ToLower(word), strings.ToLower(k)); d < bestD {
			best, bestD = k, d
		}
	}
	return best
}

// EditDistance returns the Levenshtein distance of a and b in O(len(a)·len(b)).
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			d := diag
			if a[i-1] != b[j-1] {
				d++
			}
			diag = row[j]
			row[j] = min(d, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
