package cli

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of commands in the root help.
const (
	Train   = "train"
	Runs    = "runs"
	Plan    = "plan"
	Cluster = "cluster"
	Study   = "study"
	Setup   = "setup"
)

// commandGroups lists the groups of commands in the order of the root help. A command without a group follows them.
var commandGroups = []*cobra.Group{
	{ID: Train, Title: "Train:"},
	{ID: Runs, Title: "Follow and manage runs:"},
	{ID: Plan, Title: "Learn from runs, plan the next ones:"},
	{ID: Cluster, Title: "Many jobs:"},
	{ID: Study, Title: "Simulate and compare policies:"},
	{ID: Setup, Title: "Set up:"},
}

// Widths of help texts, in columns: without a terminal, and the limits on one.
const (
	plainWidth = 80
	minWidth   = 40
	maxWidth   = 120
)

// installHelp makes a root command and all of its subcommands write their help by this package, fitted to the width of the
// terminal; columns returns 0 if there is no terminal.
func installHelp(root *cobra.Command, columns func() int) {
	width := func() int {
		if w := columns(); w > 0 {
			return min(max(w-1, minWidth), maxWidth)
		}
		return plainWidth
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = io.WriteString(cmd.OutOrStdout(), plainText(cmd, width()))
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), plainText(cmd, width()))
		return err
	})
}

