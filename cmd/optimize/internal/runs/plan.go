package runs

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/internal/wording"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// Planned prints the plan with its evidence.
func (v *lines) Planned(rec *journal.Record) {
	if v.json {
		return
	}
	if err := printPlan(v.report, rec, v.reportWidth()); err != nil {
		fmt.Fprintf(v.out, "warning: show the plan: %v\n", err)
	}
}

// planLabel is the width of the labels of a plan: of the longest name of a knob.
const planLabel = 16

// printPlan prints the inputs of the plan (command, detected properties, machine, prices, preference, limits), the
// prior and the fitted model with its cross-validation, the chosen allocation, and the options if a prediction exists, for a terminal of width columns; 0: no terminal.
func printPlan(w io.Writer, rec *journal.Record, width int) error {
	b := &strings.Builder{}
	field := func(name, format string, args ...any) {
		lines := []string{fmt.Sprintf(format, args...)}
		if width > 0 {
			lines = page.Wrap(lines[0], width-planLabel-1)
		}
		for _, line := range lines {
			fmt.Fprintf(b, "%-*s %s\n", planLabel, name, line)
			name = ""
		}
	}
	field("command", "%s", cli.OneLine(strings.Join(rec.Command, " ")))
	field("detected", "%s", detectedProperties(rec.Script))
	if s := rec.Script; s.Resumes != "" {
		field("resume", "%s, from its own checkpoints", cli.OneLine(s.Resumes))
	} else if how, note := strings.CutPrefix(s.Evidence["resumable"], "resume: "); how != "" {
		name := "resume"
		if !note && s.Resumable != nil && !*s.Resumable {
			name = "saves" // what nothing resumes from
		}
		field(name, "%s", cli.OneLine(how))
	}
	for _, knob := range slices.Sorted(maps.Keys(rec.Script.Arguments)) {
		if knob != inspect.KnobResume {
			field("  "+knob, "%s", cli.OneLine(rec.Script.Arguments[knob]))
		}
	}
	field("length", "%s", cli.OneLine(cmp.Or(rec.Script.Evidence["length"], "unknown before the run; --epochs or --steps gives it")))
	machine := fmt.Sprintf("%g CPU, %.1f GiB", rec.Host.CPUs, float64(rec.Host.Memory))
	if n := len(rec.Host.GPUs); n > 0 {
		machine += fmt.Sprintf(", %d × %s", n, rec.Host.GPUs[0].Name)
	}
	if rec.Host.Described != "" {
		machine += " — described (" + rec.Host.Described + "), not this machine: nothing was measured on it"
	}
	field("machine", "%s", machine)
	field("prices", "%s", priceText(rec.Prices.Rates, rec.StartedAt))
	field("preference", "time %.2g, cost %.2g, resource %.2g", rec.Preference.Time, rec.Preference.Cost, rec.Preference.Resource)
	field("SLA", "%s", limitText(rec.SLA.Spec))
	if p := rec.Prior; p != nil {
		field("prior", "%s", cli.OneLine(p.Words))
		for _, q := range []struct {
			name string
			of   *sla.Interval
			show func(float64) string
		}{{"  start-up", p.Startup, wording.Duration}, {"  restart", p.Restart, wording.Duration}, {"  memory", p.MemoryGiB, func(v float64) string { return fmt.Sprintf("%.2g GiB", v) }}} {
			if q.of != nil {
				field(q.name, "%s (90 %% interval %s to %s), from other trainings", q.show(q.of.P50), q.show(q.of.P5), q.show(q.of.P95))
			}
		}
		for _, d := range p.Dropped {
			field("  dropped", "%s", cli.OneLine(d))
		}
	}
	if m := rec.Model; m != nil {
		field("model", "%s, fitted to %s", m.Form, m.Basis)
		for _, c := range m.Checks {
			held := "covered"
			if float64(c.Measured) < c.Predicted.P5 || float64(c.Measured) > c.Predicted.P95 {
				held = "missed"
			}
			field("  check", "%s left out: predicted %s (%s to %s), measured %s: 90 %% interval %s", c.Allocation, wording.Duration(c.Predicted.P50), wording.Duration(c.Predicted.P5),
				wording.Duration(c.Predicted.P95), wording.Duration(float64(c.Measured)), held)
		}
		for _, ignored := range m.Ignored {
			field("  note", "%s", ignored)
		}
	}
	if p := rec.Plan; p != nil {
		field("plan", "%s — %s", p.Allocation, cli.OneLine(p.Reason))
		field("binding", "%s", cli.OneLine(p.Binding))
	}
	for i, s := range rec.Starts {
		name := "  or"
		if i == 0 {
			name = "start"
		}
		field(name, "%s", startText(s))
	}
	if _, err := io.WriteString(w, page.PlainBlanks(b.String())); err != nil {
		return err
	}
	if rec.Plan == nil || rec.Plan.Prediction == nil { // no prediction exists
		return nil
	}
	return report.Options(w, rec, width)
}

