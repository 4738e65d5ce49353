package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/sla"
)

var nan = math.NaN()

func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-9*math.Abs(b) || a != a && b != b }

func TestPrices(t *testing.T) {
	given := cost.Rates{GPUHour: 3, CPUHour: .1, Source: "by hand", Dated: "2026-05-01"}
	machine := cost.Rates{Instance: 10, GPUHour: 4, CPUHour: .1, Source: "by hand", Dated: "2026-05-01"}
	for name, c := range map[string]struct {
		change      func(*history.Entry)
		rates       *cost.Rates
		usd, hourly float64
		gpuShare    float64
	}{
		"what the run says":            {nil, nil, 1010. / 3600 * 2.8, 2.8, 2 / 2.8},
		"a log's own money":            {func(e *history.Entry) { e.Rates = cost.Rates{}; e.CostUSD = 1.01 }, nil, 1.01, 3.6, nan},
		"no price at all":              {func(e *history.Entry) { e.Rates = cost.Rates{}; e.CostUSD = nan }, nil, nan, nan, nan},
		"repriced":                     {nil, &given, 1010. / 3600 * 4.6, 4.6, 3 / 4.6},
		"repriced, CPUs not known":     {func(e *history.Entry) { e.Observed.CPUs = nan }, &given, nan, nan, nan},
		"repriced, asked for 2 CPUs":   {func(e *history.Entry) { e.Observed.CPUs, e.Requested.CPUs = nan, 2 }, &given, 1010. / 3600 * 3.2, 3.2, 3 / 3.2},
		"repriced, a machine":          {nil, &machine, 1010. / 360, 10, .4},
		"repriced, two machines":       {func(e *history.Entry) { e.Observed.Nodes, e.Observed.GPUs, e.Observed.CPUs = 2, 2, 32 }, &machine, 1010. / 180, 20, .4},
		"a machine, CPUs not known":    {func(e *history.Entry) { e.Observed.CPUs = nan }, &machine, 1010. / 360, 10, nan},
		"repriced, time not known":     {func(e *history.Entry) { e.Seconds = nan }, &given, nan, 4.6, 3 / 4.6},
		"memory not known":             {func(e *history.Entry) { e.Observed.MemoryGiB = nan }, &given, 1010. / 3600 * 4.6, 4.6, 3 / 4.6},
		"no GPU: nothing goes to GPUs": {func(e *history.Entry) { e.Observed.GPUs, e.Rates, e.CostUSD = 0, cost.Rates{}, 1.01 }, nil, 1.01, 3.6, 0},
	} {
		r := newRun(ran("a", "m", 1, 16, 10, 100, c.change), c.rates)
		if !near(r.USD, c.usd) || !near(r.HourUSD, c.hourly) || !near(r.GPUShare, c.gpuShare) {
			t.Errorf("%s: $%v, $%v an hour, %v for GPUs; want $%v, $%v, %v", name, r.USD, r.HourUSD, r.GPUShare, c.usd, c.hourly, c.gpuShare)
		}
	}
}

func TestSpeedAndUnits(t *testing.T) {
	for name, c := range map[string]struct {
		change                      func(*history.Entry)
		speed, perUnit, unitSeconds float64
		steady                      bool
	}{
		"as measured":                  {nil, 500, 50_000, 100, true},
		"epochs of known size":         {func(e *history.Entry) { e.Throughput = nan }, 500, 50_000, 100, true},
		"steps of a known batch":       {func(e *history.Entry) { e.Throughput, e.Unit, e.UnitTime = nan, "step", .5 }, 512, 256, .5, true},
		"samples from speed and time":  {func(e *history.Entry) { e.Job.DataCount = nan }, 500, 50_000, 100, true},
		"nothing known of samples":     {func(e *history.Entry) { e.Throughput, e.Job.DataCount = nan, nan }, nan, nan, 100, true},
		"only the whole run":           {func(e *history.Entry) { e.UnitTime = nan }, 500, 50_000, 101, false},
		"a time of 0 was not measured": {func(e *history.Entry) { e.UnitTime, e.Seconds = 0, 0 }, 500, 50_000, nan, false},
		"a throughput of 0 is none":    {func(e *history.Entry) { e.Throughput, e.UnitTime = 0, nan }, nan, 50_000, 101, false},
	} {
		r := newRun(ran("a", "m", 1, 16, 10, 100, c.change), nil)
		seconds, steady := r.unitSeconds()
		if !near(r.Speed, c.speed) || !near(r.PerUnit, c.perUnit) || !near(seconds, c.unitSeconds) || steady != c.steady {
			t.Errorf("%s: %v samples/s, %v a unit, %v s a unit (steady %v), want %v, %v, %v, %v", name, r.Speed, r.PerUnit, seconds, steady, c.speed, c.perUnit, c.unitSeconds, c.steady)
		}
	}
}

