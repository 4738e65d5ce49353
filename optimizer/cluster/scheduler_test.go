package cluster

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
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

// TestRestartChangesNothing replaces the scheduler by one restored from its state at random times.
func TestRestartChangesNothing(t *testing.T) {
	for _, policy := range []string{"srtf", "best_match", "max_min_fairness_perf", "themis", "tiresias", "sia", "elasticflow", "finish_time_fairness_perf", "best_match_packed"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			trace := drawTrace(5, 16, smallCluster, true, false)
			want := newWorld(t, policy, smallCluster, trace, 20)
			want.run()
			got := newWorld(t, policy, smallCluster, trace, 20)
			got.check = true
			r := rand.New(rand.NewPCG(1, 2))
			for restarts := 0; len(got.ended) < len(trace); {
				got.step()
				got.pace()
				if r.IntN(4) == 0 {
					got.restart(policy)
					if restarts++; restarts == 1 {
						got.act() // nothing to do
					}
				}
			}
			for id, at := range want.ended {
				if math.Abs(got.ended[id]-at) > 1e-6*at {
					t.Errorf("job %d ended at %v s, without restarts at %v s", id, got.ended[id], at)
				}
			}
		})
	}
}

// restart replaces the scheduler and its jobs by what is stored of them.
func (w *world) restart(policy string) {
	state, err := w.s.State()
	if err != nil {
		w.t.Fatal(err)
	}
	var jobs []*Job
	var specs []*Spec
	for _, m := range w.s.active {
		data, err := json.Marshal(m.Job)
		if err != nil {
			w.t.Fatal(err)
		}
		j := new(Job)
		if err := json.Unmarshal(data, j); err != nil {
			w.t.Fatal(err)
		}
		w.jobs[j.ID].job = j
		jobs, specs = append(jobs, j), append(specs, m.spec)
	}
	w.s = w.scheduler(policy)
	if err := w.s.Restore(state, jobs, specs); err != nil {
		w.t.Fatal(err)
	}
}
