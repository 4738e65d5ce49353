package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// Summary writes one table over several runs for a terminal, with one line per run and a total.
func Summary(w io.Writer, records []*journal.Record) error {
	g := &page.Table{Columns: slices.Concat(page.Left("Script", "State", "SLA"), page.Right("Time", "Cost", "Time vs. baseline", "Cost vs. baseline"), page.Left("Allocation"))}
	total, counted := 0.0, 0
	for _, r := range records {
		if r == nil {
			continue
		}
		d := &data{Record: r}
		state, l := stateOf(d)
		allocation := page.NoData
		if r.Plan != nil {
			allocation = allocationText(r.Plan.Allocation)
		}
		c := page.Row(titleOf(r), state, compliance(r), number(r.Outcome.Seconds, page.Duration), number(r.Outcome.CostUSD, page.USD),
			number(r.Comparison.SecondsChangePct, change), number(r.Comparison.CostChangePct, change), allocation)
		c[1].Light, c[2].Light = l, slaAnswer(d).Light
		g.Rows = append(g.Rows, c)
		if r.Outcome.CostUSD.Known() {
			total += float64(r.Outcome.CostUSD)
			counted++
		}
	}
	var b bytes.Buffer
	if len(g.Rows) == 0 {
		_, err := fmt.Fprintln(w, "No runs.")
		return err
	}
	if err := g.Text(&b); err != nil {
		return fmt.Errorf("summary of %d runs: %w", len(records), err)
	}
	fmt.Fprintf(&b, "\n%s, %s", page.Plural(len(g.Rows), "run"), page.USD(total))
	if counted < len(g.Rows) {
		fmt.Fprintf(&b, " for the %d whose cost is known", counted)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, page.PlainBlanks(b.String()))
	return err
}

// compliance returns the number of met limits: "3 of 3 met".
func compliance(r *journal.Record) string {
	n := len(r.SLA.Verdicts)
	if n == 0 {
		return "no limits"
	}
	by := map[sla.Status]int{}
	for _, v := range r.SLA.Verdicts {
		by[v.Status]++
	}
	switch {
	case by[sla.Violated] > 0 && r.State != journal.Done:
		return fmt.Sprintf("%d of %d missed", by[sla.Violated], n)
	case by[sla.Unknown] == n:
		return "unknown"
	case !r.Over():
		return fmt.Sprintf("%d of %d on track", by[sla.Met], n)
	}
	return fmt.Sprintf("%d of %d met", by[sla.Met], n)
}
