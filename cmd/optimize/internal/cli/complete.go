package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Completions returns the values that may be completed, each optionally followed by a tab and a description.
type Completions func() []string

// complete makes the shell complete values of flags and arguments of a command and all of its subcommands. What they are
// follows from the help: a list of words such as "text|json", or a metavariable, of which sources has the values by
// name, such as RUN. A metavariable for files or directories completes those, any other one nothing. Flags that have a
// completion already keep it.
func complete(cmd *cobra.Command, sources map[string]Completions) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, ok := cmd.GetFlagCompletionFunc(f.Name); ok || f.Value.Type() == "bool" {
			return
		}
		values, directive := completionOf(Metavariable(f), sources)
		if words := wordsOf(f.Usage); words != nil {
			values, directive = func() []string { return words }, cobra.ShellCompDirectiveNoFileComp
		}
		register(cmd, f, values, directive)
	})
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.HasSubCommands() {
		_, arguments, _ := strings.Cut(cmd.Use, " ")
		arguments, _, _ = strings.Cut(arguments, "--")
		values, directive := completionOf(arguments, sources)
		cmd.ValidArgsFunction = func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return startingWith(typed, values()), directive
		}
	}
	for _, sub := range cmd.Commands() {
		complete(sub, sources)
	}
}

// describePlainly removes the marks of metavariables from the descriptions of flags, which shells show as they are.
func describePlainly(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		describePlainly(sub)
	}
}

// CompleteFlag makes the shell complete the values of a flag; of a flag with a list, its last element.
func CompleteFlag(cmd *cobra.Command, flag string, values Completions) {
	register(cmd, cmd.Flags().Lookup(flag), values, cobra.ShellCompDirectiveNoFileComp)
}

func register(cmd *cobra.Command, f *pflag.Flag, values Completions, directive cobra.ShellCompDirective) {
	list := strings.HasSuffix(f.Value.Type(), "Slice")
	err := cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		found := values()
		if at := strings.LastIndex(typed, ","); list && at >= 0 {
			found = slices.Clone(found)
			for i, v := range found {
				found[i] = typed[:at+1] + v
			}
		}
		return startingWith(typed, found), directive
	})
	if err != nil {
		panic(err) // the flag does not exist, or was registered before
	}
}

func startingWith(prefix string, values []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !strings.HasPrefix(v, prefix) })
}

// wordList matches a list of words in a description: text|json.
var wordList = regexp.MustCompile(`[\pL\d_.-]+(\|[\pL\d_.-]+)+`)

// wordsOf returns the words that a description lists outside its metavariable, nil if it lists none.
func wordsOf(usage string) []string {
	if parts := strings.SplitN(usage, "`", 3); len(parts) == 3 {
		usage = parts[0] + " " + parts[2]
	}
	found := wordList.FindString(usage)
	if found == "" {
		return nil
	}
	return strings.Split(found, "|")
}

var metavariable = regexp.MustCompile(`[A-Z][A-Z:]+`)

// completionOf returns the values of a text of metavariables, such as FILE|CLOUD:TYPE or [RUN|LOG…].
func completionOf(text string, sources map[string]Completions) (Completions, cobra.ShellCompDirective) {
	var all []Completions
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, name := range metavariable.FindAllString(text, -1) {
		name = strings.Trim(name, ":")
		switch name {
		case "FILE", "LOG", "SCRIPT", "PATH", "COMMAND", "PREFIX":
			directive = cobra.ShellCompDirectiveDefault
		case "DIR":
			directive = cobra.ShellCompDirectiveFilterDirs
		}
		if s := sources[name]; s != nil {
			all = append(all, s)
		}
	}
	return func() []string {
		var out []string
		for _, s := range all {
			out = append(out, s()...)
		}
		return out
	}, directive
}
