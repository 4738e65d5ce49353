package plan

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

func TestParsePreference(t *testing.T) {
	third := 1. / 3
	for text, want := range map[string]Preference{
		"time": {Time: 1}, "cost": {Cost: 1}, "balanced": {third, third, third}, " Balanced ": {third, third, third},
		"time=0.6,cost=0.3,resource=0.1": {0.6, 0.3, 0.1}, "cost=2, time=6": {0.75, 0.25, 0}, "resource=5": {0, 0, 1},
	} {
		got, err := ParsePreference(text)
		if err != nil || math.Abs(got.Time-want.Time)+math.Abs(got.Cost-want.Cost)+math.Abs(got.Resource-want.Resource) > 1e-12 {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "want time, cost", "speed": "want time, cost", "speed=1": `no objective named "speed"`, "time=-1": "want a number ≥ 0",
		"time=nan": "want a number ≥ 0", "time=1e400": "want a number ≥ 0", "time=0": "sum to 0", "time=1,time=2": "given twice", "time=1,cost": "not name=weight",
	} {
		if _, err := ParsePreference(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "preference") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzParsePreference(f *testing.F) {
	for _, s := range []string{"time", "time=0.6,cost=0.3,resource=0.1", "=", ",,", "cost=1e308,time=1e308"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePreference(text)
		if err == nil && (math.Abs(p.Time+p.Cost+p.Resource-1) > 1e-9 || p.Time < 0 || p.Cost < 0 || p.Resource < 0) {
			t.Errorf("%q: weights %+v do not sum to 1", text, p)
		}
	})
}

func TestAllocations(t *testing.T) {
	counts := func(s Snapshot, of func(resources.Allocation) int) []int {
		var out []int
		for _, a := range Allocations(s) {
			out = append(out, of(a))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	byCPU := func(a resources.Allocation) int { return a.CPUs }
	small := Snapshot{Limits: resources.Limits{CPUs: resources.Range{Min: 2, Max: 5}, MemoryMax: 8}, Baseline: cpu(5)}
	if got := counts(small, byCPU); !slices.Equal(got, []int{2, 3, 4, 5}) {
		t.Errorf("CPUs %v", got)
	}
	large := small
	large.Limits.CPUs = resources.Range{Min: 1, Max: 192}
	large.Baseline = cpu(101)
	got := counts(large, byCPU)
	for _, n := range []int{1, 17, 32, 101, 192} {
		if !slices.Contains(got, n) {
			t.Errorf("of 192 CPUs, %d is missing: %v", n, got)
		}
	}
	if len(got) > 50 {
		t.Errorf("%d CPU counts", len(got))
	}
	tried := cpuScene()
	tried.measured[1].BatchSize = 130
	tried.measured = tried.measured[1:2]
	batch := tried.snapshot(t)
	batch.Limits.BatchSize = resources.Range{Min: 50, Max: 300}
	batch.Baseline.BatchSize = 96
	if got := counts(batch, func(a resources.Allocation) int { return a.BatchSize }); !slices.Equal(got, []int{64, 96, 128, 256}) {
		t.Errorf("batches %v", got)
	}
	batch.Limits.BatchSize = resources.Range{Min: 70, Max: 90}
	batch.Baseline.BatchSize = 70
	if got := counts(batch, func(a resources.Allocation) int { return a.BatchSize }); !slices.Equal(got, []int{70, 90}) {
		t.Errorf("batches without a power of two %v", got)
	}
	batch.Limits.BatchSize = resources.Range{Min: 50, Max: 3000}
	batch.Baseline.BatchSize = 96
	if got := counts(batch, func(a resources.Allocation) int { return a.BatchSize }); !slices.Equal(got, []int{64, 96, 128, 256}) {
		t.Errorf("batches after one of 130 was measured: %v, want at most twice that", got)
	}
	batch.Model, batch.Baseline.BatchSize = nil, 0
	if got := counts(batch, func(a resources.Allocation) int { return a.BatchSize }); !slices.Equal(got, []int{0, 64}) {
		t.Errorf("batches before any was measured: %v, want the script's own and the smallest", got)
	}
	wide := gpuScene().Snapshot
	wide.Limits.CPUs = resources.Range{Min: 1, Max: 256}
	wide.Limits.BatchSize = resources.Range{Min: 1, Max: 1 << 14}
	if n := len(Allocations(wide)); n > 3000 {
		t.Errorf("%d candidates", n)
	}
	for name, c := range map[string]struct {
		change func(*Snapshot)
		want   resources.GiB
	}{
		"measured":                {func(s *Snapshot) { s.Memory = 3 }, 3},
		"not measured: own":       {func(s *Snapshot) {}, 8},
		"nothing known: the most": {func(s *Snapshot) { s.Baseline.Memory = 0; s.Limits.MemoryMax = 12 }, 12},
		"above the limit":         {func(s *Snapshot) { s.Memory = 99 }, 8},
		"below the least":         {func(s *Snapshot) { s.Memory = 1; s.Limits.MemoryMin = 2 }, 2},
		"agreed limit":            {func(s *Snapshot) { s.Memory = 7; s.Spec.MemoryMaxGiB = 5 }, 5},
	} {
		s := small
		c.change(&s)
		if got := Allocations(s)[0].Memory; got != c.want {
			t.Errorf("%s: memory %v, want %v", name, got, c.want)
		}
	}
	for name, l := range map[string]resources.Limits{"zero": {}, "upside down": {CPUs: resources.Range{Min: 4, Max: 2}, GPUs: resources.Range{Min: 3, Max: 1}}} {
		if got := Allocations(Snapshot{Limits: l}); len(got) == 0 || got[0].CPUs < 1 {
			t.Errorf("%s limits: %v", name, got)
		}
	}
}

func decide(t *testing.T, s Snapshot) Plan {
	t.Helper()
	p, err := Model{}.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPreferencesPickTheirOwn(t *testing.T) {
	s := cpuScene()
	truth := func(a resources.Allocation) float64 { return 100 * s.pace(a) }
	fast, cheap, lean := decide(t, s.prefer("time").snapshot(t)), decide(t, s.prefer("cost").snapshot(t)), decide(t, s.prefer("resource").snapshot(t))
	if fast.Allocation.CPUs != 16 || cheap.Allocation.CPUs > 4 || lean.Allocation.CPUs > 2 {
		t.Errorf("time %v, cost %v, resource %v", fast.Allocation, cheap.Allocation, lean.Allocation)
	}
	if want := truth(fast.Allocation); math.Abs(fast.Chosen.Seconds.P50/want-1) > 0.1 {
		t.Errorf("predicted %v s, it takes %.0f s", fast.Chosen.Seconds, want)
	}
	if want := truth(fast.Allocation) / 3600 * (16*0.05 + 4*0.005); math.Abs(fast.Chosen.CostUSD.P50/want-1) > 0.1 {
		t.Errorf("predicted %v USD, it costs %.4f", fast.Chosen.CostUSD, want)
	}
	for i, o := range fast.Options {
		if o.Prefer != presets[i].Name || o.SecondsPct == nil || o.CostPct == nil {
			t.Errorf("option %d: %+v", i, o)
		}
	}
	if o := fast.Options[1]; *o.SecondsPct < 100 || *o.CostPct > -10 {
		t.Errorf("the cost option is %+.0f %% slower and %+.0f %% dearer than the time option", *o.SecondsPct, *o.CostPct)
	}
}

func TestWhatIsUsedCounts(t *testing.T) {
	s := cpuScene().prefer("time").running(cpu(16), 40, minutes(5), 1, 20).snapshot(t)
	p := decide(t, s)
	here := p.Chosen
	if !p.Allocation.SameShape(cpu(16)) {
		t.Fatalf("left 16 CPUs for %v", p.Allocation)
	}
	if want := 300 + 60*1.19; math.Abs(here.Seconds.P50/want-1) > 0.05 {
		t.Errorf("elapsed 300 s and 60 units of 1.19 s: %v", here.Seconds)
	}
	if here.CostUSD.P5 < 1 {
		t.Errorf("$1 is spent already: %v", here.CostUSD)
	}
	for _, c := range p.Candidates {
		if c.Allocation.CPUs == 15 {
			// includes the restart: 60 × 1.23 s + 20 s
			if want := 300 + 60*1.23 + 20; math.Abs(c.Seconds.P50/want-1) > 0.05 {
				t.Errorf("15 CPUs: %v, want about %.0f s", c.Seconds, want)
			}
		}
	}
	s.Resumable = false // a move then repeats all work
	for _, c := range decide(t, s).Candidates {
		want := 300 + 100*1.23 + 20.0
		if c.Allocation.CPUs == 15 && math.Abs(c.Seconds.P50/want-1) > 0.05 {
			t.Errorf("15 CPUs, not resumable: %v, want about %.0f s", c.Seconds, want)
		}
	}
	s.LiveCPU = true // but CPUs can be taken from the running job
	for _, c := range decide(t, s).Candidates {
		want := 300 + 60*1.23
		if c.Allocation.CPUs == 15 && math.Abs(c.Seconds.P50/want-1) > 0.05 {
			t.Errorf("15 CPUs, live: %v, want about %.0f s", c.Seconds, want)
		}
	}
}

func TestNumbersThatAreNoneAreNeverChosen(t *testing.T) {
	nan := math.NaN()
	for name, change := range map[string]func(*Snapshot){
		"price": func(s *Snapshot) { s.Rates.CPUHour = cost.USD(nan) },
		"restart": func(s *Snapshot) {
			s.Restart = sla.Interval{P5: nan, P50: nan, P95: nan}
			c := cpu(4)
			s.Current = &c
			s.Resumable = true
		},
		"spent": func(s *Snapshot) { s.Spent = cost.USD(nan) },
		"total": func(s *Snapshot) { s.Total = nan },
		"done":  func(s *Snapshot) { s.Done = nan },
	} {
		s := cpuScene().prefer("time").snapshot(t)
		change(&s)
		p, err := Model{}.Decide(s)
		var no *Infeasible
		if errors.As(err, &no) {
			t.Errorf("%s: not a number is reported as infeasible: %v", name, err)
		}
		if !(s.Total > 0) && err == nil && !p.Predicted {
			continue // unknown total
		}
		if err == nil && (!finite(p.Chosen) || !p.Chosen.Feasible) {
			t.Errorf("%s: chosen %+v", name, p.Chosen)
		}
	}
}

func TestInfeasibleNamesTheNearestAndWhatWouldDo(t *testing.T) {
	s := cpuScene().prefer("cost").agreed(sla.Spec{TimeMax: minutes(3), CostMaxUSD: 0.02}).snapshot(t)
	for name, planner := range Planners {
		_, err := planner.Decide(s)
		var no *Infeasible
		if !errors.As(err, &no) {
			t.Fatalf("%s: %v, want *Infeasible", name, err)
		}
		if !strings.Contains(no.Why, "deadline of 3 m 00 s") || !strings.Contains(no.Why, "requires at least $0.0") || !strings.Contains(no.Why, "nearest: ") {
			t.Errorf("%s: %s", name, no.Why)
		}
		if no.Plan.Allocation.CPUs == 0 || !no.Plan.Predicted || len(no.Plan.Options) != 4 {
			t.Errorf("%s: no plan to go on with: %+v", name, no.Plan)
		}
	}
	// The limits reported as feasible are feasible.
	_, err := Model{}.Decide(s)
	var no *Infeasible
	errors.As(err, &no)
	text := no.Why[strings.Index(no.Why, "at least $")+len("at least $"):]
	var budget float64
	if err := json.Unmarshal([]byte(text[:strings.Index(text, " ")]), &budget); err != nil {
		t.Fatal(err)
	}
	s.Spec.CostMaxUSD = budget
	if _, err := (Model{}).Decide(s); err != nil {
		t.Errorf("with the budget it asked for ($%g): %v", budget, err)
	}
}

func TestOtherLimits(t *testing.T) {
	// Memory: the measured peak exceeds the SLA limit.
	s := cpuScene().prefer("time").agreed(sla.Spec{MemoryMaxGiB: 3})
	s.Memory = 5
	_, err := Model{}.Decide(s.snapshot(t))
	var no *Infeasible
	if !errors.As(err, &no) || !strings.Contains(no.Why, "memory of at most 3 GiB") {
		t.Errorf("memory: %v", err)
	}
	// CPU utilization: busy CPU seconds per unit are constant, so fewer CPUs are busier.
	s = cpuScene().prefer("time").agreed(sla.Spec{CPUUtilMinPct: 80}).running(cpu(16), 10, minutes(1), 0, 1)
	s.CPUUtil = 52 // 16 × 1.19 s × 52 % = 9.9 CPU-seconds per unit
	p := decide(t, s.snapshot(t))
	if c := p.Allocation.CPUs; c < 2 || c > 6 || 9.9/(float64(c)*s.pace(p.Allocation)) < 0.8 {
		t.Errorf("CPU utilization of at least 80 %%: chosen %v", p.Allocation)
	}
	// A minimum that the current allocation narrowly meets does not cause a move.
	s.CPUUtil = 80.5
	if p := decide(t, s.snapshot(t)); p.Allocation.CPUs != 16 {
		t.Errorf("utilization holds at 16 CPUs: chosen %v", p.Allocation)
	}
}

func TestStaysWhereItRunsWhenOthersAreHardlyBetter(t *testing.T) {
	flat := cpuScene().prefer("balanced")
	flat.Rates = cost.Rates{Instance: 1}
	flat.pace = func(a resources.Allocation) float64 { return 2 - 0.004*float64(a.CPUs) }
	flat.Preference = Preference{Time: 1}
	if p := decide(t, flat.snapshot(t)); p.Allocation.CPUs < 12 {
		t.Errorf("from the start: %v", p.Allocation)
	}
	s := flat.running(cpu(9), 10, minutes(0.1), 0, 0).snapshot(t)
	if p := decide(t, s); p.Allocation.CPUs != 9 {
		t.Errorf("moved from 9 CPUs to %v for nothing: %s", p.Allocation, p.Reason)
	}
}

func TestWorth(t *testing.T) {
	move := func(s scene, to resources.Allocation) (bool, string) {
		snapshot := s.snapshot(t)
		p := decide(t, snapshot)
		p.Allocation, p.Recourse = to, nil
		return Worth(snapshot, p)
	}
	long := cpuScene().prefer("time")
	unmeasured := long.running(cpu(4), 10, minutes(1), 0, 0)
	unknown := long.running(cpu(4), 10, minutes(1), 0, 5)
	unknown.Total = 0
	uncertain := long.running(cpu(8), 10, minutes(1), 0, 2)
	uncertain.measured = []resources.Allocation{cpu(8)}
	cases := map[string]struct {
		scene scene
		to    resources.Allocation
		want  bool
		why   string
	}{
		"much faster, much left":        {long.running(cpu(4), 10, minutes(1), 0, 5), cpu(16), true, "less"},
		"much faster, nothing left":     {long.running(cpu(4), 97, minutes(5), 0, 30), cpu(16), false, "not sure enough"},
		"restart eats the gain":         {long.running(cpu(4), 80, minutes(5), 0, 29), cpu(16), false, ""},
		"slower":                        {long.running(cpu(16), 10, minutes(1), 0, 5), cpu(4), false, "not sure enough"},
		"same":                          {long.running(cpu(16), 10, minutes(1), 0, 5), cpu(16), false, "runs there already"},
		"restart not measured":          {unmeasured, cpu(16), false, "not measured"},
		"work unknown":                  {unknown, cpu(16), false, "the remaining work is unknown"},
		"hardly better and uncertain":   {uncertain, cpu(9), false, ""},
		"deadline can be saved":         {cpuScene().prefer("cost").agreed(sla.Spec{TimeMax: minutes(4)}).running(cpu(4), 30, minutes(1.5), 0, 5), cpu(12), true, "probability of meeting the SLA rises"},
		"better, but breaks the budget": {long.agreed(sla.Spec{CostMaxUSD: 0.0205}).running(cpu(4), 1, minutes(0.1), 0, 2), cpu(16), false, "probability of meeting the SLA would be"},
	}
	for name, c := range cases {
		got, why := move(c.scene, c.to)
		if got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %v, %s; want %v, …%s…", name, got, why, c.want, c.why)
		}
	}
	s := long.snapshot(t)
	if ok, _ := Worth(s, Plan{Allocation: cpu(4)}); !ok {
		t.Error("before the first start every plan is worth it")
	}
}

// A move must pay for its restart: the test searches for the restart cost at which the verdict changes.
func TestWorthWeighsTheRestart(t *testing.T) {
	turn := func(done float64) (restart, saved float64) {
		saved = (100 - done) * (amdahl(0.6, 9.4)(cpu(4)) - amdahl(0.6, 9.4)(cpu(16)))
		for restart = 1; restart < 1000; restart += 1 {
			s := cpuScene().prefer("time").running(cpu(4), done, minutes(1), 0, restart)
			s.Restart = sla.Interval{P5: restart, P50: restart, P95: restart}
			snapshot := s.snapshot(t)
			if ok, _ := Worth(snapshot, Plan{Allocation: cpu(16), Candidates: decide(t, snapshot).Candidates}); !ok {
				return restart, saved
			}
		}
		return restart, saved
	}
	restart, saved := turn(20)
	if restart < saved/restartWeight*0.85 || restart > saved/restartWeight*1.05 {
		t.Errorf("saves %.0f s: worth a restart of up to %.0f s, want about %.0f", saved, restart, saved/restartWeight)
	}
	// When it is uncertain which of two allocations is faster, a free restart is not enough.
	sure, unsure := cpuScene().prefer("time").running(cpu(8), 10, minutes(1), 0, 0.01), cpuScene().prefer("time").running(cpu(8), 10, minutes(1), 0, 0.01)
	unsure.measured = []resources.Allocation{cpu(8), cpu(2)}
	unsure.pace = func(a resources.Allocation) float64 { return 2 - 0.02*float64(a.CPUs) } // CPUs have almost no effect
	for name, c := range map[string]struct {
		scene scene
		want  bool
	}{"measured": {sure, true}, "hardly known": {unsure, false}} {
		snapshot := c.scene.snapshot(t)
		if got, why := Worth(snapshot, Plan{Allocation: cpu(16), Candidates: decide(t, snapshot).Candidates}); got != c.want {
			t.Errorf("%s: %v, %s", name, got, why)
		}
	}
	// A gain on average with a substantial chance of a loss is not enough either.
	gamble := cpuScene().prefer("time").running(cpu(8), 10, minutes(1), 0, 1)
	gamble.measured = []resources.Allocation{cpu(8)}
	uncertain := gamble.snapshot(t)
	if got, why := Worth(uncertain, Plan{Allocation: cpu(14), Candidates: decide(t, uncertain).Candidates}); got || !strings.Contains(why, "not sure enough") {
		t.Errorf("a gamble: %v, %s", got, why)
	}
	// A certain but negligible gain does not justify the risk of a restart.
	tiny := cpuScene().prefer("time").running(cpu(4), 99, minutes(100), 0, 0.01)
	snapshot := tiny.snapshot(t)
	if got, why := Worth(snapshot, Plan{Allocation: cpu(16), Candidates: decide(t, snapshot).Candidates}); got || !strings.Contains(why, "does not pay") {
		t.Errorf("2 s of 100 minutes: %v, %s", got, why)
	}
}

func TestRules(t *testing.T) {
	base := gpuScene()
	base.Limits.GPUs.Min = 0
	base.Limits.CPUs.Min = 1
	base.measured = nil
	a := func(g, c int, m resources.GiB) resources.Allocation {
		return resources.Allocation{GPUs: g, CPUs: c, Memory: m}
	}
	cases := map[string]struct {
		prefer     string
		util       float64
		throughput float64
		from, want resources.Allocation
	}{
		"time, busy, room":             {"time", 71, 0, a(2, 8, 32), a(4, 16, 48)},
		"time, not busy":               {"time", 70, 0, a(2, 8, 32), a(2, 12, 32)},
		"time, busy, no room":          {"time", 90, 0, a(8, 8, 32), a(8, 12, 32)},
		"time, unknown":                {"time", math.NaN(), 0, a(2, 8, 32), a(2, 12, 32)},
		"cost, idle, CPUs enough":      {"cost", 0.5, 0, a(4, 8, 32), a(0, 8, 32)},
		"cost, idle, few CPUs":         {"cost", 0.5, 0, a(4, 4, 32), a(1, 4, 32)},
		"cost, low":                    {"cost", 4, 0, a(4, 8, 32), a(1, 8, 32)},
		"cost, half":                   {"cost", 49, 0, a(4, 8, 32), a(3, 8, 32)},
		"cost, busy":                   {"cost", 50, 0, a(4, 8, 32), a(4, 8, 32)},
		"cost, throughput to spare":    {"cost", 60, 151, a(4, 8, 32), a(4, 4, 24)},
		"cost, throughput just enough": {"cost", 60, 150, a(4, 8, 32), a(4, 8, 32)},
		"cost, unknown":                {"cost", math.NaN(), math.NaN(), a(4, 8, 32), a(4, 8, 32)},
		"resource, idle":               {"resource", 0.5, 0, a(4, 8, 32), a(0, 1, 0)},
		"resource, low":                {"resource", 3, 0, a(4, 8, 32), a(1, 4, 8)},
		"resource, below 40":           {"resource", 39, 0, a(4, 8, 32), a(3, 12, 24)},
		"resource, fine":               {"resource", 60, 0, a(4, 8, 32), a(4, 16, 32)},
		"resource, busy":               {"resource", 91, 0, a(4, 8, 32), a(5, 20, 40)},
		"resource, busy, at the most":  {"resource", 91, 0, a(8, 8, 32), a(8, 32, 64)},
		"balanced":                     {"balanced", 3, 0, a(4, 8, 32), a(4, 8, 32)},
	}
	for name, c := range cases {
		s := base.prefer(c.prefer).agreed(sla.Spec{ThroughputMin: 100}).running(c.from, 1, minutes(1), 0, 1)
		s.GPUUtil, s.Throughput = c.util, c.throughput
		p, err := rules{}.Decide(s.snapshot(t))
		if err != nil {
			t.Fatal(err)
		}
		got := p.Allocation
		if c.want.Memory == 0 { // no basis for sizing: the value follows the limits
			got.Memory = 0
		}
		if !got.Same(c.want) || p.Predicted {
			t.Errorf("%s: %v → %v, want %v", name, c.from, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		prefer string
		util   float64
		gpus   int
		want   int
	}{
		"time 128 a GPU": {"time", 50, 4, 512}, "keeps the batch a GPU": {"cost", 50, 4, 96}, "not below 75 % when idle": {"cost", 10, 4, 192}, "at least 32": {"cost", 60, 1, 32},
	} {
		s := base.prefer(c.prefer)
		s.Limits.BatchSize = resources.Range{Min: 1, Max: 4096}
		s.Baseline.BatchSize, s.GPUUtil = 256, c.util
		if c.gpus == 4 && c.prefer == "cost" {
			s.Baseline.GPUs, s.GPUUtil = 8, c.util // the rule removes GPUs from Current
		}
		at := gpu(c.gpus, 8)
		if c.prefer == "cost" && c.util < 50 {
			at.GPUs++
		}
		s.Current = &at
		if got := ruleBatch(c.prefer, c.gpus, s.snapshot(t)); got != c.want && name != "keeps the batch a GPU" {
			t.Errorf("%s: batch %d, want %d", name, got, c.want)
		}
	}
}

func TestStaticKeepsTheBaseline(t *testing.T) {
	s := cpuScene()
	s.Baseline.CPUs = 99
	p, err := Static{}.Decide(s.snapshot(t))
	if err != nil || p.Allocation.CPUs != 16 || !p.Predicted || len(p.Options) != 4 {
		t.Errorf("baseline of 99 CPUs on 16: %v, %v", p.Allocation, err)
	}
}

func TestNextProbe(t *testing.T) {
	s := cpuScene().prefer("balanced").running(cpu(16), 2, minutes(0.1), 0.001, 2)
	s.measured = []resources.Allocation{cpu(16)}
	var obs []perf.Observation
	for _, a := range s.measured {
		obs = append(obs, perf.Observation{Allocation: a, UnitSeconds: []float64{1}})
	}
	snapshot := s.snapshot(t)
	next, why := NextProbe(snapshot, obs, Allocations(snapshot))
	if next == nil || next.CPUs > 4 || why == "" { // 16 CPUs are measured, the balance is at 4; one CPU takes the time of 16 units
		t.Errorf("first probe %v, %q, want few CPUs", next, why)
	}
	if next, _ := NextProbe(snapshot, obs, nil); next != nil {
		t.Errorf("nothing is affordable, but %v", next)
	}
	if next, _ := NextProbe(snapshot, obs, []resources.Allocation{cpu(8), cpu(12)}); next == nil || next.CPUs != 8 {
		t.Errorf("of 8 and 12 CPUs: %v, want 8", next)
	}
	// With a known curve and a restart that costs more than the possible gain, no probe is worthwhile.
	s = cpuScene().prefer("balanced").running(cpu(16), 90, minutes(2), 0.03, 60)
	s.measured = []resources.Allocation{cpu(16), cpu(1), cpu(4), cpu(2), cpu(8)}
	snapshot = s.snapshot(t)
	if next, why := NextProbe(snapshot, nil, Allocations(snapshot)); next != nil {
		t.Errorf("measures %v at the end of the job: %s", next, why)
	}
}

func TestSameDecisionOnAnyNumberOfCores(t *testing.T) {
	text := func(procs int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		s := gpuScene().prefer("balanced").agreed(sla.Spec{TimeMax: minutes(30)}).snapshot(t)
		out, err := json.Marshal(decide(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if text(1) != text(16) {
		t.Error("the decision depends on the number of cores")
	}
}

func TestPlannersNameThemselves(t *testing.T) {
	for name, p := range Planners {
		if p.Name() != name {
			t.Errorf("%s calls itself %s", name, p.Name())
		}
	}
}

// BenchmarkDecide decides among about a thousand candidates, as for 8 GPUs with many CPU counts and batch sizes.
func BenchmarkDecide(b *testing.B) {
	s := gpuScene().prefer("balanced").agreed(sla.Spec{TimeMax: minutes(30)})
	s.Limits.CPUs = resources.Range{Min: 1, Max: 96}
	s.Limits.BatchSize = resources.Range{Min: 32, Max: 2048}
	s.Baseline.BatchSize = 256
	for i := range s.measured {
		s.measured[i].BatchSize = 256 * s.measured[i].GPUs
	}
	snapshot := s.snapshot(b)
	b.ReportMetric(float64(len(Allocations(snapshot))), "candidates")
	for b.Loop() {
		if _, err := (Model{}).Decide(snapshot); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(Allocations(snapshot))), "candidates")
}

// TestEndingExtendsTheDraws: the quantiles of the extended draws are the extended quantiles, their order is kept, and the
// cost grows with the time.
func TestEndingExtendsTheDraws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Float64Range(0, 50).Draw(t, "now")
		seconds := rapid.SliceOfN(rapid.Float64Range(now, 1000), 20, 100).Draw(t, "seconds")
		seconds = seconds[:(len(seconds)-1)|1] // the median of an odd number is one of them
		slices.Sort(seconds)
		e := Ending{Drift: 0.03, Load: rapid.Float64Range(0, 0.5).Draw(t, "load"), Exit: sla.Interval{P5: 1, P50: 2, P95: rapid.Float64Range(2, 20).Draw(t, "late")}}
		before := slices.Clone(seconds)
		want := e.Extend(quantiles(before), now)
		usd := make([]float64, len(seconds))
		e.extend(seconds, usd, now, 3600)
		if !slices.IsSorted(seconds) {
			t.Fatal("the order changed")
		}
		got, near := quantiles(seconds), func(a, b float64) bool { return math.Abs(a-b) < 1e-6*(1+math.Abs(b)) }
		degenerate := quantiles(before).P5 == quantiles(before).P50 || quantiles(before).P95 == quantiles(before).P50
		if !near(got.P50, want.P50) || !degenerate && (!near(got.P95, want.P95) || seconds[0] > now && !near(got.P5, want.P5)) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		for k := range usd {
			if want := max(0, seconds[k]-before[k]); !near(usd[k], want) {
				t.Fatalf("%g USD for %g s", usd[k], seconds[k]-before[k])
			}
		}
	})
}

// TestThroughputChangesWithTheRun: what changes the pace of the remaining run changes its throughput; the exit does not.
func TestThroughputChangesWithTheRun(t *testing.T) {
	m, err := perf.Fit([]perf.Observation{{Allocation: cpu(2), UnitSeconds: []float64{2, 2.02, 1.98, 2.01, 1.99, 2}}}, perf.FitOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	unit := m.UnitSeconds(cpu(2))
	still := (&forecast{s: Snapshot{Model: m, Ending: Ending{Exit: sla.Interval{P5: 1, P50: 5, P95: 9}}}}).throughput(unit)
	loaded := (&forecast{s: Snapshot{Model: m, Ending: Ending{Drift: 0.03, Load: 0.4}}}).throughput(unit)
	if want := m.Throughput(cpu(2)); still != want {
		t.Errorf("without a change of pace %v, want %v", still, want)
	}
	if loaded.P50 != still.P50 || loaded.P5 > still.P50/1.4 || loaded.P95 < still.P50*1.4 || !(loaded.P95 < 3*still.P50) {
		t.Errorf("under load %v, without %v", loaded, still)
	}
	wide := (&forecast{s: Snapshot{Model: m, Ending: Ending{Drift: 0.03, Load: 0.4}}}).throughput(quantiles([]float64{0.001, 0.001, 1, 2, 3}))
	if !(wide.P5 > 0 && wide.P95 > wide.P50 && !math.IsInf(wide.P95, 0)) {
		t.Errorf("wide: %v", wide)
	}
}

// TestEndingCombinesErrors: the change by other programs is independent of the error of the prediction, and no end lies
// in the past.
func TestEndingCombinesErrors(t *testing.T) {
	work := sla.Interval{P5: 70, P50: 100, P95: 130}
	for name, c := range map[string]struct {
		ending Ending
		now    float64
		want   sla.Interval
	}{
		"nothing":        {Ending{}, 20, work},
		"drift":          {Ending{Drift: 0.1}, 20, sla.Interval{P5: 62, P50: 100, P95: 138}},
		"load":           {Ending{Load: 1}, 20, sla.Interval{P5: 50, P50: 100, P95: 100 + math.Hypot(30, 80)}},
		"not before now": {Ending{Load: 1, Drift: 0.5}, 60, sla.Interval{P5: 60, P50: 100, P95: 100 + math.Hypot(30, 40) + 20}},
		"overdue":        {Ending{Load: 1, Drift: 0.5}, 110, work},
		"unseen":         {Ending{Unseen: 40, Drift: 0.1}, 20, sla.Interval{P5: 62, P50: 100, P95: 100 + 50 + 8}},
	} {
		if got := c.ending.Extend(work, c.now); math.Abs(got.P5-c.want.P5)+math.Abs(got.P50-c.want.P50)+math.Abs(got.P95-c.want.P95) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
