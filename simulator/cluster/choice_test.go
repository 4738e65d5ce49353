package cluster_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// chosen is a run with several policies on jobs of several sizes.
func chosen(choose func(*cluster.DecisionPoint) int) cluster.Config {
	return cluster.Config{Devices: gavelDevices(4, 8, 8), Policy: "chosen", Seed: 1, Preemption: schedule.Preemption{Seconds: 30}, Choose: choose,
		Total: 60, Generate: &workload.Options{Lambda: 3600, MultiGPU: true, Seed: 4}}
}

func TestOneChoiceThroughout(t *testing.T) {
	for k, name := range cluster.Choices {
		asked := 0
		c := chosen(func(p *cluster.DecisionPoint) int {
			asked++
			p.State() // has no effect
			return k
		})
		got := run(t, c)
		c.Choose, c.Policy = nil, name
		want := run(t, c)
		want.Policy = got.Policy
		a, err1 := json.Marshal(got)
		b, err2 := json.Marshal(want)
		if err1 != nil || err2 != nil || string(a) != string(b) || asked < 10 {
			t.Errorf("%s: %d choices, mean completion time %v s, without them %v s", name, asked, got.MeanJCTS, want.MeanJCTS)
		}
	}
}

func TestChoicesChangeThePolicy(t *testing.T) {
	asked := 0
	got := run(t, chosen(func(*cluster.DecisionPoint) int { asked++; return asked / 5 % len(cluster.Choices) }))
	for k, name := range cluster.Choices {
		c := chosen(func(*cluster.DecisionPoint) int { return k })
		if got.MeanJCTS == run(t, c).MeanJCTS {
			t.Errorf("the same mean completion time as %s alone", name)
		}
	}
	if got.Stopped != "" || len(got.Jobs) != 60 || slices.ContainsFunc(cluster.Choices, func(name string) bool { return strings.Contains(got.Policy, name) }) {
		t.Errorf("%+v", got)
	}
}

func TestChoiceEndsARun(t *testing.T) {
	r, err := cluster.Run(context.Background(), chosen(func(p *cluster.DecisionPoint) int { return -1 }))
	if err == nil || !strings.Contains(err.Error(), "ended by its caller") || r == nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// Policies that require prices may only be chosen where prices are known.
func TestChoiceWithoutPrices(t *testing.T) {
	for _, priced := range []bool{true, false} {
		allowed := 0
		c := chosen(func(p *cluster.DecisionPoint) int {
			allowed = 0
			for k, ok := range p.Mask() {
				if ok {
					allowed++
				} else if name := cluster.Choices[k]; name != "cheapest" && name != "max_sum_throughput_normalized_by_cost_perf" {
					t.Fatalf("%s is masked", name)
				}
			}
			for i, v := range p.State() {
				if math.IsNaN(float64(v)) {
					t.Fatalf("state number %d is unknown", i)
				}
			}
			return 0
		})
		if !priced {
			for d := range c.Devices {
				c.Devices[d].USDHour = math.NaN()
			}
		}
		run(t, c)
		if want := len(cluster.Choices) - map[bool]int{false: 2}[priced]; allowed != want {
			t.Errorf("priced %v: %d policies, want %d", priced, allowed, want)
		}
	}
}

func TestChoiceNeedsTheDefaultMechanism(t *testing.T) {
	c := chosen(func(*cluster.DecisionPoint) int { return 0 })
	c.Compat = true
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "choice among policies") {
		t.Error(err)
	}
}

func TestPreference(t *testing.T) {
	for text, want := range map[string][]float64{
		"time": {1, 0, 0}, "cost": {0, 1, 0}, "balanced": {1. / 3, 1. / 3, 1. / 3}, "time=2+cost": {2. / 3, 1. / 3, 0}, "time+fairness": {.5, 0, .5},
	} {
		p, err := cluster.ParsePreference(text)
		for k := range want {
			if err != nil || math.Abs(p.Weights[k]-want[k]) > 1e-12 {
				t.Errorf("%s: %v, %v, want %v", text, p, err, want)
				break
			}
		}
	}
	for _, text := range []string{"", "speed", "time+", "time=x", "time=-1", "time=0", "time=Inf", "time=NaN"} {
		if p, err := cluster.ParsePreference(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
}
