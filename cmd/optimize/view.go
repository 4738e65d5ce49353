package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"trainopt/optimizer"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/sla"
)

func cmdContext() context.Context { return context.Background() }

// view chooses how a run is shown: a live view on a terminal, plain lines elsewhere, little when quiet.
func (e *env) view(c *common) optimizer.View {
	base := &lines{out: e.stderr, report: e.stdout, level: levelOf(c), json: c.json, quiet: c.quiet, every: 10 * time.Second, now: e.clock}
	if width := e.width(); width > 0 && !c.quiet && base.level <= optimizer.Info {
		return &screen{lines: base, width: e.width}
	}
	return base
}

func levelOf(c *common) optimizer.Level {
	switch strings.ToLower(c.logLevel) {
	case "warn", "warning":
		return optimizer.Warning
	case "error":
		return optimizer.Problem
	}
	if c.quiet {
		return optimizer.Warning
	}
	return optimizer.Info
}

// lines shows a run as plain lines: events, and a status line now and then.
type lines struct {
	out, report io.Writer
	level       optimizer.Level
	json, quiet bool
	every       time.Duration
	now         optimizer.Clock
	last        time.Duration
	shown       bool
}

func mark(l optimizer.Level) string {
	switch l {
	case optimizer.Warning:
		return "warning: "
	case optimizer.Problem:
		return "problem: "
	}
	return ""
}

func (v *lines) Event(level optimizer.Level, line string) {
	if level >= v.level {
		fmt.Fprintf(v.out, "%s%s\n", mark(level), oneLine(line))
	}
}

func (v *lines) Status(s optimizer.Status) {
	now := v.now.Monotonic()
	if v.quiet || v.level > optimizer.Info || v.shown && now-v.last < v.every {
		return
	}
	v.shown, v.last = true, now
	fmt.Fprintln(v.out, strings.Join(statusParts(s), " · "))
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
		err = report.Brief(v.report, data)
		fmt.Fprintf(v.report, "\nthe whole report: optimize report %s, or open %s\n", filepath.Base(dir), filepath.Join(dir, "report.html"))
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
		if r < 32 || r == 127 {
			return -1
		}
		return r
	}, s)
}

func clock(d time.Duration) string {
	s := int(d.Seconds() + 0.5)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

func money(v float64) string {
	switch {
	case math.IsNaN(v):
		return "no data"
	case v == 0:
		return "$0"
	case math.Abs(v) < 0.01:
		return fmt.Sprintf("$%.5f", v)
	case math.Abs(v) < 10:
		return fmt.Sprintf("$%.4f", v)
	}
	return fmt.Sprintf("$%.2f", v)
}

func seconds(v float64) string { return clock(time.Duration(v * float64(time.Second))) }

func show(v float64, format, none string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return fmt.Sprintf(format, v)
}

// statusParts are the pieces of a status, most important first.
func statusParts(s optimizer.Status) []string {
	parts := []string{s.Phase}
	if s.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s %g/%g", s.Unit, s.Done, s.Total))
	} else if s.Unit != "" {
		parts = append(parts, fmt.Sprintf("%s %g", s.Unit, s.Done))
	} else {
		parts = append(parts, "progress: no data")
	}
	parts = append(parts, finishPart(s), costPart(s), s.Allocation.String(), usePart(s))
	if lights := lightsPart(s.Verdicts); lights != "" {
		parts = append(parts, lights)
	}
	return parts
}

func finishPart(s optimizer.Status) string {
	text := clock(s.Elapsed)
	if s.Finish != nil {
		text += fmt.Sprintf(" of %s (%s–%s)", seconds(s.Finish.P50), seconds(s.Finish.P5), seconds(s.Finish.P95))
	}
	return text
}

func costPart(s optimizer.Status) string {
	text := money(float64(s.Spent))
	if s.CostAtEnd != nil {
		text += fmt.Sprintf(" of %s (%s–%s)", money(s.CostAtEnd.P50), money(s.CostAtEnd.P5), money(s.CostAtEnd.P95))
	}
	return text
}

func usePart(s optimizer.Status) string {
	text := "CPU " + show(s.CPUUtil, "%.0f %%", "no data")
	if s.Allocation.GPUs > 0 {
		text += ", GPU " + show(s.GPUUtil, "%.0f %%", "no data")
	}
	return text + ", " + show(s.MemoryGiB, "%.2f GiB", "memory no data")
}

var lamp = map[sla.Status]string{sla.Met: "✓", sla.AtRisk: "!", sla.Violated: "✗", sla.Unknown: "?"}

func lightsPart(verdicts []sla.Verdict) string {
	var parts []string
	for _, v := range verdicts {
		parts = append(parts, fmt.Sprintf("%s %s", lamp[v.Status], v.Objective))
	}
	return strings.Join(parts, "  ")
}

// screen is the live view of a terminal: one bar with the lines of the status under it, repainted in place;
// events scroll above.
type screen struct {
	*lines
	width    func() int
	progress *mpb.Progress
	bar      *mpb.Bar
	status   optimizer.Status
}

const barScale = 1000

func (v *screen) Event(level optimizer.Level, line string) {
	if level < v.level {
		return
	}
	text := mark(level) + oneLine(line) + "\n"
	if v.progress == nil {
		fmt.Fprint(v.out, text)
		return
	}
	fmt.Fprint(v.progress, text)
}

func (v *screen) Status(s optimizer.Status) {
	v.status = s
	if v.progress == nil {
		v.progress = mpb.New(mpb.WithOutput(v.out), mpb.WithWidth(min(60, v.width()-20)), mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Second/4))
		v.bar = v.progress.New(barScale, mpb.BarStyle().Lbound("").Filler("█").Tip("").Padding("░").Rbound(""),
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return fmt.Sprintf("%-9s ", v.status.Phase) })),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
				if v.status.Total > 0 {
					return fmt.Sprintf(" %s %g/%g", v.status.Unit, v.status.Done, v.status.Total)
				}
				return " no total"
			})),
			mpb.BarExtender(mpb.BarFillerFunc(func(w io.Writer, _ decor.Statistics) error { return v.under(w) }), false))
	}
	if s.Total > 0 {
		// Never complete the bar by itself: mpb would take it away.
		v.bar.SetCurrent(int64(math.Min(barScale-1, barScale*s.Done/s.Total)))
	}
}

// under writes the lines below the bar.
func (v *screen) under(w io.Writer) error {
	s, width := v.status, v.width()
	rows := [][2]string{
		{"time", finishPart(s)},
		{"cost", costPart(s)},
		{"use", s.Allocation.String() + " — " + usePart(s)},
	}
	if !math.IsNaN(s.Throughput) || !math.IsNaN(s.Loss) {
		rows = append(rows, [2]string{"model", strings.Join([]string{show(s.Throughput, "%.0f samples/s", "speed no data"),
			show(s.Loss, "loss %.4f", "loss no data"), show(s.Accuracy, "accuracy %.4g", "accuracy no data")}, ", ")})
	}
	if len(s.Verdicts) > 0 {
		rows = append(rows, [2]string{"promises", lightsPart(s.Verdicts)})
	}
	if s.LastAction != "" {
		rows = append(rows, [2]string{"last", s.LastAction})
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, clip(fmt.Sprintf("%-9s %s", r[0], r[1]), width-1)); err != nil {
			return err
		}
	}
	return nil
}

func clip(s string, width int) string {
	r := []rune(s)
	if width < 1 || len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}

func (v *screen) Finished(rec *journal.Record, dir string) {
	if v.progress != nil {
		v.bar.Abort(true)
		v.progress.Wait()
	}
	v.lines.Finished(rec, dir)
}
