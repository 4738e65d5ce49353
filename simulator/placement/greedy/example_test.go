package greedy_test

import (
	"context"
	"fmt"

	"trainopt/simulator/placement"
	"trainopt/simulator/placement/greedy"
)

func ExamplePlace() {
	batches, err := placement.MetisBatches(200)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &placement.Problem{Types: []placement.NodeType{{Name: "m5.4xlarge", Count: 81, Table: placement.MetisTable()}}, Batch: batches[0]}
	for _, improve := range []bool{false, true} {
		s, err := greedy.Place(context.Background(), p, placement.Objective{}, placement.Limits{}, greedy.Settings{Improve: improve})
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

// Containers that come and go, one at a time.
func ExampleStream() {
	p := &placement.Problem{
		Types: []placement.NodeType{{Name: "m5.4xlarge", Count: 2, Table: placement.MetisTable()}}, Batch: make([]int, 7),
	}
	s, err := greedy.NewStream(p, placement.Objective{}, placement.Limits{}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, app := range []int{0, 1, 2} { // redis, mms, checksum
		node, err := s.Arrive(app)
		fmt.Println(placement.MetisApps()[app], "on node", node, err)
	}
	fmt.Println(s.Depart(0, 2))
	// Output:
	// redis on node 1 <nil>
	// mms on node 1 <nil>
	// checksum on node 0 <nil>
	// <nil>
}
