package rlscheduler

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
)

func TestDrawnSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(0.2, 1).Draw(t, "low")
		d := Drawn{Low: low, High: low + rapid.Float64Range(0, 0.5).Draw(t, "more"), Varied: rapid.Bool().Draw(t, "varied"),
			Overestimate: rapid.SampledFrom([]float64{0, 5}).Draw(t, "over"), Mixed: rapid.Bool().Draw(t, "mixed")}
		n, seed := rapid.IntRange(2, 400).Draw(t, "jobs"), rapid.Uint64().Draw(t, "seed")
		jobs, err := d.Draw(rand.New(rand.NewPCG(seed, 1)), n, 256)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := d.Draw(rand.New(rand.NewPCG(seed, 1)), n, 256); !reflect.DeepEqual(runs(jobs), runs(again)) {
			t.Fatal("the same seed draws another sequence")
		}
		if len(jobs) != n || jobs[0].Submit != 0 || !slices.IsSortedFunc(jobs, func(a, b order.Job) int { return int(a.Submit - b.Submit) }) {
			t.Fatalf("%d jobs from %v on, want %d in order from 0 on", len(jobs), jobs[0].Submit, n)
		}
		work := 0.0
		for _, j := range jobs {
			work += j.Run * float64(j.Procs)
			if j.Run < 1 || j.Request < j.Run && d.Overestimate > 0 || d.Overestimate == 0 && j.Request != j.Run {
				t.Fatalf("job %+v", j)
			}
		}
		span := jobs[n-1].Submit
		if load := work / (span * 256); span > 1000 && (load < d.Low*0.999 || load > d.High*1.002) {
			t.Fatalf("load %v, want %v to %v", load, d.Low, d.High)
		}
	})
}

// runs returns the comparable fields of jobs, without deadlines, which are NaN.
func runs(jobs []order.Job) [][4]float64 {
	var out [][4]float64
	for _, j := range jobs {
		out = append(out, [4]float64{j.Submit, j.Run, j.Request, float64(j.Procs)})
	}
	return out
}

func TestDrawnRefused(t *testing.T) {
	for name, d := range map[string]Drawn{
		"low above high": {Low: 2, High: 1}, "no high": {Low: 0.5}, "no number": {Low: math.NaN(), High: 1}, "overestimate": {Overestimate: 0.5},
	} {
		if _, err := newAgentEnvironment(agentTrace(10, 1), Sequence{Drawn: &d}, agentSettings{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Equal seeds give equal sequences, and rewards follow the settings.
func TestDrawnEnvironment(t *testing.T) {
	machine := &Trace{Procs: 256, Nodes: 256}
	reward := func(s agentSettings) float64 {
		env, err := newAgentEnvironment(machine, Sequence{Length: 300, Drawn: &Drawn{Low: 0.9, High: 1}}, s)
		if err != nil {
			t.Fatal(err)
		}
		var rewards [2]float64
		for i := range rewards {
			_, done := env.Reset(rand.New(rand.NewPCG(5, 5)))
			for !done {
				_, rewards[i], done = env.Step(0)
			}
		}
		if rewards[0] != rewards[1] {
			t.Errorf("%+v: played again, it is worth %v instead of %v", s, rewards[1], rewards[0])
		}
		return rewards[0]
	}
	plain, relative, both := reward(agentSettings{}), reward(agentSettings{Relative: true}), reward(agentSettings{Relative: true, Logarithm: true})
	if !(plain < -1) || !(relative > plain && relative < 0) || math.Abs(both+math.Log(-relative)) > 1e-9 {
		t.Errorf("rewards %v, relative %v, with its logarithm %v", plain, relative, both)
	}
}

// Scores order the jobs as the agent's choices do, and future jobs count as jobs without a wait.
func TestScores(t *testing.T) {
	tr := agentTrace(200, 3)
	shape, err := wideSight.Shape()
	if err != nil {
		t.Fatal(err)
	}
	l, err := network.NewLearner(shape, network.PolicyConfig{Method: "ppo", Policy: "kernel", Hidden: []int{6}}, 4)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newDecider(tr, wideSight, l.Policy())
	if err != nil {
		t.Fatal(err)
	}
	e := tr.Episode(0, 200, true)
	a.begin(tr.Jobs)
	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
		next := a.next(e)
		last := tr.Jobs[w[len(w)-1]]
		scores := a.scores(nil, e, []order.Job{last})
		if len(scores) != len(w)+1 {
			t.Fatalf("%d scores of %d jobs and a newcomer", len(scores), len(w))
		}
		if at := slices.Index(scores[:len(w)], slices.Min(scores[:len(w)])); w[at] != next {
			t.Fatalf("job %d has the least score, %d is next", w[at], next)
		}
		if e.Now() == last.Submit && scores[len(w)] != scores[len(w)-1] {
			t.Fatalf("the newcomer has %v, the same job that came now %v", scores[len(w)], scores[len(w)-1])
		}
		e.Start(next)
	}
	if other, err := newDecider(tr, publishedSight, l.Policy()); err != nil || other.scores(nil, e, nil) != nil {
		t.Error("scores without WideSight")
	}
}
