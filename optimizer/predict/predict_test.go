package predict

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// TestAskKnownAnswer: ten hours on a T4 at half a dollar, and all derived values.
func TestAskKnownAnswer(t *testing.T) {
	a := ask(t, newFake(), asking(func(q *Question) { q.Preference = plan.Preference{Cost: 1} }))
	o := a.Options[a.Chosen]
	if o.Machine != "sky:t1" || o.Market != marketOnDemand {
		t.Fatalf("chosen %s %s, want the T4 on demand", o.Machine, o.Market)
	}
	f := math.Exp(z95 * 0.2)
	for name, v := range map[string][2]float64{
		"time":       {o.Seconds.P50, 36000},
		"time P5":    {o.Seconds.P5, 36000 / f},
		"time P95":   {o.Seconds.P95, 36000 * f},
		"cost":       {o.CostUSD.P50, 5},
		"cost P95":   {o.CostUSD.P95, 5 * f},
		"paid hours": {o.PaidHours.P50, 10},
		"resources":  {o.Resource, 1. / 8},
	} {
		if !near(v[0], v[1], 1e-9) {
			t.Errorf("%s is %g, want %g", name, v[0], v[1])
		}
	}
	if o.Fit != fits || o.Interruption != 0 || !o.OnFront || !a.Feasible || a.Nearest != "" {
		t.Errorf("%+v: want it to fit, without interruptions, on the front", o)
	}
	if a.Work.Quantity != transfer.Throughput || a.Work.Amount.P50 != 3.6e6 {
		t.Errorf("work %+v, want 3.6 million samples", a.Work)
	}
	for _, o := range a.Options {
		if o.Offer.GPUs == 0 {
			t.Errorf("%s without GPUs is weighed for a job with", o.Machine)
		}
	}
}

// TestPreferences: the cheapest, the fastest and a balanced choice.
func TestPreferences(t *testing.T) {
	for prefer, want := range map[string]string{"cost": "sky:a1", "time": "sky:a8", "resource": "sky:a1"} {
		p, _ := plan.ParsePreference(prefer)
		f := newFake()
		f.speed["A100 40GB"] = 900 // speed of 8 T4 at 8 times the price: slightly cheaper
		if a := ask(t, f, asking(func(q *Question) { q.Preference = p })); chosen(a) != want {
			t.Errorf("--prefer %s chooses %s, want %s", prefer, chosen(a), want)
		}
	}
}

// TestLimits: the choice under a deadline and a budget, and the explanation when none is feasible.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		deadline time.Duration
		budget   cost.USD
		feasible bool
		chosen   string
		nearest  []string
	}{
		"none":                       {0, 0, true, "sky:t1", nil},
		"a day":                      {24 * time.Hour, 0, true, "sky:t1", nil},
		"not on one T4":              {12 * time.Hour, 0, true, "sky:a1", nil},
		"only eight are fast enough": {40 * time.Minute, 0, true, "sky:a8", nil},
		"nothing is":                 {10 * time.Minute, 0, false, "", []string{"a deadline of 19 m 00 s would do", "sky:a8"}},
		"a small budget":             {0, 7, true, "sky:t1", nil},
		"too small a budget":         {0, 3, false, "", []string{"a budget of $6.95 would do", "sky:t1"}},
		"each holds, not both":       {40 * time.Minute, 8, false, "", []string{"a deadline of 2 h 00 m would do", "a budget of $9.78 would do"}},
		"none of both":               {time.Minute, 1, false, "", []string{"neither would one of them alone"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(t, newFake(), asking(func(q *Question) {
				q.Deadline, q.Budget, q.Preference = c.deadline, c.budget, plan.Preference{Cost: 1}
			}))
			if a.Feasible != c.feasible || c.chosen != "" && chosen(a) != c.chosen {
				t.Errorf("feasible %t, chosen %s; want %t, %s", a.Feasible, chosen(a), c.feasible, c.chosen)
			}
			for _, part := range c.nearest {
				if !strings.Contains(a.Nearest, part) {
					t.Errorf("nearest %q does not say %q", a.Nearest, part)
				}
			}
			if c.feasible && a.Nearest != "" {
				t.Errorf("nearest %q where the limits hold", a.Nearest)
			}
		})
	}
}

