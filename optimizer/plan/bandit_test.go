package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/sla"
)

// batchScene is a CPU job that allows batch sizes 16 to 256, with 256 as the baseline.
func batchScene() scene {
	s := cpuScene().prefer("time")
	s.Limits.BatchSize = resources.Range{Min: 16, Max: 256}
	s.Baseline.BatchSize = 256
	for i := range s.measured {
		s.measured[i].BatchSize = 256
	}
	return s
}

// recurs runs a job n times with the planner's choices and returns the chosen batch sizes.
func recurs(t testing.TB, s Snapshot, n int, run func(batch int) Recurrence) []int {
	t.Helper()
	var chosen []int
	for range n {
		p, err := banditPlanner{}.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		x := run(p.Allocation.BatchSize)
		x.Allocation = p.Allocation
		s.Recurrences = append(slices.Clone(s.Recurrences), x)
		chosen = append(chosen, p.Allocation.BatchSize)
	}
	return chosen
}

// valleySeconds is the duration of a run by batch size.
func valleySeconds(batch int) float64 {
	return map[int]float64{16: 900, 32: 500, 64: 400, 128: 650, 256: 1000}[batch]
}

// TestBanditFindsTheBatch: the durations of finished runs decide although the model predicts no difference. Every
// promising batch size is tried once, outwards from the baseline's; afterwards the best is chosen almost always.
func TestBanditFindsTheBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noisy := func(batch int) Recurrence {
		s := valleySeconds(batch) * math.Exp(0.05*rng.NormFloat64())
		return Recurrence{Seconds: s, USD: cost.USD(s / 3600), Joules: math.NaN(), Reached: true}
	}
	for name, measured := range map[string]bool{"with a model": true, "nothing measured": false} {
		t.Run(name, func(t *testing.T) {
			sc := batchScene()
			if !measured {
				sc.measured = nil
			}
			s := sc.snapshot(t)
			s.Recurrences = []Recurrence{{Allocation: s.Baseline, Seconds: 1000, USD: 0.3, Joules: math.NaN(), Reached: true}}
			got := recurs(t, s, 30, noisy)
			if want := []int{128, 64, 32}; !slices.Equal(got[:3], want) {
				t.Errorf("tried %v first, want %v", got[:3], want)
			}
			late, best := got[len(got)-15:], 0
			for _, b := range late {
				if b == 64 {
					best++
				}
			}
			if best < 13 {
				t.Errorf("the last runs had batch %v, want nearly always 64", late)
			}
		})
	}
}

// TestBanditAvoidsWhatFails: a batch size at which runs fail early is not cheap, and sizes beyond it are not tried.
func TestBanditAvoidsWhatFails(t *testing.T) {
	s := batchScene().snapshot(t)
	s.Baseline.BatchSize = 64
	s.Recurrences = []Recurrence{{Allocation: s.Baseline, Seconds: 400, Reached: true}}
	got := recurs(t, s, 20, func(batch int) Recurrence {
		if batch >= 128 {
			return Recurrence{Seconds: 3, Joules: math.NaN()} // immediate out-of-memory failure
		}
		return Recurrence{Seconds: valleySeconds(batch), Joules: math.NaN(), Reached: true}
	})
	if n := slices.Index(got, 128); n < 0 || slices.Contains(got[n+1:], 128) || slices.Contains(got, 256) {
		t.Errorf("batch sizes %v: want 128 once and 256 never", got)
	}
}

// TestBanditLeavesAnOwnBatchThatFails although no run has finished yet.
func TestBanditLeavesAnOwnBatchThatFails(t *testing.T) {
	s := batchScene().snapshot(t)
	s.Recurrences = []Recurrence{{Allocation: s.Baseline, Seconds: 3, Joules: math.NaN()}}
	if p, err := (banditPlanner{}).Decide(s); err != nil || p.Allocation.BatchSize != 128 {
		t.Errorf("%v: %s because %s; want batch 128", err, p.Allocation, p.Reason)
	}
}