// plainText returns the help of a command, wrapped to a width in columns.
func plainText(cmd *cobra.Command, width int) string {
	var b strings.Builder
	for _, line := range fill(strings.TrimRight(cmp.Or(cmd.Long, cmd.Short), "\n"), width) {
		fmt.Fprintln(&b, line)
	}
	for _, s := range helpSections(cmd) {
		fmt.Fprintf(&b, "\n%s\n", s.title)
		for _, line := range s.lines {
			for _, wrapped := range s.wrap(line, width) {
				fmt.Fprintln(&b, wrapped)
			}
		}
		writeItems(&b, s.items, width)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(&b)
		for _, line := range fill(fmt.Sprintf("`%s COMMAND --help` describes a command.", cmd.CommandPath()), width) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// section is a titled part of a help text: lines, which are commands of a shell or a syntax, or items with descriptions.
type section struct {
	title    string
	lines    []string
	commands bool
	items    []item
}

// wrap breaks a line of the section to a width. The comment of a command that does not fit beside it precedes it.
func (s section) wrap(line string, width int) []string {
	if !s.commands {
		return hang(line, width, "      ", "")
	}
	command, comment, _ := strings.Cut(line, "  # ")
	if comment == "" || twwidth.Width(line) <= width {
		return hang(line, width, "      ", ` \`)
	}
	return append(hang("  # "+strings.TrimSpace(comment), width, "  # ", ""), hang(strings.TrimRight(command, " "), width, "      ", ` \`)...)
}

// item is a command or a flag with its description.
type item struct{ name, text string }

// helpSections returns the parts of the help of a command after its description.
func helpSections(cmd *cobra.Command) []section {
	var out []section
	if cmd.Runnable() || cmd.HasAvailableSubCommands() {
		usage := section{title: "Usage:"}
		if cmd.Runnable() {
			usage.lines = append(usage.lines, "  "+cmd.UseLine())
		}
		for _, alias := range cmd.Aliases {
			usage.lines = append(usage.lines, fmt.Sprintf("  %s %s …    the same", cmd.Parent().CommandPath(), alias))
		}
		if cmd.HasAvailableSubCommands() {
			usage.lines = append(usage.lines, "  "+cmd.CommandPath()+" COMMAND [flags]")
		}
		out = append(out, usage)
	}
	if cmd.Example != "" {
		out = append(out, section{title: "Examples:", commands: true, lines: strings.Split(strings.Trim(cmd.Example, "\n"), "\n")})
	}
	out = append(out, commandSections(cmd)...)
	if !cmd.Runnable() && !cmd.HasSubCommands() { // a topic
		return out
	}
	return append(out, flagSections(cmd)...)
}

// commandSections lists the subcommands by group, then the topics that are not commands.
func commandSections(cmd *cobra.Command) []section {
	groups := append(slices.Clone(cmd.Groups()), &cobra.Group{Title: "Other commands:"})
	if len(groups) == 1 {
		groups[0].Title = "Commands:"
	}
	var out []section
	for _, g := range groups {
		s := section{title: g.Title}
		for _, sub := range cmd.Commands() {
			if sub.GroupID == g.ID && sub.IsAvailableCommand() {
				s.items = append(s.items, item{sub.Name(), sub.Short})
			}
		}
		out = append(out, s)
	}
	topics := section{title: "Topics:"}
	for _, sub := range cmd.Commands() {
		if sub.IsAdditionalHelpTopicCommand() && !sub.Hidden {
			topics.items = append(topics.items, item{"help " + sub.Name(), sub.Short})
		}
	}
	return slices.DeleteFunc(append(out, topics), func(s section) bool { return len(s.items) == 0 })
}

// groupKey is the annotation of a flag that contains its group.
const groupKey = "optimize_group"

// groupFlags puts flags under a heading of the help; the headings have the order of the definitions of their first flags.
// Flags without a heading come first, alphabetically.
func groupFlags(fs *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		if err := fs.SetAnnotation(name, groupKey, []string{title}); err != nil {
			panic(fmt.Sprintf("group flags of %q: %v", title, err))
		}
	}
}

// flagSections lists the flags of a command by group, those of every command last.
func flagSections(cmd *cobra.Command) []section {
	var out []section
	at := map[string]int{}
	add := func(title string, f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		i, ok := at[title]
		if !ok {
			i = len(out)
			at[title] = i
			out = append(out, section{title: title})
		}
		out[i].items = append(out[i].items, flagItem(f))
	}
	local := cmd.LocalFlags()
	var own, grouped []*pflag.Flag
	inDefinitionOrder(cmd.Flags(), func(f *pflag.Flag) {
		switch {
		case local.Lookup(f.Name) == nil || cmd.Parent() == nil && cmd.PersistentFlags().Lookup(f.Name) != nil:
		case f.Annotations[groupKey] != nil:
			grouped = append(grouped, f)
		default:
			own = append(own, f)
		}
	})
	slices.SortStableFunc(own, func(a, b *pflag.Flag) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range own {
		add("Flags:", f)
	}
	for _, f := range grouped {
		add(f.Annotations[groupKey][0]+":", f)
	}
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { add("Flags of every command:", f) })
	return out
}

// inDefinitionOrder calls f for the flags of a set in the order in which they were defined.
func inDefinitionOrder(fs *pflag.FlagSet, f func(*pflag.Flag)) {
	sorted := fs.SortFlags
	fs.SortFlags = false
	fs.VisitAll(f)
	fs.SortFlags = sorted
}

// repeated matches a metavariable that a description repeats at the end of a clause.
var repeated = regexp.MustCompile(", `[^`]+`($|[:;,]| \\()")

// flagItem returns the syntax and the description of a flag.
func flagItem(f *pflag.Flag) item {
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	variable := Metavariable(f)
	if variable != "" {
		name += " " + variable
	}
	text := f.Usage
	if m := repeated.FindStringIndex(text); m != nil && m[0] > 0 {
		text = repeated.ReplaceAllString(text, "$1")
	}
	text = strings.ReplaceAll(text, "`", "")
	if shown := shownDefault(f); shown != "" && !strings.Contains(text, "(default") {
		text += " (default " + shown + ")"
	}
	return item{name, text}
}

// shownDefault returns the default of a flag, "" if it is empty or 0.
func shownDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "false", "[]", "0s", "-1":
		return ""
	}
	text := strings.Trim(f.DefValue, "[]")
	if f.Value.Type() == "duration" {
		for _, zero := range []string{"0s", "0m"} { // 12m0s: 12m
			if cut, ok := strings.CutSuffix(text, zero); ok && strings.ContainsAny(cut[len(cut)-1:], "hm") {
				text = cut
			}
		}
	}
	return text
}

// Metavariable returns the name of the value of a flag: that in backquotes in its description, else one by its type;
// "" for a flag without a value.
func Metavariable(f *pflag.Flag) string {
	if _, rest, ok := strings.Cut(f.Usage, "`"); ok {
		if name, _, ok := strings.Cut(rest, "`"); ok {
			return name
		}
	}
	switch f.Value.Type() {
	case "bool":
		return ""
	case "int", "uint", "int64", "uint64":
		return "N"
	case "float64":
		return "X"
	case "duration":
		return "DUR"
	}
	words := strings.Split(f.Name, "-")
	return strings.ToUpper(words[len(words)-1])
}

// nameWidth is the maximum width of the column of names; the description of a longer one starts on the next line.
const nameWidth = 30

// writeItems writes names and descriptions in two columns.
func writeItems(b *strings.Builder, items []item, width int) {
	column, limit := 0, min(nameWidth, width/2)
	for _, it := range items {
		if w := twwidth.Width(it.name); w <= limit {
			column = max(column, w)
		}
	}
	if column == 0 {
		column = min(limit, 8)
	}
	indent := strings.Repeat(" ", column+5)
	for _, it := range items {
		lines := hang(it.text, width-len(indent), "", "")
		first := "  " + it.name
		if w := twwidth.Width(it.name); w > column {
			fmt.Fprintln(b, first)
			first = indent
		} else {
			first += strings.Repeat(" ", column-w+3)
		}
		for _, line := range lines {
			fmt.Fprintln(b, strings.TrimRight(first+line, " "))
			first = indent
		}
	}
}
