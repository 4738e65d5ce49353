package metis

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"trainopt/optimizer/schedule/place"
)

// metisProblem returns batch group (0 to 99) of the given size on empty nodes, with Metis's table and constraints.
func metisProblem(t testing.TB, size, nodes, group int) *place.Problem {
	t.Helper()
	batches, err := place.MetisBatches(size)
	if err != nil {
		t.Fatal(err)
	}
	return &place.Problem{
		Types: []place.NodeType{{Count: nodes, Table: place.MetisTable()}}, Batch: batches[group], Constraints: place.MetisConstraints(),
	}
}

// sixNodes returns the example of Metis's paper (figure 3, table I): two containers of each service on six nodes.
func sixNodes() *place.Problem {
	return &place.Problem{
		Types: []place.NodeType{{Count: 6, Table: place.MetisTable()}}, Batch: []int{2, 2, 2, 2, 2, 2, 2}, Constraints: place.MetisConstraints(),
	}
}

// worthOf returns the metrics of a placement.
func worthOf(t testing.TB, p *place.Problem, at place.Placement) place.Metrics {
	t.Helper()
	w, err := p.Evaluate(at)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// publishedFile returns the path of a file of the published data, relative to this package. It skips the
// test if the checkout does not contain the data.
func publishedFile(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("../../../../shared/data/metis", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return path
}

// publishedResult is the published result of a method for a batch. Absent values are NaN.
type publishedResult struct {
	Size, Group, Nodes int
	Slacks             int     // number of slack variables in Medea's program
	RPS                float64 // from the measured table
	Magnitude          float64
	Instances          float64
	SLO90, SLO95       float64 // shares of containers served at these SLOs
	SLO100             float64
	NodesUsed          float64
}

// publishedResults returns the published results of a method and fails the test if there are none. Batches of 3000 are
// excluded, since MetisBatches draws different ones.
func publishedResults(t testing.TB, method string) []publishedResult {
	t.Helper()
	f, err := os.Open(publishedFile(t, "expected/results_groups_0-4.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var list []publishedResult
	for _, row := range rows {
		if row[4] != method || row[0] == "3000" {
			continue
		}
		n := make([]float64, len(row))
		for i, cell := range row {
			if n[i], err = strconv.ParseFloat(cell, 64); err != nil {
				n[i] = math.NaN()
			}
		}
		list = append(list, publishedResult{
			Size: int(n[0]), Group: int(n[1]), Nodes: int(n[2]), Slacks: int(n[3]), RPS: n[6], Magnitude: n[7], Instances: n[8],
			SLO90: n[9], SLO95: n[10], SLO100: n[11], NodesUsed: n[12],
		})
	}
	if len(list) == 0 {
		t.Fatalf("no results of %s", method)
	}
	return list
}
