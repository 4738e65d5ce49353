package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/internal/wording"
	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

// NewRoot returns the root command with the given subcommands, those of this package and the common flags. Without a
// subcommand it prints help. sources are the values that a shell completes, by metavariable.
func NewRoot(e *Env, version string, sources map[string]Completions, commands ...*cobra.Command) *cobra.Command {
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
		Version:               version,
		DisableFlagsInUseLine: true,
		SilenceUsage:          true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if cmd.Flags().Changed("deadline") || cmd.Flags().Changed("budget") || cmd.Flags().Changed("prefer") || cmd.Flags().Changed("dry-run") {
					return Usagef("nothing to train: name a script by --train SCRIPT, or a command after --")
				}
				return cmd.Help()
			}
			if Exists(e.Path(args[0])) {
				return Usagef("unknown command %q: to train it, run `optimize --train %s`", args[0], args[0])
			}
			return Usagef("unknown command %q: %s", args[0], suggestCommand(cmd, args[0]))
		},
		Args: cobra.ArbitraryArgs,
	}
	e.AddFlags(root.PersistentFlags())
	root.Flags().SetNormalizeFunc(Normalize)
	root.Flags().StringArray("train", nil, "run the training `SCRIPT`; `optimize train --help` lists all flags")
	AddSettings(root.Flags(), map[string]string{"deadline": "", "budget": "", "prefer": ""})
	root.Flags().Bool("dry-run", false, "plan only")
	groupFlags(root.Flags(), "Main flags of --train", "train", "deadline", "budget", "prefer", "dry-run")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return e.CheckFlags() }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(explainFlag(cmd, err)) })
	root.AddGroup(commandGroups...)
	root.AddCommand(commands...)
	root.AddCommand(configCommand(e), initCommand(e))
	root.AddCommand(topics()...)
	addShellCommands(root)
	for _, cmd := range root.Commands() {
		wrapArgs(e, cmd)
	}
	installHelp(root, e.Columns)
	if completing(e.Args) { // the texts of all flags are searched for their values
		complete(root, sources)
		describePlainly(root)
	}
	return root
}

// Execute runs one command line and returns its exit code. Every refusal is one line on stderr; see PrintError.
func (e *Env) Execute(root *cobra.Command) run.Code {
	root.SetArgs(RewriteArgs(root, e.Args))
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	err := root.ExecuteContext(context.Background())
	if errors.Is(err, experiment.ErrShare) {
		return run.CodeDone
	}
	e.PrintError(err)
	return ExitCode(err)
}

// addShellCommands adds the commands that cobra provides: completion and help.
func addShellCommands(root *cobra.Command) {
	root.SetCompletionCommandGroupID(Setup)
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND|TOPIC]", Short: "Show the help of a command or a topic", GroupID: Setup,
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
				return Usagef("unknown command or topic %q: %s", word, suggestCommand(root, word))
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
	best := Nearest(word, known)
	if wording.Distance(strings.ToLower(word), best) > 1+len(word)/4 {
		return ""
	}
	return best
}

// wrapArgs makes a wrong number of arguments a usage error, and an unexpected word an unknown subcommand, and accepts
// former names of flags.
func wrapArgs(e *Env, cmd *cobra.Command) {
	acceptFormer(cmd)
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			switch {
			case err == nil:
				return nil
			case c.HasSubCommands() && len(args) > 0:
				return Usagef("unknown command %q of `%s`: %s", args[0], c.CommandPath(), suggestCommand(c, args[0]))
			}
			problem, wanted, received := "missing argument", 0, 0
			_, _ = fmt.Sscanf(err.Error(), "accepts %d arg(s), received %d", &wanted, &received)
			switch text := err.Error(); {
			case !strings.HasPrefix(text, "accepts ") && !strings.HasPrefix(text, "requires ") && !strings.HasPrefix(text, "unknown command "): // of the command itself, not of cobra
				return Usagef("%s: %w; see `%s --help`", c.Name(), err, c.CommandPath())
			case len(args) > 0 && received >= wanted:
				problem = fmt.Sprintf("unexpected argument %q%s", args[len(args)-1], e.EqualsHint(c, args[len(args)-1]))
			}
			path := c.CommandPath()
			if called := c.CalledAs(); called != "" { // the name as typed, which may be an alias
				path = strings.TrimSuffix(path, c.Name()) + called
			}
			_, short, _ := strings.Cut(path, " ")
			return Usagef("%s: %s: want %s; see `%s --help`", short, problem, argumentsOf(c), path)
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(e, sub)
	}
}
