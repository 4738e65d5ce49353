package runs

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/optimizer/analysis"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// analyzeSettings lists the settings that analyze accepts as flags, with their help for this command.
var analyzeSettings = map[string]string{
	"deadline": "list the runs that took longer than `DUR`", "budget": "list the runs that cost more than `USD`",
	"min-throughput": "list the runs slower than `X` samples/s", "max-memory": "list the runs that used more than `GiB` of memory",
	"min-gpu-util": "list the runs with a GPU utilization below `%`", "min-cpu-util": "list the runs with a CPU utilization below `%`",
	"rates": "reprice all runs: `FILE` with the prices of the machine", "instance": "reprice all runs: `CLOUD:TYPE[:spot]`",
	"gpu-hour": "reprice all runs: `USD` per GPU and hour", "cpu-hour": "reprice all runs: `USD` per CPU and hour",
	"gib-hour": "reprice all runs: `USD` per GiB of memory and hour", "log-format": "format of the logs (default: by their content)",
}

// priceFlags lists the flags that reprice all runs.
var priceFlags = []string{"rates", "instance", "gpu-hour", "cpu-hour", "gib-hour"}

// analyzeOptions holds the flags of `analyze` that are not settings.
type analyzeOptions struct {
	cli.Options
	assumedValues
	batchOptions
	format cli.Format
}

func analyzeCommand(e *cli.Env) *cobra.Command {
	o := &analyzeOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Plan, Use: "analyze [LOG…|RUN…]", Short: "Analyze finished trainings: time, cost, scaling, best configuration per model, waste; batch jobs of Slurm",
		Long: `Analyze finished trainings: time and cost per model, scaling with GPUs, CPUs and batch size, the configurations that did
the same work fastest, cheapest and at the lowest cost per sample, violations of given limits, and money spent without work
being done.

Training logs of any framework, or the directories that contain them, and runs can be named together; by default, all runs
and imported logs of the state directory are analyzed. Time and cost are compared per unit of the same work.

With --sacct, the accounting of Slurm is analyzed instead: what batch jobs requested and used, by user and name of the job,
what they cost, and the requests that would have sufficed. The accounting is requested from sacct (--sacct live), or is a file
that was written by

  TZ=UTC SLURM_TIME_FORMAT=standard sacct --duplicates --parsable2 --starttime=now-7days --format=\
` + continued(slurm.AccountingFields) + ` > accounting.txt`,
		Example: `  optimize analyze
  optimize analyze old/*.csv --gpu-hour 2.5 --cpu-hour 0.04
  optimize analyze latest results.csv --deadline 2h --min-gpu-util 60
  optimize analyze --format html -o analysis.html
  optimize analyze --format markdown -o analysis.md
  optimize analyze --sacct live --since now-30days --format html -o jobs.html
  optimize analyze --sacct accounting.txt --user ada --gpu-hour 2.5 --cpu-hour 0.04`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.Options = e.Options(cmd)
	o.format.Add(o.Flags, analysis.Formats())
	cli.AddSettings(o.Flags, analyzeSettings)
	const missing = "for logs that do not record it: "
	o.assumedValues.add(o.Flags, missing)
	o.Flags.StringVar(&o.dataset, "dataset", "", missing+"`NAME` of the data set")
	o.Flags.StringVar(&o.sacct, "sacct", "", "analyze the batch jobs in this `FILE` with the output of sacct (-: standard input; live: call sacct)")
	o.Flags.StringVar(&o.since, "since", "", "with --sacct live: jobs since this `TIME` of sacct, in UTC (default now-7days)")
	o.Flags.StringVar(&o.user, "user", "", "with --sacct: only the jobs of this `NAME`; with live, all: those of all users")
	return cmd
}

// run collects runs and logs and writes the analysis. If there is nothing to analyze, it returns a usage error.
func (o *analyzeOptions) run(args []string) error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	vals, err := o.LoadSettings(o.Flags, o.Config)
	if err != nil {
		return cli.Usage(err)
	}
	if err := o.Check(o.batchOptions.rules()...); err != nil {
		return cli.Usage(err)
	}
	if o.sacct != "" {
		return o.batchJobs(vals, args)
	}
	options, err := o.limits(vals)
	if err != nil {
		return cli.Usage(err)
	}
	read, err := o.logOptions(vals.Text("monitor.log_format"), vals)
	if err != nil {
		return cli.Usage(err)
	}
	a := analysis.New(options)
	if err := o.collect(a, read, args); err != nil {
		return err
	}
	result := a.Analyze()
	if result.Runs == 0 {
		return cli.Usagef("analyze%s", nothingToAnalyze(o.State(), args, result))
	}
	return o.Write(o.format.File, "analysis", func(w io.Writer) error { return result.Render(w, o.format.Name) })
}

func nothingToAnalyze(stateDir string, args []string, r *analysis.Report) string {
	notes := ""
	if len(r.Notes) > 0 {
		notes = " (" + strings.Join(r.Notes, "; ") + ")"
	}
	if len(args) > 0 {
		return fmt.Sprintf(" %s: no finished run%s", strings.Join(args, ", "), notes)
	}
	return fmt.Sprintf(": no finished runs in %s%s; name a training log, or import one with `optimize runs import`", stateDir, notes)
}

// limits returns the limits and prices given by the user.
func (o *analyzeOptions) limits(v *cli.Values) (analysis.Options, error) {
	var out analysis.Options
	var errs []error
	given := v.Limits(&errs)
	if len(errs) == 0 {
		limits, err := sla.New(given)
		errs, out.Limits = append(errs, err), limits
	}
	rates, err := o.rates(v)
	out.Rates = rates
	return out, errors.Join(append(errs, err)...)
}

// rates returns the prices given by the user; nil if none is given.
func (o *analyzeOptions) rates(v *cli.Values) (*cost.Rates, error) {
	if !o.Changed(priceFlags...) {
		return nil, nil
	}
	today := o.Clock.Now().Format(time.DateOnly)
	return o.Rates(v, func() cost.Rates { return cost.Rates{Source: "nothing", Dated: today} })
}

// collect adds the logs and runs named by the arguments, or the whole history without arguments.
func (o *analyzeOptions) collect(a *analysis.Analyzer, read history.LogOptions, args []string) error {
	if len(args) == 0 {
		entries, notes, err := o.History(history.Filter{})
		warn(o.Env, notes)
		a.AddEntries(entries)
		return err
	}
	var errs []error
	for _, arg := range args {
		log, run, err := o.FindLogOrRun(arg)
		switch {
		case err != nil:
		case log != "":
			err = a.AddLog(log, read)
		default:
			err = o.addRun(a, run)
		}
		errs = append(errs, err)
	}
	return cli.Usage(errors.Join(errs...))
}

// addRun adds a run and its probes from the history of the state directory that contains the run.
func (o *analyzeOptions) addRun(a *analysis.Analyzer, dir string) error {
	env := *o.Env
	env.StateDir = filepath.Dir(filepath.Dir(dir))
	entries, notes, err := env.History(history.Filter{})
	warn(o.Env, notes)
	if err != nil {
		return err
	}
	id := filepath.Base(dir)
	entries = slices.DeleteFunc(entries, func(entry history.Entry) bool { return entry.ID != id && entry.Parent != id })
	if len(entries) == 0 {
		rec, err := journal.ReadVerified(dir)
		if err != nil {
			return err
		}
		return fmt.Errorf("analyze run %s: it is %s, not finished", id, rec.State)
	}
	a.AddEntries(entries)
	return nil
}
