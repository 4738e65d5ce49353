package place_test

import (
	"context"
	"fmt"

	"trainopt/optimizer/schedule/place"
)

func ExampleGreedy() {
	batches, err := place.MetisBatches(200)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &place.Problem{Types: []place.NodeType{{Name: "m5.4xlarge", Count: 81, Table: place.MetisTable()}}, Batch: batches[0]}
	for _, improve := range []bool{false, true} {
		s, err := place.Greedy(context.Background(), p, place.Objective{}, place.Limits{}, place.GreedySettings{Improve: improve})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("mean RPS %.4f\n", s.Value)
	}
	// Output:
	// mean RPS 1.2378
	// mean RPS 1.2431
}

// Containers arrive and depart one at a time.
func ExampleStream() {
	p := &place.Problem{
		Types: []place.NodeType{{Name: "m5.4xlarge", Count: 2, Table: place.MetisTable()}}, Batch: make([]int, 7),
	}
	s, err := place.NewStream(p, place.Objective{}, place.Limits{}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, app := range []int{0, 1, 2} { // redis, mms, checksum
		node, err := s.Arrive(app)
		fmt.Println(place.MetisApps()[app], "on node", node, err)
	}
	fmt.Println(s.Depart(0, 2))
	// Output:
	// redis on node 1 <nil>
	// mms on node 1 <nil>
	// checksum on node 0 <nil>
	// <nil>
}
