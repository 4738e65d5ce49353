package place_test

import (
	"fmt"

	"trainopt/optimizer/schedule/place"
)

// Every third pattern of Metis's table is measured; the others are predicted.
func ExampleSamples_TrainForest() {
	truth := place.MetisTable()
	samples := &place.Samples{Apps: truth.Apps()}
	for i := 1; i < truth.Patterns(); i += 3 {
		samples.Counts, samples.RPS = append(samples.Counts, truth.Counts(i)), append(samples.RPS, truth.RPS(i))
	}
	f, err := samples.TrainForest(place.ForestOptions{Trees: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	table, err := f.Table(truth.Capacity())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, absolute := place.TableError(table, truth)
	fmt.Printf("%d patterns known; %d predicted, wrong by %.2f in the mean\n", len(samples.Counts), table.Patterns(), absolute)
	// Output:
	// 2145 patterns known; 6435 predicted, wrong by 0.03 in the mean
}
