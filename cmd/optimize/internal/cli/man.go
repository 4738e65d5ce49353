package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/internal/regular"
)

// ManCommand returns the command that writes the manual pages, with the version and the date (RFC 3339) of the build in
// their footers.
func ManCommand(e *Env, version, date string) *cobra.Command {
	return &cobra.Command{Use: "man DIR", Short: "Write the manual pages of all commands to DIR/man1", GroupID: Setup, Args: cobra.ExactArgs(1),
		Example: `  optimize man ~/.local/share/man    # then: man optimize-train`,
		RunE: func(cmd *cobra.Command, args []string) error {
			day, _, _ := strings.Cut(date, "T")
			pages := manPages(cmd.Root(), day, version)
			dir := filepath.Join(e.Path(args[0]), "man1")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			for _, name := range slices.Sorted(maps.Keys(pages)) {
				err := regular.WriteFile(filepath.Join(dir, name), 0o644, []byte(pages[name]))
				if err != nil {
					return fmt.Errorf("write manual page %s: %w", name, regular.Reason(err))
				}
			}
			if e.JSON {
				return e.PrintJSON(map[string]any{"schema": 1, "dir": dir, "pages": len(pages)})
			}
			return e.Print(fmt.Sprintf("wrote %d manual pages to %s\n", len(pages), dir))
		}}
}

// manPages returns the manual pages of a command and all of its subcommands, by the name of their files, in the format of
// man(7). The date, such as 2026-07-20, and the version appear in their footers.
func manPages(cmd *cobra.Command, date, version string) map[string]string {
	pages := map[string]string{}
	addPages(pages, cmd, date, version)
	return pages
}

func addPages(pages map[string]string, cmd *cobra.Command, date, version string) {
	if cmd.Hidden {
		return
	}
	pages[pageName(cmd)+".1"] = manPage(cmd, date, version)
	for _, sub := range cmd.Commands() {
		addPages(pages, sub, date, version)
	}
}

// pageName returns the name of the page of a command: optimize-runs-show.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage writes the page of one command.
func manPage(cmd *cobra.Command, date, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q %q %q\n.ad l\n", strings.ToUpper(pageName(cmd)), date, "optimize "+version, "optimize manual")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(pageName(cmd)), escape(cmd.Short))
	for _, s := range helpSections(cmd) {
		if s.title == "Usage:" {
			fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s.fi\n", verbatim(s.lines))
			b.WriteString(".SH DESCRIPTION\n")
			describe(&b, cmp.Or(cmd.Long, cmd.Short))
			continue
		}
		fmt.Fprintf(&b, ".SH %s\n", escape(strings.ToUpper(strings.TrimSuffix(s.title, ":"))))
		if len(s.lines) > 0 {
			fmt.Fprintf(&b, ".nf\n%s.fi\n", verbatim(s.lines))
		}
		for _, it := range s.items {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escape(strings.TrimSpace(it.name)), escape(it.text))
		}
	}
	if !cmd.Runnable() && !cmd.HasAvailableSubCommands() { // a topic
		b.WriteString(".SH DESCRIPTION\n")
		describe(&b, cmd.Long)
	}
	if p := cmd.Parent(); p != nil {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", escape(pageName(p)))
	}
	return b.String()
}

// describe writes the paragraphs of a text.
func describe(b *strings.Builder, text string) {
	for _, part := range blocks(text) {
		switch {
		case part.text == "":
			b.WriteString(".PP\n")
		case part.fixed || strings.HasPrefix(part.text, " "):
			fmt.Fprintf(b, ".nf\n%s.fi\n", verbatim([]string{part.text}))
		default:
			fmt.Fprintln(b, escape(part.text))
		}
	}
}

func verbatim(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&b, escape(line))
	}
	return b.String()
}

// escape protects the characters that have a meaning in man(7); a hyphen is one that can be copied into a shell, and a
// line may be broken after a comma or a bar.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, ",", `,\:`, "|", `|\:`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
