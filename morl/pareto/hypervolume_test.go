package pareto

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// times of the undiscounted points (treasure, −time) of deep-sea-treasure: MO-Gymnasium's convex and concave maps.
var times = []float64{1, 3, 5, 7, 8, 9, 13, 14, 17, 19}

func seaFront(treasures []float64, gamma float64) [][]float64 {
	var out [][]float64
	for i, v := range treasures {
		t := times[i]
		p := []float64{v, -t}
		if gamma < 1 {
			p = []float64{v * math.Pow(gamma, t-1), -(1 - math.Pow(gamma, t)) / (1 - gamma)}
		}
		out = append(out, p)
	}
	return out
}

var (
	convex  = []float64{0.7, 8.2, 11.5, 14, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7}
	concave = []float64{1, 2, 3, 5, 8, 16, 24, 50, 74, 124}
)

func TestHypervolumeOfKnownFronts(t *testing.T) {
	cases := map[string]struct {
		points    [][]float64
		reference []float64
		want      float64
	}{
		"convex sea, γ 1, ref −50":     {seaFront(convex, 1), []float64{0, -50}, 994.300},
		"convex sea, γ 1, ref −25":     {seaFront(convex, 1), []float64{0, -25}, 401.800},
		"convex sea, γ 0.99, ref −50":  {seaFront(convex, 0.99), []float64{0, -50}, 854.850},
		"convex sea, γ 0.99, ref −25":  {seaFront(convex, 0.99), []float64{0, -25}, 360.401},
		"convex sea, γ 0.98, ref −50":  {seaFront(convex, 0.98), []float64{0, -50}, 731.614},
		"concave sea, γ 1, ref −50":    {seaFront(concave, 1), []float64{0, -50}, 4255.000},
		"concave sea, γ 1, ref −25":    {seaFront(concave, 1), []float64{0, -25}, 1155.000},
		"concave sea, γ 0.99, ref −50": {seaFront(concave, 0.99), []float64{0, -50}, 3688.377},
		"concave sea, γ 0.99, ref −25": {seaFront(concave, 0.99), []float64{0, -25}, 1101.384},
		"no point":                     {nil, []float64{0, 0}, 0},
		"one point":                    {[][]float64{{2, 3, 4}}, []float64{1, 1, 1}, 6},
		"one objective":                {[][]float64{{2}, {5}, {3}}, []float64{1}, 4},
		"duplicates":                   {[][]float64{{2, 2}, {2, 2}, {2, 2}}, []float64{0, 0}, 4},
		"on the reference":             {[][]float64{{0, 9}, {9, 0}}, []float64{0, 0}, 0},
		"below the reference":          {[][]float64{{-1, 9}, {2, 3}}, []float64{0, 0}, 6},
		"a NaN adds nothing":           {[][]float64{{math.NaN(), 9}, {2, 3}}, []float64{0, 0}, 6},
		"collinear, vertical":          {[][]float64{{1, 1}, {1, 2}, {1, 3}}, []float64{0, 0}, 3},
		"collinear, diagonal":          {[][]float64{{1, 3}, {2, 2}, {3, 1}}, []float64{0, 0}, 6},
		"a plane in 3-D":               {[][]float64{{1, 2, 5}, {2, 1, 5}, {2, 2, 5}}, []float64{0, 0, 0}, 20},
		"two boxes in 3-D":             {[][]float64{{1, 1, 4}, {4, 1, 1}}, []float64{0, 0, 0}, 7},
		"two boxes in 5-D":             {[][]float64{{1, 1, 1, 1, 4}, {4, 1, 1, 1, 1}}, make([]float64, 5), 7},
		"infinite point":               {[][]float64{{1, math.Inf(1)}}, []float64{0, 0}, math.Inf(1)},
		"infinite but not above":       {[][]float64{{0, math.Inf(1)}, {1, 1}}, []float64{0, 0}, 1},
		"minus infinite":               {[][]float64{{math.Inf(-1), 4}, {1, 1}}, []float64{0, 0}, 1},
		"reference at −Inf":            {[][]float64{{1, 1}}, []float64{math.Inf(-1), 0}, math.Inf(1)},
		"reference is no number":       {[][]float64{{1, 1}}, []float64{0, math.NaN()}, math.NaN()},
		"huge numbers":                 {[][]float64{{1e150, 1, 1, 1}, {1, 1e150, 1, 1}}, make([]float64, 4), 2e150},
	}
	for name, c := range cases {
		got := Hypervolume(c.points, c.reference)
		if !(math.Abs(got-c.want) <= 5.1e-4*math.Max(1, math.Abs(c.want)*1e-12)) && got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %.6f, want %.6f", name, got, c.want)
		}
	}
}

