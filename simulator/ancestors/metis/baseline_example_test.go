package metis_test

import (
	"fmt"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
)

func Example() {
	batches, err := place.MetisBatches(200)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &place.Problem{
		Types: []place.NodeType{{Name: "m5.4xlarge", Count: 81, Table: place.MetisTable()}},
		Batch: batches[0], Constraints: place.MetisConstraints(),
	}
	for _, name := range []string{"round-robin", "spread", "paragon"} {
		s, err := metis.Baselines[name](p, rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			fmt.Println(err)
			return
		}
		w, err := p.Evaluate(s.Placement)
		fmt.Printf("%s: mean RPS %.3f, missed by %v, %v\n", name, w.MeanRPS, w.Magnitude, err)
	}
	// Output:
	// round-robin: mean RPS 0.960, missed by 132, <nil>
	// spread: mean RPS 0.948, missed by 112, <nil>
	// paragon: mean RPS 0.895, missed by 165, <nil>
}