// TestChance: the probabilities of a log-normal distribution, and edge cases.
func TestChance(t *testing.T) {
	i := around(100, 0.5)
	for name, c := range map[string][2]float64{
		"no limit": {0, 1}, "the median": {100, 0.5}, "P95": {i.P95, 0.95}, "P5": {i.P5, 0.05}, "one deviation": {100 * math.Exp(0.5), 0.841345},
	} {
		if got := chance(i, c[0]); math.Abs(got-c[1]) > 1e-6 {
			t.Errorf("%s: %g, want %g", name, got, c[1])
		}
	}
	skewed := sla.Interval{P5: 90, P50: 100, P95: 200}
	if p := chance(skewed, 90); math.Abs(p-0.05) > 1e-6 {
		t.Errorf("P5 of a skewed interval: %g, want 0.05", p)
	}
	if p := chance(skewed, 199.999); math.Abs(p-0.95) > 1e-4 {
		t.Errorf("just below P95 of a skewed interval: %g, want 0.95", p)
	}
	if chance(exactly(5), 5) < sure || chance(exactly(5), 4) != 0 || chance(exactly(5), 6) != 1 {
		t.Error("an exact value keeps a limit or does not")
	}
}

// TestWork: the sources of the amount of work.
func TestWork(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Question)
		entries  []history.Entry
		units    float64
		train    float64
		quantity transfer.Quantity
		amount   float64
		unit     string
		words    string
		wide     bool
	}{
		"epochs and samples": {nil, nil, 0, 0, transfer.Throughput, 3.6e6, "samples", "10 epochs of 360,000 samples", false},
		"the own log, epochs asked": {func(q *Question) { q.Job.ScriptSHA256 = "abc" }, []history.Entry{ran("r1", 20, 1)}, 3.6e5, 0,
			transfer.UnitRate, 10, "epochs", "10 epochs of its log", false},
		"the own log, as long as the newest": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs = "abc", math.NaN() }, []history.Entry{ran("r1", 30, 1), ran("r2", 20, 2)}, 3.6e5, 0,
			transfer.UnitRate, 20, "epochs", "20 epochs, as run r2 did; 2 finished runs differ", true},
		"the own log, runs alike": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs = "abc", math.NaN() }, []history.Entry{ran("r1", 20, 1), ran("r2", 20, 2)}, 3.6e5, 0,
			transfer.UnitRate, 20, "epochs", "20 epochs, as run r2 did", false},
		"steps of the own log": {func(q *Question) { q.Same, q.Job.Epochs = []string{"r3"}, 5 }, []history.Entry{func() history.Entry {
			e := ran("r3", 1000, 3)
			e.Unit, e.Job.Epochs = "step", 10
			return e
		}()}, 3.6e3, 0, transfer.UnitRate, 500, "steps", "500 steps for 5 epochs", false},
		"steps, the newest run stopped": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs = "abc", math.NaN() }, []history.Entry{func() history.Entry {
			e := ran("r1", 1000, 1)
			e.Unit = "step"
			return e
		}(), func() history.Entry {
			e := ran("r2", 50, 2)
			e.Unit, e.State = "step", "stopped"
			return e
		}()}, 3.6e3, 0, transfer.UnitRate, 1000, "steps", "1,000 steps, as run r1 did", false},
		"like a long run, a short one is newer": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs, q.Same = "abc", math.NaN(), []string{"long"} },
			[]history.Entry{inSteps("long", 10_000, 1), inSteps("short", 100, 2)}, 3.6e3, 0, transfer.UnitRate, 10_000, "steps", "10,000 steps, as run long did", false},
		"like a run in steps, others have epochs": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs, q.Same = "abc", math.NaN(), []string{"long"} },
			[]history.Entry{inSteps("long", 10_000, 1), ran("r2", 20, 2), ran("r3", 20, 3)}, 3.6e3, 0, transfer.UnitRate, 10_000, "steps", "10,000 steps, as run long did", false},
		"epochs asked of a run in steps, others have epochs": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs, q.Same = "abc", 200, []string{"r3"} },
			[]history.Entry{ran("r1", 20, 1), ran("r2", 20, 2), inSteps("r3", 18, 3)}, 3.6e3, 0, transfer.UnitRate, 200, "epochs", "200 epochs of its log", false},
		"epochs asked of a run in steps, as the others": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs, q.Same = "abc", 200, []string{"long"} },
			[]history.Entry{inSteps("long", 10_000, 1), inSteps("short", 100, 2)}, 3.6e3, 0, transfer.UnitRate, 10_000, "steps", "10,000 steps, as run long did", false},
		"like a whole run, a short one is newer": {func(q *Question) {
			q.Job.ScriptSHA256, q.Job.DataCount, q.Job.Epochs, q.Same = "abc", math.NaN(), 40, []string{"long"}
		}, []history.Entry{ran("long", 20, 1), ran("short", 1, 2)}, 0, 3.6e6, transfer.Trainings, 2, "trainings", "40 epochs; run long did 20", false},
		"like a stopped run": {func(q *Question) { q.Job.ScriptSHA256, q.Job.Epochs, q.Same = "abc", math.NaN(), []string{"r2"} },
			[]history.Entry{inSteps("r1", 1000, 1), func() history.Entry {
				e := inSteps("r2", 50, 2)
				e.State = "stopped"
				return e
			}()}, 3.6e3, 0, transfer.UnitRate, 1000, "steps", "1,000 steps, as run r1 did", false},
		"epochs asked, the run stopped": {func(q *Question) { q.Job.ScriptSHA256 = "abc" }, []history.Entry{func() history.Entry {
			e := ran("r1", 4, 1)
			e.State = "stopped"
			return e
		}()}, 3.6e5, 0, transfer.UnitRate, 10, "epochs", "10 epochs of its log", false},
		"twice the samples": {func(q *Question) { q.Job.ScriptSHA256, q.Job.DataCount = "abc", 2000 }, []history.Entry{func() history.Entry {
			e := ran("r1", 10, 1)
			e.Job.DataCount = 1000
			return e
		}()}, 1000, 0, transfer.UnitRate, 20, "epochs", "times 2.00 for 2,000 samples", false},
		"a whole training": {func(q *Question) { q.Job.DataCount = math.NaN() }, []history.Entry{published("resnet50")}, 0, 3.6e6, transfer.Trainings, 1, "trainings", "one training to its target", false},
		"a whole run": {func(q *Question) { q.Job.ScriptSHA256, q.Job.DataCount, q.Job.Epochs = "abc", math.NaN(), 40 }, []history.Entry{ran("r1", 20, 1)}, 0, 3.6e6,
			transfer.Trainings, 2, "trainings", "40 epochs; run r1 did 20", false},
		"no run of the own log has a rate": {func(q *Question) { q.Job.ScriptSHA256 = "abc" }, []history.Entry{ran("r1", 20, 1)}, 0, 0,
			transfer.Throughput, 3.6e6, "samples", "10 epochs of", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.units, f.train = c.units, c.train
			a := ask(t, f, asking(c.change), c.entries...)
			w := a.Work
			if w.Quantity != c.quantity || !near(w.Amount.P50, c.amount, 1e-9) || w.Unit != c.unit || !strings.Contains(w.Words, c.words) {
				t.Errorf("%+v, want %s of %g %s: %s", w, c.quantity, c.amount, c.unit, c.words)
			}
			if wide := w.Amount.P95 > w.Amount.P5; wide != c.wide {
				t.Errorf("%+v: uncertain %t, want %t", w.Amount, wide, c.wide)
			}
		})
	}
}

