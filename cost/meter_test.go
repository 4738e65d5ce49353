package cost

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/resources"
)

var (
	testRates = Rates{GPUHour: 2, CPUHour: 0.1, GiBHour: 0.01, Source: "test", Dated: "2026-07-20"}
	oneGPU    = resources.Allocation{GPUs: 1, CPUs: 5, Memory: 50}   // 3 USD/h
	twoGPUs   = resources.Allocation{GPUs: 2, CPUs: 10, Memory: 100} // 6 USD/h
)

func mustStart(t rapid.TB, m *Meter, at time.Duration, label Label, a resources.Allocation, r Rates) {
	t.Helper()
	if err := m.Start(at, label, a, r); err != nil {
		t.Fatal(err)
	}
}

func TestMeterAddsOverChangesAndRestarts(t *testing.T) {
	m := new(Meter)
	if m.Total(time.Minute) != 0 {
		t.Error("money before the start")
	}
	mustStart(t, m, 1*time.Hour, Probe, oneGPU, testRates)
	m.Change(2*time.Hour, Run, twoGPUs)     // 3
	m.Change(4*time.Hour, restart, twoGPUs) // 12
	m.Stop(5 * time.Hour)                   // 6
	mustStart(t, m, 7*time.Hour, Run, oneGPU, testRates)
	if hourly, ok := m.Running(); !ok || !near(hourly, 3) {
		t.Errorf("running at %g, %t", hourly, ok)
	}
	if got := m.Total(9 * time.Hour); !near(got, 27) {
		t.Errorf("total %g, want 27", got)
	}
	by, s := sums(m, 9*time.Hour)
	if len(by) != 3 || !near(by[Probe], 3) || !near(by[Run], 18) || !near(by[restart], 6) {
		t.Errorf("by label %v", by)
	}
	if !near(s.GPU, 18) || !near(s.CPU, 4.5) || !near(s.Memory, 4.5) || s.Rest != 0 {
		t.Errorf("by resource %+v", s)
	}
	if list := m.Segments(9 * time.Hour); len(list) != 4 || list[3].To != 9*time.Hour || list[3].Label != Run || list[0].From != time.Hour {
		t.Errorf("stretches %+v", list)
	}
}

// sums returns the cost of a meter's segments up to a time, by label and by resource.
func sums(m *Meter, at time.Duration) (map[Label]USD, Split) {
	by, total := map[Label]USD{}, Split{}
	for _, s := range m.Segments(at) {
		by[s.Label] += s.Cost
		total = Split{total.GPU + s.Split.GPU, total.CPU + s.Split.CPU, total.Memory + s.Split.Memory, total.Rest + s.Split.Rest}
	}
	return by, total
}

func TestMeterIsIdempotent(t *testing.T) {
	m := new(Meter)
	mustStart(t, m, 0, Run, oneGPU, testRates)
	mustStart(t, m, time.Hour, Run, oneGPU, testRates) // the same start again
	if len(m.Segments(time.Hour)) != 1 {
		t.Error("the same start made a second stretch")
	}
	m.Total(2 * time.Hour)
	mustStart(t, m, 30*time.Minute, Run, twoGPUs, testRates) // a late call: counts from 2 h
	m.Stop(3 * time.Hour)
	m.Stop(4 * time.Hour)
	m.Stop(time.Minute)
	if got := m.Total(10 * time.Hour); !near(got, 12) {
		t.Errorf("total %g, want 2 h at 3 and 1 h at 6", got)
	}
	mustStart(t, m, 10*time.Hour, idle, oneGPU, testRates)
	m.Stop(10 * time.Hour)
	if list := m.Segments(10 * time.Hour); len(list) != 2 {
		t.Errorf("stretches %+v, want none of no length", list)
	}
	if m.Change(11*time.Hour, Run, oneGPU) {
		t.Error("a change of nothing charges")
	}
	if _, ok := m.Running(); ok || !near(m.Total(20*time.Hour), 12) {
		t.Error("charged while stopped")
	}
	m.Stop(-time.Hour)
	if m.Total(-time.Hour) < 12 {
		t.Error("money was given back")
	}
}

func TestMeterRefusesWhatHasNoPrice(t *testing.T) {
	m := new(Meter)
	mustStart(t, m, 0, Run, oneGPU, testRates)
	bad := testRates
	bad.GPUHour = USD(math.NaN())
	if err := m.Start(time.Hour, Run, twoGPUs, bad); err == nil || !strings.Contains(err.Error(), "gpu_hour") {
		t.Errorf("NaN price: %v", err)
	}
	if err := m.Start(time.Hour, Run, resources.Allocation{CPUs: 1, Memory: resources.GiB(math.Inf(1))}, testRates); err == nil {
		t.Error("infinite memory was charged")
	}
	if got := m.Total(2 * time.Hour); !near(got, 6) {
		t.Errorf("total %g after refused changes, want the old allocation at the last known price: 6", got)
	}
}

