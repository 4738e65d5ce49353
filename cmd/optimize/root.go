package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cmd/optimize/internal/cluster"
	"trainopt/cmd/optimize/internal/predict"
	"trainopt/cmd/optimize/internal/profile"
	"trainopt/cmd/optimize/internal/runs"
	"trainopt/cmd/optimize/internal/simulate"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/simulator/cells"
)

// execute runs one command line and returns its exit code. Every refusal is one line on stderr.
func execute(e *cli.Env) run.Code {
	root := newRoot(e)
	root.SetArgs(rewriteArgs(e.Args))
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	err := root.ExecuteContext(context.Background())
	if errors.Is(err, cells.ErrShare) {
		return run.CodeDone
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(e.Stderr, "optimize: %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
	}
	return cli.ExitCode(err)
}

// rewriteArgs expands short forms: `optimize --train SCRIPT …` and `optimize -- command` to `optimize train …`;
// `--resumable yes` to `--resumable=yes`; `--offline-logs A B` to `--offline-logs A --offline-logs B`.
func rewriteArgs(args []string) []string {
	args = joinValues(args)
	if commandNamed(args) {
		return args
	}
	for _, a := range args {
		if a == "--" || strings.HasPrefix(a, "--") && flagName(a) == "train" {
			return append([]string{"train"}, args...)
		}
	}
	return args
}

// flagName returns the current name of a flag as typed, "" for any other argument.
func flagName(arg string) string {
	if !strings.HasPrefix(arg, "--") {
		return ""
	}
	name, _, _ := strings.Cut(arg[2:], "=")
	return string(cli.Normalize(nil, name))
}

// joinValues attaches separate values to --resumable and repeats --offline-logs for each of its files. After the first
// file, only names with the extension of a log are taken, so that a script can follow.
func joinValues(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		bare := !strings.Contains(a, "=")
		switch {
		case bare && flagName(a) == "resumable" && i+1 < len(args) && slices.Contains([]string{"auto", "yes", "no"}, args[i+1]):
			out = append(out, a+"="+args[i+1])
			i++
		case bare && flagName(a) == "offline-logs":
			out = append(out, a)
			for n := 0; i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && (n == 0 || cli.IsLog(args[i+1])); n++ {
				if n > 0 {
					out = append(out, a)
				}
				i++
				out = append(out, args[i])
			}
		default:
			out = append(out, a)
		}
	}
	return out
}

// commandNamed reports whether the first word is a command, in which case nothing is rewritten.
func commandNamed(args []string) bool {
	for i, a := range args {
		if a == "--" {
			return false
		}
		if strings.HasPrefix(a, "-") {
			continue
		}
		if i > 0 && slices.Contains([]string{"config", "state-dir", "log-level"}, flagName(args[i-1])) && !strings.Contains(args[i-1], "=") {
			continue // the value of a common flag
		}
		return slices.Contains([]string{"train", "report", "runs", "logs", "analyze", "predict", "prices", "pareto", "compare", "simulate", "cluster", "pretrain", "profile", "doctor", "version", "completion", "help", "config", "init", "lease-py", "__complete"}, a)
	}
	return false
}

// newRoot returns the root command with all subcommands and the common flags. Without a subcommand it prints help.
func newRoot(e *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "optimize --train SCRIPT [flags] [-- SCRIPT ARGS…]",
		Short: "Cut training cost while meeting the deadline and the budget",
		Long: `Cut training cost while meeting the deadline and the budget.

  optimize --train train.py --deadline 2h --budget 5

runs the unmodified script under supervision: it recalls similar runs, measures briefly, predicts time and cost, selects an
allocation by preference, enforces the deadline and the budget, and reports the outcome.`,
		Version:      programVersion(),
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if cli.Exists(e.Path(args[0])) {
				return cli.Usagef("unknown command %q: to train it, run `optimize --train %s`", args[0], args[0])
			}
			return cli.Usagef("unknown command %q: %s", args[0], suggestCommand(cmd, args[0]))
		},
		Args: cobra.ArbitraryArgs,
	}
	e.AddFlags(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return e.CheckFlags() }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cli.Usage(explainFlag(cmd, err)) })
	root.AddCommand(runs.Commands(e)...)
	root.AddCommand(predict.Commands(e)...)
	root.AddCommand(profile.Commands(e)...)
	root.AddCommand(simulate.Commands(e)...)
	root.AddCommand(cluster.Command(e))
	root.AddCommand(doctorCommand(e), cli.ConfigCommand(e), cli.InitCommand(e), versionCommand(e))
	for _, cmd := range root.Commands() {
		wrapArgs(cmd)
	}
	wrapHelp(root)
	return root
}

