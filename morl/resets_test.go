package morl

import (
	"math"
	"strings"
	"testing"
)

// renewing returns a configuration with one gradient step per transition, which evidence resets require.
func renewing(mode string) Config {
	c := small
	c.Every, c.Exploration, c.Buffer, c.Hidden = 1, 0.1, 600, []int{16}
	c.Resets = Resets{Mode: mode, Debt: 1, Severe: 0.3, Interval: 100, Window: 100, Cooldown: 500, Steps: 600}
	return c
}

var renewables = []string{"conditioned", "envelope", "multi"}

func logOf(a Agent) []reset { return a.(resetter).ResetLog() }

// kill makes every hidden unit of the critics inactive: such a network cannot learn any more.
func kill(a Agent) {
	each(a, func(l resettable) {
		for _, c := range l.ensemble() {
			p, at := c.online.Params(), c.online.Inputs*c.online.Hidden[0]
			for i := range c.online.Hidden[0] {
				p[at+i] = -100
			}
			c.target.CopyFrom(c.online)
		}
	})
}

func each(a Agent, do func(resettable)) {
	if m, ok := a.(*multiPolicy); ok {
		for _, p := range m.policies {
			do(p)
		}
		return
	}
	do(a.(resettable))
}

// ForceReset makes an attempt as in evidence mode on every critic, and returns the results.
func ForceReset(a Agent) []reset {
	each(a, func(l resettable) {
		r := &l.core().renew
		r.replaceIfBetter(l, r.unexplained(l), a.Stats().Steps, "a test, ")
	})
	return logOf(a)
}

func worthOf(env *Corridor, a Agent) float64 {
	g := env.Greedy(a, []float32{0.5, 0.5}, 0.99)
	return 0.5*g[0] + 0.5*g[1]
}

// lived trains for 2000 steps, applies happens, and trains for more steps; it returns the value of the greedy policy
// before the change, and the mean of ten evaluations after it.
func lived(t *testing.T, name string, c Config, seed uint64, env *Corridor, happens func(Agent), more int) (a Agent, before, after float64) {
	t.Helper()
	a, err := New(name, env.Shape(), c, seed)
	if err != nil {
		t.Fatal(err)
	}
	train(t, a, env, 2000, seed)
	before = worthOf(env, a)
	happens(a)
	for k := range 10 {
		train(t, a, env, 2000+more/10*(k+1), seed)
		after += worthOf(env, a) / 10
	}
	return a, before, after
}

func TestResetsFireOnTheirTriggerOnly(t *testing.T) {
	type with = func(*Config)
	for name, c := range map[string]struct {
		cost  float32 // of a step; the severity of the violation
		die   bool
		with  with
		fires bool
	}{
		"violations and a dead critic":         {0.4, true, func(*Config) {}, true},
		"a dead critic, no violation":          {0.2, true, func(*Config) {}, false},
		"violations, a sound critic":           {0.4, false, func(*Config) {}, false},
		"off":                                  {0.4, true, func(c *Config) { c.Resets = Resets{} }, false},
		"too few gradient steps":               {0.4, true, func(c *Config) { c.Every, c.Updates = 3, 2 }, false},
		"few gradient steps, ratio set to any": {0.4, true, func(c *Config) { c.Every, c.Updates, c.Resets.Ratio = 3, 2, -1 }, true},
	} {
		for _, agent := range renewables {
			t.Run(agent+"/"+name, func(t *testing.T) {
				conf := renewing("evidence")
				c.with(&conf)
				a, _, _ := lived(t, agent, conf, 1, &Corridor{Cells: 9, Left: 1, Right: 1, Cost: c.cost}, func(a Agent) {
					if c.die {
						kill(a)
					}
				}, 700)
				log := logOf(a)
				if (len(log) > 0) != c.fires {
					t.Fatalf("resets %+v, want some: %v", log, c.fires)
				}
				swapped := 0
				for _, r := range log {
					if r.Swapped {
						swapped++
					}
					if r.Swapped && r.Step <= 2000 || !strings.Contains(r.Trigger, "of the last 100 transitions had a violation more severe than 0.3") ||
						r.Swapped != (2*r.HeldOutAfter < r.HeldOutBefore) || !(r.HeldOutBefore > unexplainedFine) {
						t.Errorf("%+v", r)
					}
				}
				if a.Stats().Resets != swapped {
					t.Errorf("%d resets counted, %d in the log", a.Stats().Resets, swapped)
				}
			})
		}
	}
}