func detectedProperties(s journal.Script) string {
	var parts []string
	for _, p := range []*string{s.Framework, s.Model, s.Dataset} {
		if p != nil {
			parts = append(parts, *p)
		}
	}
	if s.UsesGPU != nil {
		parts = append(parts, map[bool]string{true: "uses GPUs", false: "no GPU use"}[*s.UsesGPU])
	}
	switch {
	case s.Resumable == nil:
	case !*s.Resumable && s.Resumes != "":
		parts = append(parts, "resumes from its own checkpoints")
	default:
		parts = append(parts, map[bool]string{true: "resumable", false: "not resumable"}[*s.Resumable])
	}
	if len(parts) == 0 {
		return "nothing before the first run"
	}
	return strings.Join(parts, ", ")
}

func priceText(p cost.Rates, on time.Time) string {
	var text string
	if p.Instance > 0 {
		text = fmt.Sprintf("%s/h, the machine is paid as a whole: an unused CPU or GiB saves nothing", money(float64(p.Instance)))
	} else {
		text = fmt.Sprintf("%s/GPU-h, %s/CPU-h, %s/GiB-h", money(float64(p.GPUHour)), money(float64(p.CPUHour)), money(float64(p.GiBHour)))
	}
	return text + " (" + p.Source + ", " + p.Dated + cost.AgeWords(p.Dated, on) + ")"
}

func limitText(s sla.Spec) string {
	var parts []string
	add := func(o sla.Objective, format string, f func(float64) string) {
		if limit, _, _, agreed := s.Limit(o); agreed {
			parts = append(parts, fmt.Sprintf(format, f(limit)))
		}
	}
	plain := func(v float64) string { return fmt.Sprintf("%g", v) }
	add(sla.Time, "finish within %s", seconds)
	add(sla.Cost, "spend at most %s", money)
	add(sla.Throughput, "at least %s samples/s", plain)
	add(sla.Memory, "at most %s GiB", plain)
	add(sla.GPUUtil, "GPU utilization at least %s %%", plain)
	add(sla.CPUUtil, "CPU utilization at least %s %%", plain)
	if len(parts) == 0 {
		return "no limits set"
	}
	return strings.Join(parts, ", ")
}

// startText describes a predicted start at a place of an engine, and what follows from it.
func startText(s journal.Start) string {
	text := fmt.Sprintf("%s: waits %s (%s to %s), %d ahead", s.Place, page.Duration(s.Wait.P50), page.Duration(s.Wait.P5), page.Duration(s.Wait.P95), s.Ahead)
	if s.ByLimits.Known() {
		text += fmt.Sprintf(", %s by time limits", page.Duration(float64(s.ByLimits)))
	}
	if s.End != nil {
		text += fmt.Sprintf("; ends after %s (%s to %s)", page.Duration(s.End.P50), page.Duration(s.End.P5), page.Duration(s.End.P95))
	}
	if s.CostUSD != nil {
		text += " for " + page.USD(s.CostUSD.P50)
	} else if s.HourlyUSD.Known() {
		text += "; " + page.USD(float64(s.HourlyUSD)) + " per hour"
	}
	if s.DeadlineMet.Known() {
		text += fmt.Sprintf("; meets the deadline with %.0f %%", 100*float64(s.DeadlineMet))
	}
	if s.Observed == 0 {
		text += " (no history of run lengths: nearly uninformed)"
	}
	return text
}
