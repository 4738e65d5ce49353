package render

import (
	"fmt"
	"io"
	"strings"

	"trainopt/simulator/evaluate"
	"trainopt/simulator/rounds"
)

// about is a policy in a few words: what it does, and what it must be told of jobs beside how many devices they ask for.
type about struct{ does, needs string }

// What policies need to know.
const (
	nothing   = "nothing"
	rates     = "throughputs"
	together  = "throughputs, alone and in pairs"
	work      = "throughputs, steps that remain"
	workPairs = "throughputs, alone and in pairs, steps that remain"
	weights   = "throughputs, priorities"
	deadlines = "throughputs, steps that remain, deadlines, prices"
)

// described are the policies of which more is said than their traits.
var described = map[string]about{
	"allox":                                      {"least mean completion time of jobs on one device, by assignment (AlloX)", work},
	"fifo":                                       {"first come, first served, on any device type", nothing},
	"fifo_perf":                                  {"first come, first served, on the fastest device type that is free", rates},
	"fifo_packed":                                {"fifo_perf, and who waits may share devices", together},
	"gandiva":                                    {"equal shares; random pairs share devices while that helps", together},
	"isolated":                                   {"each job has its own equal part of the cluster", nothing},
	"proportional":                               {"each job has every device type for the same share of time", nothing},
	"srtf":                                       {"least remaining time first", work},
	"finish_time_fairness":                       {"least slowdown against having an own part of the cluster (Themis), device types taken as alike", work},
	"finish_time_fairness_perf":                  {"least slowdown against having an own part of the cluster (Themis)", work},
	"finish_time_fairness_packed":                {"the same, and pairs may share devices", workPairs},
	"hierarchical_fairness_perf":                 {"weighted fairness among users, fairness within each", weights},
	"hierarchical_fairness_packed":               {"the same, and pairs may share devices", weights + ", pairs"},
	"hierarchical_fifo_perf":                     {"weighted fairness among users, first come first served within each", weights},
	"hierarchical_fifo_packed":                   {"the same, and pairs may share devices", weights + ", pairs"},
	"max_min_fairness":                           {"least attained service: equal time for all, device types taken as alike", "priorities"},
	"max_min_fairness_perf":                      {"least attained service by throughput: whoever gets least gets as much as possible", weights},
	"max_min_fairness_packed":                    {"the same, and pairs may share devices", weights + ", pairs"},
	"max_min_fairness_water_filling":             {"max_min_fairness, and then the next least, and so on", "priorities"},
	"max_min_fairness_water_filling_perf":        {"max_min_fairness_perf, and then the next least, and so on", weights},
	"max_min_fairness_water_filling_packed":      {"the same, and pairs may share devices", weights + ", pairs"},
	"max_sum_throughput_perf":                    {"most steps per second of all jobs together", rates},
	"max_sum_throughput_normalized_by_cost_perf": {"most steps per dollar", "throughputs, prices"},
	"max_sum_throughput_normalized_by_cost_perf_SLOs":   {"most steps per dollar that keep deadlines", deadlines},
	"max_sum_throughput_normalized_by_cost_packed_SLOs": {"the same, and pairs may share devices", deadlines + ", pairs"},
	"min_total_duration":                                {"least makespan, device types taken as alike", work},
	"min_total_duration_perf":                           {"least makespan", work},
	"min_total_duration_packed":                         {"least makespan, and pairs may share devices", workPairs},
	"strategy_proof":                                    {"greatest product of progress, with payment for what others lose, device types taken as alike", weights},
	"strategy_proof_perf":                               {"greatest product of progress, with payment for what others lose", weights},
}

// Policies writes which policies there are, what each does, and what it must be told of jobs.
func Policies(w io.Writer) error {
	var b strings.Builder
	for _, n := range rounds.PolicyNames() {
		d, ok := described[n]
		if !ok {
			d = undescribed(n)
		}
		fmt.Fprintf(&b, "%s\n", n)
		for _, line := range []string{d.does, "must know: " + d.needs} {
			b.WriteString("  " + evaluate.Wrapped(line, "  "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// undescribed is what the traits of a policy say.
func undescribed(name string) about {
	a := about{does: "see its source", needs: "see its source"}
	p, err := rounds.NewPolicy(name, rounds.PolicyOptions{})
	if err != nil {
		return a
	}
	if d, ok := p.(rounds.Described); ok && d.Traits().Packs {
		a.needs = together
	}
	return a
}