func TestOnlyTheSameWorkIsCompared(t *testing.T) {
	step := func(batch float64) func(*history.Entry) {
		return func(e *history.Entry) { e.Unit, e.Observed.Batch, e.UnitTime, e.Throughput = "step", batch, .5, nan }
	}
	for name, c := range map[string]struct {
		entries          []history.Entry
		unit             string
		comparable, left int
	}{
		"15 and 20 epochs":                 {[]history.Entry{ran("a", "m", 1, 8, 15, 10, nil), ran("b", "m", 2, 8, 20, 6, nil)}, "epoch", 2, 0},
		"epochs of two sizes":              {[]history.Entry{ran("a", "m", 1, 8, 15, 10, nil), ran("b", "m", 1, 8, 15, 5, func(e *history.Entry) { e.Job.DataCount = 25_000 })}, "million samples", 2, 0},
		"steps of two batches":             {[]history.Entry{ran("a", "m", 1, 8, 1000, 1, step(128)), ran("b", "m", 1, 8, 1000, 1, step(256))}, "million samples", 2, 0},
		"steps of one batch":               {[]history.Entry{ran("a", "m", 1, 8, 1000, 1, step(128)), ran("b", "m", 1, 8, 1000, 1, step(128))}, "step", 2, 0},
		"epochs and steps without samples": {[]history.Entry{ran("a", "m", 1, 8, 15, 10, nil), ran("b", "m", 1, 8, 15, 10, nil), ran("c", "m", 1, 8, 15, 10, step(nan))}, "epoch", 2, 1},
		"no times":                         {[]history.Entry{ran("a", "m", 1, 8, 15, 10, func(e *history.Entry) { e.UnitTime, e.Seconds = nan, nan })}, "", 0, 1},
		"no unit":                          {[]history.Entry{ran("a", "m", 1, 8, 15, 10, func(e *history.Entry) { e.Unit = "" })}, "", 0, 1},
	} {
		w := analyze(c.entries, Options{}).Models[0].Work
		if w.Unit != c.unit || w.Comparable != c.comparable || w.Left != c.left {
			t.Errorf("%s: %+v, want %d compared per %q, %d left out", name, w, c.comparable, c.unit, c.left)
		}
	}
	half := func(e *history.Entry) { e.Job.DataCount = 25_000 }
	if b := analyze([]history.Entry{ran("a", "m", 1, 8, 15, 10, nil), ran("b", "m", 2, 8, 15, 6, half)}, Options{}).Models[0].Best[0]; b.RunIDs[0] != "a" || !near(float64(b.Value.Mean), 200) {
		t.Errorf("%+v: want 10 s for 50,000 samples, 200 s a million, before 6 s for 25,000", b)
	}
	// The longer training is the faster one although its total is larger.
	r := analyze([]history.Entry{ran("short", "m", 1, 8, 15, 10, nil), ran("long", "m", 2, 8, 20, 9, nil)}, Options{})
	if b := r.Models[0].Best[0]; b.By != "time" || b.RunIDs[0] != "long" || !near(float64(b.ThanSecondPct), 10) {
		t.Errorf("%+v: want the 9 s per epoch of the longer run, 10 %% less than the second", b)
	}
}

