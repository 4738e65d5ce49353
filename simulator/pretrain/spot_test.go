package pretrain

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/training"
)

func generator(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// The ranges of spot.go are the 10 % and 90 % quantiles of the published traces, rounded.
func TestSpotFacts(t *testing.T) {
	traces, err := capacity.Load(needData(t, "spot-traces"))
	if err != nil {
		t.Fatal(err)
	}
	if len(traces) != 26 {
		t.Errorf("%d traces, spot.go says 26", len(traces))
	}
	var ups, aways []float64
	for _, s := range traces {
		up, away, _, ok := s.Means()
		if !ok {
			t.Fatalf("%s: no whole period", s.Name)
		}
		ups, aways = append(ups, up), append(aways, away)
		for _, i := range interruptionsOf(s, generator(1), 1e6) {
			if math.Mod(i.At+1e-6, s.TickS) > 1e-5 || i.Away < s.TickS {
				t.Fatalf("%s: %+v is not on its ticks", s.Name, i)
			}
		}
	}
	slices.Sort(ups)
	slices.Sort(aways)
	for what, c := range map[string]struct{ got, want float64 }{
		"up, low": {spotUpLow, stat.Quantile(ups, 0.1)}, "up, high": {spotUpHigh, stat.Quantile(ups, 0.9)},
		"away, low": {spotAwayLow, stat.Quantile(aways, 0.1)}, "away, high": {spotAwayHigh, stat.Quantile(aways, 0.9)},
	} {
		if math.Abs(c.got/c.want-1) > 0.005 {
			t.Errorf("%s: %v, the traces say %v", what, c.got, c.want)
		}
	}
}

func TestSpotTraceByHand(t *testing.T) {
	s, err := capacity.ReadTrace(strings.NewReader(`{"metadata":{"gap_seconds":10},"data":[4,3,0,4,4,4]}`))
	if err != nil {
		t.Fatal(err)
	}
	// From tick 3 (up): up at 3, 4, 5, 0, away at 1, 2; repeated.
	for seed := uint64(0); seed < 20; seed++ {
		list := interruptionsOf(s, generator(seed), 200)
		if len(list) < 3 || list[0].At > 40 {
			t.Fatalf("%+v", list)
		}
		for i, x := range list {
			if x.Away != 20 || i > 0 && x.At != list[i-1].At+60 {
				t.Fatalf("%+v: want 20 s away every 60 s", list)
			}
		}
	}
	one, _ := capacity.ReadTrace(strings.NewReader(`{"metadata":{"gap_seconds":10},"data":[1,1]}`))
	if list := interruptionsOf(one, generator(1), 100); list != nil {
		t.Errorf("never away: %v", list)
	}
}

func TestSpotModelMeans(t *testing.T) {
	list := spotModel{MeanUp: 100, MeanAway: 30}.Interruptions(generator(2), 1e6)
	up, away, before := 0.0, 0.0, 0.0
	for _, i := range list {
		up += i.At - before
		away += i.Away
		before = i.At + i.Away
	}
	n := float64(len(list))
	if math.Abs(up/n-100) > 4 || math.Abs(away/n-30) > 1.5 {
		t.Errorf("mean up %v, away %v, want 100 and 30", up/n, away/n)
	}
}

func TestDrawNoiseFollowsTheQuantiles(t *testing.T) {
	rng := generator(3)
	var unit, memory []float64
	for range 4000 {
		n := drawNoise(rng)
		unit, memory = append(unit, n.Unit), append(memory, n.Memory)
		if n.Unit < noiseUnit[0] || n.Memory >= 1 || n.Memory < 0 {
			t.Fatalf("%+v", n)
		}
	}
	slices.Sort(unit)
	slices.Sort(memory)
	for i, level := range noiseLevels[1:6] {
		if u, m := stat.Quantile(unit, level), stat.Quantile(memory, level); math.Abs(u/noiseUnit[i+1]-1) > 0.12 || math.Abs(m/noiseMemory[i+1]-1) > 0.12 {
			t.Errorf("quantile %v: drawn %v and %v, want %v and %v", level, u, m, noiseUnit[i+1], noiseMemory[i+1])
		}
	}
}

func FuzzInterruptionsOfTrace(f *testing.F) {
	f.Add(`{"metadata":{"gap_seconds":10},"data":[4,3,0,4]}`)
	f.Add(`{"metadata":{"gap_seconds":1e-300},"data":[1,0,1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := capacity.ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		var list []training.Interruption = interruptionsOf(s, generator(1), 20*s.TickS)
		for i, x := range list {
			if !(x.At > 0) || !(x.Away > 0) || i > 0 && x.At < list[i-1].At+list[i-1].Away {
				t.Fatalf("%v", list)
			}
		}
	})
}

// interruptionsOf returns the interruptions of a job that starts at a random tick of a trace at which the machine is
// up; the trace repeats after its end. The list covers at least the given seconds. O(ticks).
func interruptionsOf(t capacity.Trace, rng *rand.Rand, seconds float64) []training.Interruption {
	var starts []int
	for i, up := range t.Up {
		if up {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 || len(starts) == len(t.Up) {
		return nil
	}
	at := starts[rng.IntN(len(starts))]
	var out []training.Interruption
	for i := 1; ; i++ {
		now := float64(i) * t.TickS
		up := t.Up[(at+i)%len(t.Up)]
		before := t.Up[(at+i-1)%len(t.Up)]
		switch {
		case before && !up:
			if now > seconds {
				return out
			}
			out = append(out, training.Interruption{At: now, Away: t.TickS})
		case !up:
			out[len(out)-1].Away += t.TickS
		}
		if now > seconds && up {
			return out
		}
	}
}