// TestRunCosts checks known answers.
func TestRunCosts(t *testing.T) {
	at := func(batch int, seconds float64, usd cost.USD, reached bool) Recurrence {
		return Recurrence{Allocation: resources.Allocation{BatchSize: batch}, Seconds: seconds, USD: usd, Joules: math.NaN(), Reached: reached}
	}
	s := Snapshot{Preference: Preference{Time: 0.5, Cost: 0.25, Resource: 0.25}, Recurrences: []Recurrence{
		at(64, 90, 3, true), at(64, 110, 3, true), at(32, 50, 6, true), at(16, 2, 0.1, false), at(8, 1000, 3, false)}}
	got, words := runCosts(s, 64) // 64 takes 100 s and $3; weights are two thirds time, one third cost
	want := []float64{2.0/3*0.9 + 1.0/3, 2.0/3*1.1 + 1.0/3, 2.0/3*0.5 + 2.0/3, 2 * (2.0/3*0.9 + 1.0/3), 2.0/3*10 + 1.0/3}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("costs %v, want %v", got, want)
			break
		}
	}
	if words != "time and cost" {
		t.Errorf("weighed %q", words)
	}
}

// TestBanditCountsFailures: runs that failed early are not cheap, even if the batch size has succeeded once.
func TestBanditCountsFailures(t *testing.T) {
	s := batchScene().snapshot(t)
	add := func(batch int, seconds float64, reached bool) {
		a := s.Baseline
		a.BatchSize = batch
		s.Recurrences = append(s.Recurrences, Recurrence{Allocation: a, Seconds: seconds, Joules: math.NaN(), Reached: reached})
	}
	for _, batch := range []int{256, 128, 64, 32, 16} {
		add(batch, valleySeconds(batch), true)
	}
	add(64, 400, true)
	for range 6 {
		add(128, 3, false)
	}
	for i := range 10 {
		p, err := banditPlanner{}.Decide(s)
		if err != nil || p.Allocation.BatchSize != 64 {
			t.Fatalf("%v: %s because %s; want batch 64", err, p.Allocation, p.Reason)
		}
		add(64, 400+float64(i), true)
	}
}

// TestBanditWeighs: the preference defines the cost of a run.
func TestBanditWeighs(t *testing.T) {
	s := batchScene().snapshot(t)
	at := func(batch int, seconds, usd, joules float64) Recurrence {
		a := s.Baseline
		a.BatchSize = batch
		return Recurrence{Allocation: a, Seconds: seconds, USD: cost.USD(usd), Joules: joules, Reached: true}
	}
	var runs []Recurrence
	for range 6 { // 64 is fastest, 128 cheapest, 32 uses the least energy
		runs = append(runs, at(256, 100, 10, 1000), at(128, 90, 4, 900), at(64, 50, 9, 800), at(32, 80, 8, 300), at(16, 300, 30, 3000))
	}
	unknown := slices.Clone(runs)
	unknown[3].Joules = math.NaN()
	for name, c := range map[string]struct {
		prefer string
		runs   []Recurrence
		want   int
		words  string
	}{
		"time":                       {"time", runs, 64, "of the time of a run with batch 256"},
		"cost":                       {"cost", runs, 128, "of the cost of"},
		"energy":                     {"time=0.1,resource=0.9", runs, 32, "of the time and energy of"},
		"energy not always measured": {"time=0.1,resource=0.9", unknown, 64, "of the time of"},
		"nothing weighed measured":   {"time=0,resource=1", unknown, 64, "of the time of"},
	} {
		t.Run(name, func(t *testing.T) {
			x := s
			x.Recurrences = c.runs
			p, err := ParsePreference(c.prefer)
			if err != nil {
				t.Fatal(err)
			}
			x.Preference = p
			got, err := banditPlanner{}.Decide(x)
			if err != nil || got.Allocation.BatchSize != c.want || !strings.Contains(got.Reason, c.words) || !strings.Contains(got.Reason, "recurrence 31 of this job") {
				t.Errorf("%v: %s because %s; want batch %d, %q", err, got.Allocation, got.Reason, c.want, c.words)
			}
		})
	}
}

