package place

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sampled returns n random patterns of a table, without the empty node.
func sampled(t *Table, n int, seed uint64) *Samples {
	s := &Samples{Apps: t.Apps()}
	for _, p := range rand.New(rand.NewPCG(seed, 0)).Perm(t.Patterns() - 1)[:n] {
		s.Counts, s.RPS = append(s.Counts, t.Counts(p+1)), append(s.RPS, t.RPS(p+1))
	}
	return s
}

// Pairs determine an additive slowdown, so that larger patterns, which a forest cannot extrapolate to, are exact.
func TestCompleteExtrapolatesFromPairs(t *testing.T) {
	apps := []string{"a", "b", "c", "d"}
	truth, err := NewTable(apps, 4, func(counts []uint8, rps []float64) {
		for i := range rps {
			sum := 1.0
			for j, k := range counts {
				n := float64(k)
				if i == j {
					n--
				}
				sum += n * (0.5 + 0.2*float64(i) + 0.1*float64(j))
			}
			rps[i] = 1 / math.Max(sum, 0.1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Samples{Apps: apps}
	for p := range truth.Patterns() {
		size := 0
		for _, k := range truth.Counts(p) {
			size += int(k)
		}
		if size == 2 {
			s.Counts, s.RPS = append(s.Counts, truth.Counts(p)), append(s.RPS, truth.RPS(p))
		}
	}
	got, estimated, err := s.CompleteTable(4, ForestOptions{Trees: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, absolute := TableError(got, truth); absolute > 0.01 {
		t.Errorf("mean absolute error %v", absolute)
	}
	for p := 1; p < truth.Patterns(); p++ {
		size := 0
		for _, k := range truth.Counts(p) {
			size += int(k)
		}
		if estimated[p] != (size > 2) {
			t.Errorf("%v is estimated: %v", truth.Counts(p), estimated[p])
		}
	}
}

// On the table of Metis, completion is closer to the truth than a forest of the same sample.
func TestCompleteBeatsForest(t *testing.T) {
	truth := MetisTable()
	s := sampled(truth, 322, 3)
	f, err := s.TrainForest(ForestOptions{HoldOut: -1, Trees: 30})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := f.Table(8)
	if err != nil {
		t.Fatal(err)
	}
	complete, _, err := s.CompleteTable(8, ForestOptions{Trees: 30})
	if err != nil {
		t.Fatal(err)
	}
	_, a := TableError(plain, truth)
	_, b := TableError(complete, truth)
	t.Logf("mean absolute error: forest %.4f, completion %.4f", a, b)
	if b >= a {
		t.Errorf("completion errs by %v, a forest by %v", b, a)
	}
}

// Measured patterns keep their values, and estimates are valid throughputs, whatever was measured.
func TestCompleteKeepsMeasurements(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		apps := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(r, "apps")]
		s := &Samples{Apps: apps}
		for range rapid.IntRange(1, 8).Draw(r, "rows") {
			counts, rps := make([]uint8, len(apps)), make([]float64, len(apps))
			for a := range apps {
				counts[a] = uint8(rapid.IntRange(0, 1).Draw(r, "count"))
				rps[a] = math.NaN()
				if counts[a] > 0 {
					rps[a] = rapid.Float64Range(0, 5).Draw(r, "rps")
				}
			}
			s.Counts, s.RPS = append(s.Counts, counts), append(s.RPS, rps)
		}
		table, estimated, err := s.CompleteTable(3, ForestOptions{Trees: 3})
		if err != nil {
			r.Fatal(err)
		}
		for i, counts := range s.Counts {
			at := table.Index(counts)
			if estimated[at] {
				r.Errorf("%v was measured and is estimated", counts)
			}
			last := true
			for _, later := range s.Counts[i+1:] {
				last = last && !slices.Equal(later, counts)
			}
			for a, k := range counts {
				if last && k > 0 && table.RPS(at)[a] != s.RPS[i][a] {
					r.Errorf("%v: %v, measured %v", counts, table.RPS(at), s.RPS[i])
				}
			}
		}
	})
}

// Doubt is largest where samples contradict each other and absent where patterns were measured.
func TestDoubt(t *testing.T) {
	s := &Samples{Apps: []string{"a", "b"}}
	nan := math.NaN()
	add := func(a, b uint8, ra, rb float64) {
		s.Counts, s.RPS = append(s.Counts, []uint8{a, b}), append(s.RPS, []float64{ra, rb})
	}
	add(2, 0, 0.5, nan)
	add(0, 2, nan, 0.9)
	add(0, 2, nan, 0.1)
	add(1, 1, 0.5, 0.5)
	doubt, err := s.Doubt(3, 12, 1)
	if err != nil {
		t.Fatal(err)
	}
	blank, _ := NewTable(s.Apps, 3, func([]uint8, []float64) {})
	at := func(a, b uint8) float64 { return doubt[blank.Index([]uint8{a, b})] }
	if at(1, 1) != 0 || at(1, 0) != 0 || at(0, 0) != 0 {
		t.Errorf("measured patterns are uncertain: %v", doubt)
	}
	if !(at(0, 3) > at(3, 0)) {
		t.Errorf("3 b: %v, 3 a: %v", at(0, 3), at(3, 0))
	}
}
