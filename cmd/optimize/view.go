package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/chart"
	"trainopt/optimizer/run"
	"trainopt/sla"
)

func cmdContext() context.Context { return context.Background() }

// view chooses how a run is shown: a live view on a terminal, plain lines elsewhere, little when quiet.
func (e *env) view(c *common) run.View {
	base := &lines{out: e.stderr, report: e.stdout, level: levelOf(c), json: c.json, quiet: c.quiet, every: 10 * time.Second, now: e.clock}
	if width := e.width(); width > 0 && !c.quiet && base.level <= run.Info {
		base.width = e.width
		return &screen{lines: base, colour: e.getenv("NO_COLOR") == ""}
	}
	return base
}

func levelOf(c *common) run.Level {
	switch strings.ToLower(c.logLevel) {
	case "warn", "warning":
		return run.Warning
	case "error":
		return run.Problem
	}
	if c.quiet {
		return run.Warning
	}
	return run.Info
}

// lines shows a run as plain lines: what it is, once; events, each once; and a status line now and then.
type lines struct {
	out, report io.Writer
	level       run.Level
	json, quiet bool
	every       time.Duration
	now         run.Clock
	width       func() int // nil: not a terminal
	last        time.Duration
	shown       bool
	log         string // the log source that was shown
	said        said
}

func mark(l run.Level) string {
	switch l {
	case run.Warning:
		return "warning: "
	case run.Problem:
		return "problem: "
	}
	return ""
}

// said keeps what was shown, so that it is not repeated.
type said map[string]bool

// reasonLength is from which length on the reason of a message counts as a sentence that is not repeated.
const reasonLength = 40

// news is what a message adds to the earlier ones: empty when it was shown before, without its reason when that was.
func (s *said) news(line string) string {
	if *s == nil {
		*s = said{}
	}
	if (*s)[line] {
		return ""
	}
	(*s)[line] = true
	head, reason, ok := strings.Cut(line, " — ")
	if !ok {
		head, reason, ok = strings.Cut(line, ": ")
	}
	if !ok || len(reason) < reasonLength {
		return line
	}
	if (*s)["\x00"+reason] {
		return head
	}
	(*s)["\x00"+reason] = true
	return line
}

func (v *lines) Event(level run.Level, line string) {
	if level < v.level {
		return
	}
	if news := v.said.news(oneLine(line)); news != "" {
		fmt.Fprintf(v.out, "%s%s\n", mark(level), news)
	}
}

func (v *lines) Status(s run.Status) {
	now := v.now.Monotonic()
	if v.quiet || v.level > run.Info {
		return
	}
	if !v.shown {
		fmt.Fprintln(v.out, chart.PlainBlanks(strings.Join(headerParts(s), " · ")))
	}
	if s.Log != "" && s.Log != v.log {
		v.log = s.Log
		fmt.Fprintf(v.out, "log: %s\n", oneLine(s.Log))
	}
	if v.shown && now-v.last < v.every {
		return
	}
	v.shown, v.last = true, now
	fmt.Fprintln(v.out, chart.PlainBlanks(strings.Join(statusParts(s), " · ")))
}

func (v *lines) Finished(rec *journal.Record, dir string) {
	if v.json {
		return
	}
	data, err := report.Load(dir)
	if err != nil {
		fmt.Fprintf(v.out, "warning: report: %v\n", err)
		return
	}
	if v.quiet {
		err = report.Summary(v.report, []*journal.Record{rec})
	} else {
		width := 0
		if v.width != nil {
			width = min(max(v.width()-1, 40), 120)
		}
		err = report.Brief(v.report, data, width)
		fmt.Fprintf(v.report, "\nfull report: optimize report %s\npage: %s\n", filepath.Base(dir), filepath.Join(dir, "report.html"))
	}
	if err != nil {
		fmt.Fprintf(v.out, "warning: report: %v\n", err)
	}
}

// oneLine keeps hostile text from moving the cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < 32 || r >= 127 && r < 160 {
			return -1
		}
		return r
	}, s)
}

// The numbers of the terminal are written as those of the reports, with a fixed blank before a unit until they are printed
// ([chart.PlainBlanks]).
func money(v float64) string { return chart.USD(v) }

func seconds(v float64) string {
	return strings.ReplaceAll(chart.Duration(v), " ", chart.Blank)
}

// elapsed is a time that grows while it is shown: whole seconds.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d"+chart.Blank+"s", int(math.Min(59, math.Round(d.Seconds()))))
	}
	return seconds(math.Round(d.Seconds()))
}

func show(v float64, format, none string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return fmt.Sprintf(format, v)
}

// totalHint is how to set the total of a job that does not report it.
const totalHint = "--epochs N or --steps N"

// headerParts identify a run: what stays the same while it runs.
func headerParts(s run.Status) []string {
	parts := []string{"run " + s.RunID}
	if s.Script != "" {
		parts = append(parts, oneLine(s.Script))
	}
	if s.Deadline > 0 {
		parts = append(parts, "deadline "+deadlineWords(s))
	}
	if s.Budget > 0 {
		parts = append(parts, "budget "+money(float64(s.Budget)))
	}
	return append(parts, "output: optimize logs -f "+s.RunID)
}

