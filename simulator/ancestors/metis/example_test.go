package metis_test

import (
	"context"
	"fmt"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
)

// The example of the paper: two containers of each service on six nodes.
func ExamplePlace() {
	p := &place.Problem{
		Types: []place.NodeType{{Name: "m5.4xlarge", Count: 6, Table: place.MetisTable()}},
		Batch: []int{2, 2, 2, 2, 2, 2, 2}, Constraints: place.MetisConstraints(),
	}
	s, r, err := metis.PlaceMedea(context.Background(), p, metis.MedeaOptions{Tie: metis.BestRPS})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("missed by %v, proven %v, of %d; mean RPS %.3f\n", r.Magnitude, r.Least == r.Magnitude, r.Slacks, s.Value)
	// Output:
	// missed by 4, proven true, of 468; mean RPS 0.981
}
