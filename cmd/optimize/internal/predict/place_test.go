package predict

import (
	"slices"
	"testing"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/place"
)

// Rules are averaged over the orders of the apps, methods that know throughputs are not: of four apps with two containers
// each on four nodes, round-robin pairs the first with the third and the second with the fourth in each order.
func TestPlaceInOrders(t *testing.T) {
	table, err := place.NewTable([]string{"a", "b", "c", "d"}, 3, func(counts []uint8, rps []float64) {
		for i := range rps {
			rps[i] = 1
		}
		if counts[0] > 0 && counts[3] > 0 { // a suffers from d
			rps[0] = 0.5
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var batches []*place.Problem
	for _, batch := range [][]int{{2, 2, 2, 2}, {1, 2, 2, 1}} {
		batches = append(batches, &place.Problem{Types: []place.NodeType{{Name: "node", Count: 4, Table: table}}, Batch: batch})
	}
	for _, c := range []struct {
		method             string
		limit, orders, fit int
	}{{"round-robin", 24, 24, 16}, {"round-robin", 1, 1, -1}, {"round-robin", 6, 6, -1}, {"exact", 24, 1, -1}} {
		o := &placeOptions{orders: c.limit, nodes: 4}
		o.Options = cli.Options{Env: &cli.Env{Clock: run.SystemClock{}}}
		a, err := o.place(c.method, batches)
		if err != nil {
			t.Fatal(err)
		}
		if a.orders != c.orders || len(a.placement) != 2*4*c.orders {
			t.Errorf("%s: %d orders, %d nodes", c.method, a.orders, len(a.placement))
		}
		for i := 0; i < len(a.placement); i += 4 {
			sum := make([]int, 4)
			for _, counts := range a.placement[i : i+4] {
				for app, k := range counts {
					sum[app] += int(k)
				}
			}
			if !slices.Equal(sum, batches[i/4/c.orders].Batch) {
				t.Errorf("%s: placed %v", c.method, sum)
			}
		}
		pairs := map[string]int{}
		for _, counts := range a.placement[:4*c.orders] {
			pairs[string(counts)]++
		}
		for _, pair := range [][]uint8{{1, 1, 0, 0}, {1, 0, 1, 0}, {1, 0, 0, 1}, {0, 1, 1, 0}, {0, 1, 0, 1}, {0, 0, 1, 1}} {
			if c.fit > 0 && pairs[string(pair)] != c.fit {
				t.Errorf("%v on %d nodes, want %d", pair, pairs[string(pair)], c.fit)
			}
		}
		if c.method == "exact" && pairs[string([]uint8{1, 0, 0, 1})] > 0 {
			t.Errorf("exact: %v", a.placement)
		}
	}
}
