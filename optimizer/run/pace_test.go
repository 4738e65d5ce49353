package run

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trainopt/internal/stat"
	"trainopt/monitor/trainlog"
	"trainopt/resources"
)

// TestProgressMergesBlocks: a long segment has bounded memory, and keeps its exact mean pace and its newest block.
func TestProgressMergesBlocks(t *testing.T) {
	var p Progress
	s := begin(&p, 0)
	now, sum := 1.0, 0.0
	p.Add(epochRow(1, 0), at(now))
	const n = 5000
	for e := 2; e <= n; e++ {
		took := 1 + 0.001*float64(e) // increasing, so that dropping or favouring any block is detected
		now, sum = now+took, sum+took
		before := slices.Clone(s.Blocks)
		shared, _ := s.Observation(0)
		p.Add(epochRow(float64(e), 0), at(now))
		if last := s.Blocks[len(s.Blocks)-1]; math.Abs(last-took) > 1e-5 {
			t.Fatalf("after unit %d of %g s the newest block is %g s", e, took, last)
		}
		if !slices.Equal(before, shared.UnitSeconds) {
			t.Fatalf("unit %d changed an observation that had been handed out", e)
		}
	}
	if len(s.Blocks) > maxBlocks || len(s.Blocks) < maxBlocks/4 {
		t.Errorf("%d blocks are kept of %d, want at most %d and not few", len(s.Blocks), n, maxBlocks)
	}
	if s.Units != n-1 || math.Abs(s.Timed-sum) > 1e-3 {
		t.Errorf("%g units in %g s, want %d in %g", s.Units, s.Timed, n-1, sum)
	}
	if !slices.IsSorted(s.Blocks) {
		t.Error("merged blocks are out of order")
	}
}

// TestProgressOfAnUnevenPace: stretches of 100 and of 5 steps/s, as of threads that wait for each other on a busy machine,
// count by their work.
func TestProgressOfAnUnevenPace(t *testing.T) {
	var p Progress
	s := begin(&p, 0)
	now, n := 1.0, 0.0
	for now < 120 {
		gap := 0.01
		if int(now/2)%2 == 0 {
			gap = 0.2
		}
		now, n = now+gap, n+1
		p.Add(stepRow(n, 0), at(now))
	}
	o, _ := s.Observation(0)
	sum := 0.0
	for _, u := range o.UnitSeconds {
		sum += u / float64(len(o.UnitSeconds))
	}
	if want := s.Timed / s.Units; sum > 1.25*want || sum < want/1.25 {
		t.Errorf("mean of the blocks %.4f s per step, want about %.4f, the time by the steps", sum, want)
	}
	if len(o.UnitSeconds) < 60 {
		t.Errorf("%d blocks in two minutes", len(o.UnitSeconds))
	}
}

// TestUnitsOfASegment: the record of a segment has its units of work, of which a timed block contains many.
func TestUnitsOfASegment(t *testing.T) {
	r := &run{}
	s := begin(&r.Progress, 0)
	for n := 0.0; n <= 600; n += 20 {
		r.Progress.Add(stepRow(n, 600), at(1+n/40))
	}
	if p := r.probeRecord(s, at(17)); p.Units != 600 || len(p.UnitSeconds) != 30 {
		t.Errorf("%g units in %d blocks, want 600 in 30", p.Units, len(p.UnitSeconds))
	}
}

// TestPaceWithAPartner: the pace is that of the present segment, the start-up that of the launch.
func TestPaceWithAPartner(t *testing.T) {
	a := resources.Allocation{CPUs: 1}
	p := Progress{Segments: []*Segment{
		{Allocation: a, Launch: true, LaunchedAt: time.Second, FirstRowAt: 8 * time.Second, FirstDone: 1, Blocks: []float64{2, 2, 2}},
		{Allocation: a, Partner: "job 3", Blocks: []float64{5, 5}},
	}}
	if got := p.pace(); got.UnitSeconds != 5 || got.Startup != 2 || got.Partner != "job 3" {
		t.Errorf("beside another job: %+v", got)
	}
	p.Segments[1].Allocation.CPUs = 2
	if got := p.pace(); !math.IsNaN(got.Startup) {
		t.Errorf("after a live change: %+v, want no start-up", got)
	}
}

