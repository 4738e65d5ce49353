package pareto

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) && !(math.IsNaN(got) && math.IsNaN(want)) {
		t.Errorf("%s: %.6f, want %.6f", what, got, want)
	}
}

func TestExpectedUtility(t *testing.T) {
	fifty := Weights(50, 2, nil)
	near(t, "convex sea, γ 1", ExpectedUtility(seaFront(convex, 1), fifty), 6.8138, 5e-5)
	near(t, "convex sea, γ 0.99", ExpectedUtility(seaFront(convex, 0.99), fifty), 5.6029, 5e-5)
	near(t, "convex sea, γ 0.98", ExpectedUtility(seaFront(convex, 0.98), fifty), 4.6773, 5e-5)
	near(t, "concave sea, γ 1", ExpectedUtility(seaFront(concave, 1), fifty), 53.8114, 5e-5)
	near(t, "concave sea, γ 0.99", ExpectedUtility(seaFront(concave, 0.99), fifty), 44.3231, 5e-5)
	near(t, "no point", ExpectedUtility(nil, fifty), math.NaN(), 0)
	near(t, "no weights", ExpectedUtility(seaFront(convex, 1), nil), math.NaN(), 0)
	near(t, "refused point", ExpectedUtility([][]float64{{math.NaN(), 5}, {1, 2}}, [][]float64{{0, 1}}), 2, 0)
	near(t, "infinite without weight", ExpectedUtility([][]float64{{math.Inf(-1), 2}}, [][]float64{{0, 1}}), 2, 0)
}

func TestLattice(t *testing.T) {
	for _, c := range []struct{ m, d, want int }{{1, 5, 1}, {2, 4, 5}, {3, 20, 231}, {6, 3, 56}} {
		got := Lattice(c.m, c.d)
		if len(got) != c.want {
			t.Errorf("%d objectives, %d divisions: %d vectors, want %d", c.m, c.d, len(got), c.want)
		}
		onSimplex(t, got)
		if !slices.IsSortedFunc(got, compare) {
			t.Errorf("%d objectives, %d divisions: not in order", c.m, c.d)
		}
	}
}

func onSimplex(t *testing.T, weights [][]float64) {
	t.Helper()
	for _, w := range weights {
		var sum float64
		for _, v := range w {
			if !(v >= 0) {
				t.Fatalf("%v has a negative weight", w)
			}
			sum += v
		}
		near(t, "sum", sum, 1, 1e-12)
	}
}

func TestWeights(t *testing.T) {
	if got := Weights(3, 2, nil); !slices.EqualFunc(got, [][]float64{{0, 1}, {0.5, 0.5}, {1, 0}}, slices.Equal[[]float64]) {
		t.Errorf("two objectives: %v", got)
	}
	if got := Weights(1, 2, nil); !slices.Equal(got[0], []float64{0.5, 0.5}) {
		t.Errorf("one vector: %v", got)
	}
	if got := Weights(2, 1, nil); !slices.Equal(got[1], []float64{1}) {
		t.Errorf("one objective: %v", got)
	}
	if Weights(0, 4, nil) != nil {
		t.Error("none asked, some given")
	}
	draw := func(seed uint64) [][]float64 { return Weights(4000, 3, rand.New(rand.NewPCG(seed, 0))) }
	one := draw(1)
	onSimplex(t, one)
	if !slices.EqualFunc(one, draw(1), slices.Equal[[]float64]) || slices.EqualFunc(one, draw(2), slices.Equal[[]float64]) {
		t.Error("the seed does not decide")
	}
	// On the uniform simplex of three, a weight has mean 1/3 and variance 1/18, and exceeds 1/2 with probability 1/4.
	above := 0
	for _, w := range one {
		if w[1] > 0.5 {
			above++
		}
	}
	near(t, "share above a half", float64(above)/4000, 0.25, 5*math.Sqrt(0.25*0.75/4000))
}

func TestSelect(t *testing.T) {
	line := [][]float64{{-60, -1}, {-30, -2}, {-20, -4}, {-15, -9}} // minus minutes, minus USD
	cases := map[string]struct {
		points     [][]float64
		preference []float64
		by         Normalisation
		want       int
	}{
		"the fastest":       {line, []float64{1, 0}, Normalisation{}, 3},
		"the cheapest":      {line, []float64{0, 1}, Normalisation{}, 0},
		"the knee":          {line, []float64{1, 1}, Normalisation{}, 1},
		"never dominated":   {[][]float64{{1, 1}, {2, 2}, {0, 3}}, []float64{1, 0}, Normalisation{}, 1},
		"one point":         {line[1:2], []float64{0.3, 0.7}, Normalisation{}, 0},
		"first of equals":   {[][]float64{{1, 1}, {1, 1}}, []float64{1, 1}, Normalisation{}, 0},
		"a degenerate axis": {[][]float64{{1, 5, 2}, {2, 5, 0}}, []float64{1, 8, 0}, Normalisation{}, 1},
		"finite only":       {[][]float64{{math.Inf(1), 0}, {1, 1}, {math.NaN(), 9}}, []float64{1, 0}, Normalisation{}, 1},
		// 1 % more expensive but a third faster: with ranges both ends tie, and the first would be selected.
		"relative": {[][]float64{{-60, -100}, {-40, -101}}, []float64{1, 1}, Normalisation{Relative: true}, 1},
	}
	for name, c := range cases {
		got, err := Select(c.points, c.preference, c.by)
		if err != nil || got.Index != c.want {
			t.Errorf("%s: %d, %v, want %d", name, got.Index, err, c.want)
		}
	}
}

