package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
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

const (
	// leastID is as far as the name of a run is cut: its date, its time and the first letters of its script.
	leastID = 20
	// leastPromises is as far as other words are cut.
	leastPromises = 12
	// mostWhy is how much is said of why a run cannot be read where the list is wide.
	mostWhy = 24
)

// The columns of the list that are cut where it is wide.
const (
	runColumn = iota
	_
	promisesColumn
)

// runsTable lists runs within helpWidth columns as far as it can: where they do not fit, first the kept promises are counted and
// not named and units of progress left out, then the names of runs are cut to a beginning that still tells them apart (and finds them, as any unique part
// does), then words.
func runsTable(entries []journal.Entry) (string, error) {
	var rows [][]string
	draw := func() (text string, excess int, err error) {
		var b strings.Builder
		t := newTable(&b, "run", "state", "promises", "progress", "time", "cost", "allocation")
		for _, row := range rows {
			if err := t.Append(row); err != nil {
				return "", 0, err
			}
		}
		if err := t.Render(); err != nil {
			return "", 0, err
		}
		lines := strings.Split(b.String(), "\n")
		for i, line := range lines {
			lines[i] = strings.TrimRight(line, " ")
			excess = max(excess, utf8.RuneCountInString(lines[i])-helpWidth)
		}
		return strings.Join(lines, "\n"), excess, nil
	}
	for _, short := range []bool{false, true} {
		rows = nil
		for _, en := range entries {
			rows = append(rows, runRow(en, short))
		}
		if text, excess, err := draw(); err != nil || excess <= 0 {
			return text, err
		}
	}
	for _, cut := range []func(excess int){
		func(excess int) { cutIDs(rows, max(leastID, widest(rows, runColumn)-excess)) },
		func(excess int) {
			cutWords(rows, promisesColumn, max(leastPromises, widest(rows, promisesColumn)-excess))
		},
	} {
		text, excess, err := draw()
		if err != nil || excess <= 0 {
			return text, err
		}
		cut(excess)
	}
	text, _, err := draw()
	return text, err
}

func widest(rows [][]string, column int) int {
	w := 0
	for _, row := range rows {
		w = max(w, utf8.RuneCountInString(row[column]))
	}
	return w
}

// cutIDs cuts the names of runs to their beginning where no other name has the same.
func cutIDs(rows [][]string, width int) {
	begin := func(id string) string { return string([]rune(id)[:min(width, utf8.RuneCountInString(id))]) }
	seen := map[string]int{}
	for _, row := range rows {
		seen[begin(row[runColumn])]++
	}
	for _, row := range rows {
		if b := begin(row[runColumn]); seen[b] == 1 {
			row[runColumn] = b
		}
	}
}

func cutWords(rows [][]string, column, width int) {
	for _, row := range rows {
		row[column] = clip(row[column], width)
	}
}

// promises says how the agreed terms stand; short: those that are kept are counted, and the others named.
func promises(verdicts []sla.Verdict, short bool) string {
	text := lightsPart(verdicts)
	if short {
		kept := 0
		var others []sla.Verdict
		for _, v := range verdicts {
			if v.Status == sla.Met {
				kept++
			} else {
				others = append(others, v)
			}
		}
		text = strings.ReplaceAll(lightsPart(others), "  ", " ")
		if kept > 0 {
			text = strings.TrimSpace(fmt.Sprintf("%s %d %s", lamp[sla.Met], kept, text))
		}
	}
	if text == "" {
		return "none"
	}
	return text
}

// orphanState says how the job of a run is of which the agent has died.
func orphanState(dir string) string {
	if launch.Living(dir) {
		return "left behind (running)"
	}
	if h, err := launch.Find(dir); err == nil {
		if exit, ok := launch.ReadExit(h); ok {
			return fmt.Sprintf("left behind (%s)", exit.Reason)
		}
	}
	return "left behind"
}

// runRow is a run in the columns of the list; short: said in fewer words where there are many.
func runRow(en journal.Entry, short bool) []string {
	if errors.Is(en.Err, fs.ErrNotExist) {
		state := "never began"
		if en.Agent != nil {
			state = "starting"
		}
		return []string{en.ID, state, "no record", "", "", "", ""}
	}
	if en.Record == nil {
		why := oneLine(en.Err.Error())
		if short {
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
	}
	progress := "no data"
	if rec.Outcome.Epochs.Known() {
		progress = fmt.Sprintf("%s %g", rec.Training.Unit, float64(rec.Outcome.Epochs))
		if rec.Training.TotalUnits.Known() {
			progress += fmt.Sprintf("/%g", float64(rec.Training.TotalUnits))
		}
		if short {
			progress = strings.TrimPrefix(progress, rec.Training.Unit+" ")
		}
	}
	alloc := ""
	if rec.Plan != nil {
		alloc = rec.Plan.Allocation.String()
	}
	return []string{rec.RunID, state, promises(rec.SLA.Verdicts, short), progress, seconds(float64(rec.Outcome.Seconds)), money(float64(rec.Outcome.CostUSD)), alloc}
}