// TestWarmUp compares the warm-up with its definition.
func TestWarmUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := Segment{Blocks: make([]float64, random.IntN(12))}
		for i := range s.Blocks {
			s.Blocks[i] = 1 + float64(random.IntN(6))/2
		}
		want := 0
		for k := 1; k+settledBlocks <= len(s.Blocks); k++ {
			if slices.Min(s.Blocks[:k]) > warmUpFactor*stat.Median(s.Blocks[k:]) {
				want = k
			}
		}
		if got := s.warmUp(); got != want {
			t.Fatalf("%v: %d blocks, want %d", s.Blocks, got, want)
		}
	}
}

// TestSlowdown compares the slowdown with its definition.
func TestSlowdown(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	slower := 0
	for range 4000 {
		s := Segment{Blocks: make([]float64, random.IntN(20))}
		for i := range s.Blocks {
			s.Blocks[i] = 1 + float64(random.IntN(6))/2
			if i > len(s.Blocks)/2 {
				s.Blocks[i] += 2 * float64(random.IntN(2))
			}
		}
		steady, want := s.Blocks[s.warmUp():], 0
		for n := settledBlocks; n+settledBlocks <= len(steady); n++ {
			if before := steady[:len(steady)-n]; slices.Min(steady[len(before):]) > warmUpFactor*stat.Median(before) {
				want = n
			}
		}
		before := steady[:len(steady)-want]
		for i := 0; want > 0 && i+want <= len(before); i++ {
			if slices.Min(before[i:i+want]) > warmUpFactor*stat.Median(before) {
				want = 0
			}
		}
		if want > 0 {
			slower++
		}
		if got := s.slowdown(); got != want {
			t.Fatalf("%v: %d blocks, want %d", s.Blocks, got, want)
		}
	}
	if slower < 100 {
		t.Errorf("%d of 4000 became slower", slower)
	}
}

// TestPausesAreNotWarmUp: the evaluation after every eighth block of a training counts in its pace.
func TestPausesAreNotWarmUp(t *testing.T) {
	s := Segment{Blocks: []float64{9, 3, 1, 1, 1, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1, 1, 1, 6, 1, 1, 1}}
	if got := s.warmUp(); got != 2 {
		t.Errorf("%d blocks of warm-up, want 2", got)
	}
}

// TestPauseOfEachEpoch: blocks that contain the validation of an epoch, before or after the row of its end, count by their
// work, as do those that end at an epoch.
func TestPauseOfEachEpoch(t *testing.T) {
	for name, c := range map[string]struct{ train, pause float64 }{
		"a tenth":               {110, 12},
		"a third":               {24, 12},
		"half":                  {20, 20},
		"less than a part":      {25, 6},
		"longer than the epoch": {4, 14},
		"of long epochs":        {600, 30},
		"none":                  {35, 0},
	} {
		for _, late := range []bool{false, true} { // the row of the end of the epoch follows the pause
			for _, unit := range []func(done, total float64) *trainlog.Row{epochRow, stepRow} {
				var p Progress
				s := begin(&p, 0)
				now, first, scale := 1.0, 0.02, 1.0
				if _, steps := unit(1, 0).Value(trainlog.Step); steps {
					scale = 50
				}
				p.Add(unit(first*scale, 0), at(now))
				const epochs = 12
				for k := 2; k <= 50*epochs; k++ {
					now += c.train / 50
					if k%50 == 0 && late {
						now += c.pause
					}
					p.Add(unit(float64(k)/50*scale, 0), at(now))
					if k%50 == 0 && !late {
						now += c.pause
					}
				}
				want := (c.train + c.pause) / scale
				if got := stat.Mean(s.Blocks); got > 1.15*want || got < want/1.15 {
					t.Errorf("%s, late %v, scale %g: mean of %d blocks %.4g s, want about %.4g", name, late, scale, len(s.Blocks), got, want)
				}
			}
		}
	}
}
