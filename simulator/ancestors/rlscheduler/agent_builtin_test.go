package rlscheduler

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The built-in policies were trained on generated workloads only, and are better than their initial rule on workloads
// and a machine size not used in training.
func TestBuiltinAgent(t *testing.T) {
	const n, length, procs = 40, 400, 128
	saf := Further[2]
	for name, backfill := range map[string]bool{"none": false, "rlscheduler": true} {
		a, err := BuiltinAgent(name)
		if err != nil {
			t.Fatal(err)
		}
		if s := a.Options.Sequence; s.Drawn == nil || s.Backfill != backfill || len(s.Starts) > 0 {
			t.Errorf("%s was trained on %+v, want drawn workloads", name, s)
		}
		tr := &Trace{Procs: procs, Nodes: procs}
		d, err := a.decider(tr)
		if err != nil {
			t.Fatal(err)
		}
		ratio := 0.0
		for i := range uint64(n) {
			jobs, err := Drawn{Low: 0.8, High: 1.2}.Draw(rand.New(rand.NewPCG(77, i)), length, procs)
			if err != nil {
				t.Fatal(err)
			}
			rule := play(NewEpisode(jobs, procs, backfill), saf.Player(jobs))
			tr.Jobs = jobs
			ratio += math.Log(d.play(tr, 0, length, backfill, nil).BoundedSlowdown/rule.BoundedSlowdown) / n
		}
		t.Logf("%s: bounded slowdown by that of %s: %.3f", name, saf.Name, math.Exp(ratio))
		if ratio > 0 {
			t.Errorf("%s: bounded slowdown is %.3f times that of %s", name, math.Exp(ratio), saf.Name)
		}
	}
	if _, err := BuiltinAgent("easy"); err == nil || !strings.Contains(err.Error(), "none, rlscheduler") {
		t.Errorf("there is no policy for easy: %v", err)
	}
}