// TestHypervolumeOfLattices uses lattices with d divisions, one division above the reference: the union of boxes
// consists of unit cubes, one per point at or below the lattice, so their number is C(d+m, m).
func TestHypervolumeOfLattices(t *testing.T) {
	for _, c := range []struct{ m, d, cubes int }{{2, 9, 55}, {3, 9, 220}, {4, 6, 210}, {5, 4, 126}, {6, 3, 84}, {7, 2, 36}} {
		points := Lattice(c.m, c.d)
		reference := make([]float64, c.m)
		for k := range reference {
			reference[k] = -1 / float64(c.d)
		}
		want := float64(c.cubes) * math.Pow(float64(c.d), -float64(c.m))
		if got := Hypervolume(points, reference); !(math.Abs(got-want) <= 1e-12*want) {
			t.Errorf("%d objectives, %d divisions: %g, want %g", c.m, c.d, got, want)
		}
	}
}

// boxes returns the volume of a union of boxes from 0 by inclusion–exclusion, for few points.
func boxes(points [][]float64, m int) float64 {
	var sum float64
	for set := 1; set < 1<<len(points); set++ {
		v, sign := 1.0, -1.0
		for k := range m {
			side := math.Inf(1)
			for i, p := range points {
				if set>>i&1 == 1 {
					side = math.Min(side, math.Max(p[k], 0))
				}
			}
			v *= side
		}
		for i := range points {
			if set>>i&1 == 1 {
				sign = -sign
			}
		}
		sum += sign * v
	}
	return sum
}

// drawPoints draws points of m objectives from a small grid, so that ties and duplicates are frequent, or from the
// reals.
func drawPoints(t *rapid.T, m, most int) [][]float64 {
	coordinate := rapid.OneOf(rapid.Map(rapid.IntRange(-1, 5), func(v int) float64 { return float64(v) }), rapid.Float64Range(-0.5, 5))
	return rapid.SliceOfN(rapid.SliceOfN(coordinate, m, m), 0, most).Draw(t, "points")
}

func alike(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func TestHypervolumeIsInclusionExclusion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 6).Draw(t, "m")
		points := drawPoints(t, m, 9)
		if got, want := Hypervolume(points, make([]float64, m)), boxes(points, m); !alike(got, want) {
			t.Fatalf("%g, want %g", got, want)
		}
	})
}

func TestHypervolumeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 6).Draw(t, "m")
		points := drawPoints(t, m, 24)
		reference := make([]float64, m)
		before := slices.Clone(points)
		volume := Hypervolume(points, reference)

		shuffled := rapid.Permutation(points).Draw(t, "shuffled")
		if got := Hypervolume(shuffled, reference); got != volume {
			t.Fatalf("in another order: %v, want the same bytes as %v", got, volume)
		}
		axes := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}[:m]).Draw(t, "axes")
		turned := make([][]float64, len(points))
		for i, p := range points {
			for _, k := range axes {
				turned[i] = append(turned[i], p[k])
			}
		}
		if got := Hypervolume(turned, reference); !alike(got, volume) {
			t.Fatalf("with objectives permuted %v: %v, want %v", axes, got, volume)
		}
		var onFront [][]float64
		for _, i := range Front(points) {
			onFront = append(onFront, points[i])
		}
		if got := Hypervolume(onFront, reference); !alike(got, volume) {
			t.Fatalf("of the front alone: %v, want %v", got, volume)
		}
		if len(points) > 0 {
			if less := Hypervolume(points[1:], reference); less > volume*(1+1e-12) {
				t.Fatalf("adding a point lowered it: %v to %v", less, volume)
			}
		}
		if !slices.EqualFunc(points, before, slices.Equal[[]float64]) {
			t.Fatal("the points were changed")
		}
	})
}

// TestHypervolumeIsMonteCarlo compares the volume with the share of uniform samples in a box that the points
// dominate, within five standard errors.
func TestHypervolumeIsMonteCarlo(t *testing.T) {
	for m := 2; m <= 6; m++ {
		rng := rand.New(rand.NewPCG(uint64(m), 7))
		points := make([][]float64, 40)
		for i := range points {
			points[i] = make([]float64, m)
			for k := range m {
				points[i][k] = rng.Float64()
			}
		}
		const samples = 40_000
		hits, x := 0, make([]float64, m)
		for range samples {
			for k := range x {
				x[k] = rng.Float64()
			}
			if slices.ContainsFunc(points, func(p []float64) bool { return covers(p, x) }) {
				hits++
			}
		}
		share := float64(hits) / samples
		if got := Hypervolume(points, make([]float64, m)); math.Abs(got-share) > 5*math.Sqrt(share*(1-share)/samples) {
			t.Errorf("%d objectives: %.5f, the samples say %.5f", m, got, share)
		}
	}
}

