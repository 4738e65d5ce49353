package network

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func gradientStored(t testing.TB, l *Learner) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFile(&b, Meta{Kind: "slots", Notes: map[string]string{"data": "none"}}, l); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGradientFileRoundTrip(t *testing.T) {
	for _, c := range []PolicyConfig{{Policy: "kernel", Activation: Tanh}, {Policy: "flat", Method: "reinforce"}, {Policy: "shared", Method: "a2c"}} {
		shape, env := corridorShape, newCorridor
		if c.Policy == "kernel" {
			shape, env = slotShape, newSlots
		}
		l := gradientMade(t, shape, c, 8)
		learn(t, l, env, 3)
		b := gradientStored(t, l)
		m, back, err := ReadFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != "slots" || m.Notes["data"] != "none" || back.updates != 3 || back.Seed() != 8 {
			t.Errorf("%+v came back", m)
		}
		for i, n := range l.Networks() {
			if !slices.Equal(n.Params(), back.Networks()[i].Params()) {
				t.Errorf("%s: network %d differs", c.Policy, i)
			}
		}
		if !bytes.Equal(gradientStored(t, back), b) {
			t.Errorf("%s: it is written differently", c.Policy)
		}
		learn(t, back, env, 1)
	}
}

func TestFileDamage(t *testing.T) {
	good := gradientStored(t, gradientMade(t, slotShape, PolicyConfig{Policy: "kernel", Hidden: []int{2}, HeadHidden: []int{2}}, 8))
	for i := range good {
		if _, _, err := ReadFile(bytes.NewReader(good[:i])); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
			t.Fatalf("cut at %d: %v", i, err)
		}
		bad := slices.Clone(good)
		bad[i] ^= 4
		if _, _, err := ReadFile(bytes.NewReader(bad)); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrNewer) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add(gradientStored(f, gradientMade(f, slotShape, PolicyConfig{Policy: "kernel", Hidden: []int{2}, HeadHidden: []int{2}}, 8)))
	f.Add([]byte(policyFile.Magic + "\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, l, err := ReadFile(bytes.NewReader(b)); err == nil && l == nil {
			t.Error("neither learner nor error")
		}
	})
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		s Shape
		c PolicyConfig
	}{
		"no rows":         {Shape{Features: 1}, PolicyConfig{}},
		"method":          {corridorShape, PolicyConfig{Method: "sarsa"}},
		"policy":          {corridorShape, PolicyConfig{Policy: "tree"}},
		"shared ppo":      {corridorShape, PolicyConfig{Policy: "shared"}},
		"kernel, actions": {corridorShape, PolicyConfig{Policy: "kernel"}},
		"flat, rows":      {slotShape, PolicyConfig{Policy: "flat"}},
		"padding":         {Shape{Rows: 3, Features: 2, Padding: []float32{1}}, PolicyConfig{Policy: "kernel"}},
		"discount":        {corridorShape, PolicyConfig{Gamma: 2}},
		"width":           {corridorShape, PolicyConfig{Hidden: []int{0}}},
	} {
		if _, err := NewLearner(c.s, c.c, 1); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, o := range map[string]Observation{
		"short":     {X: make([]float32, 5)},
		"none":      {},
		"many":      {X: make([]float32, 12)},
		"mask":      {X: make([]float32, 6), Mask: []bool{true}},
		"all taken": {X: make([]float32, 6), Mask: make([]bool, 3)},
	} {
		l := gradientMade(t, corridorShape, PolicyConfig{}, 1)
		if err := l.Policy().check(o); err == nil {
			t.Errorf("observation %s is accepted", name)
		}
	}
}
