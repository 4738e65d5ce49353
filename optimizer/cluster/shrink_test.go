package cluster

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"trainopt/optimizer/run"
	"trainopt/resources"
)

// TestNeeds checks how many devices a job is found to need, from the readings of some seconds.
func TestNeeds(t *testing.T) {
	const busy, idle = 80.0, 0.0
	always := func(v ...float64) func(int) []float64 { return func(int) []float64 { return v } }
	for name, c := range map[string]struct {
		seconds     int
		held        int
		unit        float64 // seconds of a unit of work
		devices     func(second int) []float64
		cpus        float64 // percent of 8 CPUs
		accelerated bool
		want        int
	}{
		"all used":                      {60, 4, 0.1, always(busy, busy, busy, busy), 100, true, 4},
		"one used":                      {60, 4, 0.1, always(busy, idle, idle, idle), 100, true, 1},
		"too short":                     {8, 4, 0.1, always(busy, idle, idle, idle), 100, true, 4},
		"a unit of work takes longer":   {60, 4, 30, always(busy, idle, idle, idle), 100, true, 4},
		"none used: it may be stuck":    {60, 4, 0.1, always(idle, idle, idle, idle), 100, true, 4},
		"holds one":                     {60, 1, 0.1, always(idle), 0, true, 1},
		"without readings of one":       {60, 4, 0.1, always(busy, idle), 100, true, 3},
		"tail of one process":           {120, 2, 0.1, func(s int) []float64 { return []float64{busy, map[bool]float64{true: busy}[s < 60]} }, 100, true, 1},
		"used at times":                 {120, 2, 0.1, func(s int) []float64 { return []float64{busy, map[bool]float64{true: busy}[s%15 == 0]} }, 100, true, 2},
		"slots: one of eight CPUs":      {60, 4, 0.1, always(), 12, false, 1},
		"slots: five of eight CPUs":     {60, 4, 0.1, always(), 62, false, 3},
		"slots: all CPUs":               {60, 4, 0.1, always(), 99, false, 4},
		"GPUs without readings, no CPU": {60, 4, 0.1, always(), 5, true, 4},
	} {
		u := &use{}
		for s := range c.seconds {
			st := &run.Status{CPUUtil: c.cpus, Allocation: resources.Allocation{CPUs: 8}}
			for i, v := range c.devices(s) {
				st.Devices = append(st.Devices, run.DeviceUse{ID: fmt.Sprint(i), UtilPercent: v})
			}
			u.take(1000+float64(s), st)
		}
		got, why := u.needs(1000+float64(c.seconds), c.held, c.unit, 60, 2, c.accelerated)
		if got != c.want || (why != "") != (got < c.held) {
			t.Errorf("%s: %d devices (%q), want %d", name, got, why, c.want)
		}
	}
}

// TestJudge checks the comparison of rates after a reduction.
func TestJudge(t *testing.T) {
	k := &shrink{From: 4, To: 1, Rate: 10, Device: "a100"}
	for name, c := range map[string]struct {
		device       string
		gpus, blocks int
		seen         float64
		keep, known  bool
	}{
		"as fast":           {"a100", 1, 5, 9.9, true, true},
		"slower":            {"a100", 1, 5, 8, false, true},
		"too few readings":  {"a100", 1, 2, 8, false, false},
		"on another type":   {"v100", 1, 5, 5, false, false},
		"not yet on fewer":  {"a100", 4, 5, 10, false, false},
		"faster than ever":  {"a100", 1, 3, 30, true, true},
		"nothing was known": {"a100", 1, 3, 0, false, true},
	} {
		if keep, known := k.judge(c.device, c.gpus, c.seen, c.blocks); keep != c.keep || known != c.known {
			t.Errorf("%s: keep %v, decided %v; want %v, %v", name, keep, known, c.keep, c.known)
		}
	}
}

// queue returns the present of a cluster of eight devices: two jobs hold four each, others that want four wait.
func queue(t *testing.T, waiting int, deadline time.Duration) Simulation {
	t.Helper()
	devices := []Device{{Name: "a100", Count: 8, PerServer: 8}}
	l := newLearner(devices, 60)
	s, err := newScheduler(options{Devices: l.devices, Policy: "fifo", Round: 60, Rates: l}, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	var trials []Trial
	for id := 1; id <= 2+waiting; id++ {
		j := &Job{ID: id, Name: "job", Total: 1000}
		spec := &Spec{Submitted: fromUnix(1e9), Min: 4, Max: 4}
		spec.Config.Train = fmt.Sprint(id)
		if id == 1 {
			spec.Config.SLA.TimeMax = deadline
		}
		l.enter(j, spec, "")
		if err := s.Admit(1e9, j, spec); err != nil {
			t.Fatal(err)
		}
		trials = append(trials, Trial{Job: *j, Spec: *spec, Steps: 1000, First: 1, Again: 1, Save: 1, Rate: func(_, gpus int) float64 { return float64(gpus) * 2.5 }})
	}
	if _, err := s.Step(1e9); err != nil {
		t.Fatal(err)
	}
	keeps := true
	for _, m := range s.active {
		s.Keeps(m.ID, &keeps)
		trials[m.ID-1].Job = *m.Job
	}
	state, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	return Simulation{Devices: devices, Round: 60, From: 1e9 + 20, Policies: []Span{{1e9 + 20, "fifo"}}, Jobs: trials, State: state, Known: true}
}

// TestGain checks the predicted gain of reductions: two jobs together free what a waiting job wants, one alone does not;
// without waiting jobs, and where a deadline would be missed, nothing is gained.
func TestGain(t *testing.T) {
	at := 1e9 + 20
	both := []Resizing{{at, 1, 1}, {at, 2, 1}}
	seconds, breaks, err := gain(context.Background(), queue(t, 2, 0), both)
	if err != nil || breaks {
		t.Fatalf("both: %v, %v", breaks, err)
	}
	// Each job takes 100 s on its devices. The third starts at once instead of after 100 s; both move for 2 s.
	if seconds < 80 || seconds > 120 {
		t.Errorf("both: %.1f s gained, want about 96", seconds)
	}
	if seconds, _, err := gain(context.Background(), queue(t, 2, 0), both[:1]); err != nil || seconds > 0 {
		t.Errorf("one alone: %.1f s, %v; want no gain", seconds, err)
	}
	if seconds, _, err := gain(context.Background(), queue(t, 0, 0), both); err != nil || seconds > 0 {
		t.Errorf("without a queue: %.1f s, %v; want no gain", seconds, err)
	}
	if _, breaks, err := gain(context.Background(), queue(t, 2, 121*time.Second), both); err != nil || !breaks {
		t.Errorf("deadline within the move: %v, %v; want that it would be missed", breaks, err)
	}
}

// TestSimulationContinuesFromState: the simulation of what is to come begins with the present leases.
func TestSimulationContinuesFromState(t *testing.T) {
	out, err := ptr(queue(t, 2, 0)).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int]float64{1: 100, 2: 100, 3: 201, 4: 201} {
		if got := out.End[id] - (1e9 + 20); math.Abs(got-want) > 2 {
			t.Errorf("job %d ends after %.1f s, want %.0f", id, got, want)
		}
	}
}

func ptr[T any](v T) *T { return &v }