func TestMeterSurvivesTheAgent(t *testing.T) {
	m := new(Meter)
	mustStart(t, m, 0, Probe, oneGPU, testRates)
	m.Change(time.Hour, Run, resources.Allocation{GPUs: 2, GPUIDs: []string{"GPU-a", "GPU-b"}, CPUs: 10, Memory: 100, BatchSize: 64})
	m.Total(2 * time.Hour)
	r, err := RestoreMeter(m.State())
	if err != nil {
		t.Fatal(err)
	}
	// The job continued for an hour without the agent.
	if a, b := m.Total(3*time.Hour), r.Total(3*time.Hour); !near(a, b) || !near(b, 15) {
		t.Errorf("%g before, %g restored, want 15", a, b)
	}
	r.Stop(90 * time.Minute) // an end before charged time refunds nothing
	if got := r.Total(9 * time.Hour); !near(got, 15) {
		t.Errorf("total %g, want 15", got)
	}
	if string(r.State()) == string(m.State()) {
		t.Error("a stopped meter has the state of a running one")
	}
	segment := `{"label":"run","from_ns":0,"to_ns":5,"allocation":{"cpus":1},"rates":{"gpu_hour":1,"source":"x","dated":"2026-01-01"}}`
	for name, bad := range map[string]string{
		"empty":         "",
		"torn":          string(m.State()[:40]),
		"newer":         `{"version":2}`,
		"no version":    `{}`,
		"overlap":       `{"version":1,"seen_ns":9,"closed":[` + segment + "," + segment + `]}`,
		"backwards":     `{"version":1,"seen_ns":9,"closed":[` + strings.Replace(segment, `"from_ns":0`, `"from_ns":7`, 1) + `]}`,
		"not yet seen":  `{"version":1,"seen_ns":3,"closed":[` + segment + `]}`,
		"open overlaps": `{"version":1,"seen_ns":9,"closed":[` + segment + `],"open":` + segment + `}`,
		"negative rate": `{"version":1,"seen_ns":9,"closed":[` + strings.Replace(segment, `"gpu_hour":1`, `"gpu_hour":-1`, 1) + `]}`,
	} {
		if _, err := RestoreMeter([]byte(bad)); err == nil || !strings.Contains(err.Error(), "restore the cost meter") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := RestoreMeter([]byte(`{"version":1,"seen_ns":9,"closed":[` + segment + `]}`)); err != nil {
		t.Errorf("good: %v", err)
	}
}

// The cost never decreases and is never negative; it equals the integral of the price over the charged time, for any
// sequence of calls, repeated or late calls, and restarts of the agent.
func TestMeterProperties(t *testing.T) {
	labels := []Label{Probe, Run, restart, idle}
	rapid.Check(t, func(t *rapid.T) {
		m := new(Meter)
		var now time.Duration
		var want, last float64
		price := 0.0
		instance := testRates
		instance.Instance = 7
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			step := time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "step"))
			late := rapid.IntRange(0, 4).Draw(t, "late") == 0
			at := now + step
			if late {
				at = now - step
			} else {
				want += price * step.Hours()
				now = at
			}
			a := resources.Allocation{GPUs: rapid.IntRange(0, 8).Draw(t, "gpus"), CPUs: rapid.IntRange(0, 64).Draw(t, "cpus"),
				Memory: resources.GiB(rapid.Float64Range(0, 512).Draw(t, "memory"))}
			switch rapid.IntRange(0, 5).Draw(t, "call") {
			case 0, 1:
				r := testRates
				if rapid.Bool().Draw(t, "whole machine") {
					r = instance
				}
				label := rapid.SampledFrom(labels).Draw(t, "label")
				mustStart(t, m, at, label, a, r)
				mustStart(t, m, at, label, a, r)
				price = float64(r.Hourly(a))
			case 2:
				if m.Change(at, rapid.SampledFrom(labels).Draw(t, "label"), a) {
					hourly, _ := m.Running()
					price = float64(hourly)
				}
			case 3:
				m.Stop(at)
				m.Stop(at)
				price = 0
			case 4:
				m.Total(at)
				restored, err := RestoreMeter(m.State())
				if err != nil {
					t.Fatal(err)
				}
				m = restored
			}
			total := float64(m.Total(at))
			if total < last-1e-9*last || total < 0 {
				t.Fatalf("money went from %g to %g", last, total)
			}
			last = total
			if math.Abs(total-want) > 1e-9*(1+want) {
				t.Fatalf("total %g, the integral is %g", total, want)
			}
			var sum, labelled float64
			for _, s := range m.Segments(at) {
				sum += float64(s.Cost)
			}
			by, parts := sums(m, at)
			for _, usd := range by {
				labelled += float64(usd)
			}
			if split := float64(parts.Sum()); math.Abs(sum-total) > 1e-9*(1+total) || math.Abs(split-total) > 1e-9*(1+total) || math.Abs(labelled-total) > 1e-9*(1+total) {
				t.Fatalf("total %g, stretches %g, resources %g, labels %g", total, sum, split, labelled)
			}
		}
	})
}

