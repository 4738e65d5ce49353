package queue_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

// lublin returns a workload for a platform: sizes, times and arrivals by the model of Lublin and Feitelson, used
// shares of requested times and bandwidths distributed as in HDeepRM's converter, and memory as in mini.
func lublin(t testing.TB, tree *platform.Tree, n int, seed uint64, load float64) []order.Job {
	t.Helper()
	jobs, err := swf.Lublin{Jobs: n, Procs: tree.Cores, Seed: seed, Load: load}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range jobs {
		j := &jobs[i]
		j.Request = math.Ceil(max(1, j.Run*1.5)/60) * 60
		j.RequestOps = math.Trunc(tree.Reference * j.Request * 1e9)
		j.Ops = math.Trunc(j.RequestOps * used(r.Float64()))
		j.Bandwidth = float64(4 * (1 + r.IntN(6)))
		j.Memory = float64(100 * (1 + r.IntN(20)))
		j.Deadline = math.NaN()
	}
	return jobs
}

// used returns the quantile x, in [0, 1), of the used share of the requested time.
func used(x float64) float64 {
	below := 0.0
	for k := range 25 {
		switch {
		case k < 3:
			below += [3]float64{0.15, 0.09, 0.07}[k]
		case k < 8:
			below += 0.04
		case k < 13:
			below += 0.03
		case k < 23:
			below += 0.02
		default:
			below += [2]float64{0.06, 0.08}[k-23]
		}
		if x*1.00 < below {
			return 0.05 * float64(k+1)
		}
	}
	return 1.25
}

// A rollout takes milliseconds, so a run with rollouts must stop at the next event rather than after a thousand.
func TestRolloutsStopAtOnce(t *testing.T) {
	tree, err := platform.Example("mini")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	looks := 0
	result, err := queue.RunCores(ctx, queue.CoresConfig{Tree: tree, Jobs: lublin(t, tree, 50, 1, 0.9), Rollout: true, Progress: func(int, int) {
		if looks++; looks == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || looks != 3 || result == nil {
		t.Errorf("%v after %d looks, and the result %v", err, looks, result != nil)
	}
}
