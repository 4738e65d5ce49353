package pareto

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFront(t *testing.T) {
	nan := math.NaN()
	cases := map[string]struct {
		points [][]float64
		want   []int
	}{
		"none":                 {nil, nil},
		"one":                  {[][]float64{{1, 2}}, []int{0}},
		"only NaN":             {[][]float64{{1, nan}, {nan, 2}}, nil},
		"no objective":         {[][]float64{{}, {}}, nil},
		"first of equals":      {[][]float64{{0, 0}, {1, 2}, {1, 2}, {2, 1}}, []int{1, 3}},
		"first of equals, 3-D": {[][]float64{{1, 2, 3}, {1, 2, 3}, {3, 2, 1}}, []int{0, 2}},
		"all equal":            {[][]float64{{1, 1, 1}, {1, 1, 1}}, []int{0}},
		"best of one":          {[][]float64{{1}, {3}, {2}, {3}}, []int{1}},
		"vertical":             {[][]float64{{1, 1}, {1, 3}, {1, 2}}, []int{1}},
		"infinite":             {[][]float64{{1, math.Inf(1)}, {2, 0}, {1, 5}}, []int{0, 1}},
		"convex sea":           {seaFront(convex, 1), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"same plane":           {[][]float64{{5, 1, 2}, {5, 2, 1}, {5, 2, 2}, {4, 2, 2}}, []int{2}},
	}
	for name, c := range cases {
		if got := Front(c.points); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestFrontIsByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t, rapid.IntRange(1, 5).Draw(t, "m"), 30)
		if len(points) > 0 && rapid.Bool().Draw(t, "spoil") {
			points[0][0] = math.NaN()
		}
		var want []int
		for i, p := range points {
			on := !refused(p)
			for j, q := range points {
				if !refused(q) && (dominates(q, p) || j < i && slices.Equal(p, q)) {
					on = false
				}
			}
			if on {
				want = append(want, i)
			}
		}
		if got := Front(points); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestFrontOfManyPoints(t *testing.T) {
	shell := sphere(6000, 3, 3)
	var points [][]float64
	for _, p := range shell {
		points = append(points, []float64{p[0] * 0.5, p[1] * 0.5, p[2] * 0.5}, p)
	}
	got := Front(points)
	if len(got) != len(shell) {
		t.Fatalf("%d points, want the %d of the shell", len(got), len(shell))
	}
	for k, i := range got {
		if i != 2*k+1 {
			t.Fatalf("position %d is %d, want %d", k, i, 2*k+1)
		}
	}
}

func TestArchiveIsTheFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t, rapid.IntRange(1, 4).Draw(t, "m"), 25)
		var a Archive[int]
		var onFront [][]float64
		for i, p := range points {
			before := a.Len()
			kept := a.Add(p, i)
			if !kept && a.Len() != before {
				t.Fatal("a refused point changed the archive")
			}
		}
		for _, i := range Front(points) {
			onFront = append(onFront, points[i])
		}
		slices.SortFunc(onFront, compare)
		if !slices.EqualFunc(a.Points(), onFront, slices.Equal[[]float64]) {
			t.Fatalf("%v, want the front in order %v", a.Points(), onFront)
		}
		i := 0
		for p, payload := range a.All() {
			if first := slices.IndexFunc(points, func(q []float64) bool { return slices.Equal(p, q) }); payload != first || a.Payload(i) != first {
				t.Fatalf("point %v has payload %d, want the first that had it, %d", p, payload, first)
			}
			i++
		}
	})
}

func TestArchiveRefuses(t *testing.T) {
	var a Archive[string]
	steps := []struct {
		point   []float64
		payload string
		kept    bool
	}{
		{[]float64{math.NaN(), 1}, "NaN", false},
		{nil, "nothing", false},
		{[]float64{1, 1}, "first", true},
		{[]float64{1, 1}, "equal", false},
		{[]float64{0, 1}, "dominated", false},
		{[]float64{0, 2}, "other", true},
		{[]float64{2, 2}, "dominates both", true},
	}
	for _, s := range steps {
		if got := a.Add(s.point, s.payload); got != s.kept {
			t.Errorf("%s: kept %v", s.payload, got)
		}
	}
	if a.Len() != 1 || a.Payload(0) != "dominates both" {
		t.Errorf("left: %v", a.Points())
	}
	p := []float64{3, 0}
	a.Add(p, "copied")
	p[0] = -9
	if a.Points()[1][0] != 3 {
		t.Error("the archive keeps the caller's memory")
	}
}

func TestArchiveTolerance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t, 2, 40)
		a := Archive[int]{Tolerance: 0.5}
		for i, p := range points {
			a.Add(p, i)
		}
		for _, p := range points {
			if !slices.ContainsFunc(a.Points(), func(q []float64) bool { return q[0] >= p[0]-0.5 && q[1] >= p[1]-0.5 }) {
				t.Fatalf("nothing kept is within the tolerance of %v: %v", p, a.Points())
			}
		}
		if a.Len() > 0 {
			p := a.Points()[a.Len()-1]
			if a.Add([]float64{p[0] + 0.25, p[1] + 0.49}, -1) {
				t.Fatalf("a point within the tolerance of %v was kept", p)
			}
			if !a.Add([]float64{p[0] + 0.75, p[1] + 0.25}, -1) {
				t.Fatalf("a point better than %v by more than the tolerance was refused", p)
			}
		}
		if n := len(Front(a.Points())); n != a.Len() {
			t.Fatalf("%d of %d kept are non-dominated", n, a.Len())
		}
	})
}

func TestArchiveCapacity(t *testing.T) {
	a := Archive[int]{Capacity: 5}
	for i := range 101 {
		x := float64(i) / 100
		a.Add([]float64{x, 1 - x}, i)
	}
	points := a.Points()
	if a.Len() != 5 || points[0][0] != 0 || points[4][0] != 1 {
		t.Fatalf("kept %v: want 5 with both ends", points)
	}
	if a.Add([]float64{points[1][0] + 1e-9, points[1][1] - 1e-9}, 0) && a.Len() != 5 {
		t.Error("more than the capacity")
	}
	single := Archive[int]{Capacity: 1}
	if !single.Add([]float64{1, 2}, 0) || single.Add([]float64{0, 3}, 1) && single.Len() != 1 {
		t.Errorf("capacity 1 keeps %d", single.Len())
	}
}

func BenchmarkFront(b *testing.B) {
	for name, c := range map[string]struct{ n, m int }{"2-D 100000": {100_000, 2}, "3-D 10000": {10_000, 3}, "6-D 1000": {1000, 6}} {
		points := sphere(c.n, c.m, 1)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Front(points)
			}
		})
	}
}
