package cluster

import (
	"context"
	"math"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/cluster"
)

var smallCluster = []schedule.DeviceType{{Name: "k80", Count: 3, PerServer: 3, USDHour: 0.45}, {Name: "p100", Count: 2, PerServer: 2, USDHour: 1.46}, {Name: "v100", Count: 2, PerServer: 2, USDHour: 2.48}}

// TestLiveIsSimulated is the fidelity of the live scheduler: under each policy, the same jobs at the same rates complete
// at the same times as in the simulator, with the same cost of each move.
func TestLiveIsSimulated(t *testing.T) {
	for _, policy := range share.Names() {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			const cost = 20
			trace := drawTrace(3, 18, smallCluster, true, policy == "allox")
			custom, err := share.New(policy, share.Options{Random: newRandom(0)})
			if err != nil {
				t.Fatal(err)
			}
			simulated, err := cluster.Run(context.Background(), cluster.Config{Devices: smallCluster, Jobs: trace, Policy: policy, Custom: custom, Preemption: schedule.Preemption{Seconds: cost}})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, policy, smallCluster, trace, cost)
			w.check = true
			live := w.run()
			within := 1e-3
			if policy == "min_total_duration_packed" { // its program has many optima, among which rounding decides
				within = 0.1
			}
			if sim := float64(simulated.MeanJCTS); math.Abs(live/sim-1) > within {
				t.Errorf("mean completion time %.1f s live, %.1f s simulated (%+.2f %%)", live, sim, 100*(live/sim-1))
			}
		})
	}
}
