package place

import "testing"

func TestTableNumbersPatterns(t *testing.T) {
	table, err := NewTable([]string{"a", "b", "c", "d", "e", "f", "g"}, 8, func(_ []uint8, rps []float64) {
		for i := range rps {
			rps[i] = 1
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if table.Patterns() != 6435 {
		t.Errorf("%d patterns, want C(15,7) = 6435", table.Patterns())
	}
	for p := range table.Patterns() {
		size := 0
		for _, k := range table.Counts(p) {
			size += int(k)
		}
		if got := table.Index(table.Counts(p)); got != p || table.Throughput(p) != float64(size) {
			t.Fatalf("pattern %d, %v: number %d, throughput %v", p, table.Counts(p), got, table.Throughput(p))
		}
	}
	if got := table.Index([]uint8{9, 0, 0, 0, 0, 0, 0}); got != -1 {
		t.Errorf("9 containers on a node of 8: pattern %d", got)
	}
}
