package cluster

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/simulator/workload"
)

// Expected values are those of NumPy.
func TestNormals(t *testing.T) {
	for seed, want := range map[int64][]float64{
		0:  {1.764052345967664, 0.4001572083672233, 0.9787379841057392},
		42: {0.4967141530112327, -0.13826430117118466, 0.6476885381006925},
	} {
		n := newNormals(seed)
		for i, w := range want {
			if got := n.draw(); got != w {
				t.Errorf("seed %d, number %d: %v, want %v", seed, i, got, w)
			}
		}
	}
}

// Products of two vectors are recovered from some of their values.
func TestComplete(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct{ given, want [][]float64 }{
		"one is missing":   {[][]float64{{1, 2, 3}, {2, 4, 6}, {3, 6, nan}}, [][]float64{{1, 2, 3}, {2, 4, 6}, {3, 6, 9}}},
		"several":          {[][]float64{{0.2, 0.4, nan}, {nan, 0.8, 1.2}, {0.1, nan, 0.3}}, [][]float64{{0.2, 0.4, 0.6}, {0.4, 0.8, 1.2}, {0.1, 0.2, 0.3}}},
		"nothing missing":  {[][]float64{{1, -1}, {-2, 2}}, [][]float64{{1, -1}, {-2, 2}}},
		"a row of nothing": {[][]float64{{1, 1}, {nan, nan}}, [][]float64{{1, 1}, {0, 0}}},
	} {
		m := newMatrix(len(c.given), len(c.given[0]))
		for i, r := range c.given {
			copy(m.row(i), r)
		}
		got := complete(m, 1, 1e-4, newNormals(0).draw)
		for i := range c.want {
			for j, want := range c.want[i] {
				if math.Abs(got.row(i)[j]-want) > 0.02 {
					t.Errorf("%s: row %d, column %d is %v, want %v", name, i, j, got.row(i)[j], want)
				}
			}
		}
	}
}

func TestSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		number := rapid.Float64Range(-3, 3)
		root, want := newMatrix(n, n), make([]float64, n)
		for i := range root.at {
			root.at[i] = number.Draw(t, "root")
		}
		for i := range want {
			want[i] = number.Draw(t, "solution")
		}
		m, right := product(root, root), make([]float64, n)
		for i := range n {
			m.row(i)[i]++
			right[i] = dot(m.row(i), want)
		}
		solve(m, right)
		for i := range want {
			if math.Abs(right[i]-want[i]) > 1e-8 {
				t.Fatalf("number %d is %v, want %v", i, right[i], want[i])
			}
		}
	})
}

// estimated profiles one job of each kind.
func estimated(t testing.TB, o estimatorOptions) (*estimator, []*pairProfile) {
	t.Helper()
	e, err := newEstimator(workload.GavelTable(), o)
	if err != nil {
		t.Fatal(err)
	}
	var profiles []*pairProfile
	for _, k := range e.kinds {
		p, err := e.profile(k)
		if err != nil {
			t.Fatal(err)
		}
		profiles = append(profiles, p)
	}
	return e, profiles
}

// misses calls f with the estimation error of every relative throughput of every pair.
func misses(e *estimator, profiles []*pairProfile, f func(a, b int, miss float64)) {
	for d := range e.devices {
		for a := range profiles {
			for b := range a + 1 {
				x, y := e.relativeRates(d, profiles[a], profiles[b])
				f(a, b, x-e.true(a, d, b))
				f(b, a, y-e.true(b, d, a))
			}
		}
	}
}

// meanError returns the mean absolute estimation error of all pairs over seeds.
func meanError(t testing.TB, o estimatorOptions) float64 {
	t.Helper()
	sum, n := 0.0, 0
	for seed := range int64(6) {
		o.Seed, o.FactorSeed = seed+4, seed
		e, profiles := estimated(t, o)
		misses(e, profiles, func(_, _ int, miss float64) { sum, n = sum+math.Abs(miss), n+1 })
	}
	return sum / float64(n)
}

func TestTheKindsAreGavels(t *testing.T) {
	e, _ := estimated(t, estimatorOptions{Profiled: 1})
	var want []string
	for _, w := range workload.Templates {
		want = append(want, w.Type)
	}
	if !reflect.DeepEqual(e.kinds, want) || !reflect.DeepEqual(e.devices, []string{"k80", "p100", "v100"}) {
		t.Errorf("kinds %v on %v", e.kinds, e.devices)
	}
}

