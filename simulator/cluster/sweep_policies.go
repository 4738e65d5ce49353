package cluster

import (
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/experiment"
)

// about describes a policy: its objective, the information that it requires about jobs in addition to their number of
// devices, and its source.
type about struct{ does, needs, from string }

// Information that policies require.
const (
	nothing    = "nothing"
	knowsRates = "throughputs"
	pairs      = ", throughputs of pairs"
	work       = "throughputs, steps that remain"
	equal      = "priorities"
	weights    = "throughputs, priorities"
	teams      = weights + ", users or queues"
	deadlines  = "throughputs, steps that remain, deadlines, prices"
	sizes      = "throughputs by number of devices"
)

// Sources of policies.
const (
	fromGavel   = "Gavel, Narayanan et al., OSDI 2020"
	fifos       = fromGavel + ", section 4.4"
	fair        = fromGavel + ", section 4.1"
	others      = fromGavel + ", section 4.2"
	filling     = fromGavel + ", section 4.3"
	themis      = "Themis, Mahajan et al., NSDI 2020"
	themisToo   = themis + "; as a program: " + others
	nash        = "Cole, Gkatzelis and Goel, Mechanism design for fair division, EC 2013"
	thisProgram = "this program"
)

const andPairs = ", and pairs may share devices"

// described contains all policies. A new policy requires a line here.
var described = map[string]about{
	"allox":             {"least mean completion time of jobs on one device, by assignment", work, "AlloX, Le et al., EuroSys 2020"},
	"best_match":        {"most done, each job measured by the device type that is best for it: whole devices go where they help most", knowsRates, thisProgram},
	"best_match_packed": {"best_match while there are devices for all; else pairs share devices where both together get more done, and who has had least is preferred a little", knowsRates + pairs, thisProgram},
	"cheapest":          {"least cost; pays more only as far as deadlines ask for it; dear devices may stay idle", deadlines, thisProgram + "; late jobs: Moore, 1968"},
	"elasticflow":       {"most deadlines met, with as few devices as are enough; the rest where they help most; numbers of devices change", sizes + ", steps that remain, deadlines", "ElasticFlow, Gu et al., ASPLOS 2023, sections 4.2 and 4.3, simplified"},
	"fifo":              {"first come, first served, on any device type", nothing, fifos},
	"fifo_packed":       {"fifo_perf, and who waits may share devices", knowsRates + pairs, fifos},
	"fifo_perf":         {"first come, first served, on the fastest device type that is free", knowsRates, fifos},
	"gandiva":           {"equal shares; random pairs share devices while that helps", knowsRates + pairs, "Gandiva, Xiao et al., OSDI 2018, as in Gavel's comparison"},
	"isolated":          {"each job has its own equal part of the cluster", nothing, fair},
	"proportional":      {"each job has every device type for the same share of time", nothing, fair + ", its normaliser"},
	"sia":               {"most throughput relative to each job's least, evened out; numbers of devices change", sizes, "Sia, Jayaram Subramanya et al., SOSP 2023, section 3.3; throughput stands for goodput where the table says no goodput"},
	"sia_exploring":     {"sia for rates that are not known beforehand: on each type a job gets at most twice as many devices as it had there for a round", sizes, "the same"},
	"srtf":              {"least remaining time first, weighed against how much a device helps", work, "Schrage, 1968, with the assignment of best_match"},
	"srtf_packed":       {"best_match_packed, and the shortest rest is preferred a little instead", work + pairs, thisProgram},
	"themis":            {"least finish-time unfairness: whole devices go to the jobs that are worst off", work, themis + ", simplified: no auction"},
	"tiresias":          {"least attained service, in queues", "throughputs, only to choose a device type", "Tiresias, Gu et al., NSDI 2019, section 3.2"},

	"finish_time_fairness":         {"least slowdown against having an own part of the cluster, device types taken as alike", work, themisToo},
	"finish_time_fairness_packed":  {"finish_time_fairness_perf" + andPairs, work + pairs, themisToo},
	"finish_time_fairness_perf":    {"least slowdown against having an own part of the cluster", work, themisToo},
	"hierarchical_fairness_packed": {"hierarchical_fairness_perf" + andPairs, teams + pairs, filling},
	"hierarchical_fairness_perf":   {"weighted fairness among users, fairness within each", teams, filling},
	"hierarchical_fifo_packed":     {"hierarchical_fifo_perf" + andPairs, teams + pairs, filling},
	"hierarchical_fifo_perf":       {"weighted fairness among users, first come first served within each", teams, filling},

	"max_min_fairness":                      {"least attained service: equal time for all, device types taken as alike", equal, fair},
	"max_min_fairness_packed":               {"max_min_fairness_perf" + andPairs, weights + pairs, fair},
	"max_min_fairness_perf":                 {"least attained service by throughput: the job with the least gets as much as possible", weights, fair},
	"max_min_fairness_water_filling":        {"max_min_fairness, and then the next least, and so on", equal, filling},
	"max_min_fairness_water_filling_packed": {"max_min_fairness_water_filling_perf" + andPairs, weights + pairs, filling},
	"max_min_fairness_water_filling_perf":   {"max_min_fairness_perf, and then the next least, and so on", weights, filling},

	"max_sum_throughput_normalized_by_cost_packed_SLOs": {"max_sum_throughput_normalized_by_cost_perf_SLOs" + andPairs, deadlines + pairs, others},
	"max_sum_throughput_normalized_by_cost_perf":        {"most steps per dollar", "throughputs, prices", others},
	"max_sum_throughput_normalized_by_cost_perf_SLOs":   {"most steps per dollar that keep deadlines", deadlines, others},
	"max_sum_throughput_perf":                           {"most steps per second of all jobs together", knowsRates, others},

	"min_total_duration":        {"least makespan, device types taken as alike", work, others},
	"min_total_duration_packed": {"least makespan" + andPairs, work + pairs, others},
	"min_total_duration_perf":   {"least makespan", work, others},
	"strategy_proof":            {"greatest product of progress, with payment for what others lose, device types taken as alike", equal, nash},
	"strategy_proof_perf":       {"greatest product of progress, with payment for what others lose: no job gains by claiming wrong rates", weights, nash},
}

// PolicyList returns the policies with their objective, the information that they require about jobs, and their source.
func PolicyList() (out experiment.List) {
	for _, n := range share.Names() {
		d := described[n]
		out = append(out, experiment.Listed{Name: n, Lines: []string{d.does, "must know: " + d.needs, "from: " + d.from}})
	}
	return out
}
