package plan

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// opinion is an agent whose critics return a value for "no change" chosen by the test, by state.
type opinion struct {
	morl.Valuer
	each []func(s perf.State) [4]float64
}

func (o opinion) Values(x morl.Observation, _ []float32) [][]float32 {
	var s perf.State
	for i, v := range x.State {
		s[i] = float64(v)
	}
	var out [][]float32
	for _, f := range o.each {
		q := make([]float32, 4*9)
		for i, v := range f(s) {
			q[4*4+i] = float32(v)
		}
		out = append(out, q)
	}
	return out
}

func (opinion) Prefer(morl.Observation, []float32) int { return 4 }

func critical(each ...func(s perf.State) [4]float64) MORL {
	return MORL{Agent: &Agent{Meta: morl.Meta{Agent: "conditioned", Shape: morl.Shape{State: perf.StateSize, Actions: 9, Objectives: perf.Objectives}},
		critics: opinion{each: each}, multiplier: 0.5}}
}

func none(perf.State) [4]float64 { return [4]float64{} }

// big assigns 50 % more time than the model predicts to the use of all GPUs.
func big(s perf.State) [4]float64 {
	if s[0] == 1 {
		return [4]float64{0, -0.5, 0, 0}
	}
	return [4]float64{}
}

func TestCriticsWithoutAnOpinionChooseAsTheModel(t *testing.T) {
	for _, prefer := range []string{"time", "cost", "resource", "balanced"} {
		s := gpuScene().prefer(prefer).snapshot(t)
		want, err := Model{}.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := critical(none, none).Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Allocation.Same(want.Allocation) || got.Planner != "morl" || got.Learned == nil || got.Learned.Fallback != "" {
			t.Errorf("%s: %s by %s (%+v), the model takes %s", prefer, got.Allocation, got.Planner, got.Learned, want.Allocation)
		}
	}
}

func TestCriticsThatAgreeMoveTheChoice(t *testing.T) {
	s := gpuScene().prefer("time=0.95,cost=0.05").snapshot(t)
	model, _ := Model{}.Decide(s)
	p, err := critical(big, big, big).Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	if p.Allocation.GPUs > 7 || model.Allocation.GPUs != 8 {
		t.Errorf("chose %s (the model: %s), want fewer than all 8 GPUs", p.Allocation, model.Allocation)
	}
	if !p.Chosen.Allocation.Same(p.Allocation) || !strings.Contains(p.Reason, "agent prefers") {
		t.Errorf("chosen %s for %s, %q", p.Chosen.Allocation, p.Allocation, p.Reason)
	}
	if w := p.Learned.Weights; math.Abs(w[0]+w[1]+w[2]+w[3]-1) > 1e-6 || w[1] < w[0] {
		t.Errorf("weights %v", w)
	}
}

func TestCriticsThatDisagreeLeaveItToTheModel(t *testing.T) {
	s := gpuScene().prefer("time=0.95,cost=0.05").snapshot(t)
	model, _ := Model{}.Decide(s)
	against := func(s perf.State) [4]float64 {
		v := big(s)
		v[1] *= -0.9
		return v
	}
	p, err := critical(big, big, against).Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Allocation.Same(model.Allocation) || !strings.Contains(p.Learned.Fallback, "not sure") {
		t.Errorf("chose %s, %q; the model: %s", p.Allocation, p.Learned.Fallback, model.Allocation)
	}
}

func TestSpreadFactor(t *testing.T) {
	s := gpuScene().prefer("time=0.95,cost=0.05").snapshot(t)
	model, _ := Model{}.Decide(s)
	against := func(s perf.State) [4]float64 {
		v := big(s)
		v[1] *= -0.9
		return v
	}
	for name, c := range map[string]struct {
		factor float64
		moved  bool
	}{"default": {0, false}, "small": {0.01, true}, "none": {-1, true}} {
		p := critical(big, big, against)
		p.SpreadFactor = c.factor
		got, err := p.Decide(s)
		if err != nil || got.Allocation.Same(model.Allocation) == c.moved {
			t.Errorf("%s: chose %s (the model: %s), %v", name, got.Allocation, model.Allocation, err)
		}
	}
	embedded, err := MORL{}.Current()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.WithDropout(20); err == nil {
		t.Error("dropout in an agent trained without was accepted")
	}
}

func TestWeightRules(t *testing.T) {
	late := gpuScene().agreed(sla.Spec{TimeMax: time.Minute}) // no allocation is fast enough
	for name, c := range map[string]struct {
		rule, prefer string
		want         [4]float64
	}{
		"preference":         {"preference", "cost", [4]float64{2. / 3, 0, 0, 1. / 3}},
		"constant, cost":     {"constant", "cost", [4]float64{0.6, 0.1, 0.1, 0.2}},
		"constant, time":     {"constant", "time", [4]float64{0.1, 0.6, 0.1, 0.2}},
		"constant, resource": {"constant", "resource", [4]float64{0.1, 0.1, 0.6, 0.2}},
		"constant, balanced": {"constant", "balanced", [4]float64{0.25, 0.25, 0.25, 0.25}},
	} {
		t.Run(name, func(t *testing.T) {
			s := late.prefer(c.prefer).snapshot(t)
			base, err := Model{}.Decide(s)
			var no *Infeasible
			if errors.As(err, &no) {
				base = no.Plan
			}
			agent := critical(none, none).Agent
			got, adapted := agent.weights(s, base, c.rule), agent.weights(s, base, "")
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 1e-6 {
					t.Fatalf("weights %v, want %v", got, c.want)
				}
			}
			if adapted == got {
				t.Errorf("weights that adapt to a violation are the same: %v", adapted)
			}
		})
	}
}

