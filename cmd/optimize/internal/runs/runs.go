package runs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/run"
)

// findRun returns the directory of the run named by the first argument, by default the latest.
func findRun(e *cli.Env, args []string) (string, error) {
	ref := "latest"
	if len(args) > 0 {
		ref = args[0]
	}
	dir, err := journal.Find(e.State(), ref)
	if err == nil {
		settleGone(e, dir)
		if err := newAgent(e, nil).ConfirmCost(context.Background(), dir); err != nil {
			warn(e, []string{err.Error()})
		}
	}
	return dir, cli.Usage(err)
}

// settleGone records the end of a run that ended together with the Slurm job that contained it, and reports whether it
// did.
func settleGone(e *cli.Env, dir string) bool {
	settled, err := newAgent(e, nil).SettleGone(context.Background(), dir)
	if err != nil {
		warn(e, []string{err.Error()})
	}
	if settled {
		updateHistory(e, dir)
	}
	return settled
}

func runsCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "runs", GroupID: cli.Runs, Short: "List and manage runs", Args: cobra.NoArgs,
		Example: `  optimize runs                      # all runs, newest first
  optimize runs show latest
  optimize runs stop latest          # checkpoint, then stop
  optimize runs resume latest
  optimize runs export -o runs.csv`,
		RunE: func(*cobra.Command, []string) error { return listRuns(e) }}
	cmd.AddCommand(&cobra.Command{Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		Example: `  optimize runs list
  optimize runs list --json`,
		RunE: func(*cobra.Command, []string) error { return listRuns(e) }})
	cmd.AddCommand(&cobra.Command{Use: "show RUN", Short: "Show one run", Args: cobra.ExactArgs(1),
		Example: `  optimize runs show latest
  optimize runs show 20261123 --json    # a unique part of the id; the record`,
		RunE: func(_ *cobra.Command, args []string) error {
			format := cli.Format{Name: "text"}
			if e.JSON {
				format.Name = "json"
			}
			return writeReport(e, args, format)
		}})
	cmd.AddCommand(stopCommand(e), resumeCommand(e), preferCommand(e))
	cmd.AddCommand(&cobra.Command{Use: "rm RUN…", Short: "Remove runs that have ended", Args: cobra.MinimumNArgs(1),
		Example: `  optimize runs rm 20261123-101500-train-8ce0f6`,
		RunE:    func(_ *cobra.Command, args []string) error { return removeRuns(e, args) }})
	cmd.AddCommand(exportCommand(e), importCommand(e))
	return cmd
}

func stopCommand(e *cli.Env) *cobra.Command {
	grace := time.Duration(-1)
	cmd := &cobra.Command{Use: "stop RUN", Short: "Stop a run: checkpoint, then SIGTERM, then SIGKILL", Args: cobra.ExactArgs(1),
		Example: `  optimize runs stop latest
  optimize runs stop latest --grace 2m    # for a large checkpoint`,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(e, args)
			if err != nil {
				return err
			}
			outcome, err := newAgent(e, nil).StopRun(context.Background(), dir, grace)
			if err != nil {
				return err
			}
			updateHistory(e, dir)
			return e.PrintResult(outcome, map[string]any{"run_id": filepath.Base(dir)})
		}}
	cli.DurationVar(cmd.Flags(), &grace, "grace", "time until SIGKILL; SIGTERM follows a request for a checkpoint after half of it")
	cmd.Flags().Lookup("grace").DefValue = "that of the run"
	return cmd
}

func preferCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "prefer RUN PREFERENCE", Short: "Change the preference of a running run: its agent decides again", Args: cobra.ExactArgs(2),
		Long: `Ask the agent of a running run for another preference: time, cost, resource, balanced, or weights such as
time=0.6,cost=0.3,resource=0.1. The agent decides again, moves the job if that is worth it, and answers with the reason.`,
		Example: `  optimize runs prefer latest time`,
		RunE: func(_ *cobra.Command, args []string) error {
			preference, err := plan.ParsePreference(args[1])
			if err != nil {
				return cli.Usage(err)
			}
			dir, err := findRun(e, args[:1])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), preferWithin)
			defer cancel()
			answer, err := run.Prefer(ctx, dir, preference)
			switch {
			case errors.Is(err, run.ErrNoAgent):
				return cli.Usage(err)
			case err != nil:
				return err
			case e.JSON:
				return e.PrintJSON(answer)
			}
			return e.Print(answer.Text + "\n")
		}}
}

// preferWithin is the time for the answer of an agent, which may be moving the job.
const preferWithin = 2 * time.Minute