// TestBanditAsModel: without a range of batch sizes or without recurrences, the planner decides as the model does and
// states so.
func TestBanditAsModel(t *testing.T) {
	noRange := cpuScene().prefer("time").snapshot(t)
	noRange.Recurrences = []Recurrence{{Allocation: noRange.Baseline, Seconds: 9, Reached: true}}
	first := batchScene().snapshot(t)
	late := batchScene().agreed(sla.Spec{TimeMax: minutes(0.1)}).snapshot(t)
	late.Recurrences = []Recurrence{{Allocation: late.Baseline, Seconds: 9, Reached: true}}
	for name, c := range map[string]struct {
		s     Snapshot
		words string
	}{
		"no range":      {noRange, "no choice of batch sizes"},
		"no recurrence": {first, "no earlier run"},
		"infeasible":    {late, "no allocation with it meets the SLA"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := banditPlanner{}.Decide(c.s)
			want, wantErr := Model{}.Decide(c.s)
			var no *Infeasible
			if errors.As(err, &no) {
				got, want = no.Plan, wantErr.(*Infeasible).Plan
				if got.Planner != "bandit" {
					t.Errorf("the plan is by %q", got.Planner)
				}
			} else if !strings.Contains(got.Reason, c.words) {
				t.Errorf("reason %q, want %q in it", got.Reason, c.words)
			}
			if (err == nil) != (wantErr == nil) || !got.Allocation.Same(want.Allocation) {
				t.Errorf("%v, %v; the model planner %v, %v", got.Allocation, err, want.Allocation, wantErr)
			}
		})
	}
}

// TestBanditKnowsTheOwnBatch: an unknown default batch size is taken from the oldest run that records one.
func TestBanditKnowsTheOwnBatch(t *testing.T) {
	s := batchScene().snapshot(t)
	s.Baseline.BatchSize = 0
	for name, c := range map[string]struct{ logged, want int }{"logged": {32, 16}, "odd": {48, 32}, "outside": {1000, 256}, "unknown": {0, 64}} {
		t.Run(name, func(t *testing.T) {
			x := s
			x.Recurrences = []Recurrence{{Allocation: resources.Allocation{CPUs: 16, Memory: 4, BatchSize: c.logged}, Seconds: 100, Reached: true}}
			p, err := banditPlanner{}.Decide(x)
			if err != nil || p.Allocation.BatchSize != c.want {
				t.Errorf("%v: %s because %s; want batch %d", err, p.Allocation, p.Reason, c.want)
			}
		})
	}
}

// For any history, the batch size is within the range and the limits, and does not change during the run.
func TestBanditPromises(t *testing.T) {
	base := batchScene().snapshot(t)
	rapid.Check(t, func(r *rapid.T) {
		s := base
		s.Preference = weights.Draw(r, "weights")
		odd := rapid.SampledFrom([]float64{math.NaN(), 0, -1, math.Inf(1), 5, 70, 1e9})
		for range rapid.IntRange(1, 20).Draw(r, "n") {
			s.Recurrences = append(s.Recurrences, Recurrence{
				Allocation: resources.Allocation{CPUs: 4, BatchSize: rapid.SampledFrom([]int{0, 16, 32, 48, 64, 256, 1000}).Draw(r, "batch")},
				Seconds:    odd.Draw(r, "seconds"), USD: cost.USD(odd.Draw(r, "usd")), Joules: odd.Draw(r, "joules"), Reached: rapid.Bool().Draw(r, "reached"),
			})
		}
		p, err := banditPlanner{}.Decide(s)
		if err != nil {
			r.Fatal(err)
		}
		b := p.Allocation.BatchSize
		if b < 16 || b > 256 || p.Planner != "bandit" || strings.Contains(p.Reason, "NaN") {
			r.Fatalf("%s because %s", p.Allocation, p.Reason)
		}
		running := s
		running.Current, running.Done = &p.Allocation, 10
		again, err := banditPlanner{}.Decide(running)
		if err != nil || again.Allocation.BatchSize != b {
			r.Fatalf("batch %d before the start, %d while it runs, %v", b, again.Allocation.BatchSize, err)
		}
	})
}
