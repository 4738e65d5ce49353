package trial

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
)

// BaselineComparison compares a policy with the unchanged baseline, over the trials of one preference whose baseline meets
// the SLA: there every loss is caused by the policy. Shares are relative changes, means over finished jobs.
type BaselineComparison struct {
	Policy, Prefer string
	Jobs           int
	// Goal is the relative change of the preferred objective (Truth.Utility), Best that of the oracle.
	Goal, Best, Time, Cost float64
	Slower                 int // jobs that took more than 5 % longer
	Broken                 int // SLAs missed that the baseline meets
	Restarts               float64
	MostRestarts           int
}

// CompareWithBaseline returns the table in the order of the trials; user and oracle themselves are omitted.
func CompareWithBaseline(trials []*jobTrial) []BaselineComparison {
	var rows []BaselineComparison
	for _, t := range trials {
		if t.Policy == "user" || t.Policy == "oracle" || !t.Truth.Own.Feasible {
			continue
		}
		i := slices.IndexFunc(rows, func(r BaselineComparison) bool { return r.Policy == t.Policy && r.Prefer == t.Prefer })
		if i < 0 {
			i, rows = len(rows), append(rows, BaselineComparison{Policy: t.Policy, Prefer: t.Prefer})
		}
		rows[i].add(t)
	}
	for i := range rows {
		r := &rows[i]
		if done := float64(r.Jobs - r.Broken); done > 0 {
			r.Goal, r.Best, r.Time, r.Cost = r.Goal/done, r.Best/done, r.Time/done, r.Cost/done
		} else {
			r.Goal, r.Best, r.Time, r.Cost = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		}
		r.Restarts /= float64(r.Jobs)
	}
	return rows
}

// add counts a trial; the shares are sums until all trials are counted.
func (r *BaselineComparison) add(t *jobTrial) {
	o, own := t.Outcome, &t.Truth.Own
	r.Jobs++
	r.Restarts += float64(o.Restarts)
	r.MostRestarts = max(r.MostRestarts, o.Restarts)
	if !o.MetSLA() {
		r.Broken++
		return
	}
	p, err := plan.ParsePreference(t.Prefer)
	if err != nil {
		return // unreachable: the bench has parsed it
	}
	nothing := t.Truth.Utility(p, own.objectives())
	r.Goal += t.Truth.Utility(p, o.objectives())/nothing - 1
	r.Best += t.Truth.Utility(p, t.Oracle.objectives())/nothing - 1
	r.Time += o.Seconds/own.Seconds - 1
	if own.USD > 0 {
		r.Cost += o.USD/own.USD - 1
	}
	if o.Seconds > 1.05*own.Seconds {
		r.Slower++
	}
}

// WriteBaselineComparison writes the table as text.
func WriteBaselineComparison(w io.Writer, rows []BaselineComparison) error {
	var b strings.Builder
	fmt.Fprintln(&b, "\nAgainst doing nothing, where the baseline meets the SLA: changes are means over jobs that kept it")
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "policy\tprefer\tjobs\tgoal\toracle\ttime\tcost\tover 5 % slower\tbroken\trestarts\tmost\t")
	for _, r := range rows {
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%.2f\t%d\t\n", r.Policy, r.Prefer, r.Jobs, page.Change(100*r.Goal), page.Change(100*r.Best),
			page.Change(100*r.Time), page.Change(100*r.Cost), r.Slower, r.Broken, r.Restarts, r.MostRestarts)
	}
	if err := tab.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	if _, err := io.WriteString(w, page.PlainBlanks(b.String())); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
