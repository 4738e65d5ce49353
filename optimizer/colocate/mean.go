package colocate

import (
	"math"

	"trainopt/optimizer/schedule/place"
)

// MeanRPS returns the mean throughput of the containers of a placement. Its interval treats the errors of the apps of a
// pattern, and of the nodes with the same pattern, as equal, and those of different patterns as independent; it is NaN if
// that of a pattern is unknown. The mean is NaN if a pattern has no row.
func MeanRPS(p place.Placement, rows []Row) Estimate {
	byPattern := map[string]*Row{}
	for i := range rows {
		byPattern[string(rows[i].Counts)] = &rows[i]
	}
	nodes := map[string]float64{}
	for _, counts := range p {
		nodes[string(counts)]++
	}
	sum, square, containers := 0.0, 0.0, 0.0
	for pattern, n := range nodes {
		size := sizeOf([]uint8(pattern))
		if size == 0 {
			continue
		}
		r := byPattern[pattern]
		if r == nil {
			return none
		}
		mean, half := 0.0, 0.0
		for a, k := range r.Counts {
			if k > 0 {
				mean += float64(k) * r.RPS[a].Mean
				if r.Cycles > 0 {
					half += float64(k) * r.RPS[a].Half()
				}
			}
		}
		sum, square, containers = sum+n*mean, square+n*half*n*half, containers+n*float64(size)
	}
	mean, half := sum/containers, math.Sqrt(square)/containers
	return Estimate{mean, mean - half, mean + half}
}