func TestBestRestsOnAllItsRuns(t *testing.T) {
	list := []history.Entry{ran("a1", "m", 1, 8, 10, 10, nil), ran("a2", "m", 1, 8, 10, 40, nil), ran("b1", "m", 2, 8, 10, 15, nil), ran("b2", "m", 2, 8, 10, 15.1, nil),
		ran("broken", "m", 4, 8, 10, 1, func(e *history.Entry) { e.State = "failed" })}
	b := analyze(list, Options{}).Models[0].Best[0]
	if strings.Join(b.RunIDs, " ") != "b1 b2" || b.Configs != 2 || b.Distinct == nil || *b.Distinct {
		t.Errorf("%+v: want the two runs of 15 s, not the single one of 10 s and not the failed one; and no claim that it is beyond chance", b)
	}
	list = nil
	for i := range 3 {
		list = append(list, ran("b"+string(rune('1'+i)), "m", 2, 8, 10, 15+float64(i)/10, nil), ran("a"+string(rune('1'+i)), "m", 1, 8, 10, 24-float64(i), nil))
	}
	if b := analyze(list, Options{}).Models[0].Best[0]; b.Distinct == nil || !*b.Distinct || b.Value.Lo >= b.Value.Mean || b.Value.Hi <= b.Value.Mean {
		t.Errorf("%+v: want three runs each to tell 15 s from 23 s, with an interval", b)
	}
	// Without prices only time is known.
	for i := range list {
		list[i].CostUSD, list[i].Rates = nan, cost.Rates{}
	}
	if best := analyze(list, Options{}).Models[0].Best; len(best) != 1 || best[0].By != "time" {
		t.Errorf("%+v: want only the fastest where nothing has a price", best)
	}
}

