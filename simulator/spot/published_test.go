package spot_test

import (
	"errors"
	"io/fs"
	"testing"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/spot"
)

// published returns the traces of the paper, each as a market.
func published(t testing.TB, below string) []spot.Market {
	t.Helper()
	traces, err := capacity.Load("../../../shared/data/spot-traces/" + below)
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

// TestPublishedTraces runs a job of 48 hours with spot capacity at 0.3 of the price on demand. According to the paper,
// Uniform Progress is 27 % to 84 % cheaper than on demand, misses no deadline, and halves the gap between greedy and
// the optimum. This holds with changeovers of 2 minutes and a tight deadline; with longer changeovers it saves and
// closes less, and with a loose deadline it is worse than greedy.
func TestPublishedTraces(t *testing.T) {
	markets := published(t, "availability")
	for name, c := range map[string]struct {
		changeover, factor float64
		saved              float64    // at least
		closed             [2]float64 // from, to
	}{
		"short changeovers, tight":     {120, 1.15, 0.27, [2]float64{0.5, 0.7}},
		"changeovers of 12 minutes":    {720, 1.15, 0.2, [2]float64{0.1, 0.5}},
		"changeovers of 12, much time": {720, 2, 0.27, [2]float64{-10, 0}},
	} {
		sum := map[string]float64{}
		runs := 0
		j := capacity.Job{WorkS: 48 * 3600, DeadlineS: 48 * 3600 * c.factor, ChangeoverS: c.changeover, SpotUSDHour: 0.918, OnDemandUSDHour: 3.06}
		for _, m := range markets {
			for from := 0; from < m.Ticks(); from += m.Ticks()/4 + 1 {
				runs++
				least, err := spot.Optimum(j, m, from)
				if err != nil {
					t.Fatal(m.Name, err)
				}
				for _, p := range spot.Methods() {
					got, err := p.Run(j, m, from, 1)
					if err != nil {
						t.Fatal(m.Name, p.Name, err)
					}
					sum[p.Name] += got.USD
					if !p.Misses && (got.Missed || got.USD < least.USD*(1-1e-9)) {
						t.Errorf("%s: %s on %s from %d: missed %v, %v USD, the optimum pays %v", name, p.Name, m.Name, from, got.Missed, got.USD, least.USD)
					}
				}
			}
		}
		saved := 1 - sum["uniform"]/sum["on-demand"]
		closed := (sum["greedy"] - sum["uniform"]) / (sum["greedy"] - sum["optimum"])
		of := func(p string) float64 { return sum[p] / sum["on-demand"] }
		t.Logf("%s, deadline %.2f × work, %d runs: of the cost on demand uniform %.3f, greedy %.3f, sliced %.3f, shifted %.3f, optimum %.3f; uniform closes %.2f of greedy's gap", name, c.factor,
			runs, of("uniform"), of("greedy"), of("sliced"), of("shifted"), of("optimum"), closed)
		if saved < c.saved || saved > 0.84 {
			t.Errorf("%s: uniform saves %.3f, want %.2f to 0.84", name, saved, c.saved)
		}
		if closed < c.closed[0] || closed > c.closed[1] {
			t.Errorf("%s: uniform closes %.2f of greedy's gap, want %v", name, closed, c.closed)
		}
	}
}

// BenchmarkOptimum measures the exact optimum of 48 hours of work within 96, on all published traces.
func BenchmarkOptimum(b *testing.B) {
	markets := published(b, "")
	j := capacity.Job{WorkS: 48 * 3600, DeadlineS: 96 * 3600, ChangeoverS: 720, SpotUSDHour: 0.918, OnDemandUSDHour: 3.06}
	for b.Loop() {
		for _, m := range markets {
			if _, err := spot.Optimum(j, m, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(markets)), "ms/trace")
}
