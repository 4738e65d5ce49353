package runs

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/history"
)

// exportOptions holds the flags of `runs export`.
type exportOptions struct {
	cli.Options
	format        cli.Format
	since         string
	to, name      string
	kinds, models []string
}

func exportCommand(e *cli.Env) *cobra.Command {
	o := &exportOptions{format: cli.Format{Name: "csv"}}
	cmd := &cobra.Command{
		Use: "export [RUN…]", Short: "Write the history as CSV, JSON or Parquet, or runs to MLflow or TensorBoard", Args: cobra.ArbitraryArgs,
		Long: `Write the history as a table: one row per run, per segment of a run that was timed at one allocation (kind probe; its work
is part of the run), and per imported log. Unknown cells are empty, or null.

--format mlflow and tensorboard write the given runs, by default all, with their values over time: to a file store of MLflow
(--to mlruns), to its server (--to http://HOST:5000; MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD), or as
event files of TensorBoard. A run that was exported before is replaced.

Columns of the table:

` + columnList(),
		Example: `  optimize runs export --kind run --since 2026-01-01 > runs.csv
  optimize runs export --model resnet50 -o runs.parquet
  optimize runs export latest --format mlflow --to http://127.0.0.1:5000
  optimize runs export --format tensorboard --to tensorboard`,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	o.format.Add(fs, append(history.ExportFormats(), slices.Sorted(maps.Keys(trackers))...))
	fs.StringVar(&o.to, "to", "", "with mlflow, tensorboard: the `DIR` of the store, or the http address of the server of MLflow (default: mlruns, tensorboard)")
	fs.StringVar(&o.name, "experiment", "optimize", "with mlflow: `NAME` of the experiment")
	fs.StringSliceVar(&o.kinds, "kind", nil, "only run|probe|log, separated by commas")
	fs.StringSliceVar(&o.models, "model", nil, "only these model `NAME`s, separated by commas")
	fs.StringVar(&o.since, "since", "", "only entries that started on `DATE` (YYYY-MM-DD, UTC) or later")
	return cmd
}

// columnList returns the documentation of the columns.
func columnList() string {
	var b strings.Builder
	for _, c := range history.Columns() {
		unit := c.Unit
		if unit != "" {
			unit = " [" + unit + "]"
		}
		fmt.Fprintf(&b, "  %s%s: %s\n", c.Name, unit, c.Meaning)
	}
	return b.String()
}

func (o *exportOptions) filter() (history.Filter, error) {
	filter := history.Filter{Models: o.models}
	for _, k := range o.kinds {
		kind := history.Kind(strings.ToLower(k))
		if !slices.Contains([]history.Kind{history.Run, history.Probe, history.Log}, kind) {
			return filter, fmt.Errorf("--kind %q: want run, probe or log", k)
		}
		filter.Kinds = append(filter.Kinds, kind)
	}
	if o.since != "" {
		var err error
		if filter.Since, err = time.Parse(time.DateOnly, o.since); err != nil {
			if filter.Since, err = time.Parse(time.RFC3339, o.since); err != nil {
				return filter, fmt.Errorf("--since %q: want a date such as 2026-01-31", o.since)
			}
		}
	}
	return filter, nil
}

func (o *exportOptions) run(args []string) error {
	if _, ok := trackers[o.format.Name]; ok {
		return o.track(args)
	}
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	if err := o.Check(cli.Rule{If: true, Flags: "to experiment", Requires: "--format mlflow or tensorboard"}); err != nil {
		return cli.Usage(err)
	}
	if len(args) > 0 {
		return cli.Usagef("the table contains all runs: to select runs, use --format mlflow or tensorboard, or --kind, --model and --since")
	}
	filter, err := o.filter()
	if err != nil {
		return cli.Usage(err)
	}
	if out, ok := o.Stdout.(*os.File); o.format.File == "" && o.format.Name == "parquet" && ok && term.IsTerminal(int(out.Fd())) {
		return cli.Usagef("--format parquet cannot be written to a terminal: name a file with -o, or redirect the output")
	}
	entries, notes, err := o.History(filter)
	warn(o.Env, notes)
	if err != nil {
		return err
	}
	return o.Write(o.format.File, "history", func(w io.Writer) error { return history.Export(w, entries, o.format.Name) })
}
