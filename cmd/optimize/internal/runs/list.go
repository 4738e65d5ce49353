package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

func listRuns(e *cli.Env) error {
	entries, err := journal.List(e.State())
	if err != nil {
		return err
	}
	settled := false
	for _, en := range entries {
		if en.Record != nil && en.Record.State == journal.Running {
			settled = settleGone(e, en.Dir) || settled
		}
	}
	if settled {
		if entries, err = journal.List(e.State()); err != nil {
			return err
		}
	}
	if e.JSON {
		out := []*journal.Record{}
		for _, en := range entries {
			if en.Record != nil {
				out = append(out, en.Record)
			}
		}
		return e.PrintJSON(out)
	}
	if len(entries) == 0 {
		return e.Print(fmt.Sprintf("no runs yet in %s: start one with optimize --train SCRIPT\n", e.State()))
	}
	text, err := runsTable(entries, cmp.Or(e.OutputColumns(), listWidth))
	if err != nil {
		return err
	}
	return e.Print(text)
}

// listWidth is the maximum width of a list of runs without a terminal, if it can be abbreviated to that.
const listWidth = 100

// maxReasonWidth is the maximum length of the reason why a run is unreadable in a wide list.
const maxReasonWidth = 24

// abbreviation is the level of abbreviation of a list; each level includes the lower ones.
type abbreviation int

const (
	inFull     abbreviation = iota
	fewerWords              // met limits are counted, units of progress are omitted
	noShape                 // allocations are omitted
	counts                  // all verdicts are counted
	reasonOnly              // the state shows only the reason of the end
	noProgress              // the progress is omitted
)

// runsTable lists runs within a width in columns, at the lowest level of abbreviation that fits. Run ids are never cut
// because other commands take them.
func runsTable(entries []journal.Entry, columns int) (string, error) {
	for t := inFull; ; t++ {
		text, width, err := drawRuns(entries, t)
		if err != nil || width <= columns || t == noProgress {
			return text, err
		}
	}
}

func drawRuns(entries []journal.Entry, t abbreviation) (text string, width int, err error) {
	shown := func(row []string) []string {
		if t >= noShape {
			row = row[:6]
		}
		if t >= noProgress {
			row = slices.Delete(row, 3, 4)
		}
		return row
	}
	var b strings.Builder
	table := newTable(&b, shown([]string{"run", "state", "SLA", "progress", "time", "cost", "allocation"}), tablewriter.WithRowAutoWrap(tw.WrapNone))
	for _, en := range entries {
		if err := table.Append(shown(runRow(en, t))); err != nil {
			return "", 0, err
		}
	}
	if err := table.Render(); err != nil {
		return "", 0, err
	}
	lines := trimmedLines(page.PlainBlanks(b.String()))
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	return strings.Join(lines, "\n"), width, nil
}

// newTable returns a table without lines.
func newTable(w io.Writer, header []string, options ...tablewriter.Option) *tablewriter.Table {
	t := tablewriter.NewTable(w, append([]tablewriter.Option{tablewriter.WithRendition(tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone}}),
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithHeaderAlignment(tw.AlignLeft)}, options...)...)
	t.Header(header)
	return t
}

// trimmedLines returns the lines of a table without the blanks at their ends.
func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// verdictText abbreviates the verdicts by level: "✗ deadline  ✓ budget", "✓ 1 ✗ deadline", or "✗ 1 ✓ 1".
func verdictText(verdicts []sla.Verdict, t abbreviation) string {
	if len(verdicts) == 0 {
		return "no limits"
	}
	if t == inFull {
		return lightsPart(verdicts)
	}
	number := map[sla.Status]int{}
	var others []sla.Verdict
	for _, v := range verdicts {
		number[v.Status]++
		if v.Status != sla.Met {
			others = append(others, v)
		}
	}
	var parts []string
	for _, s := range []sla.Status{sla.Met, sla.Violated, sla.AtRisk, sla.Unknown} {
		if number[s] > 0 && (s == sla.Met || t >= counts) {
			parts = append(parts, fmt.Sprintf("%s %d", lamp[s], number[s]))
		}
	}
	if t < counts && len(others) > 0 {
		parts = append(parts, strings.ReplaceAll(lightsPart(others), "  ", " "))
	}
	return strings.Join(parts, " ")
}

// orphanState returns the state of a run whose agent has died, including the state of its job.
func orphanState(dir string) string {
	if launch.Living(dir) {
		return "orphaned (running)"
	}
	dirs := launch.JobDirs(dir)
	if h, err := launch.Find(dirs[len(dirs)-1]); err == nil {
		if exit, ok := h.ReadExit(); ok {
			return fmt.Sprintf("orphaned (%s)", exit.Reason)
		}
	}
	return "orphaned"
}

// runRow returns a run in the columns of the list.
func runRow(en journal.Entry, t abbreviation) []string {
	if errors.Is(en.Err, fs.ErrNotExist) {
		state := "never began"
		if en.Agent != nil {
			state = "starting"
		}
		return []string{en.ID, state, "no record", "", "", "", ""}
	}
	if en.Record == nil {
		why := cli.OneLine(strings.ReplaceAll(en.Err.Error(), en.Dir+"/", "")) // the id names the directory
		switch {
		case t >= counts:
			why = ""
		case t > inFull:
			why = clip(why, maxReasonWidth)
		}
		return []string{en.ID, "unreadable", why, "", "", "", ""}
	}
	rec := en.Record
	state := string(rec.State)
	if rec.State == journal.Running && en.Agent == nil {
		state = orphanState(en.Dir)
	} else if place := en.Agent.Place(); place != "" && rec.State == journal.Running && t < reasonOnly {
		state += " (" + place + ")"
	}
	switch {
	case rec.State == journal.Done:
		state = "finished" // as reports and pages call it
	case rec.Exit == nil:
	case t < reasonOnly:
		state += " (" + rec.Exit.Reason + ")"
	case rec.Exit.Reason != string(launch.Exited): // of a failed run, which its state says
		state = rec.Exit.Reason
	}
	if rec.Altered {
		state += ", altered"
	}
	alloc := ""
	if rec.Plan != nil {
		alloc = rec.Plan.Allocation.String()
	}
	return []string{rec.RunID, state, verdictText(rec.SLA.Verdicts, t), progressText(rec, t), seconds(float64(rec.Outcome.Seconds)), money(float64(rec.Outcome.CostUSD)), alloc}
}

// progressText returns "epoch 12/40", or "12/40" when abbreviated.
func progressText(rec *journal.Record, t abbreviation) string {
	done := rec.Outcome.Epochs
	if rec.Training.Unit == "step" {
		done = rec.Outcome.Steps
	}
	if !done.Known() {
		return page.NoData
	}
	text := page.Count(float64(done))
	if rec.Training.TotalUnits.Known() {
		text += "/" + page.Count(float64(rec.Training.TotalUnits))
	}
	if t == inFull {
		text = rec.Training.Unit + " " + text
	}
	return text
}
