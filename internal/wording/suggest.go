package wording

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

// Distance returns the number of insertions, deletions, substitutions and transpositions of neighbours that turn a into
// b, in bytes (Damerau 1964, optimal string alignment). O(len(a)·len(b)).
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			substitute := last[j]
			if a[i] != b[j] {
				substitute++
			}
			row[j+1] = min(substitute, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
