package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

func TestWords(t *testing.T) {
	cases := map[string][2]string{ // what → got, want
		"more":          {change(12.34), "+12.3 %"},
		"less":          {change(-12.34), "−12.3 %"},
		"no change":     {change(-.01), "0.0 %"},
		"not compared":  {change(nan), "not measured"},
		"interval":      {interval(sla.Interval{P5: 1, P50: 2, P95: 3}, page.Duration), "2 s (1 to 3 s)"},
		"no interval":   {interval(sla.Interval{}, page.Duration), page.NoData},
		"open interval": {interval(sla.Interval{P5: 1, P50: 2, P95: math.Inf(1)}, page.Duration), page.NoData},
		"command":       {strings.Join(quoted([]string{"a", "b c", "d'e", ""}), " "), `a 'b c' 'd'\''e' ''`},
	}
	for name, c := range cases {
		if got := page.PlainBlanks(c[0]); got != c[1] {
			t.Errorf("%s: %q, want %q", name, got, c[1])
		}
	}
}

func TestMoreOrLess(t *testing.T) {
	cases := map[string]struct {
		n    journal.Number
		i    *sla.Interval
		want string
		l    page.Light
	}{
		"beyond a percentage": {1790, &sla.Interval{P5: 1500, P50: 1790, P95: 2000}, "18.9 times (90 % CI 16.0 to 21.0 times)", page.Bad},
		"not measured":        {journal.Unknown(), nil, "not measured", page.Muted},
		"without an interval": {-5, nil, "−5.0 %", page.Good},
		"surely less":         {-20, &sla.Interval{P5: -30, P50: -20, P95: -10}, "−20.0 % (90 % CI −30.0 to −10.0 %)", page.Good},
		"surely more":         {20, &sla.Interval{P5: 10, P50: 20, P95: 30}, "+20.0 % (90 % CI +10.0 to +30.0 %)", page.Bad},
		"perhaps":             {-2, &sla.Interval{P5: -6, P50: -2, P95: 3}, "−2.0 % (90 % CI −6.0 to +3.0 %)", page.Dark},
	}
	for name, c := range cases {
		if got := page.PlainBlanks(changeWithInterval(c.n, c.i)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := changeLight(c.n, c.i); got != c.l {
			t.Errorf("%s: light %q, want %q", name, got, c.l)
		}
	}
}

func TestRealised(t *testing.T) {
	r := load(t, "finished").Record
	for _, c := range []struct {
		seconds journal.Number
		state   journal.State
		comparable,
		inside bool
	}{
		{172, journal.Done, true, true}, {160, journal.Done, true, true}, {195.1, journal.Done, true, false}, {159.9, journal.Done, true, false},
		{journal.Unknown(), journal.Done, false, false}, {172, journal.Stopped, false, false}, {172, journal.Running, false, false},
	} {
		r.Outcome.Seconds, r.State = c.seconds, c.state
		got := realised(r)[0]
		if got.comparable != c.comparable || got.inside != c.inside {
			t.Errorf("%v s, %s: comparable %v inside %v, want %v %v", c.seconds, c.state, got.comparable, got.inside, c.comparable, c.inside)
		}
	}
}

// TestRealisedInAQueue: the wait in the queue after the prediction is no error of it.
func TestRealisedInAQueue(t *testing.T) {
	r := load(t, "finished").Record
	r.State, r.Outcome.Seconds, r.Outcome.QueueSeconds = journal.Done, 10_800, pointer(7200.)
	r.Plan.Prediction = &journal.Prediction{Seconds: sla.Interval{P5: 3500, P50: 3600, P95: 3700}}
	if got := realised(r)[0]; got.outcome != 3600 || !got.comparable || !got.inside {
		t.Errorf("%+v, want 3600 s, inside", got)
	}
	if s := predictionSection(&data{Record: r}); !strings.Contains(page.PlainBlanks(s.Intro), "without 2 h 00 m of waiting for places") {
		t.Errorf("%q does not contain the wait", s.Intro)
	}
}

func TestExitWords(t *testing.T) {
	for want, e := range map[string]*journal.Exit{
		"the training exited with code 3":                                          {Code: pointer(3), Reason: "exited"},
		"the training was ended by SIGSEGV":                                        {Signal: pointer("SIGSEGV"), Reason: "exited"},
		"killed from outside (SIGKILL)":                                            {Signal: pointer("SIGKILL"), Reason: "killed"},
		"the training crashed with SIGSEGV (segmentation fault) (exit trace kept)": {Signal: pointer("SIGSEGV"), Reason: "killed", Detail: "crashed with SIGSEGV (segmentation fault); exit trace kept"},
		"the budget was reached (checkpoint saved)":                                {Code: pointer(0), Reason: "budget", Detail: "checkpoint saved"},
		"could not be started (no such file: train.py)":                            {Reason: "start-failed", Detail: "no such file: train.py"},
		"stopped by user (SIGTERM)":                                                {Signal: pointer("SIGTERM"), Reason: "user", Detail: "SIGTERM; died of SIGTERM; stopped on request; ended by SIGTERM"},
		"stopped by user (SIGINT)":                                                 {Signal: pointer("SIGTERM"), Reason: "user", Detail: "SIGINT; died of SIGTERM; stopped on request; ended by SIGTERM"},
		"stopped by user (SIGINT; checkpoint saved)":                               {Code: pointer(0), Reason: "user", Detail: "SIGINT; checkpoint saved"},
		"stopped by user (optimize runs stop)":                                     {Signal: pointer("SIGTERM"), Reason: "user", Detail: "optimize runs stop; died of SIGTERM; ended by SIGTERM"},
		"stopped by user":                                                          {Signal: pointer("SIGTERM"), Reason: "user", Detail: "died of SIGTERM; stopped on request; ended by SIGTERM"}, // by an earlier version
		"the training exited with code 1":                                          {Code: pointer(1), Reason: "exited", Detail: "exited by itself with code 1"},
		"no exit was recorded":                                                     nil,
	} {
		if got := exitWords(&journal.Record{Exit: e}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	refused := &journal.Record{Exit: &journal.Exit{Reason: "deadline"}, ExitCode: pointer(6)}
	if got := exitWords(refused); strings.Contains(got, "reached") || !strings.Contains(got, "predicted to meet the deadline") {
		t.Errorf("a run given up before its deadline: %q", got)
	}
}

func TestBaselineAgainstTheAgreement(t *testing.T) {
	r := journal.NewRecord()
	r.State = journal.Done
	r.Baseline = &journal.Baseline{Allocation: cpus(8, 4), Seconds: sla.Interval{P5: 90, P50: 100, P95: 110}, Throughput: sla.Interval{P5: 90, P50: 100, P95: 110}}
	r.Probes = []journal.Probe{{Allocation: cpus(8, 32), PeakMemoryGiB: 5, CPUUtil: journal.Unknown()}}
	for _, c := range []struct {
		o     sla.Objective
		limit float64
		want  sla.Status
	}{
		{sla.Time, 120, sla.Met}, {sla.Time, 105, sla.AtRisk}, {sla.Time, 80, sla.Violated}, {sla.Cost, 1, sla.Unknown},
		{sla.Throughput, 80, sla.Met}, {sla.Throughput, 95, sla.AtRisk}, {sla.Throughput, 120, sla.Violated},
		{sla.Memory, 6, sla.Met}, {sla.Memory, 4, sla.Violated}, {sla.CPUUtil, 50, sla.Unknown},
	} {
		if got, text := baselineStatus(r, sla.Verdict{Objective: c.o, Limit: c.limit}); got != c.want {
			t.Errorf("%s %v: %s (%s), want %s", c.o, c.limit, got, text, c.want)
		}
	}
	r.State = journal.Stopped // the baseline then covers less than the whole job
	if got, _ := baselineStatus(r, sla.Verdict{Objective: sla.Time, Limit: 120}); got != sla.Unknown {
		t.Errorf("the whole deadline was held against part of the work: %s", got)
	}
	for want, c := range map[string][2]sla.Status{
		"fixed": {sla.Violated, sla.Met}, "better": {sla.AtRisk, sla.Met}, "same": {sla.Met, sla.Met}, "worse": {sla.Met, sla.AtRisk},
		"newly missed": {sla.Met, sla.Violated}, page.NoData: {sla.Unknown, sla.Met},
	} {
		if got := changeWord(c[0], c[1]); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

func TestRecommend(t *testing.T) {
	base := func() *journal.Record {
		r := journal.NewRecord()
		r.State, r.Plan = journal.Done, &journal.Plan{Plan: plan.Plan{Allocation: cpus(8, 16)}}
		return r
	}
	cases := map[string]struct {
		change func(*journal.Record)
		flag   string
		why    string
	}{
		"memory by the peak":   {func(r *journal.Record) { r.Outcome.PeakMemoryGiB = 2 }, "--memory 2.5:2.5", "2.00 GiB"},
		"memory after an OOM":  {func(r *journal.Record) { r.Outcome.PeakMemoryGiB, r.Exit = 16, &journal.Exit{Reason: "oom"} }, "", "out of memory"},
		"fewer CPUs":           {func(r *journal.Record) { r.Outcome.CPUUtil = 25 }, "--cpus 3:8", "8 CPUs allocated, 2.00 busy"},
		"others used some":     {func(r *journal.Record) { r.Outcome.CPUUtil, r.Outcome.TakenCPUs = 25, 1 }, "--cpus 4:8", "2.00 busy on average, 1.00 used by other programs"},
		"others used the CPUs": {func(r *journal.Record) { r.Outcome.CPUUtil, r.Outcome.TakenCPUs = 25, 6 }, "none", ""},
		"no effect under load": {func(r *journal.Record) {
			r.Outcome.CPUUtil, r.Outcome.TakenCPUs, r.Model = 25, 6, &journal.Model{Ignored: []string{"cpus"}}
		}, "none", ""},
		"CPUs without effect":      {func(r *journal.Record) { r.Model = &journal.Model{Ignored: []string{"cpus"}} }, "--cpus 1:1", "no measured effect"},
		"an idle GPU":              {func(r *journal.Record) { r.Plan.Allocation.GPUs, r.Outcome.GPUUtil = 1, 20 }, "", "busy 20.0 %"},
		"idle GPUs":                {func(r *journal.Record) { r.Plan.Allocation.GPUs, r.Outcome.GPUUtil = 4, 20 }, "--gpus 1:4", "20.0 %"},
		"a deadline that was kept": {func(r *journal.Record) { r.Outcome.Seconds = 7200 }, "--deadline 2h12m", "2 h 00 m"},
		"a budget":                 {func(r *journal.Record) { r.Outcome.CostUSD = .0123 }, "--budget 0.014", "$0.0123"},
		"a much faster option":     {func(r *journal.Record) { option(r, "time", -40, 30) }, "--prefer time", "predicted: time −40.0 % with 32 CPU, 16 GiB, at cost +30.0 %"},
		"a much cheaper option":    {func(r *journal.Record) { option(r, "cost", 25, -50) }, "--prefer cost", "cost −50.0 %"},
		"a checkpoint would help":  {func(r *journal.Record) { r.Script.Resumable = pointer(false) }, "", "SIGUSR1"},
		"an option not worth it":   {func(r *journal.Record) { option(r, "time", -5, 3) }, "none", ""},
		"paid as a whole": {func(r *journal.Record) {
			r.Prices.Instance, r.Outcome.PeakMemoryGiB, r.Outcome.CPUUtil, r.Model = 1, 2, 25, &journal.Model{Ignored: []string{"cpus"}}
		}, "none", ""},
		"nothing measured":          {func(*journal.Record) {}, "none", ""},
		"busy CPUs":                 {func(r *journal.Record) { r.Outcome.CPUUtil = 95 }, "none", ""},
		"no deadline from a failed": {func(r *journal.Record) { r.State, r.Outcome.Seconds = journal.Failed, 50 }, "none", ""},
	}
	for name, c := range cases {
		r := base()
		c.change(r)
		list := recommend(r)
		if c.flag == "none" {
			if len(list) > 0 {
				t.Errorf("%s: %+v, want no advice", name, list)
			}
			continue
		}
		found := slices.ContainsFunc(list, func(x recommendation) bool { return x.Flag == c.flag && strings.Contains(x.Why, c.why) })
		if !found || len(list) != 1 {
			t.Errorf("%s: %+v, want %q because %q", name, list, c.flag, c.why)
		}
	}
}

func option(r *journal.Record, prefer string, seconds, cost float64) {
	r.Plan.Options = []plan.Option{{Prefer: prefer, SecondsPct: &seconds, CostPct: &cost, Candidate: plan.Candidate{Allocation: cpus(32, 16), Feasible: true}}}
}

// TestAlternativesAfterOOM: nothing is predicted for a memory that has proved too small, nor by a plan made before an interruption.
func TestAlternativesAfterOOM(t *testing.T) {
	here, other := plan.Candidate{Allocation: cpus(2, 1)}, plan.Candidate{Allocation: cpus(1, 1)}
	r := &journal.Record{Plan: &journal.Plan{Plan: plan.Plan{Allocation: here.Allocation, Candidates: []plan.Candidate{here, other},
		Options: []plan.Option{{Prefer: "time", Candidate: here}, {Prefer: "resource", Candidate: other}}}}}
	for reason, want := range map[string]int{"deadline": 1, "oom": 0} {
		r.Exit = &journal.Exit{Reason: reason}
		brief, full := len(briefOptions(&data{Record: r}).Blocks), len(optionsSection(&data{Record: r}).Blocks)
		if brief != want || full != 2*want {
			t.Errorf("%s: %d and %d tables, want %d and %d", reason, brief, full, want, 2*want)
		}
	}
	r.Exit, r.Outcome.Restarts = nil, 1 // resumed: the plan was of a run without interruption, under the limits before it
	if brief, full := len(briefOptions(&data{Record: r}).Blocks), len(optionsSection(&data{Record: r}).Blocks); brief+full > 0 {
		t.Errorf("resumed: %d and %d tables", brief, full)
	}
	for how, want := range map[string]string{"": "this run was resumed", "resumed": "this run was resumed", "restarted": "the training was restarted during this run"} {
		r.Plan.Interrupted = how
		for _, text := range []string{optionsSection(&data{Record: r}).Intro, predictionAnswer(&data{Record: r}).Text} {
			if !strings.HasSuffix(strings.TrimSuffix(text, "."), want) {
				t.Errorf("%q: %q, want %q at the end", how, text, want)
			}
		}
	}
}

// TestAgainNote: the report marks the allocations at which the training would begin again, and explains their times.
func TestAgainNote(t *testing.T) {
	for _, again := range []bool{false, true} {
		here, other := plan.Candidate{Allocation: resources.Allocation{CPUs: 2}}, plan.Candidate{Allocation: resources.Allocation{CPUs: 1}, Again: again}
		r := &journal.Record{Plan: &journal.Plan{Plan: plan.Plan{Allocation: here.Allocation, Candidates: []plan.Candidate{here, other},
			Options: []plan.Option{{Prefer: "time", Candidate: here}, {Prefer: "resource", Candidate: other}}}}}
		for name, s := range map[string]page.Section{"brief": briefOptions(&data{Record: r}), "full": optionsSection(&data{Record: r})} {
			marked := 0
			for _, b := range s.Blocks {
				for _, row := range b.Table.Rows {
					if strings.Contains(row[0].Text+row[1].Text, "begun again") {
						marked++
					}
				}
			}
			if want := map[bool]int{true: len(s.Blocks)}[again]; strings.Contains(s.Intro, "Begun again: ") != again || marked != want {
				t.Errorf("%s, again %t: %d rows are marked, want %d: %q", name, again, marked, want, s.Intro)
			}
		}
	}
}

func TestStepTime(t *testing.T) {
	text := func(s *journal.StepShares) string {
		return page.PlainBlanks(fmt.Sprint(trainingSection(&data{Record: &journal.Record{Training: journal.Training{StepShares: s}}}).Blocks[0].Fields))
	}
	if got := text(nil); strings.Contains(got, "step time") {
		t.Errorf("without an observer: %s", got)
	}
	const want = "63.0 % waiting for data, 5.00 % in the optimizer, no data saving"
	if got := text(&journal.StepShares{DataWait: 0.63, Optimizer: 0.05, Saving: journal.Unknown()}); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestUnitsOfASegment: a timed block may contain many units of work.
func TestUnitsOfASegment(t *testing.T) {
	p := journal.Blank[journal.Probe]()
	p.UnitSeconds = make([]journal.Number, 9)
	for units, want := range map[float64]string{600: "600", 2.5: "2.50", 0: page.NoData} { // 0: a record of an earlier version
		p.Units = units
		if got := probeTable(&journal.Record{}, []journal.Probe{p}).Rows[0][1].Text; got != want {
			t.Errorf("%g units in 9 timed blocks: %q, want %q", units, got, want)
		}
	}
}

// TestPartOfAnEpoch: the total of a training may end inside an epoch.
func TestPartOfAnEpoch(t *testing.T) {
	for total, want := range map[journal.Number][2]string{
		2.5: {"2.50 of 2.50 epochs", "2.50 epochs"}, 1: {"1 of 1 epoch", "1 epoch"}, 0.25: {"0.250 of 0.250 epochs", "0.250 epochs"}, 12_000: {"12,000 of 12,000 epochs", "12,000 epochs"},
	} {
		r := journal.NewRecord()
		r.Training.Unit, r.Training.TotalUnits, r.Outcome.Epochs = "epoch", total, total
		if got := [2]string{progress(r), wholeJob(r.Training)}; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if r.Training.TotalUnits = journal.Unknown(); progress(r) != want[1] {
			t.Errorf("of an unknown total: %q, want %q", progress(r), want[1])
		}
	}
}

// TestRunOfAnotherMachine checks that the answer names the machine of an agent that is at work elsewhere.
func TestRunOfAnotherMachine(t *testing.T) {
	rec := journal.Blank[journal.Record]()
	rec.State, rec.Outcome.Seconds = journal.Running, 120
	for host, want := range map[string]string{"n0": "not yet, running on n0 for 2", "": "not yet, running elsewhere for 2"} {
		d := &data{Record: &rec, Agent: &journal.Holder{PID: 1, BootID: "another", Host: host}}
		if a := finishedAnswer(d); !strings.HasPrefix(a.Text, want) {
			t.Errorf("%q, want %q", a.Text, want)
		}
		if a, ok := resumeAnswer(d); ok {
			t.Errorf("it can be resumed: %+v", a)
		}
	}
}