// The agent never selects an allocation that misses the SLA by the model's prediction.
func TestAgentNeverLeavesWhatKeepsTheAgreement(t *testing.T) {
	tempting := func(s perf.State) [4]float64 { return [4]float64{10 * (1 - s[0]), 10 * (1 - s[0]), 0, 0} }
	scene := gpuScene().prefer("cost").agreed(sla.Spec{TimeMax: 20 * time.Minute})
	p, err := critical(tempting, tempting).Decide(scene.snapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Chosen.Feasible && p.Recourse == nil {
		t.Errorf("chose %s, which breaks %v", p.Allocation, p.Chosen.Breaks)
	}
}

func TestMORLFallsBack(t *testing.T) {
	ready := gpuScene().prefer("time")
	open := ready
	open.Total = 0
	fixed := ready.running(gpu(8, 32), 5, time.Minute, 1, 20)
	fixed.Resumable = false
	unmeasured := ready
	unmeasured.measured = nil
	for name, c := range map[string]struct {
		planner MORL
		scene   scene
		why     string
	}{
		"work unknown":     {critical(big, big), open, "remaining work is unknown"},
		"cannot be moved":  {critical(big, big), fixed, "cannot be moved"},
		"nothing measured": {critical(big, big), unmeasured, "nothing is measured"},
		"broken file":      {MORL{Broken: errors.New("agent file x: damaged")}, ready, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.scene.snapshot(t)
			want, err := Model{}.Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.planner.Decide(s)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Allocation.Same(want.Allocation) || !strings.Contains(got.Learned.Fallback, c.why) {
				t.Errorf("chose %s because %q, want %s because %q", got.Allocation, got.Learned.Fallback, want.Allocation, c.why)
			}
		})
	}
	_, err := critical(big).Decide(gpuScene().agreed(sla.Spec{TimeMax: time.Second}).snapshot(t))
	var no *Infeasible
	if !errors.As(err, &no) || no.Plan.Planner != "morl" {
		t.Errorf("an agreement that nothing keeps: %v", err)
	}
}

func TestAgentFilesOfOtherKindsAreRefused(t *testing.T) {
	write := func(name string, s morl.Shape) []byte {
		a, err := morl.New(name, s, morl.Config{Hidden: []int{4}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := morl.WriteFile(&b, morl.Meta{Agent: name, Env: "training", Shape: s, Config: morl.Config{Hidden: []int{4}}, Seed: 1}, a); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	right := morl.Shape{State: perf.StateSize, Actions: 9, Objectives: perf.Objectives}
	good := write("conditioned", right)
	if _, err := LoadAgent(bytes.NewReader(good)); err != nil {
		t.Errorf("a good file: %v", err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"other problem":  {write("conditioned", morl.Shape{State: 72, Actions: 4, Objectives: []string{"treasure", "time"}}), errForeignAgent},
		"without critic": {write("simple", right), errForeignAgent},
		"flipped bit":    {flipped, morl.ErrCorrupt},
		"half of it":     {good[:len(good)/2], morl.ErrCorrupt},
		"something else": {[]byte("#!/bin/sh\necho hello, this is no agent file\n"), morl.ErrForeign},
		"empty":          {nil, morl.ErrForeign},
	} {
		if _, err := LoadAgent(bytes.NewReader(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// The embedded agent can be loaded and decides on every scene among the candidates that meet the SLA.
func TestEmbeddedAgentDecides(t *testing.T) {
	a, err := LoadAgent(bytes.NewReader(agentFile))
	if err != nil {
		t.Fatal(err)
	}
	if a.Meta.Stats.Updates == 0 {
		t.Error("the agent in the binary was never trained")
	}
	for name, sc := range map[string]scene{"cpu": cpuScene(), "gpu": gpuScene()} {
		for _, prefer := range []string{"time", "cost", "resource", "balanced"} {
			p, err := MORL{}.Decide(sc.prefer(prefer).snapshot(t))
			if err != nil {
				t.Fatal(err)
			}
			if !p.Chosen.Feasible || p.Learned.Agent == "" || (resources.Allocation{}).SameShape(p.Allocation) {
				t.Errorf("%s, %s: %+v", name, prefer, p.Chosen)
			}
			t.Logf("%s, %s: %s (%s)", name, prefer, p.Allocation, p.Reason)
		}
	}
}
