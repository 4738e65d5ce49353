package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report/chart"
	"trainopt/sla"
)

func (e *env) listRuns(c *common) error {
	entries, err := journal.List(c.absoluteState(e))
	if err != nil {
		return err
	}
	if c.json {
		out := []*journal.Record{}
		for _, en := range entries {
			if en.Record != nil {
				out = append(out, en.Record)
			}
		}
		return printJSON(e.stdout, out)
	}
	if len(entries) == 0 {
		fmt.Fprintln(e.stdout, "no runs yet: optimize --train SCRIPT makes one")
		return nil
	}
	text, err := runsTable(entries)
	if err != nil {
		return err
	}
	return writeAll(e.stdout, []byte(text))
}

// mostWhy is the maximum length of the reason why a run is unreadable in a wide list.
const mostWhy = 24

// terse is the level of abbreviation of a list; each level includes the lower ones.
type terse int

const (
	inFull     terse = iota
	fewerWords       // met limits are counted, units of progress are omitted
	noShape          // allocations are omitted
	counts           // all verdicts are counted
	reasonOnly       // the state shows only the reason of the end
)

// runsTable lists runs within helpWidth columns, at the lowest level of abbreviation that fits. Run ids are never cut
// because other commands take them.
func runsTable(entries []journal.Entry) (string, error) {
	for t := inFull; ; t++ {
		text, width, err := drawRuns(entries, t)
		if err != nil || width <= helpWidth || t == reasonOnly {
			return text, err
		}
	}
}

func drawRuns(entries []journal.Entry, t terse) (text string, width int, err error) {
	header := []any{"run", "state", "SLA", "progress", "time", "cost", "allocation"}
	if t >= noShape {
		header = header[:6]
	}
	var b strings.Builder
	table := newTable(&b, header...)
	for _, en := range entries {
		if err := table.Append(runRow(en, t)[:len(header)]); err != nil {
			return "", 0, err
		}
	}
	if err := table.Render(); err != nil {
		return "", 0, err
	}
	lines := strings.Split(chart.PlainBlanks(b.String()), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
		width = max(width, utf8.RuneCountInString(lines[i]))
	}
	return strings.Join(lines, "\n"), width, nil
}

// verdictWords abbreviates the verdicts by level: "✗ deadline  ✓ budget", "✓ 1 ✗ deadline", or "✗ 1 ✓ 1".
func verdictWords(verdicts []sla.Verdict, t terse) string {
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
	if h, err := launch.Find(dir); err == nil {
		if exit, ok := launch.ReadExit(h); ok {
			return fmt.Sprintf("orphaned (%s)", exit.Reason)
		}
	}
	return "orphaned"
}

// runRow returns a run in the columns of the list.
func runRow(en journal.Entry, t terse) []string {
	if errors.Is(en.Err, fs.ErrNotExist) {
		state := "never began"
		if en.Agent != nil {
			state = "starting"
		}
		return []string{en.ID, state, "no record", "", "", "", ""}
	}
	if en.Record == nil {
		why := oneLine(en.Err.Error())
		switch {
		case t >= counts:
			why = ""
		case t > inFull:
			why = clip(why, mostWhy)
		}
		return []string{en.ID, "unreadable", why, "", "", "", ""}
	}
	rec := en.Record
	state := string(rec.State)
	if rec.State == journal.Running && en.Agent == nil {
		state = orphanState(en.Dir)
	}
	if rec.Exit != nil && rec.State != journal.Done {
		state += " (" + rec.Exit.Reason + ")"
		if t >= reasonOnly {
			state = rec.Exit.Reason
		}
	}
	alloc := ""
	if rec.Plan != nil {
		alloc = rec.Plan.Allocation.String()
	}
	return []string{rec.RunID, state, verdictWords(rec.SLA.Verdicts, t), progressWords(rec, t), seconds(float64(rec.Outcome.Seconds)), money(float64(rec.Outcome.CostUSD)), alloc}
}

// progressWords returns "epoch 12/40", or "12/40" when abbreviated.
func progressWords(rec *journal.Record, t terse) string {
	done := rec.Outcome.Epochs
	if rec.Training.Unit == "step" {
		done = rec.Outcome.Steps
	}
	if !done.Known() {
		return chart.NoData
	}
	text := chart.Count(float64(done))
	if rec.Training.TotalUnits.Known() {
		text += "/" + chart.Count(float64(rec.Training.TotalUnits))
	}
	if t == inFull {
		text = rec.Training.Unit + " " + text
	}
	return text
}
