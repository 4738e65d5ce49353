package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// recommendation is advice for the next run of the same script, with the measurement that supports it.
type recommendation struct {
	Flag string `json:"flag"` // what to add to the command line; empty for general advice
	Why  string `json:"why"`
}

const (
	memorySlack  = 1.2  // requested memory relative to the measured peak
	limitSlack   = 1.1  // deadline and budget relative to the values of this run (the forecast rule of package sla)
	lowUtil      = 50.0 // %: below it, fewer processors would have sufficed
	memoryStepGB = 0.25
)

// recommend derives advice only from measurements and model predictions. A run without measurements yields no advice.
func recommend(r *journal.Record) []recommendation {
	var list []recommendation
	add := func(flag, why string, args ...any) {
		list = append(list, recommendation{flag, page.PlainBlanks(fmt.Sprintf(why, args...))})
	}
	o := r.Outcome
	whole := wholeMachine(r) // the machine is billed as a whole: releasing CPUs and memory saves nothing
	if oom := outOfMemory(r); o.PeakMemoryGiB.Known() && o.PeakMemoryGiB > 0 && (oom || !whole) {
		need := math.Ceil(float64(o.PeakMemoryGiB)*memorySlack/memoryStepGB) * memoryStepGB
		add(fmt.Sprintf("--memory %s:%s", trim(need), trim(need)), "at least 20 %% above the measured peak of %s", number(o.PeakMemoryGiB, page.GiB))
		if oom {
			list[len(list)-1] = recommendation{"", fmt.Sprintf("out of memory at %s: allocate more, or reduce the batch size", number(o.PeakMemoryGiB, page.GiB))}
		}
	}
	recommendProcessors(r, add)
	recommendSwitch(r, add)
	if r.State == journal.Done {
		if o.Seconds.Known() && o.Seconds > 0 {
			add("--deadline "+flagDuration(float64(o.Seconds)*limitSlack), "this run took %s; this leaves 10 %%", number(o.Seconds, page.Duration))
		}
		if o.CostUSD.Known() && o.CostUSD > 0 {
			add("--budget "+trim(ceilDigits(float64(o.CostUSD)*limitSlack)), "this run cost %s; this leaves 10 %%", number(o.CostUSD, page.USD))
		}
	}
	if r.Script.Resumable != nil && !*r.Script.Resumable && r.Script.Resumes == "" && r.State == journal.Done {
		add("", "the script cannot be resumed: with a checkpoint on SIGUSR1 no work is lost by probes and early stops")
	}
	return list
}

// outOfMemory reports whether a run ended since its memory did not suffice.
func outOfMemory(r *journal.Record) bool { return r.Exit != nil && r.Exit.Reason == "oom" }

// recommendProcessors compares the allocated processors with their utilization.
func recommendProcessors(r *journal.Record, add func(flag, why string, args ...any)) {
	if r.Plan == nil {
		return
	}
	a, o := r.Plan.Allocation, r.Outcome
	ignores := map[string]bool{}
	if r.Model != nil {
		for _, knob := range r.Model.Ignored {
			ignores[strings.ToLower(knob)] = true
		}
	}
	switch needed := o.NeededCPUs(a.CPUs); { // NaN without a measurement
	case wholeMachine(r):
	case ignores["cpus"] && a.CPUs > 1 && !o.Contended():
		add("--cpus 1:1", "more CPUs had no measured effect on the pace")
	case a.CPUs > 1 && needed < lowUtil/100*float64(a.CPUs):
		fewer := max(1, int(math.Ceil(needed*memorySlack)))
		if fewer < a.CPUs {
			why := fmt.Sprintf("%s allocated, %s busy on average", page.Plural(a.CPUs, "CPU"), page.Significant(needed-o.TakenCPUs))
			if o.Contended() {
				why += fmt.Sprintf(", %s used by other programs", page.Significant(o.TakenCPUs))
			}
			add(fmt.Sprintf("--cpus %d:%d", fewer, a.CPUs), "%s", why)
		}
	}
	switch {
	case a.GPUs == 0 || !o.GPUUtil.Known():
	case ignores["gpus"] && a.GPUs > 1:
		add("--gpus 1:1", "more GPUs had no measured effect on the pace")
	case float64(o.GPUUtil) < lowUtil && a.GPUs > 1:
		add(fmt.Sprintf("--gpus 1:%d", a.GPUs), "the %s were busy %s of the time on average", page.Plural(a.GPUs, "GPU"), number(o.GPUUtil, page.Percent))
	case float64(o.GPUUtil) < lowUtil:
		add("", "the GPU was busy %s of the time on average: more data-loader workers or a larger batch may feed it better", number(o.GPUUtil, page.Percent))
	}
}

// recommendSwitch lists the choices of other preferences where the model predicts a large gain.
func recommendSwitch(r *journal.Record, add func(flag, why string, args ...any)) {
	if r.Plan == nil {
		return
	}
	const much = -10 // %
	for _, o := range r.Plan.Options {
		gain, what := o.SecondsPct, "time"
		switch o.Prefer {
		case "time":
		case "cost":
			gain, what = o.CostPct, "cost"
		default:
			continue
		}
		if gain == nil || *gain > much || !o.Candidate.Feasible || o.Candidate.Allocation.Same(r.Plan.Allocation) {
			continue
		}
		price := "cost " + optionChange(o.CostPct)
		if what == "cost" {
			price = "time " + optionChange(o.SecondsPct)
		}
		add("--prefer "+o.Prefer, "predicted: %s %s with %s, at %s", what, change(*gain), allocationText(o.Candidate.Allocation), price)
	}
}

func recommendationSection(d *data) page.Section {
	s := page.Section{ID: "recommendation", Title: "Recommendations for the next run"}
	list := recommend(d.Record)
	if len(list) == 0 {
		s.Intro = "None: too few measurements."
		return s
	}
	g := &page.Table{Columns: page.Left("Set", "Reason")}
	for _, r := range list {
		g.Rows = append(g.Rows, page.Row(cmp.Or(r.Flag, "–"), r.Why))
	}
	s.Blocks = []page.Block{{Table: g}}
	return s
}

// trim formats a number for a command line, without trailing zeros.
func trim(v float64) string {
	s := fmt.Sprintf("%.6f", v)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// ceilDigits rounds up to two significant digits.
func ceilDigits(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Ceil(v/unit-1e-9) * unit
}

// flagDuration formats a duration in the syntax of --deadline, rounded up.
func flagDuration(s float64) string {
	whole := int64(math.Ceil(s - 1e-6)) // 1.1 × 7200 is slightly above 7920 in floating point
	switch {
	case whole < 120:
		return fmt.Sprintf("%ds", whole)
	case whole < 7200:
		return fmt.Sprintf("%dm", (whole+59)/60)
	}
	minutes := (whole + 59) / 60
	return fmt.Sprintf("%dh%dm", minutes/60, minutes%60)
}
