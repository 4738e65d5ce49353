package workload

import (
	"math"
	"strconv"
	"strings"
)

// readPhillyRow reads a job without a type; its queue is the virtual cluster.
func readPhillyRow(r *row, j *Job) {
	j.Arrival = r.date("timestamp")
	j.Seconds = r.number("duration")
	j.GPUs = r.whole("num_gpus")
	j.Queue = r.name("cluster")
	if math.IsNaN(j.Seconds) {
		r.fail("no duration")
	}
}

// readPhillySLORow reads times in minutes. Deadlines are relative to the arrival; the deadline column of best-effort
// jobs is ignored.
func readPhillySLORow(r *row, j *Job) {
	const minute = 60
	j.ID = r.whole("job_id")
	j.Queue = r.name("user")
	j.Type = r.name("model_name")
	j.GPUs = r.whole("num_gpu")
	j.Steps = r.number("iterations")
	j.Arrival = r.number("submit_time") * minute
	j.Seconds = r.number("duration") * minute
	if math.IsNaN(j.Seconds) {
		r.fail("no duration")
	}
	switch kind := r.text("job_type"); kind {
	case "best":
	case "strict", "soft":
		first, _, _ := strings.Cut(r.text("expect_time_list"), "-")
		after, err := strconv.ParseFloat(first, 64)
		if err != nil || math.IsNaN(after) {
			r.fail("expect_time_list is not a list of numbers")
		}
		j.Deadline = j.Arrival + after*minute
	default:
		r.fail("job_type is none of strict, soft, best")
	}
}

// readElasticFlowRow reads a job; best-effort jobs have no deadline.
func readElasticFlowRow(r *row, j *Job) {
	j.ID = r.whole("job_id")
	j.Type = typeOf(r, "model_name")
	j.GPUs = r.whole("num_gpu")
	j.Steps = r.number("iteration")
	j.Arrival = r.number("submit_time")
	j.Seconds = r.number("duration")
	if math.IsNaN(j.Seconds) {
		r.fail("no duration")
	}
	if r.text("best_effort") != "1" {
		j.Deadline = r.number("ddl")
	}
}

// readSiaRow reads a job without duration and steps, which follow from the profiles.
func readSiaRow(r *row, j *Job) {
	j.Type = typeOf(r, "application")
	j.GPUs = r.whole("num_replicas")
	j.Arrival = r.number("time")
}

// typeOf returns the job type of a model and its batch size, as in throughput tables.
func typeOf(r *row, model string) string {
	name, batch := r.text(model), r.whole("batch_size")
	if name == "" || batch < 1 {
		r.fail("no model or no batch size")
	}
	full := WithBatch(name, batch)
	if kept, ok := r.names[full]; ok {
		return kept
	}
	r.names[full] = full
	return full
}
