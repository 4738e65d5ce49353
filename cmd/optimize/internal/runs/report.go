package runs

import (
	"io"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/history"
	"trainopt/optimizer/report"
)

// reportOptions holds the flags of `report`.
type reportOptions struct {
	cli.Options
	format      cli.Format
	calibration bool
}

func reportCommand(e *cli.Env) *cobra.Command {
	o := &reportOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Runs, Use: "report [RUN]", Short: "Show the cost and SLA report of a run (default: the latest)", Args: cobra.MaximumNArgs(1),
		Example: `  optimize report                         # the latest run
  optimize report 20261123 -o report.html # a run by a unique part of its id, as a page
  optimize report --format json
  optimize report --calibration           # how often predictions were right`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.format.Resolve(o.Options); err != nil {
				return err
			}
			switch {
			case !o.calibration:
				return writeReport(e, args, o.format)
			case len(args) > 0:
				return cli.Usagef("--calibration cannot be combined with a run (%s): it reports on all runs", args[0])
			}
			return writeCalibration(e, o.format)
		},
	}
	o.Options = e.Options(cmd)
	o.format.Add(o.Flags, report.Formats())
	o.Flags.BoolVar(&o.calibration, "calibration", false, "coverage of the predictions of all runs, by model family")
	return cmd
}

// writeReport writes the report of the run named by the first argument.
func writeReport(e *cli.Env, args []string, f cli.Format) error {
	dir, err := findRun(e, args)
	if err != nil {
		return err
	}
	data, err := report.Load(dir)
	if err != nil {
		return err
	}
	return writeDocument(e, f, "report", data.Text, data.Render)
}

// writeDocument writes a result in a format: text to a terminal as wide as that.
func writeDocument(e *cli.Env, f cli.Format, what string, text func(w io.Writer, columns int) error, render func(w io.Writer, format string) error) error {
	if columns := e.OutputColumns(); columns > 0 && f.File == "" && f.Name == "text" {
		return text(e.Stdout, columns)
	}
	return e.Write(f.File, what, func(w io.Writer) error { return render(w, f.Name) })
}

// writeCalibration writes the calibration of the predictions of all runs in the state directory.
func writeCalibration(e *cli.Env, f cli.Format) error {
	db, notes, err := e.OpenHistory()
	if err != nil {
		return err
	}
	defer db.Close()
	warn(e, notes)
	entries, err := db.Entries(history.Filter{Kinds: []history.Kind{history.Run}})
	if err != nil {
		return err
	}
	table := history.Calibrate(entries)
	return e.Write(f.File, "calibration", func(w io.Writer) error { return report.Calibration(w, table, f.Name) })
}
