package sweep

import (
	"maps"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue"
)

// described holds descriptions of names that are not orders: backfilling algorithms, and the job and core policies of
// HDeepRM.
var described = map[string]string{
	"none":         "nothing overtakes the first of the queue",
	"easy":         "what does not delay the first of the queue, by the requested times (Lifka, JSSPP 1995)",
	"conservative": "what delays no job that waits: each has a reservation (Mu'alem and Feitelson, TPDS 2001)",
	"rlscheduler":  "as RLScheduler's simulator does it: less than easy (Zhang et al., SC 2020)",

	"job random":     "any, chosen again at each decision",
	"job first":      "first come, first served",
	"job shortest":   "lowest requested time",
	"job smallest":   "fewest cores",
	"job low_mem":    "least memory of a core",
	"job low_mem_bw": "least bandwidth of a core",

	"core random":          "any free core",
	"core high_gflops":     "fastest cores",
	"core high_cores":      "processors with the most busy cores: what HDeepRM's code does under this name",
	"core high_free_cores": "processors with the most free cores: as documented for high_cores",
	"core high_mem":        "nodes with the most memory left",
	"core high_mem_bw":     "processors with the most bandwidth left",
	"core low_power":       "cores of the lowest power at work",
}

// PolicyList returns the names, descriptions and sources of all policies.
func PolicyList() (out experiment.List) {
	line := func(name, what string) {
		out = append(out, experiment.Listed{Name: name, Lines: []string{what}})
	}
	head := func(text string) { line("", text) }
	head("Orders (--policy): which waiting job is next; on equal processors, and with a placement on platforms")
	for _, n := range slices.Sorted(maps.Keys(order.Orders)) {
		line(n, order.Orders[n].What)
	}
	head("Search (--policy)")
	line(learnedKind, "on equal processors: ten weights on what is known of a job, learned by evolution on drawn workloads (this program)")
	line(Rollout, "candidates are tried out: on equal processors while arrivals are guessed from the past, seconds for a thousand jobs; on platforms orders and placements (this program, after Bertsekas et al. 1997)")
	head("Backfilling (--backfill): which may overtake the first")
	for _, n := range queue.Backfills() {
		line(n, described[n])
	}
	head("Placements (--placement): where an order's jobs run on a platform")
	for _, n := range queue.Placements() {
		line(n, queue.Describe(n))
	}
	head("Pairs (--policy JOB-CORE, shortest-high_gflops say), on platforms: HDeepRM's (Herrera and Bosque 2019). The job policy:")
	for _, n := range hdeeprm.JobPolicies() {
		line(n, described["job "+n])
	}
	head("and where it runs:")
	for _, n := range hdeeprm.CorePolicies() {
		line(n, described["core "+n])
	}
	head("Agents (--policy FILE): policy files of RLScheduler's kind on equal processors, of HDeepRM's on platforms; see `optimize pretrain --help`")
	return out
}