// sphere draws n points on the part of the unit sphere with positive objectives: all are on the front.
func sphere(n, m int, seed uint64) [][]float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([][]float64, n)
	for i := range out {
		p, norm := make([]float64, m), 0.0
		for k := range p {
			p[k] = math.Abs(rng.NormFloat64())
			norm = math.Hypot(norm, p[k])
		}
		for k := range p {
			p[k] /= norm
		}
		out[i] = p
	}
	return out
}

// TestHypervolumeOfManyPoints uses every level of the staircase: 3-D against 4-D with a constant last objective.
func TestHypervolumeOfManyPoints(t *testing.T) {
	points := sphere(5000, 3, 1)
	flat := sphere(5000, 2, 2)
	if got, want := Hypervolume(points, make([]float64, 3)), 4*math.Pi/3/8; !(got < want && got > want*0.98) {
		t.Errorf("an eighth of a ball: %g, want a little less than %g", got, want)
	}
	raised := make([][]float64, len(flat))
	for i, p := range flat {
		raised[i] = []float64{p[0], p[1], 2}
	}
	if got, want := Hypervolume(raised, make([]float64, 3)), 2*Hypervolume(flat, make([]float64, 2)); !alike(got, want) {
		t.Errorf("a quarter of a cylinder: %g, want %g", got, want)
	}
	four := make([][]float64, 150)
	for i := range four {
		four[i] = append(slices.Clone(points[i]), 3)
	}
	if got, want := Hypervolume(four, make([]float64, 4)), 3*Hypervolume(points[:150], make([]float64, 3)); !alike(got, want) {
		t.Errorf("raised to 4-D: %g, want %g", got, want)
	}
}

func TestLengthsMustAgree(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("points of different lengths did not panic")
		}
	}()
	Hypervolume([][]float64{{1, 2}, {1}}, []float64{0, 0})
}

// BenchmarkHypervolume also runs moocore on the points of "3-D 1000", where python3 of PATH has it.
func BenchmarkHypervolume(b *testing.B) {
	for name, c := range map[string]struct{ n, m int }{"2-D 100000": {100_000, 2}, "3-D 1000": {1000, 3}, "3-D 10000": {10_000, 3}, "4-D 200": {200, 4}, "6-D 64": {64, 6}} {
		points := sphere(c.n, c.m, 1)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Hypervolume(points, make([]float64, c.m))
			}
		})
	}
	b.Run("3-D 1000 moocore", func(b *testing.B) { moocore(b, sphere(1000, 3, 1)) })
}

// moocore reports the processor times of a hypervolume by moocore and by ours, measured one after the other in the same
// way, and fails if the values differ.
func moocore(b *testing.B, points [][]float64) {
	in, err := json.Marshal(points)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c := exec.Command("python3", "-c", moocoreScript)
		c.Stdin = strings.NewReader(string(in))
		out, err := c.CombinedOutput()
		if err != nil {
			b.Skipf("moocore: %v: %s", err, out)
		}
		var value, seconds float64
		if _, err := fmt.Sscan(string(out), &value, &seconds); err != nil {
			b.Fatalf("moocore printed %q: %v", out, err)
		}
		ours, got := leastTime(points)
		if math.Abs(got-value) > 1e-9 {
			b.Errorf("hypervolume %.12f, of moocore %.12f", got, value)
		}
		b.ReportMetric(seconds*1e9, "cpu-ns")
		b.ReportMetric(ours*1e9, "ours-cpu-ns")
		b.ReportMetric(0, "ns/op") // the start of Python is meaningless
	}
}

// leastTime returns the processor time of a hypervolume above the origin, the least mean of five times 500, and its value.
func leastTime(points [][]float64) (seconds, value float64) {
	seconds = math.Inf(1)
	for range 5 {
		at := processorSeconds()
		for range 500 {
			value = Hypervolume(points, make([]float64, len(points[0])))
		}
		seconds = min(seconds, (processorSeconds()-at)/500)
	}
	return seconds, value
}

func processorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// moocoreScript prints the hypervolume of the points on standard input above the origin, and the processor time of one
// call: the least mean of five times 500.
const moocoreScript = `
import json, moocore, numpy, sys, time
points, ref = numpy.array(json.load(sys.stdin)), numpy.zeros(3)
def mean(calls=500):
    at = time.process_time()
    for _ in range(calls):
        value = moocore.hypervolume(points, ref=ref, maximise=True)
    return (time.process_time() - at) / calls, value
took, value = min(mean() for _ in range(5))
print(repr(float(value)), took)
`
