package pareto

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Keys that differ in the low bits only, in the high bits only, and in all; equal keys keep their order.
func TestRadix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() uint64{
		"low":   func() uint64 { return 7<<40 | uint64(rng.IntN(500)) },
		"high":  func() uint64 { return uint64(rng.IntN(500)) << 54 },
		"mixed": func() uint64 { return uint64(rng.IntN(30))<<low | uint64(rng.IntN(9)) },
		"all":   rng.Uint64,
	} {
		in := make([]keyed, 1000)
		for i := range in {
			in[i] = keyed{draw(), i}
		}
		want := slices.Clone(in)
		slices.SortStableFunc(want, byKey)
		if got, _ := radix(in, nil); !slices.Equal(got, want) {
			t.Errorf("%s: not in order", name)
		}
	}
}