func TestSelectSaysWhatIsGivenUp(t *testing.T) {
	line := [][]float64{{-60, -1}, {-30, -2}, {-20, -4}, {-15, -9}}
	selected := func(points [][]float64, preference ...float64) (choice, []Trade) {
		c, err1 := Select(points, preference, Normalisation{})
		trades, err2 := Trades(points, c.Index, preference, Normalisation{})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return c, trades
	}
	_, got := selected(line, 1, 1)
	if len(got) != 2 {
		t.Fatalf("%+v: want two trades", got)
	}
	faster, cheaper := got[0], got[1]
	if faster.Objective != 0 || faster.To != 2 || faster.Gained != 10 || faster.Given[1] != 2 || faster.Rates[1] != 0.2 {
		t.Errorf("faster: %+v, want 10 minutes for 2 USD", faster)
	}
	if cheaper.Objective != 1 || cheaper.To != 0 || cheaper.Gained != 1 || cheaper.Rates[0] != 30 {
		t.Errorf("cheaper: %+v, want 30 minutes for 1 USD", cheaper)
	}
	// No point is faster than the fastest; if only time has weight, the other objectives are weighted equally.
	_, end := selected(line, 1, 0)
	if len(end) != 1 || end[0].Objective != 1 || end[0].To != 2 {
		t.Errorf("the fastest trades %+v, want one, to the next", end)
	}
	one, trades := selected(line[:1], 1, 1)
	if len(trades) != 0 || one.Utility != 1 {
		t.Errorf("a single point: %+v", one)
	}
}

func TestSelectRefuses(t *testing.T) {
	points := [][]float64{{1, 2}}
	for name, c := range map[string]struct {
		points     [][]float64
		preference []float64
		by         Normalisation
	}{
		"no point":        {nil, []float64{1, 1}, Normalisation{}},
		"nothing finite":  {[][]float64{{1, math.Inf(1)}}, []float64{1, 1}, Normalisation{}},
		"no weight":       {points, []float64{0, 0}, Normalisation{}},
		"negative weight": {points, []float64{-1, 2}, Normalisation{}},
		"NaN weight":      {points, []float64{math.NaN(), 2}, Normalisation{}},
		"infinite weight": {points, []float64{math.Inf(1), 2}, Normalisation{}},
	} {
		if got, err := Select(c.points, c.preference, c.by); err == nil {
			t.Errorf("%s: selected %d", name, got.Index)
		}
	}
}

func TestSelectProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 4).Draw(t, "m")
		points := drawPoints(t, m, 20)
		preference := rapid.SliceOfN(rapid.Float64Range(0.01, 1), m, m).Draw(t, "preference")
		c, err := Select(points, preference, Normalisation{})
		if len(points) == 0 {
			if err == nil {
				t.Fatal("selected from nothing")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		front := Front(points)
		if !slices.Contains(front, c.Index) {
			t.Fatalf("%v is not on the front", points[c.Index])
		}
		trades, err := Trades(points, c.Index, preference, Normalisation{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range trades {
			if !slices.Contains(front, tr.To) || !(tr.Gained > 0) || tr.Given[tr.Objective] != -tr.Gained {
				t.Fatalf("trade %+v", tr)
			}
			if slices.Max(tr.Given) <= 0 {
				t.Fatalf("a gain for nothing: the choice is dominated: %+v", tr)
			}
		}
		utilities, err := utilitiesOf(points, preference, Normalisation{})
		if err != nil || utilities[c.Index] != c.Utility || slices.Max(utilities) > c.Utility+1e-9 {
			t.Fatalf("utilities %v, %v: the choice %d has %v", utilities, err, c.Index, c.Utility)
		}
		// Units have no effect.
		scaled := make([][]float64, len(points))
		for i, p := range points {
			for k, v := range p {
				scaled[i] = append(scaled[i], v*math.Pow(1024, float64(k)))
			}
		}
		if other, _ := Select(scaled, preference, Normalisation{}); other.Index != c.Index {
			t.Fatalf("in other units %d, want %d", other.Index, c.Index)
		}
	})
}

// utilitiesOf returns the utility of a choice for every point, on the front or not, −Inf for points that are never
// selected; errors are those of Select.
func utilitiesOf(points [][]float64, preference []float64, by Normalisation) ([]float64, error) {
	sc, _, w, err := by.prepare(points, preference)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(points))
	for i, p := range points {
		if out[i] = math.Inf(-1); finite(p) {
			out[i] = sc.utility(p, w)
		}
	}
	return out, nil
}
