package rlscheduler

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
)

// crowded returns a trace of short and long jobs for which the order matters.
func crowded(n int) *Trace {
	rng := rand.New(rand.NewPCG(7, 1))
	t := &Trace{Procs: 64, Nodes: 64}
	clock := 0.0
	for i := range n {
		run := math.Ceil(math.Exp(4 + 2*rng.NormFloat64()))
		t.Jobs = append(t.Jobs, order.Job{ID: i + 1, Submit: clock, Run: run, Request: run, Procs: 1 + rng.IntN(40), User: -1, Group: -1, Executable: -1})
		clock += math.Floor(100 * rng.ExpFloat64())
	}
	return t
}

var quick = map[string]TrainOptions{
	"evolution": {Seed: 3, Updates: 12, Episodes: 4, Sequence: Sequence{Length: 96}, Relative: true,
		Validation: 2, Every: 4},
	"ppo": {Method: "ppo", Sight: wideSight, Hidden: []int{16}, Seed: 3, Updates: 12, Episodes: 32,
		Sequence: Sequence{Length: 64}, Relative: true,
		PPO: network.PolicyConfig{Rate: 0.01, Iterations: 10, ValueIterations: 10, TargetKL: 0.1, ScaleReturns: true}},
}

func trained(t *testing.T, o TrainOptions, from *Agent) *Agent {
	t.Helper()
	a, err := Train(context.Background(), crowded(1000), o, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Trained agents beat first come, first served on unseen sequences, and do not depend on the number of workers.
func TestTrain(t *testing.T) {
	tr, test := crowded(1000), []int{700, 796, 892}
	fcfs := 0.0
	for _, s := range test {
		e := tr.Episode(s, 96, false)
		play(e, Published[0].Player(tr.Jobs[s:s+96]))
		fcfs += measure(e).BoundedSlowdown / float64(len(test))
	}
	for name, o := range quick {
		t.Run(name, func(t *testing.T) {
			for i := 96; i < 600; i++ {
				o.Sequence.Starts = append(o.Sequence.Starts, i)
			}
			a := trained(t, o, nil)
			if got := meanSlowdown(a.evaluate(t, tr, test, 96, false, nil)); !(got < 0.6*fcfs) {
				t.Errorf("bounded slowdown %v, first come first served %v", got, fcfs)
			}
			o.Workers = 3
			if !bytes.Equal(stored(t, a), stored(t, trained(t, o, nil))) {
				t.Error("three workers trained another agent")
			}
		})
	}
}

func stored(t *testing.T, a *Agent) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadAgent(t *testing.T) {
	tr := crowded(1000)
	for name, o := range quick {
		o.Updates = 1
		a := trained(t, o, nil)
		file := stored(t, a)
		back, err := ReadAgent(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range []bool{false, true} {
			measures := func(a *Agent) episodeMeasures {
				var rng *rand.Rand
				if sample {
					rng = rand.New(rand.NewPCG(0, 1))
				}
				return a.evaluate(t, tr, []int{5}, 200, sample, rng)[0]
			}
			if got, want := measures(back), measures(a); got != want {
				t.Errorf("%s: loaded, it reaches %v, want %v", name, got, want)
			}
		}
		on := trained(t, o, back)
		if bytes.Equal(stored(t, on), file) {
			t.Errorf("%s: training on changed nothing", name)
		}
		o.Hidden = []int{3}
		if _, err := Train(context.Background(), tr, o, back, nil); err == nil {
			t.Errorf("%s: training on with other layers is accepted", name)
		}
	}
	var foreign bytes.Buffer
	l, err := network.NewLearner(network.Shape{Rows: 1, Features: 1, Actions: 2}, network.PolicyConfig{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := network.WriteFile(&foreign, network.Meta{Kind: "chess"}, l); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAgent(&foreign); !errors.Is(err, network.ErrForeign) {
		t.Errorf("a policy for chess: %v", err)
	}
}

// Evolution starts from "smallest area first", with and without hidden layers.
func TestInitialise(t *testing.T) {
	tr := crowded(600)
	want := tr.Episode(0, 600, true)
	rule := Heuristic{Order: order.Order{Score: func(j *order.Job, _ float64) float64 {
		return math.Log(j.Request+1) + math.Log(float64(j.Procs))
	}}}
	play(want, rule.Player(tr.Jobs))
	for _, hidden := range [][]int{{}, {12}, {10, 11}} {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		a, err := Train(ended, tr, TrainOptions{Hidden: hidden}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := a.evaluate(t, tr, []int{0}, 600, true, nil)[0].BoundedSlowdown, measure(want).BoundedSlowdown; math.Abs(got-want) > 0.02*want {
			t.Errorf("layers %v: bounded slowdown %v, the rule has %v", hidden, got, want)
		}
		if back, err := ReadAgent(bytes.NewReader(stored(t, a))); err != nil || len(back.Options.Hidden) != len(hidden) {
			t.Errorf("layers %v: loaded %v, %v", hidden, back, err)
		}
	}
}

func TestTrainRefused(t *testing.T) {
	for name, o := range map[string]TrainOptions{
		"method": {Method: "sarsa"},
		"sight":  {Sight: "none"},
		"length": {Sequence: Sequence{Length: 2000}},
		"sigma":  {Evolution: network.Evolution{Sigma: -1}},
	} {
		if _, err := Train(context.Background(), crowded(1000), o, nil, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Train(ended, crowded(1000), TrainOptions{}, nil, nil); err != nil {
		t.Errorf("an ended context: %v", err)
	}
}

// BenchmarkUpdate measures one update of RLScheduler's training: 100 episodes of 256 jobs, and the passes over them
// that the target divergence permits.
func BenchmarkUpdate(b *testing.B) {
	o := TrainOptions{Method: "ppo", Updates: 1, Seed: 1}
	tr, passes := crowded(5000), 0
	for b.Loop() {
		if _, err := Train(context.Background(), tr, o, nil, func(p TrainProgress) {
			passes += p.Report.Iterations + p.Report.ValueIteration
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(passes)/b.Elapsed().Seconds(), "passes/s")
}

// evaluate returns the measures of an agent on the sequences that begin at starts. It chooses the most probable job or,
// if rng is not nil, draws jobs from the policy, as RLScheduler does in evaluations.
func (a *Agent) evaluate(t testing.TB, tr *Trace, starts []int, length int, backfill bool, rng *rand.Rand) []episodeMeasures {
	t.Helper()
	d, err := a.decider(tr)
	if err != nil {
		t.Fatal(err)
	}
	var all []episodeMeasures
	for _, s := range starts {
		all = append(all, d.play(tr, s, length, backfill, rng))
	}
	return all
}

// play plays the sequence of length jobs from start on; see Agent.evaluate.
func (d *decider) play(tr *Trace, start, length int, backfill bool, rng *rand.Rand) episodeMeasures {
	d.begin(tr.Jobs[start : start+length])
	next := d.next
	if rng != nil {
		next = func(e *Episode) int {
			action, _ := d.policy.Sample(d.see.observe(e), rng)
			return d.see.shown[action]
		}
	}
	return play(tr.Episode(start, length, backfill), next)
}

// meanSlowdown returns the mean bounded slowdown over sequences.
func meanSlowdown(all []episodeMeasures) float64 {
	sum := 0.0
	for _, m := range all {
		sum += m.BoundedSlowdown
	}
	return sum / float64(len(all))
}
