package cost

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/resources"
)

func TestJudge(t *testing.T) {
	for name, test := range map[string]struct {
		cost, time float64
		want       Quality
	}{
		"half the GPUs, 60 % slower: cheaper":       {0.80, 1.6, good},
		"half the GPUs, no slower":                  {0.50, 1, excellent},
		"half the GPUs, twice the time: no gain":    {1, 2, bad},
		"half the GPUs, 2.5 times the time: dearer": {1.25, 2.5, bad},
		"half the GPUs, 90 % slower for 5 %":        {0.95, 1.9, questionable},
		"twice the GPUs, linear: faster at no cost": {1, 0.5, excellent},
		"twice the GPUs, 40 % less time for 20 %":   {1.2, 0.6, good},
		"twice the GPUs, 10 % less time for 80 %":   {1.8, 0.9, questionable},
		"twice the GPUs, no faster":                 {2, 1, bad},
		"twice the GPUs, slower":                    {2.2, 1.1, bad},
		"faster than linear: cheaper and faster":    {0.9, 0.45, excellent},
		"the same":                                  {1.005, 1.005, unchanged},
		"time unknown":                              {0.5, math.NaN(), Undecided},
		"free before":                               {math.Inf(1), 1, Undecided},
	} {
		if got := Judge(test.cost, test.time); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Less time at the same cost, or lower cost in the same time, never lowers the rating, and the ratings of a change
// and of its reverse are never both favourable.
func TestQualityIsConsistent(t *testing.T) {
	rank := map[Quality]int{excellent: 0, good: 1, questionable: 2, unchanged: 2, bad: 3}
	factor := rapid.Float64Range(0.05, 20)
	rapid.Check(t, func(t *rapid.T) {
		c, s, less := factor.Draw(t, "cost"), factor.Draw(t, "time"), rapid.Float64Range(0.05, 1).Draw(t, "less")
		q := Judge(c, s)
		if a, b := Judge(c*less, s), Judge(c, s*less); rank[a] > rank[q] || rank[b] > rank[q] {
			t.Errorf("%g %g is %s; ×%g money %s, ×%g time %s", c, s, q, less, a, less, b)
		}
		if back := Judge(1/c, 1/s); q == excellent && back != bad {
			t.Errorf("%g %g is excellent and the way back %s", c, s, back)
		}
	})
}

func TestCheckGPUBatch(t *testing.T) {
	a := func(gpus, batch int) resources.Allocation {
		return resources.Allocation{GPUs: gpus, CPUs: 1, BatchSize: batch}
	}
	for name, test := range map[string]struct {
		before, after resources.Allocation
		want          string
	}{
		"nothing changes":                 {a(2, 256), a(2, 256), ""},
		"both double":                     {a(2, 256), a(4, 512), ""},
		"the script's own batch":          {a(2, 0), a(4, 512), ""},
		"the script's own batch after":    {a(2, 256), a(1, 0), ""},
		"more GPUs, smaller batch":        {a(2, 256), a(4, 128), "opposite per-gpu"},
		"fewer GPUs, larger batch":        {a(4, 256), a(3, 260), "opposite per-gpu"},
		"same GPUs, batch + 50 %":         {a(2, 256), a(2, 384), "per-gpu"},
		"same GPUs, batch + 60 %":         {a(2, 100), a(2, 160), "batch-moves per-gpu"},
		"same GPUs, batch − 60 %":         {a(2, 100), a(2, 40), "batch-moves per-gpu"},
		"more GPUs, batch left as it was": {a(2, 256), a(4, 256), "per-gpu"},
		"per GPU 25 % more":               {a(4, 400), a(2, 250), ""},
		"no GPU":                          {a(0, 100), a(0, 200), "batch-moves"},
		"from no GPU to one":              {a(0, 100), a(1, 200), ""},
	} {
		var kinds []string
		for _, p := range CheckGPUBatch(test.before, test.after) {
			kinds = append(kinds, p.Kind)
			if p.Words == "" {
				t.Errorf("%s: %s without words", name, p.Kind)
			}
		}
		if got := strings.Join(kinds, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if p := CheckGPUBatch(a(2, 256), a(4, 128)); !strings.Contains(p[0].Words, "less") {
		t.Errorf("more GPUs, smaller batch: %q", p[0].Words)
	}
}

func TestEfficiencyMonitor(t *testing.T) {
	base := Work{Units: 1, Time: 10 * time.Second, Cost: 1}
	show := func(m *EfficiencyMonitor, n int, seconds float64, usd USD) (got []string) {
		for range n {
			for _, d := range m.Observe(Work{1, time.Duration(seconds * float64(time.Second)), usd}) {
				word := d.Kind
				if d.Over {
					word += " over"
				}
				got = append(got, word)
				if math.Abs(d.Ratio-1) > 10 || !strings.Contains(d.Words, map[bool]string{false: "has become " + d.Kind, true: "no longer " + d.Kind}[d.Over]) || !strings.Contains(d.Words, "per epoch, ") {
					panic("a drift without words")
				}
			}
		}
		return got
	}
	join := func(s []string) string { return strings.Join(s, ", ") }

	m := NewEfficiencyMonitor(base, EfficiencyOptions{Unit: "epoch"})
	if got := show(m, 20, 11, 1.1); len(got) > 0 {
		t.Errorf("10 %% worse, within the tolerance: %q", got)
	}
	if got := append(show(m, 1, 100, 10), show(m, 10, 10, 1)...); len(got) > 0 {
		t.Errorf("one slow epoch: %q", got)
	}
	if got := join(show(m, 20, 13, 1)); got != "slower" {
		t.Errorf("30 %% slower for good: %q, want it said once", got)
	}
	if got := join(show(m, 20, 10, 1)); got != "slower over" {
		t.Errorf("back to normal: %q", got)
	}
	if got := join(show(m, 20, 10, 1.5)); got != "dearer" {
		t.Errorf("50 %% dearer: %q", got)
	}
	if got := join(show(m, 30, 10, USD(math.NaN()))); got != "" {
		t.Errorf("price lost: %q, want nothing said without data", got)
	}

	m = NewEfficiencyMonitor(base, EfficiencyOptions{Unit: "epoch"})
	if got := show(m, 1, 90, 9); len(got) > 0 || len(show(m, 20, 10, 1)) > 0 {
		t.Error("a slow first epoch was taken for a trend")
	}
	for _, w := range []Work{{}, {Units: math.NaN(), Time: 1}, {Units: -1, Time: 1}, {Units: 1}, {Units: math.Inf(1), Time: 1}} {
		if got := m.Observe(w); got != nil {
			t.Errorf("%+v: %v", w, got)
		}
	}

	// Reported at the earliest time that the options allow: half a window, then Persistence consecutive observations.
	for persistence, want := range map[int]int{1: 4, 3: 6, 5: 8} {
		m := NewEfficiencyMonitor(base, EfficiencyOptions{Unit: "epoch", Window: 8, Persistence: persistence})
		n := 1
		for len(show(m, 1, 13, 1)) == 0 && n < 100 {
			n++
		}
		if n != want {
			t.Errorf("persistence %d: said after %d observations, want %d", persistence, n, want)
		}
	}

	own := NewEfficiencyMonitor(Work{}, EfficiencyOptions{Unit: "epoch", Window: 4})
	if got := show(own, 4, 20, 2); len(got) > 0 {
		t.Errorf("learning: %q", got)
	}
	if s, usd := own.seconds, own.usd; math.Abs(s-20) > 1e-9 || math.Abs(usd-2) > 1e-9 {
		t.Errorf("its own beginning: %g s, %g USD", s, usd)
	}
	if got := join(show(own, 10, 30, 3)); got != "slower, dearer" {
		t.Errorf("against its own beginning: %q", got)
	}

	// Units may differ: 5 epochs in 50 s have the same pace as 1 in 10 s.
	m = NewEfficiencyMonitor(base, EfficiencyOptions{Unit: "epoch"})
	for i := range 30 {
		n := float64(1 + i%5)
		if got := m.Observe(Work{n, time.Duration(10 * n * float64(time.Second)), USD(n)}); len(got) > 0 {
			t.Errorf("steps of %g units: %v", n, got)
		}
	}
}

// Normal scatter of 10 % around the baseline causes almost no alarm in 20,000 observations; the same scatter around a
// run that is 30 % worse is detected within two windows.
func TestEfficiencyMonitorBearsNoise(t *testing.T) {
	base := Work{Units: 1, Time: 10 * time.Second, Cost: 1}
	alarms, latest := 0, 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		observe := func(m *EfficiencyMonitor, level float64) (raised bool) {
			f := level * max(0.1, 1+0.1*random.NormFloat64())
			for _, d := range m.Observe(Work{1, time.Duration(f * float64(10*time.Second)), 1}) {
				raised = raised || !d.Over
			}
			return raised
		}
		m := NewEfficiencyMonitor(base, EfficiencyOptions{})
		for range 1000 {
			if observe(m, 1) {
				alarms++
			}
		}
		m = NewEfficiencyMonitor(base, EfficiencyOptions{})
		n := 1
		for !observe(m, 1.3) && n < 1000 {
			n++
		}
		latest = max(latest, n)
	}
	if alarms > 4 || latest > 16 {
		t.Errorf("%d false alarms in 20,000 observations; a real change was noticed after at most %d", alarms, latest)
	}
	t.Logf("%d false alarms in 20,000 observations; a real change was noticed after at most %d", alarms, latest)
}

func TestDiagnoseZeroGPU(t *testing.T) {
	nan := math.NaN()
	text := func(s string) *string { return &s }
	healthy := GPUEvidence{Allocated: 2, Columns: 2, Util: []float64{80, 85}, MemoryGiB: 20, Visible: text("0,1"), CPUPct: 50, Processes: 2}
	for name, test := range map[string]struct {
		change func(*GPUEvidence)
		want   string
	}{
		"busy":                                {func(*GPUEvidence) {}, ""},
		"no GPU is paid for":                  {func(e *GPUEvidence) { *e = GPUEvidence{Visible: text("")} }, ""},
		"no column, nothing sampled":          {func(e *GPUEvidence) { e.Columns, e.Util, e.MemoryGiB, e.Processes = 0, nil, nan, -1 }, "columns-absent"},
		"sampled without a column":            {func(e *GPUEvidence) { e.Columns = 0 }, ""},
		"columns that hold no number":         {func(e *GPUEvidence) { e.Columns, e.Util, e.MemoryGiB = 0, []float64{nan, nan}, nan }, "columns-absent"},
		"memory 0":                            {func(e *GPUEvidence) { e.Util, e.MemoryGiB = []float64{0, 0}, 0 }, "not-on-gpu"},
		"no process, memory unknown":          {func(e *GPUEvidence) { e.Util, e.MemoryGiB, e.Processes = []float64{0, 0}, nan, 0 }, "not-on-gpu"},
		"memory 0 in the log, but busy":       {func(e *GPUEvidence) { e.MemoryGiB = 0 }, ""},
		"empty visible devices":               {func(e *GPUEvidence) { e.Util, e.MemoryGiB, e.Visible = []float64{0, 0}, 0, text("") }, "no-device"},
		"visible devices −1":                  {func(e *GPUEvidence) { e.Util, e.MemoryGiB, e.Visible = []float64{0, 0}, 0, text("-1") }, "no-device"},
		"waiting for its input":               {func(e *GPUEvidence) { e.Util, e.CPUPct = []float64{12, 15}, 97 }, "input-bound"},
		"low, CPUs not busy":                  {func(e *GPUEvidence) { e.Util = []float64{12, 15} }, ""},
		"one of two busy":                     {func(e *GPUEvidence) { e.Util = []float64{90, 0} }, "count-mismatch"},
		"two paid for, one visible":           {func(e *GPUEvidence) { e.Visible = text("GPU-aaaa") }, "count-mismatch"},
		"two paid for, one column":            {func(e *GPUEvidence) { e.Columns = 1 }, "count-mismatch"},
		"idle for no reason that we know":     {func(e *GPUEvidence) { e.Util = []float64{1, 2} }, "idle"},
		"everything unknown but the column":   {func(e *GPUEvidence) { *e = GPUEvidence{1, 1, nil, nan, nil, nan, -1} }, ""},
		"waiting, and only one device of two": {func(e *GPUEvidence) { e.Util, e.CPUPct = []float64{20, 0}, 99 }, "input-bound count-mismatch"},
	} {
		e := healthy
		test.change(&e)
		var causes []string
		for _, d := range e.Diagnose() {
			causes = append(causes, d.Cause)
			if d.Evidence == "" || d.Advice == "" {
				t.Errorf("%s: %+v lacks words", name, d)
			}
		}
		if got := strings.Join(causes, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
