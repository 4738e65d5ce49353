package place_test

import (
	"context"
	"fmt"

	"trainopt/optimizer/schedule/place"
)

// Two containers of each of Metis's services on six nodes: the optimal placement, and the optimum under a total
// violation of at most 4.
func ExampleExact() {
	p := &place.Problem{
		Types: []place.NodeType{{Name: "m5.4xlarge", Count: 6, Table: place.MetisTable()}},
		Batch: []int{2, 2, 2, 2, 2, 2, 2}, Constraints: place.MetisConstraints(),
	}
	budget := 4.0
	for _, limits := range []place.Limits{{}, {MaxViolation: &budget}} {
		s, err := place.Exact(context.Background(), p, place.Objective{}, limits, place.ExactSettings{Gap: -1})
		if err != nil {
			fmt.Println(err)
			return
		}
		w, err := p.Evaluate(s.Placement)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("mean RPS %.4f, at most %.4f; missed by %v\n", w.MeanRPS, s.Bound, w.Magnitude)
	}
	// Output:
	// mean RPS 1.2214, at most 1.2214; missed by 8
	// mean RPS 0.9807, at most 0.9807; missed by 4
}
