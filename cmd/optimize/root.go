package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cmd/optimize/internal/predict"
	"trainopt/cmd/optimize/internal/runs"
	"trainopt/cmd/optimize/internal/simulate"
	"trainopt/internal/wording"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/simulator/experiment"
)

// execute runs one command line and returns its exit code. Every refusal is one line on stderr; see cli.PrintError.
func execute(e *cli.Env) run.Code {
	root := newRoot(e)
	root.SetArgs(rewriteArgs(root, e.Args))
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	err := root.ExecuteContext(context.Background())
	if errors.Is(err, experiment.ErrShare) {
		return run.CodeDone
	}
	e.PrintError(err)
	return cli.ExitCode(err)
}

// completing reports whether a shell asks for completions.
func completing(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// rewriteArgs expands short forms: `optimize --train SCRIPT …` and `optimize -- command` to `optimize train …`;
// `--resumable yes` to `--resumable=yes`; `--offline-logs A B` to `--offline-logs A --offline-logs B`. A shell that
// completes such a command line precedes it by a word of its own.
func rewriteArgs(root *cobra.Command, args []string) []string {
	if len(args) > 1 && completing(args) {
		return append([]string{args[0]}, trainNamed(root, args[1:])...)
	}
	return trainNamed(root, joinValues(args))
}

// trainNamed puts the name of the command train first: where flags precede it, and where it is left out.
func trainNamed(root *cobra.Command, args []string) []string {
	if i := commandWord(root, args); i >= 0 {
		if args[i] == "train" {
			return append([]string{"train"}, slices.Delete(slices.Clone(args), i, i+1)...)
		}
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

// commandWord returns the index of the first word, if it is a command; -1 otherwise. Flags of train, which include those
// common to all commands, and their values may precede it.
func commandWord(root *cobra.Command, args []string) int {
	train, _, err := root.Find([]string{"train"})
	for i := 0; i < len(args) && err == nil && args[i] != "--"; i++ {
		if !strings.HasPrefix(args[i], "-") {
			if slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == args[i] || c.HasAlias(args[i]) }) {
				return i
			}
			return -1
		}
		if flag := train.Flag(flagName(args[i])); flag != nil && flag.NoOptDefVal == "" && !strings.Contains(args[i], "=") {
			i++ // its value
		}
	}
	return -1
}

// newRoot returns the root command with all subcommands and the common flags. Without a subcommand it prints help.
func newRoot(e *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "optimize --train SCRIPT [flags] [-- SCRIPT ARGS…]",
		Short: "Cut training cost while meeting the deadline and the budget",
		Long: `Cut training cost while meeting the deadline and the budget.

optimize --train runs the unmodified script under supervision: it recalls similar runs, measures briefly, predicts time and
cost, selects an allocation by preference, enforces the deadline and the budget, and reports the outcome.`,
		Example: `  optimize --train train.py                           # run a training
  optimize --train train.py --deadline 2h --budget 5  # within limits
  optimize --train train.py --dry-run --explain       # plan only
  optimize --train train.py -- --lr 0.1 --epochs 20   # arguments of the script
  optimize logs -f                                    # latest run: output
  optimize runs                                       # state and cost of runs
  optimize report                                     # latest run: report
  optimize runs resume latest                         # continue a stopped run`,
		Version:               programVersion(),
		DisableFlagsInUseLine: true,
		SilenceUsage:          true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if cmd.Flags().Changed("deadline") || cmd.Flags().Changed("budget") || cmd.Flags().Changed("prefer") || cmd.Flags().Changed("dry-run") {
					return cli.Usagef("nothing to train: name a script by --train SCRIPT, or a command after --")
				}
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
	root.Flags().SetNormalizeFunc(cli.Normalize)
	root.Flags().StringArray("train", nil, "run the training `SCRIPT`; `optimize train --help` lists all flags")
	cli.AddSettings(root.Flags(), map[string]string{"deadline": "", "budget": "", "prefer": ""})
	root.Flags().Bool("dry-run", false, "plan only")
	cli.GroupFlags(root.Flags(), "Main flags of --train", "train", "deadline", "budget", "prefer", "dry-run")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return e.CheckFlags() }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cli.Usage(explainFlag(cmd, err)) })
	root.AddGroup(cli.CommandGroups...)
	root.AddCommand(runs.Commands(e)...)
	root.AddCommand(predict.Commands(e)...)
	root.AddCommand(simulate.Commands(e)...)
	root.AddCommand(doctorCommand(e), cli.ConfigCommand(e), cli.InitCommand(e), versionCommand(e), manCommand(e))
	root.AddCommand(topics()...)
	addShellCommands(root)
	for _, cmd := range root.Commands() {
		wrapArgs(e, cmd)
	}
	cli.InstallHelp(root, e.Columns)
	if completing(e.Args) { // the texts of all flags are searched for their values
		cli.Complete(root, completions(e))
	}
	return root
}

// addShellCommands adds the commands that cobra provides: completion and help.
func addShellCommands(root *cobra.Command) {
	root.SetCompletionCommandGroupID(cli.Setup)
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND|TOPIC]", Short: "Show the help of a command or a topic", GroupID: cli.Setup,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			named, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range named.Commands() {
				if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 || err != nil {
				word := strings.Join(args, " ")
				return cli.Usagef("unknown command or topic %q: %s", word, suggestCommand(root, word))
			}
			return cmd.Help()
		}})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// suggestCommand returns a hint at the command that was probably intended: the same name below another command, the
