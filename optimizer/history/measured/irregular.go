package measured

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/history"
)

// Irregular returns the ids of Gavel's entries on curves whose throughput changes by a factor above 2.2 or below 0.8
// when the GPUs of one machine are doubled at the same batch size per GPU. Such points were measured on different
// machines: each one is a valid measurement, but the curve is not the scaling of one machine. None of them is
// embedded.
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
		if slices.ContainsFunc(c, func(e history.Entry) bool { return isIrregularStep(c, e) }) {
			for _, e := range c {
				out[e.ID] = true
			}
		}
	}
	return out
}

// isIrregularStep reports whether the throughput leaps from e to the point with twice its GPUs.
func isIrregularStep(curve []history.Entry, e history.Entry) bool {
	return slices.ContainsFunc(curve, func(twice history.Entry) bool {
		r := twice.Throughput / e.Throughput
		return twice.Observed.GPUs == 2*e.Observed.GPUs && (r > 2.2 || r < 0.8)
	})
}