// deadlineWords is the deadline as a duration and on the clock.
func deadlineWords(s run.Status) string {
	return seconds(s.Deadline.Seconds()) + " (" + clockAt(s, s.Deadline.Seconds()) + ")"
}

// clockAt is the local time of day at a number of seconds after the start of the run, with its day where it is not today.
func clockAt(s run.Status, at float64) string {
	when := s.Now.Add(time.Duration((at - s.Elapsed.Seconds()) * float64(time.Second)))
	if when.YearDay() != s.Now.YearDay() || when.Year() != s.Now.Year() {
		return when.Format("2006-01-02 15:04")
	}
	return when.Format("15:04:05")
}

// statusParts are the pieces of a status line, most important first.
func statusParts(s run.Status) []string {
	parts := []string{s.Phase, progressPart(s), "time " + timePart(s), "cost " + costPart(s), s.Allocation.String(), usePart(s)}
	if rate := ratePart(s); rate != "" {
		parts = append(parts, rate)
	}
	if lights := lightsPart(s.Verdicts); lights != "" {
		parts = append(parts, "SLA "+lights)
	}
	if risk := riskPart(s); risk != "" {
		parts = append(parts, "at risk "+risk)
	}
	return parts
}

func progressPart(s run.Status) string {
	done := chart.Count(s.Done)
	switch {
	case s.Unit == "":
		return "progress: " + chart.NoData
	case s.Total > 0:
		return fmt.Sprintf("%s %s/%s", s.Unit, done, chart.Count(s.Total))
	}
	return fmt.Sprintf("%s %s, total unknown (%s)", s.Unit, done, totalHint)
}

func timePart(s run.Status) string {
	text := elapsed(s.Elapsed)
	if s.Finish != nil && s.Total > 0 {
		text += fmt.Sprintf(", projected %s (%s to %s), ends %s", seconds(s.Finish.P50), seconds(s.Finish.P5), seconds(s.Finish.P95), clockAt(s, s.Finish.P50))
	}
	if s.Deadline > 0 {
		text += ", deadline " + deadlineWords(s)
	}
	return text
}

func costPart(s run.Status) string {
	text := money(float64(s.Spent))
	if s.CostAtEnd != nil && s.Total > 0 {
		text += fmt.Sprintf(", projected %s (%s to %s)", money(s.CostAtEnd.P50), money(s.CostAtEnd.P5), money(s.CostAtEnd.P95))
	}
	if s.Budget > 0 {
		text += ", budget " + money(float64(s.Budget))
	}
	return text
}

func usePart(s run.Status) string {
	text := "CPU " + show(s.CPUUtil, "%.0f %%", "measuring")
	if s.Allocation.GPUs > 0 {
		text += ", GPU " + show(s.GPUUtil, "%.0f %%", "measuring")
	}
	if math.IsNaN(s.MemoryGiB) {
		return text
	}
	return text + ", " + chart.GiB(s.MemoryGiB)
}

// ratePart is the pace and the last quality of the model, as far as they are known.
func ratePart(s run.Status) string {
	var parts []string
	if !math.IsNaN(s.Throughput) && s.Throughput > 0 {
		parts = append(parts, chart.Rate(cmp.Or(s.ThroughputUnit, journal.SamplesPerSecond))(s.Throughput))
	}
	if !math.IsNaN(s.Loss) {
		parts = append(parts, fmt.Sprintf("loss %.4g", s.Loss))
	}
	if !math.IsNaN(s.Accuracy) {
		parts = append(parts, fmt.Sprintf("accuracy %.4g", s.Accuracy))
	}
	return strings.Join(parts, ", ")
}

// riskPart is the work that is lost if the job is stopped now; empty when that is unknown.
func riskPart(s run.Status) string {
	if s.AtRisk < 0 {
		return ""
	}
	if s.Checkpoint == nil {
		return elapsed(s.AtRisk) + " of work (no checkpoint)"
	}
	text := elapsed(s.AtRisk) + " of work since the checkpoint"
	if s.Checkpoint.Units.Known() && s.Unit != "" {
		text += fmt.Sprintf(" at %s %s", s.Unit, chart.Count(float64(s.Checkpoint.Units)))
	}
	return text
}

var lamp = map[sla.Status]string{sla.Met: "✓", sla.AtRisk: "!", sla.Violated: "✗", sla.Unknown: "?"}

// limitName is the name of a limit in a line: the word of the command line for time and cost.
func limitName(o sla.Objective) string {
	switch o {
	case sla.Time:
		return "deadline"
	case sla.Cost:
		return "budget"
	}
	return strings.ReplaceAll(string(o), "_", " ")
}

func lightsPart(verdicts []sla.Verdict) string {
	var parts []string
	for _, v := range verdicts {
		parts = append(parts, lamp[v.Status]+" "+limitName(v.Objective))
	}
	return strings.Join(parts, "  ")
}

func clip(s string, width int) string {
	r := []rune(s)
	if width < 1 || len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}
