package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/wording"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
)

type jobsOptions struct {
	cli.Options
	all bool
}

func jobsCommand(e *cli.Env) *cobra.Command {
	o := &jobsOptions{}
	cmd := &cobra.Command{
		Use: "jobs", Short: "List the jobs of the cluster", Args: cobra.NoArgs,
		Example: `  optimize cluster jobs`,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	o.Options = e.Options(cmd)
	o.Flags.BoolVar(&o.all, "all", false, "list all jobs that have ended, not only the last ten")
	return cmd
}

// jobDocument is the JSON form of a job.
type jobDocument struct {
	cluster.Job
	User     string     `json:"user"`
	Weight   float64    `json:"weight"`
	Deadline *time.Time `json:"deadline"`   // null: none
	Budget   *float64   `json:"budget_usd"` // null: none
	// Chance is the probability that the job ends before its deadline on its present devices; null: unknown, or none.
	Chance *float64 `json:"deadline_chance"`
	Wait   float64  `json:"waited_s"`
	// Start is the predicted start of a waiting job: 5, 50 and 95 % quantiles; null: unknown, or the job does not wait.
	Start *[3]time.Time `json:"predicted_start"`
}

// document is the JSON form of the list.
type document struct {
	Schema int            `json:"schema"`
	Served bool           `json:"served"`
	Server cluster.Server `json:"server"`
	Jobs   []jobDocument  `json:"jobs"`
}

func (o *jobsOptions) run() error {
	server, alive, err := cluster.ReadServer(o.State())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(o.Stderr, "warning: %s; the next server replaces it\n", cli.OneLine(err.Error()))
	}
	jobs, specs, err := cluster.Jobs(o.State())
	var damaged cluster.DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	for _, err := range damaged {
		fmt.Fprintf(o.Stderr, "warning: %s\n", cli.OneLine(err.Error()))
	}
	doc := document{Schema: 1, Served: alive, Server: server, Jobs: []jobDocument{}}
	now := time.Now()
	if !server.Stored.IsZero() {
		fmt.Fprintf(o.Stderr, "warning: the disk of %s is full: the list is as of %s\n", o.State(), page.Clock(server.Stored, now))
	}
	forecast, _ := cluster.ReadForecast(o.State()) // none while no job waits
	for i := range jobs {
		j := newJobDocument(jobs[i], &specs[i], now)
		if at, ok := forecast.Starts[j.ID]; ok && alive && j.State == cluster.Waiting {
			j.Start = &at
		}
		doc.Jobs = append(doc.Jobs, j)
	}
	if o.JSON {
		return o.PrintJSON(doc)
	}
	if len(jobs) == 0 && !alive {
		return o.Print(fmt.Sprintf("no jobs, and no server for %s: start one by optimize cluster serve, then optimize cluster submit --train SCRIPT\n", o.State()))
	}
	return o.list(&doc, now)
}

// down lists devices whose nodes are down.
func down(byType map[string]int) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		text += fmt.Sprintf(", %d %s down", byType[name], name)
	}
	return text
}

func newJobDocument(j cluster.Job, spec *cluster.Spec, now time.Time) jobDocument {
	d := jobDocument{Job: j, User: spec.User, Weight: spec.Weight, Wait: j.Waited(now)}
	if limit := spec.Config.SLA.TimeMax; limit > 0 {
		at := j.Submitted.Add(limit)
		d.Deadline = &at
		d.Chance = chance(j.Finish, at)
	}
	if usd := spec.Config.SLA.CostMaxUSD; usd > 0 {
		d.Budget = &usd
	}
	return d
}

// chance returns the probability that a job ends before a time, by linear interpolation between the quantiles of its
// predicted end, from 0.05 to 0.95; nil if that is unknown.
func chance(finish *[3]time.Time, by time.Time) *float64 {
	if finish == nil {
		return nil
	}
	at, levels := *finish, [3]float64{0.05, 0.5, 0.95}
	p := levels[2]
	switch {
	case by.Before(at[0]):
		p = levels[0]
	case by.Before(at[2]):
		k := 0
		if !by.Before(at[1]) {
			k = 1
		}
		span := at[k+1].Sub(at[k]).Seconds()
		p = levels[k] + (levels[k+1]-levels[k])*by.Sub(at[k]).Seconds()/math.Max(span, 1e-9)
	}
	return &p
}

// shownEnded is the number of ended jobs in the list without --all.
const shownEnded = 10

func (o *jobsOptions) list(doc *document, now time.Time) error {
	if doc.Served {
		draining := ""
		if doc.Server.Draining {
			draining = ", draining"
		}
		if err := o.Print(fmt.Sprintf("%s: %s; policy %s, rounds of %s%s\n", doc.Server.Engine, describe(doc.Server.Devices)+down(doc.Server.Down), doc.Server.Policy,
			wording.Duration(doc.Server.RoundS), draining)); err != nil {
			return err
		}
	} else if err := o.Print("no server runs: optimize cluster serve starts one\n"); err != nil {
		return err
	}
	shown := slices.Clone(doc.Jobs)
	ended := 0
	for i := len(shown) - 1; i >= 0; i-- {
		if shown[i].State.Ended() {
			if ended++; ended > shownEnded && !o.all {
				shown = slices.Delete(shown, i, i+1)
			}
		}
	}
	if len(shown) == 0 {
		return o.Print("no jobs\n")
	}
	text, err := table(shown, now)
	if err != nil {
		return err
	}
	if left := len(doc.Jobs) - len(shown); left > 0 {
		text += fmt.Sprintf("not listed: %s that ended earlier (--all)\n", page.Plural(left, "job"))
	}
	return o.Print(text)
}

