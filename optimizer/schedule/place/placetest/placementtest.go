// Package placetest has what the tests of placement methods begin with: the batches that Metis measured, and the results that are
// published for them or were computed from the published data by other programs. It is for tests only.
//
//	p := placementtest.Metis(t, 200, 81, 0)
package placetest

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"trainopt/optimizer/schedule/place"
)

// Metis is a group, 0 to 99, of so many containers on so many empty nodes, with Metis's table and constraints.
func Metis(t testing.TB, size, nodes, group int) *place.Problem {
	t.Helper()
	batches, err := place.MetisBatches(size)
	if err != nil {
		t.Fatal(err)
	}
	return &place.Problem{
		Types: []place.NodeType{{Count: nodes, Table: place.MetisTable()}}, Batch: batches[group], Constraints: place.MetisConstraints(),
	}
}

// SixNodes is the example of Metis's paper (figure 3, table I): two of each service on six nodes.
func SixNodes() *place.Problem {
	return &place.Problem{
		Types: []place.NodeType{{Count: 6, Table: place.MetisTable()}}, Batch: []int{2, 2, 2, 2, 2, 2, 2}, Constraints: place.MetisConstraints(),
	}
}

// Worth is what a placement is worth.
func Worth(t testing.TB, p *place.Problem, at place.Placement) place.Worth {
	t.Helper()
	w, err := p.Evaluate(at)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Published is the path of a file of the published data, for tests of packages beside this one. Where a checkout does not have them
// the test is skipped.
func Published(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("../../../../../shared/data/metis", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return path
}

// Result is what a method has for a group, NaN where it does not say.
type Result struct {
	Size, Group, Nodes int
	Slacks             int     // of Medea's program
	RPS                float64 // by the measured table
	Magnitude          float64
	Instances          float64
	SLO90, SLO95       float64 // shares of containers
	SLO100             float64
	NodesUsed          float64
}

// Results are those of a method; there are some. Groups of 3000 are left out, since they are other batches than those of
// place.MetisBatches.
func Results(t testing.TB, method string) []Result {
	t.Helper()
	f, err := os.Open(Published(t, "expected/results_groups_0-4.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var list []Result
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
		list = append(list, Result{
			Size: int(n[0]), Group: int(n[1]), Nodes: int(n[2]), Slacks: int(n[3]), RPS: n[6], Magnitude: n[7], Instances: n[8],
			SLO90: n[9], SLO95: n[10], SLO100: n[11], NodesUsed: n[12],
		})
	}
	if len(list) == 0 {
		t.Fatalf("no results of %s", method)
	}
	return list
}