func removeRuns(e *cli.Env, refs []string) error {
	var dirs []string
	var errs []error
	for _, ref := range refs {
		dir, err := findRun(e, []string{ref})
		if err == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	removed := []string{}
	for _, dir := range dirs {
		if err := journal.Remove(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, filepath.Base(dir))
		updateHistory(e, dir)
	}
	if len(removed) > 0 {
		errs = append(errs, e.PrintResult("removed "+strings.Join(removed, ", "), map[string]any{"removed": removed}))
	}
	return errors.Join(errs...)
}

// updateHistory updates the runs database of the state directory that contains a run. Problems are reported as warnings.
func updateHistory(e *cli.Env, dir string) {
	warn(e, history.SyncStateDir(filepath.Dir(filepath.Dir(dir)), 5*time.Second))
}

func resumeCommand(e *cli.Env) *cobra.Command {
	var o cli.Options
	cmd := &cobra.Command{Use: "resume RUN", Short: "Resume a run: re-attach if its job is alive, else restart it from its checkpoint", Args: cobra.ExactArgs(1),
		Example: `  optimize runs resume latest
  optimize runs resume latest --deadline 4h --budget 10    # new limits, from the start of the run`,
		RunE: func(_ *cobra.Command, args []string) error { return resume(o, args) }}
	o = e.Options(cmd)
	o.Flags.BoolVar(&e.ShowOutput, "follow", false, "show the output of the job (in the live view also by the key o)")
	cli.AddSettings(o.Flags, map[string]string{"deadline": "a new deadline, `DUR` from the start of the run", "budget": "a new budget for the whole run, `USD`",
		"engine": "continue on another engine: local|slurm", "engine-arg": "", "billing-hour": "",
		"notify": "", "notify-link": ""})
	return cmd
}

// ofCluster returns an error for the run of a job of the cluster that has not ended: it would run on devices of other jobs.
func ofCluster(dir string) error {
	jobs, _, _ := cluster.Jobs(filepath.Dir(filepath.Dir(dir))) // those that can be read
	for _, j := range jobs {
		if j.Run == filepath.Base(dir) && !j.State.Ended() {
			return fmt.Errorf("resume %s: it is job %d of the cluster, whose server continues it (optimize cluster serve); optimize cluster cancel %d ends the job", j.Run, j.ID, j.ID)
		}
	}
	return nil
}

func resume(o cli.Options, args []string) error {
	dir, err := findRun(o.Env, args)
	if err != nil {
		return err
	}
	if err := ofCluster(dir); err != nil {
		return cli.Usage(err)
	}
	vals, err := o.ProjectSettings(o.Flags)
	if err != nil {
		return cli.Usage(err)
	}
	var errs []error
	change := run.Change{Notify: targets(vals, &errs), NotifyLink: vals.Text("monitor.notify_link")}
	if o.Changed("deadline") {
		if change.TimeMax = vals.Length("sla.time_max", &errs); change.TimeMax <= 0 && len(errs) == 0 {
			errs = append(errs, vals.Wrong("sla.time_max", vals.Text("sla.time_max"), "a duration above 0"))
		}
	}
	if before := len(errs); o.Changed("budget") {
		if change.CostMaxUSD = vals.Number("sla.cost_max", &errs); !(change.CostMaxUSD > 0) && len(errs) == before {
			errs = append(errs, vals.Wrong("sla.cost_max", vals.Text("sla.cost_max"), "USD above 0"))
		}
	}
	if o.Changed("engine") {
		change.Engine, change.EngineArgs = vals.Text("engine.name"), vals.List("engine.args")
		change.BillingHour = cost.USD(vals.Number("cost.billing_hour", &errs))
		if _, err := cli.OpenEngine(change.Engine); err != nil && change.Engine != "local" {
			errs = append(errs, vals.Wrong("engine.name", change.Engine, strings.Join(cli.EngineNames(), " or ")))
		}
	} else if o.Changed("engine-arg") || o.Changed("billing-hour") {
		errs = append(errs, errors.New("--engine-arg and --billing-hour require --engine"))
	}
	if len(errs) > 0 {
		return cli.Usage(errors.Join(errs...))
	}
	view := newView(o.Env)
	defer closeView(view)
	agent := newAgent(o.Env, view)
	agent.Stdin = jobInput(o.Stdin)
	signals, stop := o.Listen()
	defer stop()
	res := agent.Resume(context.Background(), dir, change, signals)
	if o.JSON && res.Record != nil {
		if err := o.PrintJSON(res.Record); err != nil {
			return err
		}
	}
	if res.Code != run.CodeDone {
		return cli.ExitError{Code: res.Code, Err: res.Err}
	}
	return nil
}
