package trial

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/simulator/training"
)

// untrained returns an agent multi with initial weights.
func untrained(c morl.Config, seed uint64) (*plan.Agent, error) {
	c.Hidden = []int{8}
	shape := morl.Shape{State: perf.StateSize, Actions: 9, Objectives: perf.Objectives}
	a, err := morl.New("multi", shape, c, seed)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := morl.WriteFile(&b, morl.Meta{Agent: "multi", Env: "training", Shape: shape, Config: c, Seed: seed}, a); err != nil {
		return nil, err
	}
	return plan.LoadAgent(&b)
}

func TestAblation(t *testing.T) {
	var mu sync.Mutex
	trained := map[uint64][]morl.Config{}
	e := Ablation{
		Draw:   func(uint64) ([]training.Scenario, error) { return []training.Scenario{*agreed(0, 0)}, nil },
		Seeds:  []uint64{1, 2},
		Prefer: []string{"cost"},
		Train: func(_ context.Context, c morl.Config, seed uint64) (*plan.Agent, error) {
			mu.Lock()
			defer mu.Unlock()
			trained[seed] = append(trained[seed], c)
			return untrained(c, seed)
		},
	}
	c, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Policies) != 13 || !slices.Equal(c.Against, []string{"model", "all on"}) || c.Cases != 2 {
		t.Fatalf("policies %q against %q in %d cases", c.Policies, c.Against, c.Cases)
	}
	for seed, configs := range trained { // weights do not enter the training, and dropout off does not either
		if len(configs) != 6 {
			t.Errorf("seed %d: %d trainings, want 6", seed, len(configs))
		}
	}
	value := func(policy, metric string) float64 {
		r, ok := c.Row(policy, metric)
		if !ok {
			t.Fatalf("no %s of %s", metric, policy)
		}
		return float64(r.Mean)
	}
	if !(math.Abs(value("oracle", "regret")) < 1e-9) || !(value("model", "regret") > 0) || value("model", "unlike_model") != 0 || value("oracle", "unlike_model") != 1 {
		t.Errorf("regret of the oracle %g, of model %g; unlike model %g, %g", value("oracle", "regret"), value("model", "regret"),
			value("oracle", "unlike_model"), value("model", "unlike_model"))
	}
	if value("all on", "resets") != 0 || !math.IsNaN(value("model", "resets")) {
		t.Errorf("resets %g, of model %g", value("all on", "resets"), value("model", "resets"))
	}
	for _, a := range ablations {
		if p, ok := c.Pair(a.name(), "model", "regret"); !ok || p.Seeds != 2 {
			t.Errorf("%s is not compared with model in both seeds: %+v", a.name(), p)
		}
	}
}
