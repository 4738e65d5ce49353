package measured

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/history"
)

// Irregular gives the ids of entries of Gavel that belong to a curve whose throughput changes by more than 2.2 times, or less
// than 0.8 times, for twice the GPUs of one machine at the same batch per GPU: numbers from different machines, and not the
// scaling of one. They are true measurements of their kind one by one and mislead as a curve; none is embedded.
func Irregular(entries []history.Entry) map[string]bool {
	curves := map[string][]history.Entry{}
	for _, e := range entries {
		if strings.HasPrefix(e.ID, "gavel/") {
			k := fmt.Sprint(e.Job.Model, e.Observed.GPU, e.Observed.Batch/e.Observed.GPUs)
			curves[k] = append(curves[k], e)
		}
	}
	out := map[string]bool{}
	for _, c := range curves {
		if slices.ContainsFunc(c, func(e history.Entry) bool { return leaps(c, e) }) {
			for _, e := range c {
				out[e.ID] = true
			}
		}
	}
	return out
}

// leaps tells whether the curve leaps from e to twice its GPUs.
func leaps(curve []history.Entry, e history.Entry) bool {
	return slices.ContainsFunc(curve, func(twice history.Entry) bool {
		r := twice.Throughput / e.Throughput
		return twice.Observed.GPUs == 2*e.Observed.GPUs && (r > 2.2 || r < 0.8)
	})
}
