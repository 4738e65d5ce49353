package rounds_test

import (
	"testing"

	"pgregory.net/rapid"

	"trainopt/simulator/rounds"
	"trainopt/simulator/training/profile"
)

var spotPolicies = map[string]rounds.SpotPolicy{
	"uniform progress": rounds.UniformProgress,
	"greedy":           rounds.GreedySpot,
	"on demand":        rounds.OnDemandOnly,
}

func TestSpotJobsAreInTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tick := rapid.Float64Range(60, 600).Draw(r, "tick")
		j := rounds.SpotJob{Work: rapid.Float64Range(3600, 1e5).Draw(r, "work"), SpotUSDHour: 1, OnDemandUSDHour: 3}
		j.Changeover = rapid.Float64Range(0, 600).Draw(r, "changeover")
		// Nobody can be in time without room for the changeovers and a tick.
		j.Deadline = j.Work*rapid.Float64Range(1, 3).Draw(r, "slack") + 3*j.Changeover + tick
		up := rapid.SliceOfN(rapid.Bool(), 1, 300).Draw(r, "up")
		for name, p := range spotPolicies {
			got, err := rounds.RunSpot(p, j, tick, up, 0)
			if err != nil {
				r.Fatalf("%s: %v", name, err)
			}
			if got.Missed || got.SpotSeconds+got.DemandSeconds < j.Work*(1-1e-9) {
				r.Fatalf("%s: %+v", name, got)
			}
		}
	})
}

func TestUniformProgress(t *testing.T) {
	j := rounds.SpotJob{Work: 6000, Deadline: 12000, Changeover: 100, SpotUSDHour: 1, OnDemandUSDHour: 3}
	for name, c := range map[string]struct {
		up     []bool
		usd    float64
		starts int
	}{
		"always": {[]bool{true}, 6100. / 3600, 1},
		// Behind the line at the second tick, on demand until two changeovers ahead of it, waiting until it is behind again.
		"never": {[]bool{false}, 0, 0},
	} {
		got, err := rounds.RunSpot(rounds.UniformProgress, j, 100, c.up, 0)
		if err != nil {
			t.Fatal(err)
		}
		if c.usd > 0 && (got.USD < c.usd*(1-1e-9) || got.USD > c.usd*(1+1e-9) || got.Starts != c.starts) {
			t.Errorf("%s: %+v, want %v USD and %d starts", name, got, c.usd, c.starts)
		}
		if c.usd == 0 && (got.SpotSeconds != 0 || got.Missed) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := rounds.RunSpot(func(rounds.SpotState) rounds.Machine { return rounds.SpotMachine }, j, 100, []bool{false}, 0); err == nil {
		t.Error("a machine that is not there was given")
	}
	j.Work = 0
	if _, err := rounds.RunSpot(rounds.GreedySpot, j, 100, []bool{false}, 0); err == nil {
		t.Error("a job without work ran")
	}
}

// What uniform progress saves on the published traces; V100 at a third of the price on demand.
func TestUniformProgressOnPublishedTraces(t *testing.T) {
	traces, err := profile.LoadSpot("../../../shared/data/spot-traces/availability")
	if err != nil {
		t.Skipf("spot traces are not here: %v", err)
	}
	for _, slack := range []float64{1.15, 1.5, 2} {
		sum, missed, runs := map[string]float64{}, 0, 0
		for _, trace := range traces {
			for from := 0; from < len(trace.Up); from += len(trace.Up)/20 + 1 {
				j := rounds.SpotJob{Work: 48 * 3600, Deadline: 48 * 3600 * slack, Changeover: 720, SpotUSDHour: 1, OnDemandUSDHour: 3}
				runs++
				for name, p := range spotPolicies {
					got, err := rounds.RunSpot(p, j, trace.Tick, trace.Up, from)
					if err != nil {
						t.Fatal(trace.Name, name, err)
					}
					sum[name] += got.USD
					if got.Missed {
						missed++
					}
				}
			}
		}
		t.Logf("deadline %.2f × work, %d runs, %d missed: of the cost on demand uniform progress takes %.3f, greedy %.3f",
			slack, runs, missed, sum["uniform progress"]/sum["on demand"], sum["greedy"]/sum["on demand"])
		if missed > 0 || sum["uniform progress"] > sum["on demand"] {
			t.Errorf("%d missed, %v", missed, sum)
		}
	}
}