func TestCurvesHoldTheOtherKnobs(t *testing.T) {
	at := func(id string, gpus, cpus, batch, speed float64) history.Entry {
		return ran(id, "m", gpus, cpus, 10, 50_000/speed, func(e *history.Entry) { e.Observed.Batch = batch })
	}
	for name, c := range map[string]struct {
		entries []history.Entry
		want    []string // knob, fixed knobs, settings
	}{
		"GPUs alone":                   {[]history.Entry{at("a", 1, 8, 64, 100), at("b", 2, 8, 64, 190)}, []string{"gpus: 8 CPU, batch 64: 1 2"}},
		"batch grows with the GPUs":    {[]history.Entry{at("a", 1, 8, 64, 100), at("b", 4, 8, 256, 380)}, []string{"gpus: 8 CPU, batch per GPU 64: 1 4"}},
		"all grows with the GPUs":      {[]history.Entry{at("a", 1, 8, 64, 100), at("b", 2, 16, 128, 200)}, []string{"gpus: 8 CPU per GPU, batch per GPU 64: 1 2"}},
		"two knobs at once":            {[]history.Entry{at("a", 1, 8, 64, 100), at("b", 2, 12, 300, 200)}, nil},
		"CPUs":                         {[]history.Entry{at("a", 0, 2, 64, 100), at("b", 0, 8, 64, 300), at("c", 0, 4, 64, 190)}, []string{"cpus: no GPU, batch 64: 2 4 8"}},
		"batch":                        {[]history.Entry{at("a", 1, 8, 64, 100), at("b", 1, 8, 128, 110)}, []string{"batch_size: 1 GPU, 8 CPU: 64 128"}},
		"another GPU is another curve": {[]history.Entry{at("a", 1, 8, 64, 100), func() history.Entry { e := at("b", 2, 8, 64, 100); e.Observed.GPU = "T4"; return e }()}, nil},
		"one setting":                  {[]history.Entry{at("a", 1, 8, 64, 100), at("b", 1, 8, 64, 101)}, nil},
	} {
		var got []string
		for _, curve := range analyze(c.entries, Options{}).Models[0].Curves {
			words := curve.Knob + ": " + curve.Held + ":"
			for _, p := range curve.Points {
				words += " " + plain(p.At)
			}
			got = append(got, words)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	curve := analyze([]history.Entry{at("a", 1, 8, 64, 100), at("b", 2, 8, 64, 160), at("c", 2, 8, 64, 250)}, Options{}).Models[0].Curves[0]
	if p := curve.Points[1]; !near(float64(p.Speed.Mean), 200) || !near(float64(p.Speedup.Mean), 2) || !near(float64(p.Efficiency.Mean), 1) || p.Speed.Runs != 2 || !p.Speed.Lo.Known() || p.Speedup.Lo.Known() {
		t.Errorf("%+v: want the geometric mean of 160 and 250 with an interval, twice the speed, and no interval of a ratio to a single run", p)
	}
}

// Several probes of one training at a setting are one observation.
func TestOneTrainingIsOneObservation(t *testing.T) {
	list := []history.Entry{ran("a", "m", 1, 8, 10, 100, nil), ran("b", "m", 2, 8, 10, 50, nil)}
	for i, unit := range []float64{60, 40} {
		p := ran("b/probe-"+string(rune('1'+i)), "m", 2, 8, 1, unit, nil)
		p.Kind, p.Parent = history.Probe, "b"
		list = append(list, p)
	}
	r := analyze(list, Options{})
	if p := r.Models[0].Curves[0].Points[1]; p.Speed.Runs != 1 || len(p.RunIDs) != 3 {
		t.Errorf("%+v: want one observation of three stretches", p)
	}
	if r.Runs != 2 || r.Probes != 2 || r.Totals.Runs != 2 {
		t.Errorf("%d runs, %d probes: the cost of probes is their runs'", r.Runs, r.Probes)
	}
}

// Unfinished runs and published measurements are not runs; the report notes that they are omitted.
func TestOnlyEndedRunsCount(t *testing.T) {
	list := []history.Entry{ran("a", "m", 1, 8, 10, 100, nil)}
	for _, state := range []string{"running", "planned"} {
		list = append(list, ran(state, "m", 2, 8, 10, 1, func(e *history.Entry) { e.State = state }))
	}
	published := ran("table", "m", 2, 8, 10, 1, nil)
	published.Kind = history.Table
	r := analyze(append(list, published), Options{})
	notes := strings.Join(r.Notes, "\n")
	if r.Runs != 1 || r.Models[0].Best[0].Configs != 1 || !strings.Contains(notes, "2 runs have not ended") || !strings.Contains(notes, "1 published measurement") {
		t.Errorf("%d runs, notes %q", r.Runs, notes)
	}
}

func TestMoneyWithoutWork(t *testing.T) {
	busy := func(gpu, cpu, memory float64) func(*history.Entry) {
		return func(e *history.Entry) { e.GPUUtil, e.CPUUtil, e.GPUMemoryGiB = gpu, cpu, memory }
	}
	for name, c := range map[string]struct {
		entries []history.Entry
		cause   string // of the first finding; "" for none
		usd     float64
	}{
		"busy":                       {[]history.Entry{ran("a", "m", 1, 0, 10, 359, busy(90, 50, 10))}, "", 0},
		"idle":                       {[]history.Entry{ran("a", "m", 1, 0, 10, 359, busy(0, 50, 10))}, "idle", 2},
		"waits for input":            {[]history.Entry{ran("a", "m", 1, 0, 10, 359, busy(25, 99, 10))}, "input-bound", 1.5},
		"never on the GPU":           {[]history.Entry{ran("a", "m", 1, 0, 10, 359, busy(0, 50, 0))}, "not-on-gpu", 2},
		"not measured":               {[]history.Entry{ran("a", "m", 1, 0, 10, 359, busy(nan, 50, 10))}, "columns-absent", nan},
		"no GPU":                     {[]history.Entry{ran("a", "m", 0, 8, 10, 359, busy(nan, 99, nan))}, "", 0},
		"no price":                   {[]history.Entry{ran("a", "m", 1, 0, 10, 359, func(e *history.Entry) { e.GPUUtil, e.Rates, e.CostUSD = 1, cost.Rates{}, nan })}, "idle", nan},
		"failed":                     {[]history.Entry{ran("a", "m", 1, 0, 10, 359, func(e *history.Entry) { e.State = "failed" })}, "failed", 2},
		"twice the GPUs for nothing": {[]history.Entry{ran("a", "m", 1, 0, 10, 359, nil), ran("b", "m", 2, 0, 10, 359, nil)}, "flat-gpus", 2},
		"twice the GPUs for 15 %":    {[]history.Entry{ran("a", "m", 1, 0, 10, 359, nil), ran("b", "m", 2, 0, 10, 312, nil)}, "", 0},
		"twice the CPUs for nothing": {[]history.Entry{ran("a", "m", 0, 20, 10, 359, nil), ran("b", "m", 0, 40, 10, 359, nil)}, "flat-cpus", 1},
		"four times the batch":       {[]history.Entry{ran("a", "m", 1, 0, 10, 359, nil), ran("b", "m", 1, 0, 10, 359, func(e *history.Entry) { e.Observed.Batch = 1024 })}, "flat-batch", nan},
		"batch on CPUs":              {[]history.Entry{ran("a", "m", 0, 8, 10, 359, nil), ran("b", "m", 0, 8, 10, 359, func(e *history.Entry) { e.Observed.Batch = 1024 })}, "", 0},
	} {
		found := analyze(c.entries, Options{}).Findings
		switch {
		case c.cause == "" && len(found) > 0, c.cause != "" && len(found) != 1:
			t.Errorf("%s: %+v, want %q", name, found, c.cause)
		case c.cause != "" && (found[0].Cause != c.cause || !near(float64(found[0].LostUSD), c.usd)):
			t.Errorf("%s: %s, $%v, want %s, $%v", name, found[0].Cause, found[0].LostUSD, c.cause, c.usd)
		case c.cause != "" && (causes[found[0].Cause] == "" || found[0].Evidence == "" || found[0].Advice == ""):
			t.Errorf("%s: %+v has no words", name, found[0])
		}
	}
}

func TestJudge(t *testing.T) {
	limits := sla.Spec{TimeMax: 100e9, CostMaxUSD: 1, ThroughputMin: 400, MemoryMaxGiB: 8, GPUUtilMinPct: 50, CPUUtilMinPct: 50}
	good := func(e *history.Entry) { e.Seconds, e.CostUSD, e.PeakMemoryGiB, e.State = 90, .5, 4, "done" }
	for name, c := range map[string]struct {
		change func(*history.Entry)
		want   string // of time, cost, throughput, memory, GPU, CPU: met, violated or unknown
	}{
		"met":                {nil, "mmmmmm"},
		"late and dear":      {func(e *history.Entry) { e.Seconds, e.CostUSD = 101, 1.01 }, "vvmmmm"},
		"slow, fat and idle": {func(e *history.Entry) { e.Throughput, e.PeakMemoryGiB, e.GPUUtil, e.CPUUtil = 399, 8.1, 49, 49 }, "mmvvvv"},
		"nothing measured":   {func(e *history.Entry) { *e = history.NewEntry(history.Run, "a") }, "uuuuuu"},
		"no GPU":             {func(e *history.Entry) { e.Observed.GPUs, e.GPUUtil = 0, nan }, "mmmmum"},
		"failed within":      {func(e *history.Entry) { e.State = "failed" }, "uuuuuu"},
		"stopped beyond":     {func(e *history.Entry) { e.State, e.Seconds, e.CostUSD = "stopped", 101, 2 }, "vvuuuu"},
	} {
		e := ran("a", "m", 1, 8, 10, 100, good)
		if c.change != nil {
			c.change(&e)
		}
		got := ""
		r := newRun(e, nil)
		for _, v := range r.judge(limits) {
			got += string(map[sla.Status]byte{sla.Met: 'm', sla.Violated: 'v', sla.Unknown: 'u'}[v.Status])
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	r := analyze([]history.Entry{ran("a", "m", 1, 8, 10, 100, nil), ran("b", "m", 1, 8, 10, 30, nil), ran("c", "m", 1, 8, 10, 20, nil)}, Options{Limits: sla.Spec{TimeMax: 500e9}})
	if a := r.Agreement; len(a.Terms) != 1 || a.Terms[0].Violated != 1 || !near(float64(a.Terms[0].Share), 1./3) || len(a.Broken) != 1 || !near(float64(a.Broken[0].OverPct), 102) {
		t.Errorf("%+v: want one of three beyond 500 s, by 102 %%", a)
	}
	if analyze(nil, Options{}).Agreement != nil {
		t.Error("limits without any given")
	}
}
