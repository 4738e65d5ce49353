package metis_test

import (
	"fmt"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/ancestors/metis"
)

// A reader that gains beside one cache and slows down beside two readers.
func ExampleFromTable() {
	table, err := place.NewTable([]string{"reader", "cache"}, 3, func(counts []uint8, rps []float64) {
		rps[0], rps[1] = 1, 1
		if counts[1] > 0 {
			rps[0] = 1.5
		}
		if counts[0] > 2 {
			rps[0] *= 0.5
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := metis.FromTable(table, metis.RuleOptions{Others: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range rows {
		c, words := row.Constraint, map[bool]string{true: "at least", false: "at most"}
		fmt.Printf("%s wants %s %d of %s beside it: %v\n", table.Apps()[c.App], words[c.AtLeast], c.Threshold, table.Apps()[c.Neighbour], row.RPS)
	}
	// Output:
	// reader wants at most 1 of reader beside it: [1 1 0.5]
	// reader wants at least 1 of cache beside it: [1 1.5 1.5]
}