// TestStartUp: the start-up time is added to the work; a note reports its absence.
func TestStartUp(t *testing.T) {
	f := newFake()
	f.units = 3.6e5
	with := ask(t, f, asking(func(q *Question) { q.Job.ScriptSHA256 = "abc" }), ran("r1", 10, 1))
	without := ask(t, f, asking(nil))
	if d := with.Configurations[0].Seconds.P50 - without.Configurations[0].Seconds.P50; !near(d, 30, 1e-6) {
		t.Errorf("a start-up of 30 s adds %g s", d)
	}
	said := func(a *answer) bool {
		return slices.ContainsFunc(a.Notes, func(n string) bool { return strings.Contains(n, "launch to the first work is not known") })
	}
	if said(with) || !said(without) {
		t.Errorf("notes %q and %q: want the second alone to say that the start-up is not known", with.Notes, without.Notes)
	}
}

// TestNoBasis: without a similar measurement, the error lists the missing information.
func TestNoBasis(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Question)
		speed  map[string]float64
		err    error
		words  []string
	}{
		"nothing measured":      {nil, map[string]float64{}, transfer.ErrNoBasis, []string{"no basis", "resnet50", "--like"}},
		"no work known":         {func(q *Question) { q.Job.Model, q.Job.Epochs = "", math.NaN() }, newFake().speed, transfer.ErrNoBasis, []string{"--epochs"}},
		"another training":      {func(q *Question) { q.Job.Model, q.Job.Epochs = "vgg16", math.NaN() }, newFake().speed, transfer.ErrNoBasis, []string{"--epochs"}},
		"nothing offered":       {func(q *Question) { q.GPUs = resources.Range{Min: 640, Max: 650} }, newFake().speed, ErrNoMachine, []string{"640 to 650 GPUs", "--gpus"}},
		"no machine":            {func(q *Question) { q.Machines = nil }, newFake().speed, ErrNoMachine, nil},
		"numbers that are none": {func(q *Question) { q.Job.Epochs, q.Budget = -1, -2 }, newFake().speed, nil, []string{"epochs -1", "budget -2"}},
		"CPU job with GPUs":     {func(q *Question) { q.CPUOnly, q.GPUs = true, resources.Range{Min: 1, Max: 2} }, newFake().speed, nil, []string{"the job uses none"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.speed, f.train = c.speed, 3.6e6
			a, err := Ask(asking(c.change), []history.Entry{published("resnet50")}, f.learn)
			if err == nil || c.err != nil && !errors.Is(err, c.err) {
				t.Fatalf("%v, %v; want %v", a, err, c.err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	broken := errors.New("broken")
	f := newFake()
	f.fails = broken
	if _, err := Ask(asking(nil), nil, f.learn); !errors.Is(err, broken) {
		t.Errorf("%v: a failure of the predictor is not a lack of basis", err)
	}
}

// TestFit: machines that are too small are omitted, and unknown requirements are reported.
func TestFit(t *testing.T) {
	fit := func(a *answer, machine string) (fitKind, string) {
		for _, o := range a.Options {
			if o.Machine == machine {
				return o.Fit, o.Lacks
			}
		}
		return "", "not among the options"
	}
	for name, c := range map[string]struct {
		change func(*fake, *Question)
		want   fitKind
		lacks  string
	}{
		"small":               {func(*fake, *Question) {}, fits, ""},
		"the GPU is too full": {func(f *fake, _ *Question) { f.gpu = 15 }, doesNotFit, "16 GiB per GPU"},
		"P95 is too much":     {func(f *fake, _ *Question) { f.gpu, f.memory = 12, 0.3 }, doesNotFit, "GiB per GPU"},
		"the host is":         {func(f *fake, _ *Question) { f.host = 31 }, doesNotFit, "32 GiB of memory"},
		"GPU not known":       {func(f *fake, _ *Question) { f.gpu = math.NaN() }, notChecked, "GPU memory not known: fit not checked"},
		"host not known":      {func(f *fake, _ *Question) { f.host = math.NaN() }, notChecked, "host memory not known: fit not checked"},
	} {
		t.Run(name, func(t *testing.T) {
			f, q := newFake(), asking(nil)
			c.change(f, q)
			a := ask(t, f, q)
			if got, lacks := fit(a, "sky:t1"); got != c.want || !strings.Contains(lacks, c.lacks) {
				t.Errorf("%s, %q; want %s, %q", got, lacks, c.want, c.lacks)
			}
			for _, i := range append(slices.Clone(a.OnDemand), a.SpotCapacity...) {
				if a.Options[i].Fit == doesNotFit {
					t.Errorf("%s does not fit and is listed", a.Options[i].Machine)
				}
			}
		})
	}
	f := newFake()
	f.gpu = 100
	if a := ask(t, f, asking(nil)); a.Chosen >= 0 || !strings.Contains(a.Nearest, "none of the") || a.Feasible {
		t.Errorf("chosen %d, %q: nothing fits", a.Chosen, a.Nearest)
	}
}

// TestMachines: the enumerated configurations.
func TestMachines(t *testing.T) {
	own := machine{Offer: cost.Offer{Type: "this machine", GPU: "T4", GPUs: 6, CPUs: 24, Memory: 96}, Rates: &cost.Rates{GPUHour: 1, CPUHour: 0.1}, Divide: true}
	for name, c := range map[string]struct {
		change func(*Question)
		want   []string
	}{
		"all with GPUs": {nil, []string{"1 × T4", "4 × T4", "1 × V100 16GB", "8 × V100 16GB", "1 × A100 40GB", "8 × A100 40GB"}},
		"without":       {func(q *Question) { q.CPUOnly = true }, []string{"8 CPUs"}},
		"a range":       {func(q *Question) { q.GPUs = resources.Range{Min: 2, Max: 4} }, []string{"4 × T4"}},
		"one GPU":       {func(q *Question) { q.OneGPU = true }, []string{"1 × T4", "1 × V100 16GB", "1 × A100 40GB"}},
		"several machines": {func(q *Question) { q.GPUs = resources.Range{Min: 16, Max: 16} },
			[]string{"4 machines of 4 × T4", "2 machines of 8 × V100 16GB", "2 machines of 8 × A100 40GB"}},
		"CPUs beside":  {func(q *Question) { q.CPUs = resources.Range{Min: 9, Max: 40} }, []string{"4 × T4"}},
		"own":          {func(q *Question) { q.Machines = []machine{own} }, []string{"1 × T4", "2 × T4", "4 × T4", "6 × T4"}},
		"own CPUs":     {func(q *Question) { q.Machines, q.CPUOnly = []machine{own}, true }, []string{"1 CPU", "2 CPUs", "4 CPUs", "8 CPUs", "16 CPUs", "24 CPUs"}},
		"own, a range": {func(q *Question) { q.Machines, q.GPUs = []machine{own}, resources.Range{Min: 2, Max: 8} }, []string{"2 × T4", "4 × T4", "6 × T4"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, x := range ask(t, newFake(), asking(c.change)).Configurations {
				got = append(got, x.words())
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	a := ask(t, newFake(), asking(func(q *Question) { q.Machines = []machine{own} }))
	if o := a.Options[0]; o.Market != marketOwned || !near(float64(o.Hourly), 1+4*0.1, 1e-9) {
		t.Errorf("%+v: a sixth of the own machine costs 1 GPU and 4 CPUs", o)
	}
}

// TestPruning: of too many configurations, the measured ones are kept.
func TestPruning(t *testing.T) {
	q := asking(func(q *Question) { q.Job.ScriptSHA256 = "abc" })
	f := newFake()
	q.Machines = nil
	for k := 1; k <= 60; k++ {
		q.Machines = append(q.Machines, offer(string(rune('a'+k%26))+strings.Repeat("x", k/26), "T4", k, cost.USD(k), 0))
	}
	q.Machines = append(q.Machines, offer("dear", "K80", 1, 500, 0))
	f.speed["K80"] = 1
	e := ran("r1", 10, 1)
	e.Observed.GPU = "K80"
	a := ask(t, f, q, e)
	if len(a.Configurations) != mostConfigurations {
		t.Errorf("%d configurations, want %d", len(a.Configurations), mostConfigurations)
	}
	if !slices.ContainsFunc(a.Configurations, func(c configuration) bool { return c.GPU == "K80" }) {
		t.Error("the GPU that the training was measured on is left out")
	}
	if !strings.Contains(strings.Join(a.Notes, "; "), "40 of 61 configurations are weighed") {
		t.Errorf("notes %q do not say what was left out", a.Notes)
	}
}

// TestSpot: interruptions cost money and time and are reported separately; they cost more for a job that does not
// resume.
func TestSpot(t *testing.T) {
	yes, no := true, false
	last := 0.0
	for _, resumable := range []*bool{&yes, &no} {
		a := ask(t, newFake(), asking(func(q *Question) { q.Resumable, q.Market, q.Preference = resumable, Spot, plan.Preference{Cost: 1} }))
		o := a.Options[slices.IndexFunc(a.Options, func(o option) bool { return o.Machine == "sky:v8" && o.Market == Spot })]
		c := a.Configurations[o.Config]
		undisturbed := c.Seconds.P50 / 3600 * 8
		if !near(o.CostUSD.P50, undisturbed+float64(o.Interruption), 1e-9) || !(o.Interruption > 0) || !(o.Seconds.P50 > c.Seconds.P50) {
			t.Errorf("%+v: want the undisturbed $%.2f and the interruptions, and more time than %.0f s", o, undisturbed, c.Seconds.P50)
		}
		if float64(o.Interruption) <= last {
			t.Errorf("interruptions cost %g when it does not resume, %g when it does", float64(o.Interruption), last)
		}
		last = float64(o.Interruption)
		if a.Options[a.Chosen].Market != Spot {
			t.Errorf("chosen %+v, want spot", a.Options[a.Chosen])
		}
		if !strings.Contains(strings.Join(a.Notes, "; "), "assumed") {
			t.Errorf("notes %q do not say what is assumed of spot capacity", a.Notes)
		}
	}
}

// TestSpotNotWorthIt: spot capacity that interruptions make more expensive than on demand is not listed; a note
// states the reason.
func TestSpotNotWorthIt(t *testing.T) {
	a := ask(t, newFake(), asking(func(q *Question) { q.Job.Epochs = 100 }))
	for _, i := range a.SpotCapacity {
		if o := a.Options[i]; o.CostUSD.P50 >= a.Configurations[o.Config].Seconds.P50/3600*float64(o.Offer.OnDemand) {
			t.Errorf("%s costs %.2f on spot capacity and is listed", o.Machine, o.CostUSD.P50)
		}
	}
	if len(a.SpotCapacity) > 0 && a.Options[a.SpotCapacity[0]].Config == 0 {
		t.Error("a hundred hours on a T4 begun again and again are listed")
	}
	a = ask(t, newFake(), asking(func(q *Question) { q.Job.Epochs, q.Machines = 100, q.Machines[:1] }))
	if len(a.SpotCapacity) != 0 || len(a.Options) != 1 || !strings.Contains(strings.Join(a.Notes, "; "), "1 option on spot capacity left out: interrupted as often as is assumed, the job would hardly ever end") {
		t.Errorf("%v, %d options, %q: want none on spot capacity, and why", a.SpotCapacity, len(a.Options), a.Notes)
	}
	a = ask(t, newFake(), asking(func(q *Question) { q.Job.Epochs, q.Machines, q.Market = 100, q.Machines[:1], Spot }))
	if a.Chosen >= 0 || a.Feasible || !strings.Contains(a.Nearest, "--spot") {
		t.Errorf("chosen %d, nearest %q: want nothing, and why", a.Chosen, a.Nearest)
	}
	a = ask(t, newFake(), asking(func(q *Question) {
		q.Market, q.Machines[0].Offer.GPUMemory = Spot, 1
		for i := range q.Machines {
			q.Machines[i].Offer.Spot = 0
		}
	}))
	if a.Chosen >= 0 || strings.Contains(a.Nearest, "lacks") || !strings.Contains(a.Nearest, "leave out --spot") {
		t.Errorf("chosen %d, nearest %q: want that none has a price of spot capacity", a.Chosen, a.Nearest)
	}
	a = ask(t, newFake(), asking(func(q *Question) { q.Job.Epochs, q.Machines[0].Offer.Spot, q.Machines = 5, 0.4, q.Machines[:1] }))
	if len(a.SpotCapacity) != 0 || !strings.Contains(strings.Join(a.Notes, "; "), "spot capacity is expected to cost more than on demand") {
		t.Errorf("%v, %q: want no spot capacity, and why", a.SpotCapacity, a.Notes)
	}
	for _, epochs := range []float64{1, 10, 100, 1e4, 1e6} {
		a = ask(t, newFake(), asking(func(q *Question) { q.Job.Epochs = epochs }))
		for _, o := range a.Options {
			if most := endless * a.Configurations[o.Config].Seconds.P95; o.Seconds.P95 > most {
				t.Errorf("%g epochs: %s %s takes up to %g s, which is no end", epochs, o.Machine, o.Market, o.Seconds.P95)
			}
		}
	}
}

// TestSeveralMachines: each machine may be interrupted, and each is paid for.
func TestSeveralMachines(t *testing.T) {
	yes := true
	ratio := map[int]float64{}
	for _, gpus := range []int{8, 16} {
		a := ask(t, newFake(), asking(func(q *Question) {
			q.Job.Epochs, q.GPUs, q.Resumable, q.Machines = 200, resources.Range{Min: gpus, Max: gpus}, &yes, []machine{offer("v8", "V100 16GB", 8, 24, 8)}
		}))
		for _, o := range a.Options {
			if want := o.Offer.OnDemand * cost.USD(gpus/8); o.Market == marketOnDemand && o.Hourly != want {
				t.Errorf("%d GPUs cost %g an hour, want %g", gpus, float64(o.Hourly), float64(want))
			}
			if o.Market == Spot {
				ratio[gpus] = float64(o.Interruption) / (o.CostUSD.P50 - float64(o.Interruption))
			}
		}
	}
	if r := ratio[16] / ratio[8]; r < 1.8 {
		t.Errorf("interruptions of two machines cost %.2f times as much of the whole as of one, want about twice", r)
	}
}

// TestSmallBatch: no more GPUs than samples per step.
func TestSmallBatch(t *testing.T) {
	for _, c := range ask(t, newFake(), asking(func(q *Question) { q.Batch = 4 })).Configurations {
		if c.GPUs > 4 {
			t.Errorf("%s for four samples a step", c.words())
		}
	}
}

// TestOwnUnits: rates in units other than that of the work are excluded from the fit.
func TestOwnUnits(t *testing.T) {
	f := newFake()
	f.units = 3.6e5
	var learned [][]history.Entry
	steps := ran("r2", 999, 2)
	steps.Unit = "step"
	_, err := Ask(asking(func(q *Question) { q.Job.ScriptSHA256 = "abc" }), []history.Entry{ran("r1", 10, 1), ran("r3", 10, 3), steps, published("resnet50")}, func(list []history.Entry) Predictor {
		learned = append(learned, list)
		return f.learn(list)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range learned[1] { // the first fit is of all entries
		if e.Unit != "epoch" {
			t.Errorf("the rate of epochs is learned from %s in %ss", e.ID, e.Unit)
		}
	}
}

// TestChanges: a change is listed exactly when it changes the choice, with its saving.
func TestChanges(t *testing.T) {
	kinds := func(a *answer) map[string]change {
		out := map[string]change{}
		for _, c := range a.Changes {
			out[c.Kind] = c
		}
		return out
	}
	a := ask(t, newFake(), asking(func(q *Question) { q.Deadline, q.Preference = 12*time.Hour, plan.Preference{Cost: 1} }))
	c, ok := kinds(a)[byDeadline]
	if !ok || chosen(a) != "sky:a1" || a.Options[c.Option].Machine != "sky:t1" || !strings.Contains(strings.ReplaceAll(c.Words, page.Blank, " "), "a deadline of 14 h 00 m instead") {
		t.Errorf("chosen %s, %+v: want that a longer deadline allows the T4", chosen(a), a.Changes)
	}
	a = ask(t, newFake(), asking(func(q *Question) { q.Deadline, q.Preference = 10*time.Minute*2, plan.Preference{Time: 1} }))
	if c, ok := kinds(a)[byDeadline]; ok && a.Options[c.Option].CostUSD.P50 >= a.Options[a.Chosen].CostUSD.P50 {
		t.Errorf("%+v: a longer deadline for nothing cheaper", c)
	}
	a = ask(t, newFake(), asking(func(q *Question) { q.Budget, q.Preference = 7, plan.Preference{Time: 1} }))
	c, ok = kinds(a)[byBudget]
	if !ok || a.Options[c.Option].Seconds.P50 >= a.Options[a.Chosen].Seconds.P50 {
		t.Errorf("chosen %s, %+v: want that a larger budget allows a faster one", chosen(a), a.Changes)
	}
	a = ask(t, newFake(), asking(func(q *Question) { q.Preference = plan.Preference{Cost: 1} }))
	if _, ok := kinds(a)[byDeadline]; ok {
		t.Errorf("%+v: a deadline where there is none", a.Changes)
	}
	if _, ok := kinds(a)[byEpochs]; ok {
		t.Errorf("%+v: twice the epochs does not change which is cheapest", a.Changes)
	}
	if a = ask(t, newFake(), asking(func(q *Question) { q.Deadline, q.Preference = 20*time.Hour, plan.Preference{Cost: 1} })); chosen(a) != "sky:t1" {
		t.Fatalf("chosen %s", chosen(a))
	}
	if c, ok := kinds(a)[byEpochs]; !ok || a.Options[c.Option].Machine == "sky:t1" {
		t.Errorf("%+v: twice the epochs does not keep the deadline on a T4", a.Changes)
	}
	u := a.Uncertainty
	if u.Probe == nil || !(u.Probe.Seconds.P95/u.Probe.Seconds.P5 < a.Configurations[a.Options[a.Chosen].Config].Seconds.P95/a.Configurations[a.Options[a.Chosen].Config].Seconds.P5) {
		t.Errorf("%+v: a probe narrows the interval", u)
	}
	if !near(u.Work+u.Rate+u.Startup, 1, 1e-9) || u.Rate < 0.99 {
		t.Errorf("%+v: all of the uncertainty is the speed's", u)
	}
}

// TestBasisWords: runs by name, similar trainings with their similarity, publications with their source, and the
// share without evidence.
func TestBasisWords(t *testing.T) {
	run, table := ran("20261120-093000-ab12", 10, 1), history.NewEntry(history.Table, "gavel-1")
	table.Source = "Gavel"
	vgg := ran("20261001-1", 5, 1)
	vgg.Job.Model, vgg.Job.ScriptSHA256 = "vgg16", "def"
	e := transfer.Estimate{Basis: []transfer.BasisGroup{
		{Job: run.Job, Entries: []string{run.ID}, Similarity: 1, Weight: 0.6},
		{Job: vgg.Job, Entries: []string{vgg.ID}, Similarity: 0.71, Weight: 0.2},
		{Source: "Gavel", Job: table.Job, Entries: []string{table.ID}, Similarity: 0.5, Weight: 0.1},
	}}
	got := basisWords(grounds(asking(func(q *Question) { q.Job.ScriptSHA256 = "abc" }), []history.Entry{run, table, vgg}, e), 0.1)
	want := "1 run of resnet50 (newest 20261120-093000-ab12), 1 similar (vgg16 0.71), public: Gavel, 10 % of it on no measurement of a similar training"
	if got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestProperties: invariants for any question.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake()
		f.sd = rapid.Float64Range(0.01, 0.8).Draw(t, "sd")
		q := asking(nil)
		q.Job.Epochs = rapid.Float64Range(0.1, 1000).Draw(t, "epochs")
		q.Deadline = time.Duration(rapid.Int64Range(0, 100).Draw(t, "deadline h")) * time.Hour
		q.Budget = cost.USD(rapid.IntRange(0, 100).Draw(t, "budget"))
		q.Preference = plan.Preference{Time: rapid.Float64Range(0, 1).Draw(t, "time"), Cost: rapid.Float64Range(0, 1).Draw(t, "cost"), Resource: 0.01}
		q.Market = rapid.SampledFrom([]market{marketOnDemand, Spot}).Draw(t, "market")
		twin := rapid.SampledFrom(sky()[:6]).Draw(t, "twin")
		twin.Offer.Type += "-dear"
		twin.Offer.Cloud = rapid.SampledFrom([]string{"sky", "sea"}).Draw(t, "cloud")
		twin.Offer.OnDemand, twin.Offer.Spot = twin.Offer.OnDemand*1.5, twin.Offer.Spot*1.5
		q.Machines = append(q.Machines, twin)
		a, err := Ask(q, nil, f.learn)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range a.Options {
			for _, i := range [][2]float64{{o.CostUSD.P5, o.PaidHours.P5}, {o.CostUSD.P50, o.PaidHours.P50}, {o.CostUSD.P95, o.PaidHours.P95}} {
				if !near(i[0], i[1]*float64(o.Hourly), 1e-9) {
					t.Fatalf("%+v: cost is not price × time", o)
				}
			}
			if !known(o.Seconds) || !known(o.CostUSD) || o.Chance < 0 || o.Chance > 1 || o.Resource < 0 || o.Resource > 1 {
				t.Fatalf("%+v", o)
			}
			if o.Feasible && (q.Deadline > 0 && o.Seconds.P95 > q.Deadline.Seconds()*(1+1e-9) || q.Budget > 0 && o.CostUSD.P95 > float64(q.Budget)*(1+1e-9)) {
				t.Fatalf("%+v: feasible beyond the limits", o)
			}
		}
		if a.Chosen < 0 {
			if q.Market != Spot || a.Endless == 0 || a.Nearest == "" {
				t.Fatal("nothing chosen")
			}
			return
		}
		c := a.Options[a.Chosen]
		if a.Feasible && !c.OnFront || !c.Chosen || c.Market != q.market() || strings.HasSuffix(c.Machine, "-dear") {
			t.Fatalf("chosen %+v: want one of the front in its market, and the cheaper of twins", c)
		}
		for _, list := range [][]int{a.OnDemand, a.SpotCapacity} {
			for k, i := range list {
				for _, j := range list[k+1:] {
					x, y := a.Options[i], a.Options[j]
					if x.Config == y.Config && y.CostUSD.P50 < x.CostUSD.P50 {
						t.Fatalf("the dearer %s stands above %s", x.Machine, y.Machine)
					}
				}
			}
		}
		for _, x := range a.Changes {
			if x.Option < 0 || x.Option >= len(a.Options) || x.Option == a.Chosen {
				t.Fatalf("%+v changes nothing", x)
			}
		}
		wider := *q
		wider.Deadline, wider.Budget = q.Deadline*2, q.Budget*2
		b, err := Ask(&wider, nil, f.learn)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Options {
			if a.Options[i].Feasible && !b.Options[i].Feasible {
				t.Fatalf("%+v is feasible, and not with wider limits", a.Options[i])
			}
		}
		if a.Feasible && !b.Feasible {
			t.Fatal("feasible, and not with wider limits")
		}
	})
}

// counting is a predictor that counts its queries.
type counting struct {
	Predictor
	mu    *sync.Mutex
	asked map[transfer.Quantity]int
}

func (c counting) Predict(q transfer.Query, what transfer.Quantity) (transfer.Estimate, error) {
	c.mu.Lock()
	c.asked[what]++
	c.mu.Unlock()
	return c.Predictor.Predict(q, what)
}

// TestAsksNoMoreThanItUses: whole trainings are predicted only when no other quantity has a basis.
func TestAsksNoMoreThanItUses(t *testing.T) {
	for name, c := range map[string]struct {
		epochs float64
		want   bool
	}{"the work is known": {10, false}, "it is not": {math.NaN(), true}} {
		f := newFake()
		f.train = 360_000
		asked := counting{mu: &sync.Mutex{}, asked: map[transfer.Quantity]int{}}
		_, err := Ask(asking(func(q *Question) { q.Job.Epochs = c.epochs }), nil, func(list []history.Entry) Predictor {
			asked.Predictor = f.learn(list)
			return asked
		})
		if err != nil && !errors.Is(err, transfer.ErrNoBasis) {
			t.Fatal(err)
		}
		if got := asked.asked[transfer.Trainings] > 0; got != c.want {
			t.Errorf("%s: whole trainings were asked for: %t, want %t", name, got, c.want)
		}
	}
}