func TestResetRepairsADeadCritic(t *testing.T) {
	for _, agent := range renewables {
		t.Run(agent, func(t *testing.T) {
			var worth [2]float64 // mean value without and with resets
			for i, mode := range []string{"", "evidence"} {
				a, before, after := lived(t, agent, renewing(mode), 2, &Corridor{Cells: 9, Left: 1, Right: 1, Cost: 0.4}, kill, 1500)
				worth[i] = after
				t.Logf("%q: worth %.3f before, %.3f after; %d resets", mode, before, after, len(logOf(a)))
			}
			if worth[1] < worth[0]+0.1 {
				t.Errorf("worth %.3f with resets, %.3f without", worth[1], worth[0])
			}
		})
	}
}

// TestResetFollowsAChangedWorld moves the pay to the other end while the learning rate is almost zero: old
// transitions leave the buffer, and the critic does not adapt without a reset.
func TestResetFollowsAChangedWorld(t *testing.T) {
	var sum [2]float64
	for seed := range uint64(3) {
		for i, mode := range []string{"", "evidence"} {
			c := renewing(mode)
			c.Anneal, c.Resets.Cooldown = 2000, 300
			env := &Corridor{Cells: 9, Right: 1, Cost: 0.4}
			_, _, after := lived(t, "envelope", c, seed, env, func(Agent) { env.Left, env.Right = 1, 0 }, 3000)
			sum[i] += after / 3
		}
	}
	t.Logf("worth after the change: %.3f without resets, %.3f with", sum[0], sum[1])
	if sum[1] < sum[0]+0.01 {
		t.Errorf("worth %.3f with resets, %.3f without", sum[1], sum[0])
	}
}

// TestEvidenceResetsDoNoHarm requires that, in an unchanging world with constant violations, evidence resets reduce
// the return by at most 1 %; random ones may reduce it more.
func TestEvidenceResetsDoNoHarm(t *testing.T) {
	for _, agent := range renewables {
		t.Run(agent, func(t *testing.T) {
			worth := map[string]float64{}
			for _, mode := range []string{"", "evidence", "random"} {
				for seed := range uint64(2) {
					a, _, after := lived(t, agent, renewing(mode), seed, &Corridor{Cells: 9, Right: 1, Cost: 0.4}, func(Agent) {}, 300)
					worth[mode] += after / 2
					if mode == "random" && len(logOf(a)) == 0 {
						t.Error("no random reset")
					}
				}
			}
			t.Logf("worth without resets %.4f, by evidence %.4f, at random %.4f", worth[""], worth["evidence"], worth["random"])
			if worth["evidence"] < worth[""]-0.01*math.Abs(worth[""]) {
				t.Errorf("worth %.4f with evidence resets, %.4f without", worth["evidence"], worth[""])
			}
		})
	}
}

func TestRandomResetsAreTheAncestors(t *testing.T) {
	for name, c := range map[string]struct {
		cost  float32
		share float64
	}{"no violation": {0.1, 0.3}, "severe": {0.4, 0.36}} {
		t.Run(name, func(t *testing.T) {
			conf := small
			conf.Every, conf.Hidden = 50, []int{4}
			conf.Resets = Resets{Mode: "random", Debt: 1, Interval: 10}
			a, err := New("envelope", (&Corridor{Cells: 5}).Shape(), conf, 3)
			if err != nil {
				t.Fatal(err)
			}
			train(t, a, &Corridor{Cells: 5, Right: 1, Cost: c.cost}, 10_000, 1)
			log := logOf(a)
			if got := float64(len(log)) / 1000; math.Abs(got-c.share) > 0.05 {
				t.Fatalf("a share of %.3f of the checks reset, want %.2f", got, c.share)
			}
			if len(log) != a.Stats().Resets {
				t.Fatalf("%d counted, %d in the log", a.Stats().Resets, len(log))
			}
			for _, r := range log {
				if r.Step%10 != 0 || !r.Swapped || !math.IsNaN(r.HeldOutBefore) || !strings.Contains(r.Trigger, "coin") {
					t.Fatalf("%+v", r)
				}
			}
		})
	}
}

func TestResetSettingsAreChecked(t *testing.T) {
	shape := (&Corridor{Cells: 5}).Shape()
	for name, r := range map[string]Resets{"mode": {Mode: "often"}, "probability": {Probability: 2}, "negative": {Window: -1},
		"objective": {Mode: "evidence", Debt: 2}} {
		if _, err := New("envelope", shape, Config{Resets: r}, 1); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
