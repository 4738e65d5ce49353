package metis

import (
	"fmt"

	"trainopt/optimizer/schedule/place"
)

// Notes on the published values.
const (
	read    = "values published as pictures are read off them: ±0.001 RPS, ±0.5 %"
	medians = "published values are medians over 30 groups, ours are means with 95 % intervals"
	scored  = "figures are scored on the measured table; the scoring data of the paper are not released"
	minutes = 60.0 // seconds
)

// figures is the registry of figures. A new figure is one entry here.
var figures = map[string]Figure{
	"medium": {
		About: "throughput and latency on 81 nodes (figure 8)", XName: "containers", LastGroup: 29,
		Methods: []string{"exact", "greedy", "metis", "medea", "medea-best", "paragon", "paragon-published"},
		Published: []line{
			{"metis", "mean_rps", "", []float64{1.162, 1.092, 1.028}},
			{"medea", "mean_rps", "", []float64{0.920, 0.892, 0.839}},
			{"paragon", "mean_rps", "", []float64{0.725, 0.716, 0.714}},
			{"metis", "solve_s", ", all sizes", []float64{8 * minutes, 8 * minutes, 8 * minutes}},
			{"medea", "solve_s", ", all sizes", []float64{65 * minutes, 65 * minutes, 65 * minutes}},
			{"paragon", "solve_s", ", all sizes", []float64{2.9, 2.9, 2.9}},
		},
		Notes: []string{medians, read, scored}, settings: sizes(81, 200, 300, 400),
	},
	"large": {
		About: "throughput and latency on 729 nodes (figure 9)", XName: "containers", LastGroup: 4, Methods: []string{"exact", "greedy", "metis", "medea", "paragon"},
		Published: []line{
			{"metis", "mean_rps", " at 60 min", []float64{1.175, 1.153, 1.055}},
			{"metis", "solve_s", "", []float64{38.7 * minutes, 47.5 * minutes, 55.4 * minutes}},
		},
		Notes:    []string{medians, read, scored, "Medea took over 10 hours there and was left out; batches of 3000 are drawn again, since the published file is broken"},
		settings: sizes(729, 1000, 2000, 3000),
	},
	"slo": {
		About: "containers that keep a target, 200 on 81 nodes (figure 12a)", XName: "target RPS", LastGroup: 29,
		Methods: []string{"exact", "greedy", "metis", "medea", "paragon", "paragon-published"},
		Published: []line{
			{"metis", "slo_share", "", []float64{0.990, 0.790, 0.325}},
			{"medea", "slo_share", "", []float64{0.610, 0.415, 0.100}},
			{"paragon", "slo_share", "", []float64{0.220, 0.215, 0.125}},
		},
		Notes:    []string{medians, read, scored, "methods with an objective maximise the share; that the paper's groups are those of 200 is assumed"},
		settings: []setting{target(0.90), target(0.95), target(1.00)},
	},
	"fragmentation": {
		About: "throughput against nodes left empty, 200 containers on 81 nodes (figure 12c)", XName: "weight β of vacant nodes", LastGroup: 29,
		Methods: []string{"exact", "greedy-improve", "metis"},
		Published: []line{
			{"metis", "mean_rps", "", []float64{1.162, 1.115, 1.037, 0.980, 0.953}},
			{"metis", "free_nodes", "", []float64{0.012, 0.133, 0.235, 0.250, 0.265}},
		},
		Notes:    []string{medians, read, scored, "the paper does not state the unit of β; here it is of the share of nodes left empty, so that columns are not to be compared, but pairs of throughput and empty nodes are"},
		settings: []setting{beta(0), beta(0.5), beta(1), beta(1.5), beta(2)},
	},
	"learning": {
		About: "learned methods after an hour, 200 containers on 81 nodes (figure 4)", XName: "containers", LastGroup: 2,
		Methods: []string{"metis", "divide-conquer", "vanilla-rl", "exact"},
		Published: []line{
			{"metis", "mean_rps", " at 60 min", []float64{1.172}},
			{"divide-conquer", "mean_rps", " at 60 min", []float64{1.228}},
			{"vanilla-rl", "mean_rps", " at 60 min", []float64{0.910}},
		},
		Notes: []string{"published values are means over 30 groups", read, scored}, settings: sizes(81, 200),
	},
	"predictor": {
		About: "throughput by the share of patterns that was measured, 200 containers (figure 13b)", XName: "share measured, %", LastGroup: 29,
		Methods: []string{"exact", "greedy", "metis"}, Published: []line{{"metis", "mean_rps", "", []float64{1.044, 1.153, 1.162}}},
		Notes: []string{medians, read, scored, "patterns are drawn again; the published samples are others, and that of 20 % has those of pairs"}, settings: []setting{sample(5), sample(20), sample(90)},
	},
	"example": {
		About: "the example of 14 containers on 6 nodes (table I)", XName: "containers", Methods: []string{"exact", "metis", "medea", "medea-best", "greedy"},
		Published: []line{
			{"metis", "mean_rps", "", []float64{1.16}},
			{"medea", "mean_rps", "", []float64{0.93}},
			{"metis", "violated", "", []float64{6}},
			{"medea", "violated", "", []float64{4}},
		},
		Notes: []string{scored}, settings: []setting{{name: "two of each app on 6 nodes", x: 14, nodes: 6, batch: []int{2, 2, 2, 2, 2, 2, 2}}},
	},
}

func sizes(nodes int, all ...int) []setting {
	var out []setting
	for _, n := range all {
		out = append(out, setting{name: fmt.Sprintf("%d containers on %d nodes", n, nodes), x: float64(n), size: n, nodes: nodes})
	}
	return out
}

func target(slo float64) setting {
	return setting{name: fmt.Sprintf("RPS of at least %.2f", slo), x: slo, size: 200, nodes: 81, slo: slo, objective: place.Objective{SLO: 1}}
}

func beta(b float64) setting {
	return setting{name: fmt.Sprintf("β = %g", b), x: b, size: 200, nodes: 81, objective: place.Objective{RPS: 1, Vacant: b}}
}

func sample(percent float64) setting {
	return setting{name: fmt.Sprintf("%g %% of the patterns measured", percent), x: percent, size: 200, nodes: 81, sample: percent / 100, pairs: percent == 20}
}
