package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report"
	"trainopt/optimizer/run"
)

// findRun resolves a run id, a unique part of one, "latest", or a path to a run directory.
func findRun(e *env, c *common, ref string) (string, error) {
	dir, err := journal.Find(c.absoluteState(e), ref)
	if err != nil {
		return "", usageError{err}
	}
	return dir, nil
}

func reportCommand(e *env, c *common) *cobra.Command {
	var format, output string
	var scored bool
	cmd := &cobra.Command{
		Use: "report [RUN]", Short: "Show the cost and SLA report of a run (default: the latest)", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.json && !cmd.Flags().Changed("format") {
				format = "json"
			}
			if scored {
				if len(args) > 0 {
					return usageError{fmt.Errorf("--calibration is about all runs, and %s was named", args[0])}
				}
				return e.calibration(c, format, output)
			}
			ref := "latest"
			if len(args) == 1 {
				ref = args[0]
			}
			dir, err := findRun(e, c, ref)
			if err != nil {
				return err
			}
			return e.writeReport(dir, format, output)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text|json|html|markdown|csv")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` instead of standard output")
	cmd.Flags().BoolVar(&scored, "calibration", false, "how often the predictions of all runs held, by model family")
	return cmd
}

func (e *env) writeReport(dir, format, output string) error {
	data, err := report.Load(dir)
	if err != nil {
		return err
	}
	if !report.Known(format) {
		return usageError{fmt.Errorf("--format %q: unknown, want one of %s", format, report.FormatNames())}
	}
	if output == "" {
		return report.Render(e.stdout, data, format)
	}
	f, err := os.Create(inDir(e.dir, output))
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return errors.Join(report.Render(f, data, format), f.Close())
}

func runsCommand(e *env, c *common) *cobra.Command {
	cmd := &cobra.Command{Use: "runs", Short: "List and manage runs", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return e.listRuns(c) }}
	cmd.AddCommand(&cobra.Command{Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return e.listRuns(c) }})
	cmd.AddCommand(&cobra.Command{Use: "show RUN", Short: "Show one run", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(e, c, args[0])
			if err != nil {
				return err
			}
			format := "text"
			if c.json {
				format = "json"
			}
			return e.writeReport(dir, format, "")
		}})
	grace := 30 * time.Second
	stop := &cobra.Command{Use: "stop RUN", Short: "Stop a run: checkpoint, then SIGTERM, then SIGKILL", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(e, c, args[0])
			if err != nil {
				return err
			}
			said, err := run.StopRun(cmdContext(), e.agent(nil).Launcher, dir, grace)
			if err != nil {
				return err
			}
			fmt.Fprintln(e.stdout, said)
			e.remember(c, filepath.Dir(filepath.Dir(dir)))
			return nil
		}}
	stop.Flags().Var(span{&grace}, "grace", "time between SIGTERM and SIGKILL")
	cmd.AddCommand(stop, resumeCommand(e, c))
	cmd.AddCommand(&cobra.Command{Use: "rm RUN…", Short: "Remove runs that have ended", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.removeRuns(c, args) }})
	cmd.AddCommand(runsExportCommand(e, c), runsImportCommand(e, c))
	return cmd
}

func (e *env) removeRuns(c *common, refs []string) error {
	var errs []error
	for _, ref := range refs {
		dir, err := findRun(e, c, ref)
		if err == nil {
			err = journal.Remove(dir)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(e.stdout, "removed %s\n", filepath.Base(dir))
		e.remember(c, filepath.Dir(filepath.Dir(dir)))
	}
	return errors.Join(errs...)
}

// remember updates the runs database of a state directory. Problems are reported as warnings.
func (e *env) remember(c *common, stateDir string) {
	for _, note := range history.Remember(stateDir, 5*time.Second) {
		e.view(c).Event(run.Warning, note)
	}
}

func resumeCommand(e *env, c *common) *cobra.Command {
	var deadline, budget string
	cmd := &cobra.Command{Use: "resume RUN", Short: "Resume a run: re-attach if its job is alive, else restart it from its checkpoint", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := findRun(e, c, args[0])
			if err != nil {
				return err
			}
			vals, err := loadSettings(e, cmd.Flags(), c.config)
			if err != nil {
				return usageError{err}
			}
			var errs []error
			change := run.Change{}
			if deadline != "" {
				vals.v.Set("sla.time_max", deadline)
				change.TimeMax = vals.length("sla.time_max", &errs)
			}
			if budget != "" {
				vals.v.Set("sla.cost_max", budget)
				change.CostMaxUSD = vals.number("sla.cost_max", &errs)
			}
			if deadline != "" && change.TimeMax <= 0 && len(errs) == 0 {
				errs = append(errs, fmt.Errorf("--deadline %q: want a duration above 0", deadline))
			}
			if budget != "" && !(change.CostMaxUSD > 0) && len(errs) == 0 {
				errs = append(errs, fmt.Errorf("--budget %q: want USD above 0", budget))
			}
			if len(errs) > 0 {
				return usageError{errors.Join(errs...)}
			}
			agent := e.agent(e.view(c))
			signals, unlisten := e.listen()
			defer unlisten()
			res := agent.Resume(cmdContext(), dir, change, signals)
			if c.json && res.Record != nil {
				if err := printJSON(e.stdout, res.Record); err != nil {
					return err
				}
			}
			if res.Code != run.CodeDone {
				return exitError{res.Code, res.Err}
			}
			return nil
		}}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringVar(&deadline, "deadline", "", "a new deadline, `DUR` from the start of the run")
	fs.StringVar(&budget, "budget", "", "a new budget for the whole run, `USD`")
	return cmd
}
