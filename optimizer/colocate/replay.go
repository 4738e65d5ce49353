package colocate

import (
	"context"
	"errors"
	"math"

	"trainopt/optimizer/schedule/place"
)

// Replay is a Measurer that returns the rows of an earlier profile, to try a share of the patterns without measuring.
type Replay []Row

// Measure returns the row of the pattern as identical cycles. It returns an error for a pattern without a row.
func (rows Replay) Measure(_ context.Context, counts []uint8, enough func(Cycle) bool) error {
	for _, r := range rows {
		if string(r.Counts) != string(counts) {
			continue
		}
		c := Cycle{Alone: r.Alone, Foreign: r.Foreign, Steal: r.Steal}
		for a := range counts {
			c.RPS, c.CPU, c.Wall = append(c.RPS, r.RPS[a].Mean), append(c.CPU, r.CPU[a].Mean), append(c.Wall, r.Wall[a].Mean)
		}
		for !enough(c) {
		}
		return nil
	}
	return errors.New("it is not among the replayed rows")
}

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
