package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completing reports whether a shell asks for completions.
func completing(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// RewriteArgs expands short forms: `optimize --train SCRIPT …` and `optimize -- command` to `optimize train …`;
// `--resumable yes` to `--resumable=yes`; `--offline-logs A B` to `--offline-logs A --offline-logs B`. A shell that
// completes such a command line precedes it by a word of its own.
func RewriteArgs(root *cobra.Command, args []string) []string {
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
	return string(Normalize(nil, name))
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
		return plainValue(err)
	}
	var known []string
	add := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if cmd.Parent() == nil { // arguments of the root command are a training
		known = append(append(known, settingFlags()...), "train")
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
func plainValue(err error) error {
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
