package place

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"
)

// metisProblem returns batch group (0 to 99) of the given size on empty nodes, with Metis's table and constraints.
func metisProblem(t testing.TB, size, nodes, group int) *Problem {
	t.Helper()
	batches, err := MetisBatches(size)
	if err != nil {
		t.Fatal(err)
	}
	return &Problem{
		Types: []NodeType{{Count: nodes, Table: MetisTable()}}, Batch: batches[group], Constraints: MetisConstraints(),
	}
}

// worthOf returns the metrics of a placement.
func worthOf(t testing.TB, p *Problem, at Placement) Metrics {
	t.Helper()
	w, err := p.Evaluate(at)
	if err != nil {
		t.Fatal(err)
	}
	return w
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
	f, err := os.Open(published(t, "expected/results_groups_0-4.csv"))
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
