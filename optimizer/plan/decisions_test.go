package plan

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/sla"
)

var update = flag.Bool("update", false, "rewrite testdata/decisions.golden")

// TestDecisions compares every displayed decision with a golden file. Review the diff when it changes.
func TestDecisions(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the recorded figures are those of amd64; other processors round the last digit differently")
	}
	ignores := cpuScene()
	ignores.pace = func(resources.Allocation) float64 { return 2 }
	instance := cpuScene()
	instance.Rates = cost.Rates{Instance: 2}
	unknown := cpuScene()
	unknown.Total = 0
	nothing := cpuScene()
	nothing.measured = nil
	batch := gpuScene()
	batch.Limits.BatchSize = resources.Range{Min: 32, Max: 1024}
	batch.Baseline.BatchSize = 256
	for i := range batch.measured {
		batch.measured[i].BatchSize = 32 * batch.measured[i].GPUs
	}
	stuck := cpuScene().running(cpu(4), 10, minutes(1), 0.01, 5)
	stuck.Resumable = false
	quiet := gpuScene()
	quiet.GPUUtil = 3
	scenes := []struct {
		name    string
		scene   scene
		planner string
	}{
		{"cpu job", cpuScene().prefer("time"), "model"},
		{"cpu job", cpuScene().prefer("cost"), "model"},
		{"cpu job", cpuScene().prefer("resource"), "model"},
		{"cpu job", cpuScene().prefer("balanced"), "model"},
		{"cpu job, mixed", cpuScene().prefer("time=0.6,cost=0.4"), "model"},
		{"cpu job, deadline 5m", cpuScene().prefer("cost").agreed(sla.Spec{TimeMax: minutes(5)}), "model"},
		{"cpu job, small budget", cpuScene().prefer("time").agreed(sla.Spec{CostMaxUSD: 0.017}), "model"},
		{"cpu job, impossible", cpuScene().prefer("balanced").agreed(sla.Spec{TimeMax: minutes(3), CostMaxUSD: 0.02}), "model"},
		{"cpu job, impossible deadline", cpuScene().prefer("time").agreed(sla.Spec{TimeMax: minutes(1)}), "model"},
		{"cpu job, throughput", cpuScene().prefer("cost").agreed(sla.Spec{ThroughputMin: 400}), "model"},
		{"script ignores CPUs", ignores.prefer("time"), "model"},
		{"script ignores CPUs", ignores.prefer("balanced"), "model"},
		{"whole instance", instance.prefer("cost"), "model"},
		{"total unknown", unknown.prefer("balanced"), "model"},
		{"nothing measured", nothing.prefer("time"), "model"},
		{"running, early", cpuScene().prefer("time").running(cpu(4), 10, minutes(1), 0.01, 5), "model"},
		{"running, late", cpuScene().prefer("time").running(cpu(4), 97, minutes(6), 0.03, 30), "model"},
		{"running, deadline at risk", cpuScene().prefer("cost").agreed(sla.Spec{TimeMax: minutes(4)}).running(cpu(4), 30, minutes(1.5), 0.01, 5), "model"},
		{"running, cannot be resumed", stuck.prefer("time"), "model"},
		{"gpu job", gpuScene().prefer("time"), "model"},
		{"gpu job", gpuScene().prefer("cost"), "model"},
		{"gpu job", gpuScene().prefer("balanced"), "model"},
		{"gpu job, batch", batch.prefer("cost"), "model"},
		{"gpu job", gpuScene().prefer("time"), "rules"},
		{"gpu job, idle GPUs", quiet.prefer("cost"), "rules"},
		{"gpu job", gpuScene().prefer("resource"), "rules"},
		{"cpu job", cpuScene().prefer("time"), "rules"},
		{"cpu job", cpuScene().prefer("time"), "static"},
		{"nothing measured", nothing.prefer("time"), "static"},
		{"impossible", cpuScene().prefer("time").agreed(sla.Spec{TimeMax: minutes(1)}), "static"},
	}
	var b strings.Builder
	for _, s := range scenes {
		b.WriteString(transcript(s.name, s.scene.snapshot(t), Planners[s.planner]) + "\n")
	}
	golden := filepath.Join("testdata", "decisions.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	compareBlocks(t, string(want), b.String())
}

func compareBlocks(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n\n"), strings.Split(got, "\n\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Errorf("(-want, +got; -update rewrites)\n-%s\n+%s", a, b)
		}
	}
}