func BenchmarkMeterTotal(b *testing.B) {
	m := new(Meter)
	for i := range 100 {
		_ = m.Start(time.Duration(i)*time.Minute, Run, resources.Allocation{GPUs: i % 8, CPUs: 8, Memory: 64}, testRates)
	}
	at := 100 * time.Minute
	for b.Loop() {
		at += time.Second
		m.Total(at)
	}
}

func BenchmarkMeterChange(b *testing.B) {
	m := new(Meter)
	_ = m.Start(0, Run, oneGPU, testRates)
	for i := 0; b.Loop(); i++ {
		a := oneGPU
		a.CPUs += i % 2
		m.Change(time.Duration(i)*time.Second, Run, a)
	}
}

func BenchmarkMeterState(b *testing.B) {
	m := new(Meter)
	for i := range 20 {
		_ = m.Start(time.Duration(i)*time.Minute, Run, resources.Allocation{GPUs: i % 8, CPUs: 8, Memory: 64}, testRates)
	}
	for b.Loop() {
		m.State()
	}
}

// A job whose end was noticed late is charged up to its actual end, regardless of the calls in between.
func TestSettle(t *testing.T) {
	rates := Rates{CPUHour: 3.6, Source: "test", Dated: "2026-07-20"}
	one, two := resources.Allocation{CPUs: 1}, resources.Allocation{CPUs: 2}
	for name, c := range map[string]struct {
		late func(m *Meter)
		at   time.Duration
		want USD
	}{
		"noticed at once":           {func(*Meter) {}, 10 * time.Second, 0.010},
		"noticed late":              {func(m *Meter) { m.Total(20 * time.Second) }, 10 * time.Second, 0.010},
		"changed after its end":     {func(m *Meter) { m.Change(15*time.Second, Run, two); m.Total(20 * time.Second) }, 10 * time.Second, 0.010},
		"changed before its end":    {func(m *Meter) { m.Change(6*time.Second, Run, two) }, 10 * time.Second, 0.014},
		"ended before it was begun": {func(*Meter) {}, -time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := new(Meter)
			if err := m.Start(0, Run, one, rates); err != nil {
				t.Fatal(err)
			}
			c.late(m)
			m.Settle(c.at)
			for _, at := range []time.Duration{10 * time.Second, time.Hour} {
				if got := m.Total(at); math.Abs(float64(got-c.want)) > 1e-12 {
					t.Errorf("Total(%v) = %v, want %v", at, got, c.want)
				}
			}
			again, err := RestoreMeter(m.State())
			if err != nil || math.Abs(float64(again.Total(time.Hour)-c.want)) > 1e-12 {
				t.Errorf("restored: %v, %v", again, err)
			}
			m.Settle(5 * time.Second) // nothing is charged any more
			if got := m.Total(0); math.Abs(float64(got-c.want)) > 1e-12 {
				t.Errorf("settled twice: %v", got)
			}
			if err := m.Start(2*time.Hour, Run, one, rates); err != nil || math.Abs(float64(m.Total(2*time.Hour+time.Second)-c.want-0.001)) > 1e-12 {
				t.Errorf("the next start: %v, %v", m.Total(2*time.Hour+time.Second), err)
			}
		})
	}
}

// TestMeterReprices: a job that shares what it holds for a time pays half of that time.
func TestMeterReprices(t *testing.T) {
	m := new(Meter)
	m.Reprice(time.Hour, testRates.Half()) // nothing is charged yet
	mustStart(t, m, 1*time.Hour, Run, oneGPU, testRates)
	m.Reprice(2*time.Hour, testRates.Half()) // 3
	m.Reprice(2*time.Hour, testRates.Half())
	m.Reprice(4*time.Hour, testRates) // 3
	if got := m.Total(5 * time.Hour); !near(got, 9) {
		t.Errorf("%g USD, want 9", got)
	}
	if whole := (Rates{Instance: 8}).Half(); whole.Hourly(oneGPU) != 4 {
		t.Errorf("half of a machine for 8 USD/h: %g", whole.Hourly(oneGPU))
	}
}
