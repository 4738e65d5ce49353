package morl_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"trainopt/morl"
	"trainopt/morl/network"
)

// recall shows a cue of two at the start and blanks after it; after the blanks, repeating the cue earns 1.
type recall struct{ cue, step int }

func (*recall) Shape() morl.Shape {
	return morl.Shape{State: 3, Actions: 2, Objectives: []string{"right"}}
}

func (r *recall) see() morl.Observation {
	s := make([]float32, 3)
	if s[2] = 1; r.step == 0 {
		s[r.cue] = 1
	}
	return morl.Observation{State: s}
}

func (r *recall) Reset(rng *rand.Rand) morl.Observation {
	r.cue, r.step = rng.IntN(2), 0
	return r.see()
}

func (r *recall) Step(action int) morl.Outcome {
	r.step++
	o := morl.Outcome{Observation: r.see(), Reward: []float32{0}, Work: 1, Done: r.step == 3}
	if o.Done && action == r.cue {
		o.Reward[0] = 1
	}
	return o
}

// TestRememberHoldsTheLatest requires zeros before the first observation, and no trace of an earlier episode.
func TestRememberHoldsTheLatest(t *testing.T) {
	env := morl.Remember(&recall{}, 3)
	if s := env.Shape(); s.State != 9 || s.Actions != 2 {
		t.Fatalf("shape %+v", s)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		first := slices.Clone(env.Reset(rng).State)
		if !slices.Equal(first[:6], make([]float32, 6)) || first[8] != 1 || first[6]+first[7] != 1 {
			t.Fatalf("first state %v", first)
		}
		if out := env.Step(0); !slices.Equal(out.State, append(append(make([]float32, 3), first[6:]...), 0, 0, 1)) {
			t.Fatalf("second state %v", out.State)
		}
		env.Step(0)
	}
}

// TestMemoryIsNeeded: an agent earns more than half only with the history of the episode, by a recurrent layer too.
func TestMemoryIsNeeded(t *testing.T) {
	for name, k := range map[string]struct {
		history, units int
		least, most    float64
	}{
		"one observation": {1, 0, 0, 0.81},
		"history":         {3, 0, 0.99, 1},
		"recurrent":       {3, 8, 0.99, 1},
	} {
		c := morl.Config{Hidden: []int{16}, Gamma: 1, Every: 1, Rate: 3e-3, Tau: 0.05, Warmup: 200, History: k.history, Recurrent: k.units, ExploreSteps: 1500, Graph: k.units > 0}
		env := morl.Remember(&recall{}, k.history)
		a, err := morl.New("envelope", env.Shape(), c, 1)
		if err != nil {
			t.Fatal(err)
		}
		err = morl.Train(context.Background(), a, env, morl.TrainOptions{Steps: 3000, Seed: 1})
		if k.units > 0 && !network.Graphs {
			if err == nil {
				t.Error("a recurrent layer was trained without a graph")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := morl.Remember(&recall{}, k.history).Return(func(state []float32, mask []bool) int {
			return a.Act(morl.Observation{State: state, Mask: mask}, []float32{1}, false)
		}, 1)[0]
		if got < k.least || got > k.most {
			t.Errorf("%s: return %v, want %v to %v", name, got, k.least, k.most)
		}
	}
}

// TestEveryBuildEvaluates stores agents whose networks only graphs train, and requires the same decisions after reading.
func TestEveryBuildEvaluates(t *testing.T) {
	s := morl.Remember(&recall{}, 3).Shape()
	for _, name := range []string{"conditioned", "envelope", "multi", "simple"} {
		c := morl.Config{Hidden: []int{8, 8, 4}, Activation: "gelu", History: 3, Recurrent: 5, Graph: true, Dropout: -1}
		a, err := morl.New(name, s, c, 7)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := morl.WriteFile(&b, morl.Meta{Agent: name, Shape: s, Config: c, Seed: 8}, a); err != nil {
			t.Fatal(err)
		}
		_, back, err := morl.ReadFile(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		rng, same := rand.New(rand.NewPCG(1, 1)), map[int]bool{}
		for range 200 {
			o := morl.Observation{State: make([]float32, s.State)}
			for i := range o.State {
				o.State[i] = float32(rng.NormFloat64())
			}
			at := a.Act(o, []float32{1}, false)
			same[at] = true
			if back.Act(o, []float32{1}, false) != at {
				t.Fatalf("%s: decides differently after reading", name)
			}
		}
		if len(same) < 2 {
			t.Errorf("%s: one action in every state", name)
		}
		c.Activation = "relu" // the networks of the file are others than described
		b.Reset()
		_ = morl.WriteFile(&b, morl.Meta{Agent: name, Shape: s, Config: c, Seed: 8}, a)
		if _, _, err := morl.ReadFile(bytes.NewReader(b.Bytes())); !errors.Is(err, morl.ErrForeign) {
			t.Errorf("%s: networks with another activation: %v", name, err)
		}
	}
}
