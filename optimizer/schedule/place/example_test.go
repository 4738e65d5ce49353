package place_test

import (
	"fmt"

	"trainopt/optimizer/schedule/place"
)

// A cache doubles the throughput of a reader on nodes that hold two containers; two containers of the same app
// interfere.
func Example() {
	table, err := place.NewTable([]string{"reader", "cache"}, 2, func(counts []uint8, rps []float64) {
		rps[0], rps[1] = 1, 1
		switch {
		case counts[0] == 1 && counts[1] == 1:
			rps[0], rps[1] = 2, 0.9
		case counts[0] == 2 || counts[1] == 2:
			rps[0], rps[1] = 0.5, 0.6
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := place.Problem{Types: []place.NodeType{{Name: "node", Count: 3, Table: table}}, Batch: []int{2, 2}}
	for _, at := range []place.Placement{{{1, 1}, {1, 1}, {0, 0}}, {{2, 0}, {0, 1}, {0, 1}}} {
		w, err := p.Evaluate(at)
		fmt.Printf("mean RPS %.2f, %d nodes in use, %v\n", w.MeanRPS, w.NodesUsed, err)
	}
	// Output:
	// mean RPS 1.45, 2 nodes in use, <nil>
	// mean RPS 0.75, 3 nodes in use, <nil>
}
