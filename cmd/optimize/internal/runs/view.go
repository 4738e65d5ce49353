package runs

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
	"trainopt/sla"
)

// newView selects the display of a run: a live view on a terminal, plain lines elsewhere, minimal output with --quiet.
func newView(e *cli.Env) run.View {
	base := &lines{out: e.Stderr, report: e.Stdout, level: levelOf(e), json: e.JSON, quiet: e.Quiet, every: 10 * time.Second, now: e.Clock, short: e.ShortPath}
	base.output.on = e.ShowOutput && !e.Quiet
	base.output.dir = func(runID string) string { return filepath.Join(journal.RunsDir(e.State()), runID) }
	if e.Columns() > 0 && !e.Quiet && base.level <= run.Info {
		base.width = e.Width
		v := &screen{lines: base, colour: e.Colored(), keys: func() *keyboard { return openKeyboard(e.Stdin) }, suspension: onSuspend}
		if f, ok := e.Stderr.(*os.File); ok {
			v.background = func() bool { return inBackground(int(f.Fd())) }
		}
		return v
	}
	return base
}

// warn shows warnings.
func warn(e *cli.Env, notes []string) {
	view := newView(e)
	for _, n := range notes {
		view.Event(run.Warning, n)
	}
}

func levelOf(e *cli.Env) run.Level {
	switch strings.ToLower(e.LogLevel) {
	case "warn", "warning":
		return run.Warning
	case "error":
		return run.Problem
	}
	if e.Quiet {
		return run.Warning
	}
	return run.Info
}

// lines shows a run as plain lines: its facts once, each event once, and a status line at intervals.
type lines struct {
	out, report io.Writer
	level       run.Level
	json, quiet bool
	every       time.Duration
	now         run.Clock
	width       func() int // nil: not a terminal
	last        time.Duration
	shown       bool
	log         string // the displayed log source
	output      jobOutput
	short       func(path string) string // shortens a path for display; nil: as it is
	messages    shownMessages
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

// shownMessages holds the displayed messages, to avoid repetition.
type shownMessages map[string]bool

// reasonLength is the minimum length of a message's reason that is not repeated in later messages.
const reasonLength = 40

// unseenPart returns the part of a message that is new: "" if it was shown before, without its reason if the reason was shown
// before.
func (s *shownMessages) unseenPart(line string) string {
	if *s == nil {
		*s = shownMessages{}
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

// Event prints an event unless it was shown before.
func (v *lines) Event(level run.Level, line string) {
	if level < v.level {
		return
	}
	if text := v.messages.unseenPart(cli.OneLine(line)); text != "" {
		fmt.Fprintf(v.out, "%s%s\n", mark(level), text)
	}
}

// Status prints the facts of the run at the first call, changes of the log source, and a status line at most once per
// interval.
func (v *lines) Status(s run.Status) {
	now := v.now.Monotonic()
	for _, line := range v.output.next(s.RunID) {
		fmt.Fprintln(v.out, line)
	}
	if v.quiet || v.level > run.Info {
		return
	}
	s = v.shortened(s)
	if !v.shown {
		fmt.Fprintln(v.out, page.PlainBlanks(strings.Join(headerParts(s), " · ")))
	}
	if s.Log != "" && s.Log != v.log {
		v.log = s.Log
		fmt.Fprintf(v.out, "log: %s\n", cli.OneLine(s.Log))
	}
	if v.shown && now-v.last < v.every {
		return
	}
	v.shown, v.last = true, now
	fmt.Fprintln(v.out, page.PlainBlanks(strings.Join(statusParts(s), " · ")))
}

func (v *lines) shortPath(path string) string {
	if v.short == nil {
		return path
	}
	return v.short(path)
}

// shortened returns a status with paths relative to the working directory.
func (v *lines) shortened(s run.Status) run.Status {
	s.Script, s.Log = v.shortPath(s.Script), v.shortPath(s.Log)
	return s
}

// Finished prints the summary or the first screen of the report, and where the full report is.
func (v *lines) Finished(rec *journal.Record, dir string) {
	if v.json {
		return
	}
	for _, line := range v.output.next(rec.RunID) {
		fmt.Fprintln(v.out, line)
	}
	var err error
	if v.quiet {
		err = report.Summary(v.report, []*journal.Record{rec})
	}
	if err == nil && (!v.quiet || rec.State == journal.Failed) {
		err = v.finished(dir)
	}
	if err != nil {
		fmt.Fprintf(v.out, "warning: report: %v\n", err)
	}
}

// finished prints the first screen of the report, or with --quiet the last output of a failed training as an error.
func (v *lines) finished(dir string) error {
	data, err := report.Load(dir)
	switch {
	case err != nil:
		return err
	case v.quiet:
		return data.LastOutput(v.out, v.reportWidth())
	}
	err = data.Brief(v.report, v.reportWidth())
	fmt.Fprintf(v.report, "\nfull report: optimize report %s\npage: %s\n", filepath.Base(dir), v.shortPath(filepath.Join(dir, "report.html")))
	return err
}

// reportWidth returns the width of reports on the terminal, 0 without one.
func (v *lines) reportWidth() int {
	if v.width == nil {
		return 0
	}
	return min(max(v.width()-1, 40), 120)
}

// Numbers are formatted as in reports, with a no-break space before the unit until they are printed
// ([page.PlainBlanks]).
var money, seconds = page.USD, page.Duration

// elapsed formats a running time in whole seconds.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d"+page.Blank+"s", int(math.Min(59, math.Round(d.Seconds()))))
	}
	return seconds(math.Round(d.Seconds()))
}

// utilization formats a percentage.
func utilization(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "measuring"
	}
	return fmt.Sprintf("%.0f %%", v)
}

