package trial

import (
	"testing"
	"time"

	"trainopt/optimizer/plan"
)

func BenchmarkModel(b *testing.B) {
	j := Job{agreed(2*time.Hour, 20), 5, balanced}
	for b.Loop() {
		out, err := Run(j, plan.Model{}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(out.Decisions)), "decisions")
	}
}

func BenchmarkSearch(b *testing.B) {
	s := agreed(2*time.Hour, 20)
	for b.Loop() {
		search(s, 5)
	}
}
