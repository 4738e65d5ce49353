package morl

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

var replayShape = Shape{State: 3, Actions: 4, Objectives: []string{"a", "b"}}

func numbered(i int) transition {
	v := float32(i)
	return transition{State: []float32{v, v + 0.1, v + 0.2}, Mask: []bool{true, i%2 == 0, false, true}, Action: i % 4, Reward: []float32{v, -v},
		Next: []float32{v + 1, 0, 0}, NextMask: []bool{i%3 == 0, true, true, false}}
}

func filled(size, added int) *replay {
	r := newReplay(replayShape, size)
	for i := range added {
		r.Add(numbered(i), 0.5)
	}
	return r
}

func TestReplayOverwritesTheOldest(t *testing.T) {
	for name, c := range map[string]struct{ size, added, stored, oldest int }{
		"empty":       {5, 0, 0, 0},
		"partly":      {5, 3, 3, 0},
		"just full":   {5, 5, 5, 0},
		"over":        {5, 7, 5, 2},
		"twice round": {5, 13, 5, 8},
		"one place":   {1, 4, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := filled(c.size, c.added)
			if r.n != c.stored || r.size != c.size {
				t.Fatalf("%d of %d, want %d", r.n, r.size, c.stored)
			}
			seen := map[float32]bool{}
			var b batch
			if c.stored > 0 {
				r.Sample(&b, 200, rand.New(rand.NewPCG(1, 2)))
			}
			for k := range b.Rows {
				seen[b.Reward[2*k]] = true
			}
			for i := range c.added {
				if seen[float32(i)] != (i >= c.oldest) {
					t.Fatalf("number %d sampled: %v, the oldest is %d", i, seen[float32(i)], c.oldest)
				}
			}
		})
	}
}

func TestReplayTakesNoMoreMemory(t *testing.T) {
	r, one := filled(50, 3), numbered(1)
	var b batch
	rng := rand.New(rand.NewPCG(1, 2))
	r.Sample(&b, 16, rng)
	if n := testing.AllocsPerRun(200, func() { r.Add(one, 1); r.Sample(&b, 16, rng) }); n > 0 {
		t.Fatalf("%v allocations for a transition and a sample", n)
	}
}

func TestReplaySamplesUniformly(t *testing.T) {
	const places, draws = 100, 50_000
	for name, hold := range map[string]bool{"all": false, "without those held out": true} {
		t.Run(name, func(t *testing.T) {
			r := filled(places, 130)
			r.holdOut = hold
			var hits [places]int
			var b batch
			r.Sample(&b, draws, rand.New(rand.NewPCG(3, 4)))
			for k := range draws {
				hits[int(b.Reward[2*k])%places]++
			}
			open := 0
			for i := range places {
				if !hold || !heldOut(i) {
					open++
				} else if hits[i] > 0 {
					t.Fatalf("place %d is held out and was drawn", i)
				}
			}
			want, chi := float64(draws)/float64(open), 0.0
			for i := range places {
				if !hold || !heldOut(i) {
					chi += (float64(hits[i]) - want) * (float64(hits[i]) - want) / want
				}
			}
			// The 0.1 % and 99.9 % quantiles of χ² with 85–99 degrees of freedom lie within 48 and 149.
			if chi < 48 || chi > 149 {
				t.Fatalf("χ² = %.1f over %d places", chi, open)
			}
			if hold && (open < 80 || open > 97) {
				t.Fatalf("%d of %d places in training, want about nine tenths", open, places)
			}
			var again batch
			r.Sample(&again, draws, rand.New(rand.NewPCG(3, 4)))
			if !reflect.DeepEqual(b, again) {
				t.Fatal("the same seed gave an other sample")
			}
		})
	}
}

func TestReplayHoldsOutATenth(t *testing.T) {
	n := 0
	for i := range 100_000 {
		if heldOut(i) {
			n++
		}
	}
	if n < 9_700 || n > 10_300 || heldOut(0) {
		t.Fatalf("%d of 100000 places held out (the first: %v)", n, heldOut(0))
	}
}
