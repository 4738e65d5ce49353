package pretrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"trainopt/simulator/cluster"
)

// shortClusters has episodes that a test can afford.
var shortClusters = clusterKind{counts: []int{2, 8}, load: [2]float64{0.5, 1}, amplitude: 0.8, period: [2]float64{4, 12}, hours: [2]float64{2, 4}, jobs: 40}

func shortEnvironment() *clusterEnvironment {
	return &clusterEnvironment{ctx: context.Background(), draw: func(rng *rand.Rand) (cluster.Config, error) { return drawCluster(rng, &shortClusters) }}
}

// play runs an episode with random actions and returns its states and rewards as text, and the sums of the rewards.
func play(t *testing.T, e *clusterEnvironment, seed uint64) (trace string, sum [3]float64) {
	t.Helper()
	rng, choices := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	o := e.Reset(rng)
	steps := []any{}
	for {
		if len(o.State) != e.Shape().State || len(o.Mask) != e.Shape().Actions {
			t.Fatalf("%d state numbers, %d in the mask", len(o.State), len(o.Mask))
		}
		for i, v := range o.State {
			if math.IsNaN(float64(v)) || math.Abs(float64(v)) > 10 {
				t.Fatalf("state number %d is %v", i, v)
			}
		}
		out := e.Step(choices.IntN(len(cluster.Choices)))
		for k, r := range out.Reward {
			sum[k] += float64(r)
		}
		steps = append(steps, slices.Clone(out.State), slices.Clone(out.Reward))
		if out.Done {
			break
		}
		o = out.Observation
	}
	if e.Err() != nil {
		t.Fatal(e.Err())
	}
	b, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), sum
}

func TestClusterRewardsSumToTheMeasures(t *testing.T) {
	e := shortEnvironment()
	for seed := range uint64(4) {
		trace, sum := play(t, e, seed)
		ideal := e.isolated.Ideal()
		for k, v := range e.isolated.Of(e.final) {
			if v -= ideal[k]; math.Abs(v+sum[k]) > 1e-4*max(1, v) {
				t.Errorf("seed %d: rewards in %s sum to %v, want %v", seed, cluster.Objectives[k], sum[k], -v)
			}
		}
		if len(e.final.Jobs) != shortClusters.jobs {
			t.Errorf("seed %d: %d jobs of %d have ended", seed, len(e.final.Jobs), shortClusters.jobs)
		}
		if again, _ := play(t, shortEnvironment(), seed); again != trace {
			t.Errorf("seed %d: a second episode differs", seed)
		}
	}
}

func TestClusterEpisodeMayBeAbandoned(t *testing.T) {
	e := shortEnvironment()
	for seed := range uint64(3) {
		e.Reset(rand.New(rand.NewPCG(seed, 1)))
		e.Step(0)
	}
	if e.Err() != nil {
		t.Error(e.Err())
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.ctx = ctx
	e.Reset(rand.New(rand.NewPCG(1, 1)))
	cancel()
	for range 1000 {
		if out := e.Step(0); out.Done {
			break
		}
	}
	if !errors.Is(e.Err(), context.Canceled) {
		t.Errorf("after an interrupt: %v", e.Err())
	}
}

// Clusters of comparisons differ from those of the training, and all jobs run under every policy.
func TestDrawnClusters(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		trained, err1 := drawCluster(rng, &trainedClusters)
		unseen, err2 := DrawnClusters["unseen"](seed)
		again, err3 := DrawnClusters["unseen"](seed)
		if err1 != nil || err2 != nil || err3 != nil || fmt.Sprint(unseen.Jobs) != fmt.Sprint(again.Jobs) {
			t.Fatal(err1, err2, err3, "or the same seed gives other jobs")
		}
		for i, c := range []cluster.Config{trained, unseen} {
			c.Policy = cluster.Choices[0]
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			all := []string{}
			for _, d := range c.Devices {
				all = append(all, d.Name, string(rune('0'+d.Count)))
			}
			if name := strings.Join(all, " "); i == 1 && seen[name] && len(c.Devices) == 3 {
				t.Errorf("seed %d: a cluster of the training: %s", seed, name)
			} else if i == 0 {
				seen[name] = true
			}
		}
	}
}

// The agent leaves the best single policy only where its critics agree.
func TestAgreed(t *testing.T) {
	w, all := []float32{0.5, 0.5}, []bool{true, true, true}
	for name, c := range map[string]struct {
		critics [][]float32 // by critic: action 0, 1, 2; two objectives each
		mask    []bool
		want    int
	}{
		"agreed":             {[][]float32{{0, 0, 1, 1, 2, 2}, {0, 0, 1, 1, 2.1, 2.1}}, all, 2},
		"the better is open": {[][]float32{{0, 0, 1, 1, 9, -9}, {0, 0, 1, 1, -9, 11}}, all, 1},
		"masked":             {[][]float32{{0, 0, 1, 1, 2, 2}, {0, 0, 1, 1, 2, 2}}, []bool{true, true, false}, 1},
		"not better":         {[][]float32{{3, 0, 1, 1, 2, 1}, {3, 0, 1, 1, 2, 1}}, all, 0},
		"contradictory":      {[][]float32{{0, 0, 1, 1, 2, 2}, {0, 0, -1, 0, -2, 0}}, all, 0},
	} {
		if got := agreed(c.critics, w, 0, c.mask); got != c.want {
			t.Errorf("%s: action %d, want %d", name, got, c.want)
		}
	}
	if k := singlePolicy("[[-1,-1,0],[-2,0,0],[-1,-1,-1],[-1,-1,-1],[-1,-1,-1]]", []float64{0, 1, 0}); k != 1 {
		t.Errorf("policy %d is the best, want 1", k)
	}
	if k := singlePolicy("", []float64{0, 1, 0}); k != -1 {
		t.Errorf("policy %d of no note", k)
	}
}

// trainedData returns the file of an agent.
func trainedData(t *testing.T, o Options) []byte {
	t.Helper()
	training, err := Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r.Data
}

// A trained agent chooses policies in a run, and an agent of another environment is refused.
func TestClusterChooser(t *testing.T) {
	if testing.Short() {
		t.Skip("trains an agent")
	}
	data := trainedData(t, Options{Env: "cluster", Agent: "envelope", Steps: 60, Measure: 60})
	choose, err := ClusterChooser(data, "time+cost")
	if err != nil {
		t.Fatal(err)
	}
	c, err := drawCluster(rand.New(rand.NewPCG(1, 1)), &shortClusters)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c.Choose = func(p *cluster.DecisionPoint) int { asked++; return choose(p) }
	if _, err := cluster.Run(context.Background(), c); err != nil || asked < 5 {
		t.Errorf("%d choices, %v", asked, err)
	}
	if _, err := ClusterChooser(trainedData(t, Options{Env: "problem:deep-sea-treasure", Agent: "envelope", Steps: 60, Measure: 60}), "time"); err == nil {
		t.Error("an agent of another environment is accepted")
	}
}
