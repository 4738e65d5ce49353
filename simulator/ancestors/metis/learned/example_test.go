package learned_test

import (
	"context"
	"fmt"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis/learned"
)

// Metis's agent with the built-in sub-schedulers places the first group of the paper: 200 containers on 81 nodes.
func ExamplePlace() {
	batches, err := place.MetisBatches(200)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &place.Problem{Types: []place.NodeType{{Name: "m5.4xlarge", Count: 81, Table: place.MetisTable()}}, Batch: batches[0]}
	s, curve, err := learned.Place(context.Background(), p, learned.Pretrained(), learned.PlaceOptions{Method: "metis", Seed: 1, Episodes: 41}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := p.Evaluate(s.Placement)
	if err != nil {
		fmt.Println(err)
		return
	}
	last := curve.Points[len(curve.Points)-1]
	fmt.Printf("the best of %d episodes is above 1.2: %v\n", last.Episode, w.MeanRPS > 1.2 && last.Best > 1.2)
	// Output:
	// the best of 41 episodes is above 1.2: true
}
