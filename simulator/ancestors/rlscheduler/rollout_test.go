package rlscheduler

import (
	"flag"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"trainopt/simulator/workload/swf"
)

var full = flag.Bool("full", false, "play the published sequences of 1,024 jobs (minutes)")

// made generates a trace by the model of the published traces, on a smaller machine.
func made(t testing.TB, seed uint64, n int) *Trace {
	jobs, err := swf.Lublin{Jobs: n, Procs: 64, Seed: seed, Load: 0.9}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return &Trace{Procs: 64, Nodes: 64, Jobs: jobs}
}

// searched returns an episode of length jobs from start on, played by a rollout.
func searched(t testing.TB, trace *Trace, start, length int, backfill bool, o RolloutOptions) *Episode {
	r, err := NewRollout(o)
	if err != nil {
		t.Error(err)
		return trace.Episode(start, 0, backfill)
	}
	e := trace.Episode(start, length, backfill)
	play(e, r.Player(trace, start))
	return e
}

func TestRolloutBeatsItsRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	rules, err := heuristics([]string{"SAF", "SJF", "smallest", "F4"})
	if err != nil {
		t.Fatal(err)
	}
	for _, backfill := range []bool{false, true} {
		var reached float64
		simple := map[string]float64{}
		const seeds = 4
		for seed := range uint64(seeds) {
			trace := made(t, seed, 400)
			e := searched(t, trace, 100, 300, backfill, RolloutOptions{})
			if slices.ContainsFunc(e.Starts(), math.IsNaN) {
				t.Fatal("a job never started")
			}
			reached += measure(e).BoundedSlowdown / seeds
			for _, h := range rules {
				simple[h.Name] += play(trace.Episode(100, 300, backfill), h.Player(trace.Jobs[100:400])).BoundedSlowdown / seeds
			}
		}
		for name, v := range simple {
			if reached >= v {
				t.Errorf("backfill %v: bounded slowdown %.2f by search, %.2f by %s", backfill, reached, v, name)
			}
		}
	}
}

// Another candidate is selected only if its advantage is sufficient.
func TestRolloutIsSure(t *testing.T) {
	r := &rollout{candidate: []int{0, 1, 2}}
	for name, c := range map[string]struct {
		sure  float64
		worth []float64 // 3 candidates × 1 rule × 4 samples
		want  int
	}{
		"always better":          {2, []float64{10, 20, 30, 40, 9, 19, 29, 39, 11, 21, 31, 41}, 1},
		"by chance":              {1, []float64{10, 20, 30, 40, 30, 10, 29, 30, 50, 50, 50, 50}, 0},
		"by chance, not asked":   {0, []float64{10, 20, 30, 40, 30, 10, 29, 30, 50, 50, 50, 50}, 1},
		"the best of the better": {1, []float64{10, 20, 30, 40, 9, 19, 29, 39, 8, 18, 28, 38}, 2},
	} {
		r.sure, r.worth = c.sure, c.worth
		if got := r.choose(1, 4); got != c.want {
			t.Errorf("%s: candidate %d, want %d", name, got, c.want)
		}
	}
}

func TestRolloutLooksAtNothingToCome(t *testing.T) {
	a, b := made(t, 3, 300), made(t, 3, 300)
	for i := 200; i < 300; i++ { // a different future
		b.Jobs[i].Run, b.Jobs[i].Request, b.Jobs[i].Procs = 5000, 5000, 32
	}
	ea := searched(t, a, 50, 250, true, RolloutOptions{Samples: 2, Horizon: 10})
	eb := searched(t, b, 50, 250, true, RolloutOptions{Samples: 2, Horizon: 10})
	until := a.Jobs[200].Submit
	same := 0
	for i, s := range ea.Starts() {
		if s < until {
			same++
			if s != eb.Starts()[i] {
				t.Fatalf("job %d starts at %v or %v, before anything differs", i, s, eb.Starts()[i])
			}
		}
	}
	if same < 50 {
		t.Fatalf("only %d jobs started before the futures differ", same)
	}
}

func TestRolloutRefusesWhatThereIsNot(t *testing.T) {
	if _, err := NewRollout(RolloutOptions{Rules: []string{"FASTEST"}}); err == nil || !strings.Contains(err.Error(), "FASTEST") {
		t.Errorf("unknown rule: %v", err)
	}
	if _, err := NewRollout(RolloutOptions{Agent: &Agent{}}); err == nil {
		t.Error("an agent that sees nothing known was taken")
	}
	if _, err := NewRollout(RolloutOptions{Width: -1}); err == nil {
		t.Error("width −1 was taken")
	}
}

// TestPublishedRollouts simulates RLScheduler's published sequences: with each seed, the bounded slowdown is below that of
// its agent and of every rule. The limits are the smaller of both, from its README and from Further.
func TestPublishedRollouts(t *testing.T) {
	limits := []struct {
		trace    string
		backfill bool
		limit    float64
	}{
		{"Lublin-1", false, 254.67}, {"Lublin-1", true, 53.64},
		{"Lublin-2", false, 622.18}, {"Lublin-2", true, 90.72},
	}
	if !*full {
		t.Skip("takes minutes: -full")
	}
	for _, l := range limits {
		trace := load(t, l.trace)
		for seed := range uint64(5) {
			values := make([]float64, len(Starts1024))
			var group sync.WaitGroup
			for i, s := range Starts1024 {
				group.Go(func() {
					values[i] = measure(searched(t, trace, s, 1024, l.backfill, RolloutOptions{Seed: seed})).BoundedSlowdown
				})
			}
			group.Wait()
			mean := 0.0
			for _, v := range values {
				mean += v / float64(len(values))
			}
			t.Logf("%s, backfill %v, seed %d: %.2f (%.2f) %.1f", l.trace, l.backfill, seed, mean, l.limit, values)
			if !(mean < l.limit) {
				t.Errorf("%s, backfill %v, seed %d: %.2f, want below %.2f", l.trace, l.backfill, seed, mean, l.limit)
			}
		}
	}
}