func TestEverythingMeasuredIsTheTruth(t *testing.T) {
	for _, compat := range []bool{false, true} {
		e, profiles := estimated(t, estimatorOptions{Profiled: 1, Compat: compat, Seed: 4})
		misses(e, profiles, func(a, b int, miss float64) {
			if miss != 0 {
				t.Errorf("compat %v: %s beside %s is off by %v", compat, e.kinds[a], e.kinds[b], miss)
			}
		})
	}
}

// A job that equals a reference and was measured beside all of them is identified with it; the original reads wrong
// columns and misidentifies most.
func TestReferencesAreRecognised(t *testing.T) {
	for _, compat := range []bool{false, true} {
		e, profiles := estimated(t, estimatorOptions{Profiled: 1, References: 16, Compat: compat, Seed: 4})
		right := 0
		for i, k := range e.references {
			if profiles[k].likeness[i] == 1 {
				right++
			}
		}
		if !compat && right != 16 || compat && right > 8 {
			t.Errorf("compat %v: %d of 16 references are recognised", compat, right)
		}
	}
}

// The error decreases with more measurements and more references; that of the original is larger and with few
// references hardly decreases.
func TestErrorFalls(t *testing.T) {
	aboveLeft := math.Inf(1)
	for _, references := range []int{4, 8, 16, 26} {
		left := math.Inf(1)
		for _, share := range []float64{0.1, 0.2, 0.5, 1} {
			ours := meanError(t, estimatorOptions{Profiled: share, References: references})
			gavels := meanError(t, estimatorOptions{Profiled: share, References: references, Compat: true})
			t.Logf("%2d references, %3.0f %% measured: mean error %.3f, Gavel's %.3f", references, 100*share, ours, gavels)
			if ours > left || ours > gavels {
				t.Errorf("%d references, %v measured: mean error %v, with less measured %v, Gavel's %v", references, share, ours, left, gavels)
			}
			left = ours
		}
		if left > aboveLeft {
			t.Errorf("%d references: mean error %v, with less %v", references, left, aboveLeft)
		}
		aboveLeft = left
	}
}

func TestEstimatesAreSharesAndTheSameAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := estimatorOptions{
			Profiled:   rapid.Float64Range(1e-3, 1).Draw(t, "profiled"),
			References: rapid.IntRange(1, 26).Draw(t, "references"),
			Seed:       rapid.Int64().Draw(t, "seed"), FactorSeed: rapid.Int64().Draw(t, "factor seed"),
			Compat: rapid.Bool().Draw(t, "compat"),
		}
		kinds := rapid.SliceOfN(rapid.IntRange(0, 25), 2, 2).Draw(t, "kinds")
		var first []*pairProfile
		for range 2 {
			e, err := newEstimator(workload.GavelTable(), o)
			if err != nil {
				t.Fatal(err)
			}
			var profiles []*pairProfile
			for _, k := range kinds {
				p, err := e.profile(e.kinds[k])
				if err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for _, l := range p.likeness {
					sum += l
				}
				if math.Abs(sum-1) > 1e-9 {
					t.Fatalf("likeness adds up to %v", sum)
				}
				profiles = append(profiles, p)
			}
			for d := range e.devices {
				if a, b := e.relativeRates(d, profiles[0], profiles[1]); !(a >= 0 && a <= 1+1e-12 && b >= 0 && b <= 1+1e-12) {
					t.Fatalf("parts %v and %v", a, b)
				}
			}
			if first != nil && !reflect.DeepEqual(first, profiles) {
				t.Fatal("the same seed gives other profiles")
			}
			first = profiles
		}
	})
}

func TestRefusals(t *testing.T) {
	for want, o := range map[string]estimatorOptions{
		"a share of 0 ":           {},
		"a share of 1.5 ":         {Profiled: 1.5},
		"a share of NaN ":         {Profiled: math.NaN()},
		"-1 reference models":     {Profiled: 1, References: -1},
		"27 reference models":     {Profiled: 1, References: 27},
		"want 1 to 26, as many":   {Profiled: 1, References: 27},
		"at most 1\n27 reference": {Profiled: 2, References: 27},
	} {
		if _, err := newEstimator(workload.GavelTable(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	e, _ := estimated(t, estimatorOptions{Profiled: 1})
	if _, err := e.profile("nothing"); err == nil {
		t.Error("a kind that is not there is profiled")
	}
	if _, ok := e.device("v100_unconsolidated"); ok {
		t.Error("spread devices are a type")
	}
}