// helpWidth is the maximum width of help texts.
const helpWidth = 100

// wrapHelp wraps the long texts of a command and its subcommands at helpWidth; continuation lines keep the indentation.
func wrapHelp(cmd *cobra.Command) {
	lines := strings.Split(cmd.Long, "\n")
	for i, line := range lines {
		lines[i] = wrapLine(line)
	}
	cmd.Long = strings.Join(lines, "\n")
	for _, sub := range cmd.Commands() {
		wrapHelp(sub)
	}
}

func wrapLine(line string) string {
	if utf8.RuneCountInString(line) <= helpWidth {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out []string
	now := indent
	for _, word := range strings.Fields(line) {
		switch {
		case now == indent:
			now += word
		case utf8.RuneCountInString(now+" "+word) > helpWidth:
			out, now = append(out, now), indent+word
		default:
			now += " " + word
		}
	}
	return strings.Join(append(out, now), "\n")
}

// suggestCommand returns a hint at the command that was probably intended: the nearest name, or how to list the commands.
func suggestCommand(cmd *cobra.Command, word string) string {
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	if best := cli.Nearest(word, known); cli.EditDistance(strings.ToLower(word), best) <= 1+len(word)/4 {
		return fmt.Sprintf("nearest known is `%s %s`", cmd.CommandPath(), best)
	}
	return fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
}

// wrapArgs makes a wrong number of arguments a usage error, and an unexpected word an unknown subcommand.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			switch {
			case err == nil:
				return nil
			case c.HasSubCommands() && len(args) > 0:
				return cli.Usagef("unknown command %q of `%s`: %s", args[0], c.CommandPath(), suggestCommand(c, args[0]))
			}
			return cli.Usagef("%s: %w; see `optimize %s --help`", c.Name(), err, c.Name())
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// explainFlag adds the nearest flag of the command to the error for an unknown flag.
func explainFlag(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return err
	}
	var known []string
	add := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if cmd.Parent() == nil { // arguments of the root command are a training
		known = append(append(known, cli.SettingFlags()...), "train")
	}
	return fmt.Errorf("%w: nearest known is --%s", err, cli.Nearest(name, known))
}

// version is set at link time (-X main.version=…); by default it is that of the module.
var version string

func versionCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Show the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		if e.JSON {
			return e.PrintJSON(map[string]any{"schema": 1, "version": programVersion(), "go": runtime.Version()})
		}
		return e.Print(fmt.Sprintf("optimize %s (%s)\n", programVersion(), runtime.Version()))
	}}
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}

func doctorCommand(e *cli.Env) *cobra.Command {
	var o cli.Options
	cmd := &cobra.Command{Use: "doctor", Short: "Check this machine, or an engine: hardware, limits, missing dependencies and their impact", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return doctor(o) }}
	o = e.Options(cmd)
	cli.AddSettings(o.Flags, map[string]string{"engine": "also run a test job there: local|slurm", "engine-arg": ""})
	return cmd
}

func doctor(o cli.Options) error {
	vals, err := o.ProjectSettings(o.Flags)
	if err != nil {
		return cli.Usage(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	checks := resources.Doctor(ctx, resources.Roots{})
	if name := vals.Text("engine.name"); name != "local" {
		more, err := runs.CheckEngine(o.Env, name, vals.List("engine.args"))
		if err != nil {
			return cli.Usage(err)
		}
		checks = append(checks, more...)
	}
	if o.JSON {
		return o.PrintJSON(map[string]any{"schema": 1, "checks": checks})
	}
	for _, k := range checks {
		fmt.Fprintf(o.Stdout, "%-8s %-18s %s\n", k.Status, k.Name, k.Found)
		if k.Cost != "" {
			fmt.Fprintf(o.Stdout, "%-27s costs: %s\n", "", k.Cost)
		}
		if k.Do != "" {
			fmt.Fprintf(o.Stdout, "%-27s do:    %s\n", "", k.Do)
		}
	}
	return nil
}
