package problems

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func tables() []*table {
	return []*table{
		DeepSeaTreasure(Convex).(*table), DeepSeaTreasure(Concave).(*table),
		resourceGathering().(*table), fruitTree(5).(*table), fruitTree(6).(*table),
	}
}

// ask returns a Policy from a list of actions by state.
func (t *table) ask(actions []int) tablePolicy {
	return func(state []float32, _ []bool) int {
		for s, x := range state {
			if x == 1 {
				return actions[s]
			}
		}
		panic("no state")
	}
}

// follow returns a Policy from the actions of one episode without a death.
func (t *table) follow(test *testing.T, actions []int) tablePolicy {
	test.Helper()
	by := make([]int, t.states)
	for s := range by {
		by[s] = -1
	}
	state := t.start
	for i, a := range actions {
		if by[state] >= 0 && by[state] != a {
			test.Fatalf("%s: action %d comes back to a state and acts differently: %v", t.name, i, actions)
		}
		by[state] = a
		_, state, _ = t.expect(state, a)
		if (state == over) != (i == len(actions)-1) {
			test.Fatalf("%s: after action %d of %v: state %d", t.name, i, actions, state)
		}
	}
	return t.ask(by)
}

// play returns the mean discounted return of simulated episodes.
func play(p Problem, policy tablePolicy, gamma float64, episodes int, rng *rand.Rand) []float64 {
	mean := make([]float64, len(p.Shape().Objectives))
	for range episodes {
		discount, o := 1.0, p.Reset(rng)
		for {
			out := p.Step(policy(o.State, o.Mask))
			for i, r := range out.Reward {
				mean[i] += discount * float64(r) / float64(episodes)
			}
			if out.Done || out.Cut {
				break
			}
			discount *= gamma
			o = out.Observation
		}
	}
	return mean
}

// TestKnownWaysEarnTheKnownFront requires that every point of a front is the Return of its way.
func TestKnownWaysEarnTheKnownFront(t *testing.T) {
	for _, p := range tables() {
		for _, gamma := range []float64{1, 0.99, 0.9} {
			for _, w := range p.knownWays(gamma) {
				policy := p.follow(t, w.actions)
				if got := p.Return(policy, gamma); !near(got, w.earns, 1e-9) {
					t.Errorf("%s at %v: Return of %v is %v, the front says %v", p.name, gamma, w.actions, got, w.earns)
				}
				episodes, tolerance := 1, 1e-4
				if p.name == "resource-gathering" {
					episodes, tolerance = 20_000, 0.02
				}
				got := play(p, policy, gamma, episodes, rand.New(rand.NewPCG(1, 2)))
				if !near(got, w.earns, tolerance) {
					t.Errorf("%s at %v: %v earns %v, the front says %v", p.name, gamma, w.actions, got, w.earns)
				}
			}
		}
	}
}

// TestReturnIsWhatEpisodesEarn requires that Return agrees with simulated episodes for poor policies, which wander,
// die and are cut.
func TestReturnIsWhatEpisodesEarn(t *testing.T) {
	for _, p := range tables() {
		rng := rand.New(rand.NewPCG(7, 7))
		for trial := range 12 {
			actions := make([]int, p.states)
			for s := range actions {
				actions[s] = rng.IntN(p.actions)
			}
			episodes, tolerance := 1, 1e-3
			if p.name == "resource-gathering" {
				episodes, tolerance = 2000, 0.06
			}
			for _, gamma := range []float64{1, 0.95} {
				exact := p.Return(p.ask(actions), gamma)
				if got := play(p, p.ask(actions), gamma, episodes, rng); !near(got, exact, tolerance) {
					t.Errorf("%s, policy %d at %v: episodes earn %v, Return says %v", p.name, trial, gamma, got, exact)
				}
			}
		}
	}
}

func TestReturnOfNeverEnding(t *testing.T) {
	p := DeepSeaTreasure(Convex)
	asked := 0
	up := func([]float32, []bool) int { asked++; return up }
	for gamma, want := range map[float64]float64{1: -100, 0.99: -(1 - math.Pow(0.99, 100)) / 0.01, 0: -1} {
		if got := p.Return(up, gamma); !near(got, []float64{0, want}, 1e-9) {
			t.Errorf("at %v: %v, want %v", gamma, got, want)
		}
	}
	if asked != 3 {
		t.Errorf("the policy was asked %d times, want once each of 3 calls", asked)
	}
}

// TestReturnOfStayingWithAnEnemy: staying with the enemy E2 against the wall has the return −Σ 0.1·0.9^k·γ^(7+k)
// until the limit.
func TestReturnOfStayingWithAnEnemy(t *testing.T) {
	p := resourceGathering().(*table)
	way := []int{right, up, up, up, up} // to (0, 3)
	actions := make([]int, p.states)    // up everywhere else
	state := p.start
	for _, a := range way {
		actions[state] = a
		_, state, _ = p.expect(state, a)
	}
	const gamma = 0.9
	want := 0.0
	for k := range p.limit - 4 {
		want -= 0.1 * math.Pow(0.9, float64(k)) * math.Pow(gamma, float64(4+k))
	}
	if got := p.Return(p.ask(actions), gamma); !near(got, []float64{want, 0, 0}, 1e-12) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestReturnDoesNotDisturbAnEpisode(t *testing.T) {
	for name, build := range ByName {
		p, undisturbed := build(), build()
		p.Reset(rand.New(rand.NewPCG(3, 4)))
		undisturbed.Reset(rand.New(rand.NewPCG(3, 4)))
		first := func([]float32, []bool) int { return 1 }
		for i := range 4 {
			p.Return(first, 0.9)
			a, b := p.Step(i%2), undisturbed.Step(i%2)
			if !same(a, b) {
				t.Fatalf("%s: step %d gives %v after Return, %v without", name, i, a, b)
			}
			if a.Done {
				break
			}
		}
	}
}

func TestBordersAndRocksKeepInPlace(t *testing.T) {
	const u, d, l, r = up, Down, left, right
	cases := map[string]struct {
		problem string
		actions []int // the last one must not change the cell
		over    bool  // the last one ends the episode
	}{
		"sea, upper border":        {"deep-sea-treasure", []int{u}, false},
		"sea, left border":         {"deep-sea-treasure", []int{l}, false},
		"sea, right border":        {"deep-sea-treasure", []int{r, r, r, r, r, r, r, r, r, r, r}, false},
		"sea, lower border":        {"deep-sea-treasure", []int{r, r, r, r, r, r, r, r, r, r, d, d, d, d, d, d, d, d, d, d, d}, false},
		"sea, rock":                {"deep-sea-treasure", []int{r, r, r, r, r, r, d, d, d, d, d, l}, false},
		"gathering, left border":   {"resource-gathering", []int{l, l, l}, false},
		"gathering, lower border":  {"resource-gathering", []int{r, d}, false},
		"gathering, into the home": {"resource-gathering", []int{d}, true},
	}
	for name, c := range cases {
		p := ByName[c.problem]()
		before := append([]float32(nil), p.Reset(nil).State...)
		for i, a := range c.actions {
			out, last := p.Step(a), i == len(c.actions)-1
			if slices.Equal(out.State, before) != last || out.Done != (last && c.over) || out.Reward[0] != 0 {
				t.Errorf("%s: action %d: %v after %v", name, i+1, out, before)
			}
			copy(before, out.State)
		}
	}
}
