package morl_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/morl"
)

// noisy returns n predictions with spreads between 0.5 and 2 that are understated by factor.
func noisy(n int, factor float64, seed uint64) []morl.Prediction {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []morl.Prediction
	for range n {
		sd, mean := 0.5+1.5*rng.Float64(), 10*rng.NormFloat64()
		out = append(out, morl.Prediction{Mean: mean, SD: sd / factor, Realised: mean + sd*rng.NormFloat64()})
	}
	return out
}

func TestCalibrationOfKnownNoise(t *testing.T) {
	for name, factor := range map[string]float64{"right": 1, "too sure": 3, "not sure enough": 0.4} {
		t.Run(name, func(t *testing.T) {
			c, err := morl.Calibrate(noisy(4000, factor, 1))
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(c.Factor/factor-1) > 0.06 {
				t.Fatalf("factor %.3f, the noise is %g times the told one", c.Factor, factor)
			}
			for i, level := range morl.Levels { // expected for the normal distribution
				want := math.Erf(math.Erfinv(level) / factor)
				if math.Abs(c.Coverage[i]-want) > 0.025 {
					t.Fatalf("coverage of the %g interval %.3f, want %.3f", level, c.Coverage[i], want)
				}
			}
			if (c.Error < 0.02) != (factor == 1) {
				t.Fatalf("calibration error %.3f", c.Error)
			}
			after, err := morl.Calibrate(morl.Rescale(noisy(4000, factor, 2), c.Factor))
			if err != nil || after.Error > 0.02 {
				t.Fatalf("on other data, recalibrated: error %.3f (%v)", after.Error, err)
			}
		})
	}
}

