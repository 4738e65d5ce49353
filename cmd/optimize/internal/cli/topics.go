package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/optimizer/run"
)

// topics returns the help texts that belong to no command.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "Exit codes", Long: exitCodes()},
		{Use: "environment", Short: "Environment variables", Long: `Every setting of ` + "`optimize config`" + ` can be given as a variable. Precedence: flag, environment, file, default. An unknown variable with
the prefix OPTIMIZE_ is an error.

  OPTIMIZE_CONFIG: configuration file, as --config
  OPTIMIZE_STATE_DIR: state directory, as --state-dir
` + variables() + `
Further:

  NO_COLOR: no colours (--color always overrides it)
  XDG_STATE_HOME: below it, optimize/ contains what projects share: the list of their state directories, and imported prices
  HOME: up to it, project files and state directories are searched

The variables that a training receives are listed in docs/files.md.`},
		{Use: "files", Short: "Files that are read and written", Long: `  optimize.yaml: settings of a project (` + "`optimize init`" + `); the nearest one upwards is used
  .optimize: state directory of a project: runs, history, reports; the nearest one upwards is used, else one is created in the working directory
  .optimize/runs/RUN: one run: run.json, samples.csv, log.csv, job.stdout, job.stderr, report.html, …
  .optimize/history.db: runs database, which can be rebuilt from the runs
  ~/.local/state/optimize: what projects share (XDG_STATE_HOME): the list of their state directories, and imported prices

With --state-dir or OPTIMIZE_STATE_DIR nothing is shared with other projects.

docs/files.md describes the formats.`},
	}
}

// exitCodes lists the exit codes as text.
func exitCodes() string {
	var b strings.Builder
	for _, c := range []struct {
		code run.Code
		text string
	}{
		{run.CodeDone, "done; all SLA targets met"}, {run.CodeOurs, "internal error"}, {run.CodeUsage, "error in the command line or the configuration"},
		{run.CodeMissed, "done; an SLA target was missed"}, {run.CodeGuard, "stopped by the guard at the deadline or the budget"},
		{run.CodeTraining, "the training failed; its own exit code or signal is in the report"}, {run.CodeInfeasible, "infeasible: refused before the start, or stopped because a limit could not be met any more"},
		{run.CodeTryAgain, "stopped at the end of its Slurm allocation, or before its machine is reclaimed; to be resumed"}, {run.CodeInterrupt, `stopped by the user (Ctrl-C, Ctrl-\)`}, {run.CodeTerminated, "stopped by the user (SIGTERM)"},
	} {
		fmt.Fprintf(&b, "  %d: %s\n", c.code, c.text)
	}
	return b.String()
}
