package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/spf13/cobra"
)

// sample returns a root command with a subcommand.
func sample() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "a tool", Long: "A tool.", RunE: func(*cobra.Command, []string) error { return nil }}
	root.AddGroup(commandGroups...)
	root.PersistentFlags().Bool("json", false, "print JSON")
	sub := &cobra.Command{Use: "run [RUN]", GroupID: Runs, Short: "run it", Long: `Run it with words that go beyond the width of the
terminal, here and there.

  name    described at such length that the second column needs a further line
  key: value

  cut --fields=\
3,4 > file

'quoted' line.`,
		Example: `  tool run --first alpha --second beta --third gamma --fourth delta
  tool run x    # a comment that does not fit beside the command that it describes
  tool run y    # short`,
		RunE: func(*cobra.Command, []string) error { return nil }}
	sub.Flags().String("format", "text", "text|json")
	sub.Flags().StringSlice("columns", nil, "a|b|c")
	sub.Flags().String("kind", "", "of these: alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|omicron|pi|rho|sigma|tau|upsilon|phi|chi|psi")
	sub.Flags().String("file", "", "read `FILE`")
	sub.Flags().Int("count-of-all-things", 0, "things, `N`")
	sub.Flags().Float64("alpha", 0.5, "weight")
	groupFlags(sub.Flags(), "Input", "file", "count-of-all-things")
	root.AddCommand(sub)
	return root
}

// TestTextFits checks that no line is wider than the terminal, that no word is broken or lost, and that broken commands
// can be copied.
func TestTextFits(t *testing.T) {
	sub := sample().Commands()[0]
	for _, width := range []int{40, 60, 80, 120} {
		text := plainText(sub, width)
		for _, line := range strings.Split(text, "\n") {
			if twwidth.Width(line) > width {
				t.Errorf("%d columns, want at most %d: %q", twwidth.Width(line), width, line)
			}
			if strings.HasSuffix(line, " ") {
				t.Errorf("blank at the end of %q", line)
			}
		}
		joined := strings.Join(strings.Fields(strings.ReplaceAll(text, "\\\n", " ")), " ")
		for _, part := range []string{"words that go beyond the width of the terminal, here and there.", "tool run --first alpha --second beta --third gamma --fourth delta",
			"# a comment", "tool run y # short", "described at such length that the second column needs a further line", "--alpha X weight (default 0.5)",
			"Input: --file FILE read FILE", "cut --fields= 3,4 > file"} {
			if !strings.Contains(joined, part) {
				t.Errorf("at %d columns no %q in\n%s", width, part, text)
			}
		}
	}
	narrow := plainText(sub, 50)
	if !strings.Contains(narrow, "  name    described at such length that the second\n          column needs") {
		t.Errorf("the second column is not aligned:\n%s", narrow)
	}
	if strings.Contains(narrow, "--third \\") {
		t.Errorf("a flag is separated from its value:\n%s", narrow)
	}
}

// TestRootLists checks the groups of the root help, and that a flag of every command is listed once.
func TestRootLists(t *testing.T) {
	text := plainText(sample(), 80)
	if !strings.Contains(text, "Follow and manage runs:\n  run   run it\n") || strings.Count(text, "--json") != 1 {
		t.Error(text)
	}
}

// TestComplete checks the completed values of lists, metavariables and arguments.
func TestComplete(t *testing.T) {
	root := sample()
	complete(root, map[string]Completions{"RUN": func() []string { return []string{"latest", "2026"} }})
	ask := func(args ...string) string {
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&strings.Builder{})
		root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, args...))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(out.String(), "\n", " ")
	}
	for want, args := range map[string][]string{
		"text json :4 ":     {"run", "--format", ""},
		"a,a a,b a,c :4 ":   {"run", "--columns", "a,"},
		"latest 2026 :4 ":   {"run", ""},
		":0 ":               {"run", "--file", ""},
		":4 ":               {"run", "--alpha", ""},
		"--file --format :": {"run", "--f"},
	} {
		if got := ask(args...); !strings.HasPrefix(got, want) {
			t.Errorf("%q completes %q, want %q", args, got, want)
		}
	}
}

// TestPages checks that man accepts the pages without a warning, and that they contain the text.
func TestPages(t *testing.T) {
	pages := manPages(sample(), "2026-07-20", "1.2")
	if len(pages) != 2 || !strings.Contains(pages["tool-run.1"], ".TH \"TOOL-RUN\" 1 \"2026-07-20\"") {
		t.Fatalf("%q", pages)
	}
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed")
	}
	path := filepath.Join(t.TempDir(), "tool-run.1")
	if err := os.WriteFile(path, []byte(pages["tool-run.1"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("man", "--warnings", "-l", path)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "MANWIDTH") }), "MANWIDTH=80", "LC_ALL=C.UTF-8")
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil || warnings.Len() > 0 {
		t.Fatalf("%v: %s", err, &warnings)
	}
	for _, part := range []string{"--columns COLUMNS", "3,4 > file", "'quoted' line.", "tool-run - run it"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}