// totalHint names the flags that set the total of a job that does not report it.
const totalHint = "--epochs N or --steps N"

// headerParts returns the facts that identify a run and do not change while it runs.
func headerParts(s run.Status) []string {
	parts := []string{"run " + s.RunID}
	if s.Script != "" {
		parts = append(parts, cli.OneLine(s.Script))
	}
	if s.Deadline > 0 {
		words := "deadline " + deadlineWords(s)
		if s.DeadlineSource != "" {
			words += ", " + s.DeadlineSource
		}
		parts = append(parts, words)
	}
	if s.Budget > 0 {
		parts = append(parts, "budget "+money(float64(s.Budget)))
	}
	return append(parts, "output: optimize logs -f "+s.RunID)
}

// deadlineWords formats the deadline as a duration and as a time of day.
func deadlineWords(s run.Status) string {
	return seconds(s.Deadline.Seconds()) + " (" + clockAt(s, s.Deadline.Seconds()) + ")"
}

// clockAt returns the local time of day at a number of seconds after the start of the run, with the date if it is not
// today.
func clockAt(s run.Status, at float64) string {
	return page.Clock(s.Now.Add(time.Duration((at-s.Elapsed.Seconds())*float64(time.Second))), s.Now)
}

// statusParts returns the parts of a status line, most important first.
func statusParts(s run.Status) []string {
	parts := []string{s.Phase, progressPart(s), "time " + timePart(s), "cost " + costPart(s), s.Resources(), usePart(s)}
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
	done := page.Count(s.Done)
	switch {
	case s.Unit == "":
		return "progress: " + page.NoData
	case s.Total > 0:
		return fmt.Sprintf("%s %s/%s", s.Unit, done, page.Count(s.Total))
	}
	return fmt.Sprintf("%s %s, total unknown (%s)", s.Unit, done, totalHint)
}

func timePart(s run.Status) string {
	text := elapsed(s.Elapsed)
	if s.Finish != nil && s.Total > 0 {
		text += fmt.Sprintf(", projected %s (%s to %s), ends %s", seconds(s.Finish.P50), seconds(s.Finish.P5), seconds(s.Finish.P95), clockAt(s, s.Finish.P50))
	}
	if s.Deadline > 0 {
		word := "deadline"
		if s.DeadlineSource != "" {
			word = "allocation"
		}
		text += ", " + word + " " + deadlineWords(s)
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

// usePart formats the utilization and memory of the job: those of its CPUs and, with the memory in use on the fullest
// one, those of its GPUs.
func usePart(s run.Status) string {
	text := "CPU " + utilization(s.CPUUtil)
	if !math.IsNaN(s.MemoryGiB) {
		text += ", " + page.GiB(s.MemoryGiB)
	}
	if s.Allocation.GPUs == 0 {
		return text
	}
	text += ", GPU " + utilization(s.GPUUtil)
	fullest := run.DeviceUse{MemoryGiB: math.NaN()}
	for _, d := range s.Devices {
		if !(d.MemoryGiB <= fullest.MemoryGiB) && !math.IsNaN(d.MemoryGiB) {
			fullest = d
		}
	}
	if math.IsNaN(fullest.MemoryGiB) {
		return text
	}
	text += ", " + page.GiB(fullest.MemoryGiB)
	if fullest.TotalGiB > 0 {
		text += " of " + page.GiB(fullest.TotalGiB)
	}
	return text + " GPU memory"
}

// ratePart formats the throughput and the last model quality, as far as known.
func ratePart(s run.Status) string {
	var parts []string
	if !math.IsNaN(s.Throughput) && s.Throughput > 0 {
		parts = append(parts, page.Rate(cmp.Or(s.ThroughputUnit, journal.SamplesPerSecond))(s.Throughput))
	}
	if !math.IsNaN(s.Loss) {
		parts = append(parts, fmt.Sprintf("loss %.4g", s.Loss))
	}
	if !math.IsNaN(s.Accuracy) {
		parts = append(parts, fmt.Sprintf("accuracy %.4g", s.Accuracy))
	}
	return strings.Join(parts, ", ")
}

// riskPart formats the work at risk, lost if the job is stopped now; "" if unknown.
func riskPart(s run.Status) string {
	if s.AtRisk < 0 {
		return ""
	}
	if s.Checkpoint == nil {
		return elapsed(s.AtRisk) + " of work (no checkpoint)"
	}
	text := elapsed(s.AtRisk) + " of work since the checkpoint"
	if s.Checkpoint.Units.Known() && s.Unit != "" {
		text += fmt.Sprintf(" at %s %s", s.Unit, page.Count(float64(s.Checkpoint.Units)))
	}
	return text
}

var lamp = map[sla.Status]string{sla.Met: "✓", sla.AtRisk: "!", sla.Violated: "✗", sla.Unknown: "?"}

// limitName returns the short name of a limit: the flag name for time and cost.
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
