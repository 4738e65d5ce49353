package cluster

import (
	"context"
	"math/rand/v2"
	"testing"
)

// TestForecast predicts the starts of four waiting jobs: two follow the running ones, the last two follow those.
func TestForecast(t *testing.T) {
	spread := func(sd float64) func(int, int) float64 { return func(int, int) float64 { return sd } }
	run := func(ctx context.Context, unmeasured map[int]bool, sd float64) map[int][3]float64 {
		t.Helper()
		starts, err := forecast(ctx, queue(t, 4, 0), unmeasured, spread(sd), rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		for id, at := range starts {
			for q := range at {
				at[q] -= 1e9 + 20
			}
			starts[id] = at
		}
		return starts
	}
	certain := run(t.Context(), nil, 0)
	for id, want := range map[int]float64{3: 100, 4: 100, 5: 201, 6: 201} {
		if at, ok := certain[id]; !ok || at[0] != at[2] || at[1] < want-2 || at[1] > want+2 {
			t.Errorf("job %d starts after %v s, want %.0f", id, at, want)
		}
	}
	for id, at := range run(t.Context(), nil, 0.1) {
		if c := certain[id][1]; !(at[0] < c && c < at[2] && at[2]-at[0] < c) {
			t.Errorf("job %d starts after %v s, want an interval about %.0f", id, at, c)
		}
	}
	if starts := run(t.Context(), map[int]bool{4: true}, 0); len(starts) != 2 || starts[5] != [3]float64{} || starts[3][1] == 0 {
		t.Errorf("job 4 was never measured: %v, want the starts of jobs 3 and 4 only", starts)
	}
	if starts := run(t.Context(), map[int]bool{1: true}, 0); len(starts) != 0 {
		t.Errorf("running job 1 was never measured: %v, want none", starts)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if starts := run(ended, nil, 0); len(starts) != 0 {
		t.Errorf("without time: %v", starts)
	}
	broken := queue(t, 1, 0)
	broken.Policies[0].Policy = "none"
	if _, err := forecast(t.Context(), broken, nil, spread(0), rand.New(rand.NewPCG(1, 2))); err == nil {
		t.Error("an unknown policy has a forecast")
	}
}
