// Package suggest finds what a misspelt name was meant to be.
//
//	suggest.Nearest("v1oo", []string{"k80", "v100"}, 1) // v100
package suggest

import (
	"slices"
	"strings"
)

// Nearest returns the n known names with the smallest distance to name, ignoring case; names at the same distance keep their
// order.
func Nearest(name string, known []string, n int) []string {
	name = strings.ToLower(name)
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int { return Distance(name, strings.ToLower(a)) - Distance(name, strings.ToLower(b)) })
	return sorted[:min(n, len(sorted))]
}

// Distance returns the edit distance of Levenshtein (1966) in bytes. O(len(a)·len(b)).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
