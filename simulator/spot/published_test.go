package spot_test

import (
	"errors"
	"io/fs"
	"testing"

	"trainopt/simulator/spot"
)

// published are the traces of the paper, each as a market.
func published(t testing.TB, below string) []spot.Market {
	t.Helper()
	traces, err := spot.Load("../../../shared/data/spot-traces/" + below)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the published spot traces are not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []spot.Market
	for _, trace := range traces {
		m, err := spot.NewMarket(trace.Name, trace)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// TestPublishedTraces: a job of 48 hours with changeovers of 12 minutes, spot capacity at 0.3 of the price on demand, as in the paper's
// evaluation. The paper says that Uniform Progress is 27 % to 84 % cheaper than on demand, misses no deadline, and halves the gap that
// greedy leaves to the optimum.
func TestPublishedTraces(t *testing.T) {
	for _, factor := range []float64{1.15, 1.5, 2} {
		sum := map[string]float64{}
		runs, missed := 0, 0
		for _, m := range published(t, "availability") {
			for from := 0; from < m.Ticks(); from += m.Ticks()/5 + 1 {
				j := spot.Job{WorkS: 48 * 3600, DeadlineS: 48 * 3600 * factor, ChangeoverS: 720, SpotUSDHour: 0.918, OnDemandUSDHour: 3.06}
				runs++
				least := 0.0
				for _, p := range spot.Methods() {
					got, err := p.Run(j, m, from, 1)
					if err != nil {
						t.Fatal(m.Name, p.Name, err)
					}
					sum[p.Name] += got.USD
					if got.Missed && !p.Misses {
						missed++
					}
					if p.Name == "optimum" {
						least = got.USD
					}
				}
				for _, p := range []spot.Policy{spot.Greedy, spot.Uniform} {
					if got, err := spot.Run(p, j, m, from); err != nil || got.USD < least*(1-1e-9) {
						t.Errorf("%s from %d: %v USD below the optimum of %v, %v", m.Name, from, got.USD, least, err)
					}
				}
			}
		}
		saved := 1 - sum["uniform"]/sum["on-demand"]
		closed := (sum["greedy"] - sum["uniform"]) / (sum["greedy"] - sum["optimum"])
		t.Logf("deadline %.2f × work, %d runs: of the cost on demand uniform %.3f, greedy %.3f, sliced %.3f, shifted %.3f, optimum %.3f; uniform closes %.2f of greedy's gap", factor, runs,
			sum["uniform"]/sum["on-demand"], sum["greedy"]/sum["on-demand"], sum["sliced"]/sum["on-demand"], sum["shifted"]/sum["on-demand"], sum["optimum"]/sum["on-demand"], closed)
		if missed > 0 {
			t.Errorf("deadline %.2f × work: %d deadlines missed", factor, missed)
		}
		if saved < 0.27 || saved > 0.84 {
			t.Errorf("deadline %.2f × work: uniform saves %.3f, published 0.27 to 0.84", factor, saved)
		}
	}
}

// BenchmarkOptimum is the exact optimum of 48 hours of work within 96, on all published traces.
func BenchmarkOptimum(b *testing.B) {
	markets := published(b, "")
	j := spot.Job{WorkS: 48 * 3600, DeadlineS: 96 * 3600, ChangeoverS: 720, SpotUSDHour: 0.918, OnDemandUSDHour: 3.06}
	for b.Loop() {
		for _, m := range markets {
			if _, err := spot.Optimum(j, m, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(markets)), "ms/trace")
}
