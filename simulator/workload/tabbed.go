package workload

import (
	"math"
)

// readGavelRow reads the columns of the format: Gavel's new and old formats and Shockwave's have different ones. A
// negative SLO means none. The command, its directory and its flag follow from the type and are not kept.
func readGavelRow(r *row, j *Job) {
	j.Type = r.name("type")
	if j.Type == "" {
		r.fail("no job type")
	}
	j.Steps = r.number("steps")
	if math.IsNaN(j.Steps) {
		r.fail("no steps")
	}
	j.GPUs = r.whole("gpus")
	j.Arrival = r.number("arrival")
	j.SLO = r.nonNegative("slo")
	j.Seconds = r.number("duration")
	j.Mode = r.name("mode")
	if w := r.number("weight"); !math.IsNaN(w) {
		j.Weight = w
	}
}
