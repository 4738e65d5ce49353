package place

import "testing"

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
