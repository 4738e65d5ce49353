package cli

import (
	"slices"

	"trainopt/internal/wording"
)

// Nearest returns the known word with the smallest edit distance; ties are broken alphabetically.
func Nearest(word string, known []string) string {
	for _, best := range wording.Nearest(word, slices.Sorted(slices.Values(known)), 1) {
		return best
	}
	return ""
}
