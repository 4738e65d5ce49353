package workload

import (
	"math"
)

// readJobsRow reads a row of our own format, which has a column for every field of a job.
func readJobsRow(r *row, j *Job) {
	j.ID = r.whole("id")
	j.Type = r.name("type")
	j.Arrival = r.number("arrival_s")
	j.GPUs = r.whole("gpus")
	j.Steps = r.number("steps")
	j.Seconds = r.number("seconds")
	if w := r.number("weight"); !math.IsNaN(w) {
		j.Weight = w
	}
	j.SLO = r.number("slo")
	j.Deadline = r.number("deadline_s")
	j.User, j.Queue, j.Mode = r.name("user"), r.name("queue"), r.name("mode")
}