// table formats jobs as a table.
func table(jobs []jobDocument, now time.Time) (string, error) {
	var b strings.Builder
	const deadlines = 8 // the column, of jobs that have one
	limited := slices.ContainsFunc(jobs, func(j jobDocument) bool { return j.Deadline != nil })
	columns := func(cells ...string) []string {
		if !limited {
			return slices.Delete(cells, deadlines, deadlines+1)
		}
		return cells
	}
	t := newTable(&b, columns("job", "name", "user", "state", "devices", "progress", "rate", "ends", "deadline", "waited", "cost"), tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithTrimSpace(tw.Off), tablewriter.WithPadding(tw.Padding{Right: "  ", Overwrite: true}))
	for i := range jobs {
		j := &jobs[i]
		if err := t.Append(columns(strconv.Itoa(j.ID), page.Clean(j.Name), page.Clean(j.User), state(j), devices(j), progress(j), rate(j), finish(j, now), deadline(j, now), wording.Duration(math.Round(j.Wait)), price(j))); err != nil {
			return "", err
		}
	}
	if err := t.Render(); err != nil {
		return "", err
	}
	return strings.Join(trimmedLines(b.String()), "\n"), nil
}

const (
	unknown = "–"
	maxWhy  = 40 // length of the reason for which a job has ended, in the list
)

func state(j *jobDocument) string {
	if j.State.Ended() && j.Reason != "" {
		why := page.Clean(j.Reason)
		refused := j.ExitCode != nil && run.Code(*j.ExitCode) == run.CodeInfeasible // the limit comes first
		for !refused && utf8.RuneCountInString(why) > maxWhy {                      // the cause comes last
			_, rest, ok := strings.Cut(why, ": ")
			if !ok {
				break
			}
			why = rest
		}
		return string(j.State) + ": " + clip(why, maxWhy)
	}
	if j.Queued && j.State != cluster.Stopping {
		return page.Clean(j.Reason)
	}
	if j.State == cluster.Running && j.Keeps != nil && !*j.Keeps {
		return "running, not preemptible"
	}
	return string(j.State)
}

func devices(j *jobDocument) string {
	if j.State == cluster.Waiting || j.State.Ended() || j.Device == "" {
		return unknown
	}
	return fmt.Sprintf("%d %s", len(j.Where), j.Device)
}

func progress(j *jobDocument) string {
	switch {
	case j.Unit == "":
		return unknown
	case j.Total == 0:
		return fmt.Sprintf("%.6g %ss", j.Done, j.Unit)
	}
	return fmt.Sprintf("%.6g/%.6g %ss", j.Done, j.Total, j.Unit)
}

// rate returns the measured rates by device type, that of the present devices first.
func rate(j *jobDocument) string {
	rates := j.Rates
	if i := slices.IndexFunc(rates, func(r cluster.Rate) bool { return r.Device == j.Device && r.GPUs == len(j.Where) }); i > 0 {
		rates = slices.Concat(rates[i:i+1], rates[:i], rates[i+1:])
	}
	var parts []string
	for _, p := range j.Pairs {
		if p.With == j.Beside && p.Device == j.Device && p.GPUs == len(j.Where) {
			parts = append(parts, fmt.Sprintf("%.3g/s beside %d", p.PerSec, p.With))
		}
	}
	for _, r := range rates {
		text := fmt.Sprintf("%s %.3g/s", r.Device, r.PerSec)
		if r.GPUs > 1 {
			text = fmt.Sprintf("%d %s", r.GPUs, text)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, ", ")
}

func finish(j *jobDocument, now time.Time) string {
	switch {
	case j.State.Ended() && !j.Job.Ended.IsZero():
		return page.Clock(j.Job.Ended, now)
	case j.Start != nil:
		return "starts " + interval(j.Start, now)
	case j.Finish == nil:
		return unknown
	}
	return interval(j.Finish, now)
}

func interval(at *[3]time.Time, now time.Time) string {
	text, from, to := page.Clock(at[1], now), page.Clock(at[0], now), page.Clock(at[2], now)
	if from == to { // the end of a round
		return text
	}
	return fmt.Sprintf("%s (%s–%s)", text, from, to)
}

func deadline(j *jobDocument, now time.Time) string {
	if j.Deadline == nil {
		return unknown
	}
	text := page.Clock(*j.Deadline, now)
	if j.Chance != nil && !j.State.Ended() {
		return fmt.Sprintf("%s (%s)", text, chanceText(*j.Chance))
	}
	return text
}

// chanceText formats a probability whose extremes are bounds.
func chanceText(p float64) string {
	switch {
	case p >= 0.95:
		return "≥ 95 %"
	case p <= 0.05:
		return "≤ 5 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

func price(j *jobDocument) string {
	if j.Run == "" {
		return unknown
	}
	return page.USD(j.CostUSD)
}
