package cluster

import (
	"fmt"
	"testing"
)

// One decision about a million waiting jobs of 200 kinds on 100,000 devices of 8 types, the next one after 100 changes
// with running jobs, and the same for 10,000 jobs that are all different. Time, memory and loss are reported by
// `optimize simulate decision` in one process.
func BenchmarkDecision(b *testing.B) {
	for _, policy := range []string{"best_match", "max_min_fairness_perf", "sia", "srtf"} {
		for _, c := range []DecisionConfig{
			{Devices: 100_000, Types: 8, Jobs: 1_000_000, Kinds: 200, Changes: 100},
			{Devices: 10_000, Types: 8, Jobs: 10_000, Changes: 100},
		} {
			c.Policy = policy
			b.Run(fmt.Sprintf("%s/jobs=%d", policy, c.Jobs), func(b *testing.B) {
				for b.Loop() {
					c.Clock = b.Elapsed
					r, err := c.Measure()
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(r.First.Seconds), "first-s")
					b.ReportMetric(float64(r.Next.Seconds), "next-s")
					b.ReportMetric(100*float64(max(r.First.MaxLoss, r.Next.MaxLoss)), "loss-%")
				}
			})
		}
	}
}