// nearest name, or how to list the commands.
func suggestCommand(cmd *cobra.Command, word string) string {
	var known, below []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
		for _, c := range sub.Commands() {
			if c.IsAvailableCommand() && c.Name() == word {
				below = append(below, "`"+c.CommandPath()+"`")
			}
		}
	}
	if len(below) > 0 {
		return "did you mean " + strings.Join(below, " or ") + "?"
	}
	if best := near(word, known); best != "" {
		return fmt.Sprintf("nearest known is `%s %s`", cmd.CommandPath(), best)
	}
	return fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
}

// near returns the known word that was probably intended, "" if none is similar.
func near(word string, known []string) string {
	best := cli.Nearest(word, known)
	if wording.Distance(strings.ToLower(word), best) > 1+len(word)/4 {
		return ""
	}
	return best
}

// wrapArgs makes a wrong number of arguments a usage error, and an unexpected word an unknown subcommand, and accepts
// former names of flags.
func wrapArgs(e *cli.Env, cmd *cobra.Command) {
	cli.AcceptFormer(cmd)
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			switch {
			case err == nil:
				return nil
			case c.HasSubCommands() && len(args) > 0:
				return cli.Usagef("unknown command %q of `%s`: %s", args[0], c.CommandPath(), suggestCommand(c, args[0]))
			}
			problem, wanted, received := "missing argument", 0, 0
			_, _ = fmt.Sscanf(err.Error(), "accepts %d arg(s), received %d", &wanted, &received)
			switch text := err.Error(); {
			case !strings.HasPrefix(text, "accepts ") && !strings.HasPrefix(text, "requires ") && !strings.HasPrefix(text, "unknown command "): // of the command itself, not of cobra
				return cli.Usagef("%s: %w; see `%s --help`", c.Name(), err, c.CommandPath())
			case len(args) > 0 && received >= wanted:
				problem = fmt.Sprintf("unexpected argument %q%s", args[len(args)-1], e.EqualsHint(c, args[len(args)-1]))
			}
			path := c.CommandPath()
			if called := c.CalledAs(); called != "" { // the name as typed, which may be an alias
				path = strings.TrimSuffix(path, c.Name()) + called
			}
			_, short, _ := strings.Cut(path, " ")
			return cli.Usagef("%s: %s: want %s; see `%s --help`", short, problem, argumentsOf(c), path)
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(e, sub)
	}
}

// argumentsOf describes the arguments of a command: "RUN", or "no arguments".
func argumentsOf(cmd *cobra.Command) string {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	if arguments = strings.TrimSpace(strings.ReplaceAll(arguments, "[flags]", "")); arguments == "" {
		return "no arguments"
	}
	return arguments
}

// explainFlag adds a similar flag of the command, or how to list the flags, to the error for an unknown flag, and to that
// of a training how to pass an argument to the script.
func explainFlag(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if strings.HasPrefix(err.Error(), "unknown ") && (cmd.Parent() == nil || cmd.Name() == "train") {
		err = fmt.Errorf("%w (arguments of the script follow --)", err)
	}
	if !unknown {
		return plainValue(cmd, err)
	}
	var known []string
	add := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if cmd.Parent() == nil { // arguments of the root command are a training
		known = append(append(known, cli.SettingFlags()...), "train")
	}
	if best := near(name, known); best != "" {
		return fmt.Errorf("%w: nearest known is --%s", err, best)
	}
	longer := slices.DeleteFunc(known, func(k string) bool { return !slices.Contains(strings.Split(k, "-"), name) })
	if slices.Sort(longer); len(longer) > 0 {
		return fmt.Errorf("%w: nearest known are --%s", err, strings.Join(slices.Compact(longer), ", --"))
	}
	return fmt.Errorf("%w: `%s --help` lists them", err, cmd.CommandPath())
}

// plainValue rewords an error of Go's parsers about the value of a flag.
func plainValue(cmd *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &wrong) {
		return err
	}
	if !errors.As(wrong, &number) {
		return fmt.Errorf("--%s %q: %w", wrong.GetFlag().Name, wrong.GetValue(), errors.Unwrap(wrong))
	}
	want := map[string]string{"bool": "true or false", "float64": "a number", "uint64": "a whole number, 0 or more"}[wrong.GetFlag().Value.Type()]
	if want == "" {
		want = "a whole number"
	}
	return fmt.Errorf("--%s %q: want %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

func doctorCommand(e *cli.Env) *cobra.Command {
	var o cli.Options
	cmd := &cobra.Command{Use: "doctor", GroupID: cli.Setup, Short: "Check this machine, or an engine: hardware, limits, missing dependencies and their impact", Args: cobra.NoArgs,
		Example: `  optimize doctor
  optimize doctor --engine slurm --engine-arg=--partition=gpu    # also run a test job there`,
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
	return o.Print(findingsText(checks, cmp.Or(o.OutputColumns(), math.MaxInt)))
}

// findingsText lists the findings in two columns within a width.
func findingsText(checks []resources.Finding, columns int) string {
	var b strings.Builder
	add := func(head, text string) {
		for _, line := range page.Wrap(text, max(columns-28, 12)) {
			fmt.Fprintf(&b, "%-27s %s\n", head, line)
			head = ""
		}
	}
	for _, k := range checks {
		add(fmt.Sprintf("%-8s %-18s", k.Status, k.Name), k.Found)
		if k.Cost != "" {
			add("", "costs: "+k.Cost)
		}
		if k.Do != "" {
			add("", "do: "+k.Do)
		}
	}
	return b.String()
}
