package cluster

import (
	"context"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// Invariants of every round: no device and no job is used twice, no job holds more devices than exist, time is
// monotone, and no job exceeds its steps.
func TestRoundsAreSound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		count := rapid.IntRange(1, 12)
		c := Config{
			Devices: []schedule.DeviceType{{Name: "k80", Count: count.Draw(r, "k80")}, {Name: "p100", Count: count.Draw(r, "p100")}, {Name: "v100", Count: 8}},
			Policy:  rapid.SampledFrom([]string{"fifo", "fifo_perf", "fifo_packed", "isolated", "proportional", "gandiva"}).Draw(r, "policy"),
			Compat:  true,
			Generate: &workload.Options{
				Seed: rapid.Int64Range(0, 99).Draw(r, "seed"), MultiGPU: rapid.Bool().Draw(r, "multi"),
				Lambda: rapid.SampledFrom([]float64{0, 300, 3000, 30000}).Draw(r, "lambda"),
				// A whole number of steps per device would hide that steps are rounded down.
				Seconds: rapid.SampledFrom([]float64{0, 1234.5}).Draw(r, "seconds"),
			},
			Total: 40,
		}
		c.GlobalQueue = rapid.Bool().Draw(r, "global")
		if rapid.Bool().Draw(r, "preemption") {
			c.Preemption = schedule.Preemption{Seconds: 20, Steps: 50}
		}
		s, err := newSimulation(context.Background(), c.withDefaults())
		if err != nil {
			r.Fatal(err)
		}
		g := newGavel(s)
		for i := 0; s.inWindow < s.expected && i < 3000; i++ {
			before := g.now
			if err := g.step(); err != nil {
				if c.Policy == "fifo" && errors.As(err, new(*policyError)) {
					return // the published FIFO assigns jobs permanently to types that have too few devices
				}
				r.Fatal(err)
			}
			if g.now < before {
				r.Fatalf("time goes from %v s to %v s", before, g.now)
			}
			soundRound(r, g)
		}
	})
}

func soundRound(r *rapid.T, g *gavel) {
	type place struct {
		device int
		which  int32
	}
	taken := map[place]bool{}
	runs := map[*job]bool{}
	for _, p := range g.running {
		e := p.entry
		if len(e.where) != e.gpus {
			r.Fatalf("job %d has %d devices, and asks for %d", e.a.ID, len(e.where), e.gpus)
		}
		for _, w := range e.where {
			at := place{e.device, w}
			if taken[at] || w < 0 || int(w) >= g.Devices[e.device].Count {
				r.Fatalf("device %v is used twice, or is not there", at)
			}
			taken[at] = true
		}
		for _, j := range []*job{e.a, e.b} {
			if j == nil {
				continue
			}
			if runs[j] || j.gone {
				r.Fatalf("job %d runs twice, or has ended", j.ID)
			}
			runs[j] = true
			if j.done < 0 || j.done >= j.Steps {
				r.Fatalf("job %d goes on after %v of %v steps", j.ID, j.done, j.Steps)
			}
		}
		if !(p.finish >= g.now) || math.IsInf(p.finish, 1) || p.finish > g.now+g.Interval*1.01 {
			r.Fatalf("work started at %v s ends at %v s", g.now, p.finish)
		}
	}
}

// A repeated round equals the result of choosing and placing again.
func TestRepeatedRoundsAreThoseThatWouldBeChosen(t *testing.T) {
	for _, name := range []string{"fifo", "fifo_perf", "fifo_packed"} {
		for _, multi := range []bool{false, true} {
			c := Config{
				Devices: []schedule.DeviceType{{Name: "k80", Count: 6}, {Name: "p100", Count: 6}, {Name: "v100", Count: 8}},
				Policy:  name, Compat: true, Total: 150, Generate: &workload.Options{Lambda: 2000, MultiGPU: multi},
			}
			quick := repeated(t, c, false)
			slow := repeated(t, c, true)
			for i := range quick.ended {
				if quick.ended[i].ID != slow.ended[i].ID || quick.ended[i].JCTS != slow.ended[i].JCTS {
					t.Fatalf("%s: job %d takes %v s, and %v s without repeating", name, quick.ended[i].ID, quick.ended[i].JCTS, slow.ended[i].JCTS)
				}
			}
			if quick.lease != slow.lease || quick.paused != slow.paused {
				t.Errorf("%s: %v %v, and %v %v without repeating", name, quick.lease, quick.paused, slow.lease, slow.paused)
			}
		}
	}
}

func repeated(t *testing.T, c Config, never bool) *simulation {
	s, err := newSimulation(context.Background(), c.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	g := newGavel(s)
	for s.inWindow < s.expected {
		if never {
			g.foregone = false
		}
		if err := g.step(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
