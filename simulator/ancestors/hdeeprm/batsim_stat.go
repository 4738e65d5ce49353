package hdeeprm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// fieldNames and Stats are the arguments supported by Stat.
var (
	fieldNames = []string{"req_time", "size", "mem", "mem_bw"}
	stats      = []string{"min", "max", "mean", "median", "p95", "p99"}
)

// Stat returns a statistic of a field over all jobs, as printed by hdeeprm-jobstat: requested time (s), size (cores),
// memory (MB) or bandwidth (GB/s) per core. Percentiles are interpolated between jobs. A workload without jobs is an
// error.
func (w *BatsimWorkload) Stat(field, stat string) (float64, error) {
	if !slices.Contains(fieldNames, field) {
		return 0, fmt.Errorf("statistics of jobs: unknown field %q; there are %s", field, strings.Join(fieldNames, ", "))
	}
	values := make([]float64, len(w.Jobs))
	for i, j := range w.Jobs {
		p := w.Profiles[j.Profile]
		switch field {
		case "req_time":
			values[i] = p.RequestTime
		case "size":
			values[i] = float64(j.Resources)
		case "mem":
			values[i] = p.Memory
		case "mem_bw":
			values[i] = p.Bandwidth
		}
	}
	if len(values) == 0 {
		return 0, errors.New("statistics of jobs: the workload has none")
	}
	slices.Sort(values)
	switch stat {
	case "min":
		return values[0], nil
	case "max":
		return values[len(values)-1], nil
	case "mean":
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return sum / float64(len(values)), nil
	case "median":
		return percentile(values, 50), nil
	case "p95":
		return percentile(values, 95), nil
	case "p99":
		return percentile(values, 99), nil
	}
	return 0, fmt.Errorf("statistics of jobs: unknown statistic %q; there are %s", stat, strings.Join(stats, ", "))
}

// percentile returns the p-th percentile of ascending values, interpolated as in NumPy's default; NaN without values.
func percentile(ascending []float64, p float64) float64 {
	if len(ascending) == 0 {
		return math.NaN()
	}
	at := p / 100 * float64(len(ascending)-1)
	low := min(max(int(at), 0), len(ascending)-1)
	high := min(low+1, len(ascending)-1)
	a, b, t := ascending[low], ascending[high], at-float64(low)
	if t >= 0.5 { // as in NumPy: interpolate from the nearer end
		return b - (b-a)*(1-t)
	}
	return a + (b-a)*t
}
