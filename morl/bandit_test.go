package morl

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// problem is a set of arms with known mean costs. All pulls scatter by the same relative noise; share fail of the
// pulls of an arm never succeed.
type problem struct {
	means, fail []float64
	noise       float64
}

// pull runs one pull until it succeeds or has cost the threshold.
func (p problem) pull(arm int, threshold float64, rng *rand.Rand) PullOutcome {
	cost := p.means[arm] * math.Exp(p.noise*rng.NormFloat64())
	failed := p.fail != nil && rng.Float64() < p.fail[arm]
	if failed {
		cost = 10 * p.means[arm]
	}
	if cost >= threshold {
		return PullOutcome{Arm: arm, Cost: threshold, Stopped: true}
	}
	return PullOutcome{Arm: arm, Cost: cost, Stopped: failed}
}

func (p problem) play(t testing.TB, b *Thompson, pulls int, rng *rand.Rand) {
	for range pulls {
		arm := b.Next(rng).Arm
		if err := b.Observe(p.pull(arm, b.Threshold(arm), rng)); err != nil {
			t.Fatal(err)
		}
	}
}

func make1(t testing.TB, arms int, s ThompsonSettings) *Thompson {
	t.Helper()
	b, err := NewThompson(arms, s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func generator(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

var valley = problem{means: []float64{4, 2, 1.3, 1, 1.15, 1.6, 2.5, 5}, noise: 0.1}

var eight = []float64{0, 1, 2, 3, 4, 5, 6, 7}

// TestFindsTheBestArm requires that at least 95 % of the seeds select the best arm after a fixed number of pulls.
func TestFindsTheBestArm(t *testing.T) {
	failing := valley
	failing.fail = []float64{1, 0, 0, 0, 0, 0, 0.5, 1}
	flat := problem{means: []float64{1, 1.3, 1.3, 1.3, 0.8}, noise: 0.1}
	for name, c := range map[string]struct {
		problem  problem
		settings ThompsonSettings
		pulls    int
		best     int
	}{
		"independent, after pruning":  {valley, ThompsonSettings{Default: 6}, 60, 3},
		"independent, no pruning":     {valley, ThompsonSettings{Default: 6, Rounds: -1}, 60, 3},
		"neighbours tell":             {valley, ThompsonSettings{Default: 6, Rounds: -1, Positions: eight}, 40, 3},
		"some arms fail":              {failing, ThompsonSettings{Default: 5}, 60, 3},
		"some arms fail, neighbours":  {failing, ThompsonSettings{Default: 5, Rounds: -1, Positions: eight}, 40, 3},
		"the default fails":           {failing, ThompsonSettings{Default: 7}, 60, 3},
		"not a valley":                {flat, ThompsonSettings{Default: 1}, 40, 4},
		"not a valley, no neighbours": {flat, ThompsonSettings{Default: 1, Rounds: -1, Positions: eight[:5]}, 40, 4},
		"one arm":                     {problem{means: []float64{3}}, ThompsonSettings{}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			right := 0
			const seeds = 200
			for seed := range uint64(seeds) {
				b := make1(t, len(c.problem.means), c.settings)
				c.problem.play(t, b, c.pulls, generator(seed))
				if arm, ok := b.Best(); ok && arm == c.best {
					right++
				}
			}
			t.Logf("%d of %d seeds", right, seeds)
			if right < seeds*95/100 {
				t.Errorf("%d of %d seeds settle on arm %d after %d pulls, want 95 %%", right, seeds, c.best, c.pulls)
			}
		})
	}
}

// TestRegretIsSublinear requires that the excess cost over the best arm in the second half of the pulls is far below
// that in the first half.
func TestRegretIsSublinear(t *testing.T) {
	for name, s := range map[string]ThompsonSettings{
		"independent": {Default: 7}, "smooth": {Default: 7, Rounds: -1, Positions: eight},
	} {
		t.Run(name, func(t *testing.T) {
			var early, late float64
			for seed := range uint64(40) {
				b, rng := make1(t, len(valley.means), s), generator(seed)
				valley.play(t, b, 200, rng)
				for i, o := range b.history {
					if i < 100 {
						early += valley.means[o.Arm] - 1
					} else {
						late += valley.means[o.Arm] - 1
					}
				}
			}
			t.Logf("regret of a pull: first half %.4f, second half %.4f", early/4000, late/4000)
			if late > early/4 {
				t.Errorf("regret of the second half %g, of the first %g: want less than a quarter", late, early)
			}
		})
	}
}

// TestDriftIsFollowed requires that, with a window, the bandit switches from an arm that became bad to a dropped one
// that became good.
func TestDriftIsFollowed(t *testing.T) {
	before := problem{means: []float64{1, 1.5, 2, 3, 4}, noise: 0.05}
	after := problem{means: []float64{4, 3, 2, 1.5, 1}, noise: 0.05}
	for name, c := range map[string]struct {
		settings ThompsonSettings
		want     bool
	}{
		"no window": {ThompsonSettings{Default: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			followed := 0
			for seed := range uint64(50) {
				b, rng := make1(t, 5, c.settings), generator(seed)
				before.play(t, b, 60, rng)
				if arm, _ := b.Best(); arm != 0 {
					t.Fatalf("seed %d: settled on %d before the drift", seed, arm)
				}
				after.play(t, b, 60, rng)
				if arm, ok := b.Best(); ok && arm == 4 {
					followed++
				}
			}
			if (followed >= 47) != c.want {
				t.Errorf("%d of 50 seeds follow the drift, want nearly all: %t", followed, c.want)
			}
		})
	}
}

// TestPruning requires that arms are tried outwards from the default, and that a failing arm ends its side.
func TestPruning(t *testing.T) {
	p := problem{means: []float64{9, 2.1, 1, 1.2, 1.5, 2.9, 1}}
	b := make1(t, 7, ThompsonSettings{Default: 3})
	var order []int
	for range 9 {
		pull := b.Next(generator(0))
		if want := 1 + len(order)/5; pull.Round != want && len(order) < 8 {
			t.Errorf("pull %d is of round %d, want %d", len(order), pull.Round, want)
		}
		order = append(order, pull.Arm)
		_ = b.Observe(p.pull(pull.Arm, b.Threshold(pull.Arm), generator(0)))
	}
	// 3, down 2, 1 (2.1 ≥ 2×1 fails, so 0 is never tried), up 4, 5 (fails, so 6 is never tried); then round two from the best, 2.
	if want := []int{3, 2, 1, 4, 5, 2, 3, 4}; !slices.Equal(order[:8], want) {
		t.Errorf("arms tried %v, want %v", order[:8], want)
	}
	for a, belief := range b.Beliefs() {
		if want := a < 2 || a > 4; belief.Dropped != want {
			t.Errorf("arm %d dropped: %t, want %t", a, belief.Dropped, want)
		}
	}
}

// TestFirstPullIsTheDefault requires the default as first pull with and without pruning, and unknown beliefs before
// it.
func TestFirstPullIsTheDefault(t *testing.T) {
	for _, s := range []ThompsonSettings{{Default: 4}, {Default: 4, Rounds: -1}, {Default: 4, Rounds: -1, Positions: eight}} {
		b := make1(t, 8, s)
		if pull := b.Next(generator(1)); pull.Arm != 4 {
			t.Errorf("%+v: first pull %+v", s, pull)
		}
		if arm, ok := b.Best(); arm != 4 || ok {
			t.Errorf("best %d, %t before anything is known", arm, ok)
		}
		if x := b.Beliefs()[2]; !math.IsNaN(x.Mean) || !math.IsInf(x.SD, 1) || !math.IsInf(b.Threshold(2), 1) {
			t.Errorf("belief %+v and threshold %g from nothing", x, b.Threshold(2))
		}
	}
}

// TestBeliefs compares beliefs with known answers.
func TestBeliefs(t *testing.T) {
	b := make1(t, 3, ThompsonSettings{Spread: 0.1})
	for _, o := range []PullOutcome{{0, 9, false}, {0, 11, false}, {1, 5, true}, {0, 10, false}} {
		if err := b.Observe(o); err != nil {
			t.Fatal(err)
		}
	}
	got := b.Beliefs()
	// Mean 10; variance (1² + 1² + 1² + 0) / 3 with the pseudo-observation of 10 % of 10.
	if g := got[0]; math.Abs(g.Mean-10) > 1e-12 || math.Abs(g.SD-1/math.Sqrt(3)) > 1e-12 || g.Pulls != 3 || g.Stopped != 0 {
		t.Errorf("arm 0: %+v", g)
	}
	if g := got[1]; !(g.Mean > 5) || g.Pulls != 1 || g.Stopped != 1 {
		t.Errorf("arm 1, stopped at 5: %+v: its mean is more than 5", g)
	}
	if got[2].Pulls != 0 || !math.IsNaN(got[2].Mean) {
		t.Errorf("arm 2: %+v, never pulled", got[2])
	}
	// E[x | x > m] of a normal distribution is m + s √(2/π); in the far tail it is just above the limit.
	if x := beyond(10, 10, 1, 0.1); math.Abs(x-10-math.Sqrt(2/math.Pi)) > 1e-12 {
		t.Errorf("beyond the mean: %g", x)
	}
	if x := beyond(20, 10, 1, 0.1); x <= 20 || x > 20.11 {
		t.Errorf("beyond ten deviations: %g", x)
	}
}

// TestSmoothInterpolates requires a good belief about an unpulled arm between two good ones, and an uninformative one
// far away.
func TestSmoothInterpolates(t *testing.T) {
	b := make1(t, 8, ThompsonSettings{Rounds: -1, Positions: eight})
	for _, o := range []PullOutcome{{0, 10, false}, {2, 5, false}, {4, 5, false}, {2, 5, false}} {
		_ = b.Observe(o)
	}
	got := b.Beliefs()
	if g := got[3]; g.Mean < 4 || g.Mean > 5.5 || g.SD > 0.2*g.Mean {
		t.Errorf("between two arms of cost 5: %+v", g)
	}
	if !(got[7].SD > 3*got[3].SD) {
		t.Errorf("far away is as sure as near: %+v, %+v", got[7], got[3])
	}
	if arm, _ := b.Best(); arm != 2 && arm != 4 {
		t.Errorf("best is %d, which was never pulled or is dear", arm)
	}
}

// TestSettingsAreChecked requires that all invalid settings are reported together.
func TestSettingsAreChecked(t *testing.T) {
	_, err := NewThompson(0, ThompsonSettings{Default: -1, Beta: 0.5, Positions: []float64{math.NaN()}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"0 arms", "default", "beta", "positions", "NaN"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not name %s", err, want)
		}
	}
	b := make1(t, 2, ThompsonSettings{})
	for _, o := range []PullOutcome{{2, 1, false}, {-1, 1, false}, {0, 0, false}, {0, -1, false}, {0, math.NaN(), false}, {0, math.Inf(1), true}} {
		if b.Observe(o) == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if len(b.history) != 0 {
		t.Errorf("refused observations are remembered")
	}
}

// TestPromises requires, for any observations, that an existing arm that is not dropped is chosen deterministically,
// that thresholds and beliefs are plausible, and that a bandit rebuilt from its history behaves identically.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		arms := rapid.IntRange(1, 8).Draw(r, "arms")
		s := ThompsonSettings{
			Default: rapid.IntRange(0, arms-1).Draw(r, "default"), Rounds: rapid.IntRange(-1, 3).Draw(r, "rounds"),
		}
		if rapid.Bool().Draw(r, "smooth") {
			s.Positions = rapid.SliceOfN(rapid.Float64Range(-20, 20), arms, arms).Draw(r, "positions")
		}
		b := make1(t, arms, s)
		for range rapid.IntRange(0, 40).Draw(r, "n") {
			o := PullOutcome{rapid.IntRange(0, arms-1).Draw(r, "arm"), math.Exp(rapid.Float64Range(-5, 15).Draw(r, "cost")), rapid.Bool().Draw(r, "stopped")}
			if err := b.Observe(o); err != nil {
				r.Fatal(err)
			}
		}
		again := make1(t, arms, s)
		for _, o := range b.history {
			if err := again.Observe(o); err != nil {
				r.Fatal(err)
			}
		}
		seed := rapid.Uint64().Draw(r, "seed")
		pull := b.Next(generator(seed))
		if pull != again.Next(generator(seed)) || pull != b.Next(generator(seed)) {
			r.Fatalf("the same history and generator give an other pull than %+v", pull)
		}
		beliefs := b.Beliefs()
		if pull.Arm < 0 || pull.Arm >= arms || beliefs[pull.Arm].Dropped {
			r.Fatalf("pull %+v of %+v", pull, beliefs)
		}
		if x := b.Threshold(pull.Arm); !(x > 0) || math.IsInf(x, 1) != math.IsInf(leastCost(b.history), 1) && s.Rounds < 0 {
			r.Fatalf("threshold %g", x)
		}
		for a, x := range beliefs {
			if x.Stopped > x.Pulls || x.SD < 0 || x.Pulls > 0 && !(x.Mean > 0) {
				r.Fatalf("arm %d: %+v", a, x)
			}
		}
		if best, ok := b.Best(); ok && (beliefs[best].Dropped || beliefs[best].Pulls == beliefs[best].Stopped) {
			r.Fatalf("best %d of %+v", best, beliefs)
		}
	})
}

func BenchmarkNext(bench *testing.B) {
	for name, s := range map[string]ThompsonSettings{"independent": {Rounds: -1}, "smooth": {Rounds: -1, Positions: eight}} {
		b := make1(bench, 8, s)
		valley.play(bench, b, 100, generator(1))
		rng := generator(2)
		bench.Run(name, func(bench *testing.B) {
			for bench.Loop() {
				b.Next(rng)
			}
		})
	}
}