func TestCalibrationOfOddData(t *testing.T) {
	if _, err := morl.Calibrate(nil); !errors.Is(err, morl.ErrNoData) {
		t.Fatal(err)
	}
	for name, p := range map[string]morl.Prediction{"nan": {math.NaN(), 1, 1}, "inf": {1, 1, math.Inf(1)}, "negative": {1, -1, 1}} {
		if _, err := morl.Calibrate([]morl.Prediction{p}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	c, err := morl.Calibrate([]morl.Prediction{{1, 0, 2}, {1, 0, 0}})
	if err != nil || math.Abs(c.Error-0.5) > 1e-12 || c.Coverage[3] != 0 || c.RMS != 1 {
		t.Fatalf("no spread admitted, always wrong: %+v, %v", c, err)
	}
	c, err = morl.Calibrate([]morl.Prediction{{1, 0, 1}, {2, 0, 2}})
	if err != nil || c.Coverage[0] != 1 {
		t.Fatalf("no spread admitted, always right: %+v, %v", c, err)
	}
}

// chain is a corridor in which one move in five slips in the opposite direction.
type chain struct {
	morl.Corridor
	rng *rand.Rand
}

func (c *chain) Reset(rng *rand.Rand) morl.Observation {
	c.rng = rng
	return c.Corridor.Reset(rng)
}

func (c *chain) Step(action int) morl.Outcome {
	if c.rng.Float64() < slip {
		action = 1 - action
	}
	return c.Corridor.Step(action)
}

const slip = 0.2

// exact returns the expected discounted return of the greedy policy for w from each cell, by value iteration.
func (c *chain) exact(a morl.Agent, w []float32, gamma float64) (value [][2]float64) {
	value = make([][2]float64, c.Cells)
	actions := make([]int, c.Cells)
	o := morl.Observation{State: make([]float32, c.Cells)}
	for cell := 1; cell < c.Cells-1; cell++ {
		clear(o.State)
		o.State[cell] = 1
		actions[cell] = a.Act(o, w, false)
	}
	for range 1000 {
		for cell := 1; cell < c.Cells-1; cell++ {
			var v [2]float64
			for side := range 2 {
				to, p := cell-1+2*side, slip
				if side == actions[cell] {
					p = 1 - slip
				}
				pay := 0.0
				switch to {
				case 0:
					pay = float64(c.Left)
				case c.Cells - 1:
					pay = float64(c.Right)
				}
				v[0] += p * (pay + gamma*value[to][0])
				v[1] += p * (-float64(c.Cost) + gamma*value[to][1])
			}
			value[cell] = v
		}
	}
	return value
}

// foretell compares the estimates for the greedy action in each cell, for several preferences, with the exact
// expectation; one prediction per objective.
func foretell(a morl.Agent, e morl.Valuer, env *chain, gamma float64) (out []morl.Prediction) {
	for k := range 9 {
		w := []float32{0.1 + 0.1*float32(k), 0.9 - 0.1*float32(k)}
		value := env.exact(a, w, gamma)
		for cell := 1; cell < env.Cells-1; cell++ {
			o := morl.Observation{State: make([]float32, env.Cells)}
			o.State[cell] = 1
			action := a.Act(o, w, false)
			mean, sd := morl.Estimate(e, o, w)
			for i := range 2 {
				out = append(out, morl.Prediction{Mean: mean[2*action+i], SD: sd[2*action+i], Realised: value[cell][i]})
			}
		}
	}
	return out
}

// TestDropoutAgainstEnsemble compares the spread of five critics with that of dropout, calibrated on some trained
// agents and evaluated on others.
func TestDropoutAgainstEnsemble(t *testing.T) {
	const gamma = 0.95
	env := &chain{Corridor: morl.Corridor{Cells: 9, Left: 0.5, Right: 1, Cost: 0.05}}
	told := map[string][2][]morl.Prediction{}
	for seed := range uint64(4) {
		a := morl.NewEnvelope(env.Shape(), morl.Config{Hidden: []int{32}, Gamma: gamma, Every: 4, Rate: 2e-3, Tau: 0.02, Warmup: 300, ExploreSteps: 3000,
			Dropout: 0.1, Critics: 5, Anneal: 6000}, seed)
		learn(t, a, env, morl.TrainOptions{Steps: 6000, Seed: seed})
		dropout, err := morl.NewDropout(a, 40, 1)
		if err != nil {
			t.Fatal(err)
		}
		for name, e := range map[string]morl.Valuer{"ensemble": a, "dropout": dropout} {
			p := told[name]
			p[seed%2] = append(p[seed%2], foretell(a, e, env, gamma)...)
			told[name] = p
		}
	}
	for name, p := range told {
		fit, err := morl.Calibrate(p[0])
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := morl.Calibrate(p[1])
		held, _ := morl.Calibrate(morl.Rescale(p[1], fit.Factor))
		t.Logf("%s: error %.3f, coverage %.2f, rms %.4f; sd × %.2f: error %.3f, coverage %.2f", name, raw.Error, raw.Coverage, raw.RMS, fit.Factor,
			held.Error, held.Coverage)
		if held.Error > raw.Error {
			t.Errorf("%s: recalibration on other agents raises the error from %.3f to %.3f", name, raw.Error, held.Error)
		}
		if held.Error > 0.15 {
			t.Errorf("%s: recalibrated error %.3f", name, held.Error)
		}
	}
}

func TestEstimates(t *testing.T) {
	shape := morl.Shape{State: 3, Actions: 4, Objectives: []string{"a", "b"}}
	o, w := morl.Observation{State: []float32{1, 0.5, -1}}, []float32{0.4, 0.6}
	for name, c := range map[string]struct {
		agent             string
		config            morl.Config
		ensemble, dropout bool
	}{
		"envelope":            {"envelope", morl.Config{Dropout: 0.2}, true, true},
		"conditioned":         {"conditioned", morl.Config{Dropout: 0.2, Critics: 3}, true, true},
		"conditioned, plain":  {"conditioned", morl.Config{}, true, false},
		"envelope, alone":     {"envelope", morl.Config{Critics: 1, Dropout: 0.1}, false, true},
		"multi":               {"multi", morl.Config{}, false, true},
		"multi, no dropout":   {"multi", morl.Config{Dropout: -1}, false, false},
		"simple has no value": {"simple", morl.Config{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Hidden, c.config.Scale = []int{16}, []float64{10, 0.1}
			a, err := morl.New(c.agent, shape, c.config, 3)
			if err != nil {
				t.Fatal(err)
			}
			dropout, err := morl.NewDropout(a, 30, 5)
			if (err == nil) != c.dropout {
				t.Fatalf("dropout: %v", err)
			}
			var all []morl.Valuer
			if c.ensemble {
				all = append(all, a.(morl.Valuer))
			}
			if c.dropout {
				all = append(all, dropout)
			}
			for _, e := range all {
				mean, sd := morl.Estimate(e, o, w)
				if len(mean) != 8 || len(sd) != 8 {
					t.Fatalf("%T: %d means, %d spreads, want 4 actions × 2 objectives", e, len(mean), len(sd))
				}
				first := append(append([]float64(nil), mean...), sd...)
				for i, s := range sd {
					if !(s > 0) || math.Abs(mean[i])+s > []float64{30, 0.3}[i%2] {
						t.Fatalf("%T: value %d: %g ± %g, not in the environment's units", e, i, mean[i], s)
					}
				}
				morl.Estimate(e, morl.Observation{State: []float32{0, 0, 0}}, w)
				mean, sd = morl.Estimate(e, o, w)
				for i, v := range append(append([]float64(nil), mean...), sd...) {
					if v != first[i] {
						t.Fatalf("%T: the same question, an other answer", e)
					}
				}
			}
		})
	}
}
