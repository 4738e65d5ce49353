package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/optimizer/run"
)

// usageError is an error in the command line or the configuration: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// endedBy describes the effect of the user's signal: "stopped by Ctrl-C".
func endedBy(signal os.Signal) string {
	switch signal {
	case os.Interrupt:
		return "stopped by Ctrl-C"
	case syscall.SIGTERM:
		return "stopped by SIGTERM"
	case syscall.SIGHUP:
		return "stopped, as the terminal closed"
	}
	return fmt.Sprintf("stopped by signal %v", signal)
}

// exitError carries an exit code other than 1, with or without a message.
type exitError struct {
	code run.Code
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e exitError) Unwrap() error { return e.err }

// common holds the flags of every command.
type common struct {
	config, stateDir, logLevel string
	json, quiet                bool
}

// execute runs one command line and returns its exit code. Every refusal is one line on stderr.
func execute(e *env) run.Code {
	root := newRoot(e)
	root.SetArgs(rewriteArgs(e.args))
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return run.CodeDone
	}
	code := run.CodeOurs
	var usage usageError
	var exit exitError
	switch {
	case errors.As(err, &exit):
		code = exit.code
	case errors.As(err, &usage):
		code = run.CodeUsage
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(e.stderr, "optimize: %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	}
	return code
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
	return string(normalize(nil, name))
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
			for n := 0; i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && (n == 0 || isLog(args[i+1])); n++ {
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

// isLog reports whether a name has the extension of a log, which distinguishes a further log from a script.
func isLog(name string) bool {
	return slices.Contains([]string{".csv", ".json", ".jsonl", ".log", ".tsv", ".txt"}, strings.ToLower(filepath.Ext(name)))
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
		return slices.Contains([]string{"train", "report", "runs", "logs", "analyze", "predict", "prices", "pareto", "compare", "simulate", "pretrain", "doctor", "version", "completion", "help", "config", "init", "__complete"}, a)
	}
	return false
}

// newRoot returns the root command with all subcommands and the common flags. Without a subcommand it prints help.
func newRoot(e *env) *cobra.Command {
	c := &common{}
	root := &cobra.Command{
		Use:   "optimize --train SCRIPT [flags] [-- SCRIPT ARGS…]",
		Short: "Cut training cost while meeting the deadline and the budget",
		Long: `Cut training cost while meeting the deadline and the budget.

  optimize --train train.py --deadline 2h --budget 5

runs the unmodified script under control: recalls similar runs, measures briefly, predicts time and
cost, picks an allocation by preference, holds the deadline and the budget, and reports the outcome.`,
		Version:      programVersion(),
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if _, err := os.Stat(inDir(e.dir, args[0])); err == nil {
					return usageError{fmt.Errorf("unknown command %q: to train it, run `optimize --train %s`", args[0], args[0])}
				}
				return usageError{fmt.Errorf("unknown command %q: %s", args[0], meant(cmd, args[0]))}
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	pf := root.PersistentFlags()
	pf.SetNormalizeFunc(normalize)
	pf.StringVar(&c.config, "config", e.getenv("OPTIMIZE_CONFIG"), "configuration `FILE` (YAML, TOML or JSON; default: the nearest optimize.yaml upwards; none: no file)")
	stateDir := e.getenv("OPTIMIZE_STATE_DIR")
	if stateDir == "" {
		stateDir = ".optimize"
	}
	pf.StringVar(&c.stateDir, "state-dir", stateDir, "where runs are kept")
	pf.BoolVar(&c.json, "json", false, "print JSON on standard output")
	pf.BoolVar(&c.quiet, "quiet", false, "print nothing but results and errors")
	pf.StringVar(&c.logLevel, "log-level", "info", "what to show on stderr: debug|info|warn|error")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains([]string{"debug", "info", "warn", "warning", "error"}, strings.ToLower(c.logLevel)) {
			return usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", c.logLevel)}
		}
		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{explainFlag(cmd, err)} })
	root.AddCommand(trainCommand(e, c), reportCommand(e, c), runsCommand(e, c), logsCommand(e, c), paretoCommand(e, c), analyzeCommand(e, c), predictCommand(e, c), pricesCommand(e, c), compareCommand(e, c), simulateCommand(e, c), pretrainCommand(e, c), doctorCommand(e, c), configCommand(e), initCommand(e), versionCommand(e, c))
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

// meant returns a hint at the command that was probably intended: the nearest name, or how to list the commands.
func meant(cmd *cobra.Command, word string) string {
	known := map[string]string{}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known[sub.Name()] = sub.Name()
		}
	}
	if best := nearest(word, known); editDistance(strings.ToLower(word), best) <= 1+len(word)/4 {
		return fmt.Sprintf("nearest known is `%s %s`", cmd.CommandPath(), best)
	}
	return fmt.Sprintf("`%s --help` lists them", cmd.CommandPath())
}

// wrapArgs makes a wrong number of arguments a usage error, and an unexpected word an unknown subcommand.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				if c.HasSubCommands() && len(args) > 0 {
					return usageError{fmt.Errorf("unknown command %q of `%s`: %s", args[0], c.CommandPath(), meant(c, args[0]))}
				}
				return usageError{fmt.Errorf("%s: %w; see `optimize %s --help`", c.Name(), err, c.Name())}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// explainFlag adds the nearest flag of the command to the error for an unknown flag.
func explainFlag(cmd *cobra.Command, err error) error {
	text := err.Error()
	const unknown = "unknown flag: --"
	if !strings.HasPrefix(text, unknown) {
		return err
	}
	known := map[string]string{}
	add := func(f *pflag.Flag) { known[f.Name] = "" }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if cmd.Parent() == nil { // arguments of the root command are a training
		for _, s := range settings {
			if s.flag != "" {
				known[s.flag] = ""
			}
		}
		known["train"] = ""
	}
	return fmt.Errorf("%s: nearest known is --%s", text, nearest(strings.TrimPrefix(text, unknown), known))
}

// version is set at link time (-X main.version=…); by default it is that of the module.
var version string

func versionCommand(e *env, c *common) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Show the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		if c.json {
			return printJSON(e.stdout, map[string]any{"schema": 1, "version": programVersion(), "go": runtime.Version()})
		}
		_, err := fmt.Fprintf(e.stdout, "optimize %s (%s)\n", programVersion(), runtime.Version())
		return err
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

// absoluteState returns the absolute path of the state directory.
func (c *common) absoluteState(e *env) string {
	if filepath.IsAbs(c.stateDir) {
		return c.stateDir
	}
	return filepath.Join(e.dir, c.stateDir)
}

func writeAll(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}

// put writes a complete output to a file, or to standard output if path is "".
func (e *env) put(path, what string, write func(io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	if err != nil {
		return err
	}
	if path == "" {
		err = writeAll(e.stdout, b.Bytes())
	} else {
		err = os.WriteFile(inDir(e.dir, path), b.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
