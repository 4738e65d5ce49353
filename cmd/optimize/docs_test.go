package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/history"
)

func document(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// commandLines returns the lines of a text that invoke optimize, split into words, keyed by their location.
func commandLines(where, text string) map[string][]string {
	line := regexp.MustCompile("(?m)(?:^[ \\t$]*|`)optimize ((?:\"[^\"\n]*\"|[^\"`\n])+)")
	word := regexp.MustCompile(`"[^"]*"|\S+`)
	out := map[string][]string{}
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		var words []string
		for _, w := range word.FindAllString(m[1], -1) {
			if w == ">" || w == "#" || w == "|" {
				break
			}
			words = append(words, strings.Trim(w, `"`))
		}
		out[fmt.Sprintf("%s: optimize %s", where, m[1])] = words
	}
	return out
}

// TestDocumentedCommandsAreUnderstood checks that every command line in the documents and help texts uses existing
// commands and flags.
func TestDocumentedCommandsAreUnderstood(t *testing.T) {
	t.Parallel()
	lines := map[string][]string{}
	add := func(where, text string) {
		for k, v := range commandLines(where, text) {
			lines[k] = v
		}
	}
	paths, _ := filepath.Glob("../../docs/*.md")
	for _, path := range append(paths, "../../README.md") {
		add(filepath.Base(path), document(t, strings.TrimPrefix(path, "../../")))
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		add(cmd.CommandPath(), cmd.Example)
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(&cli.Env{}))
	if len(lines) < 40 {
		t.Fatalf("only %d command lines found: the check looks in the wrong place", len(lines))
	}
	for where, words := range lines {
		root := newRoot(&cli.Env{})
		cmd, rest, err := root.Find(cli.RewriteArgs(root, words))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil && cmd == root && cmd.Flags().NArg() > 0 {
			err = fmt.Errorf("unknown command %q", cmd.Flags().Arg(0))
		}
		if err != nil && !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// TestFieldsDocumented checks that the fields of JSON documents are in the document that describes them.
func TestFieldsDocumented(t *testing.T) {
	t.Parallel()
	tag := regexp.MustCompile(`json:"([a-z0-9_]+)`)
	for file, where := range map[string]string{
		"simulator/replay/audit.go": "docs/cluster.md", "simulator/replay/pairs.go": "docs/cluster.md", "optimizer/cluster/event.go": "docs/cluster.md",
		"optimizer/serve/index.go": "docs/page.md", "optimizer/report/json.go": "docs/files.md", "optimizer/analysis/front.go": "docs/files.md",
		"optimizer/analysis/report.go": "docs/files.md", "optimizer/analysis/best.go": "docs/files.md", "optimizer/analysis/scaling.go": "docs/files.md",
		"optimizer/analysis/waste.go": "docs/files.md", "optimizer/history/calibration.go": "docs/files.md", "optimizer/predict/json.go": "docs/files.md",
	} {
		text, fields := document(t, where), tag.FindAllStringSubmatch(document(t, file), -1)
		if len(fields) == 0 {
			t.Errorf("%s has no field: the check looks in the wrong place", file)
		}
		for _, f := range fields {
			if !regexp.MustCompile(`\b` + f[1] + `\b`).MatchString(text) {
				t.Errorf("%s does not have the field %s of %s", where, f[1], file)
			}
		}
	}
}

// TestFilesListsAllColumnsFormatsAndLayouts keeps docs/files.md complete. A failure prints the expected text.
func TestFilesListsAllColumnsFormatsAndLayouts(t *testing.T) {
	t.Parallel()
	files := document(t, "docs/files.md")
	var columns strings.Builder
	columns.WriteString("| column | unit | meaning |\n|---|---|---|\n")
	for _, c := range history.Columns() {
		unit := c.Unit
		if unit == "" {
			unit = "–"
		}
		fmt.Fprintf(&columns, "| `%s` | %s | %s |\n", c.Name, unit, c.Meaning)
	}
	if !strings.Contains(files, columns.String()) {
		t.Errorf("docs/files.md does not have this table of the columns of the runs database:\n%s", columns.String())
	}
	for _, name := range trainlog.Formats() {
		if !strings.Contains(files, "\n| `"+name+"` |") {
			t.Errorf("docs/files.md has no row for the log format %s", name)
		}
	}
	for _, layout := range strings.Split(cost.Layouts(), "; ") {
		if name, _, _ := strings.Cut(layout, " ("); !strings.Contains(files, "\n| "+name+" |") {
			t.Errorf("docs/files.md has no row for the price layout %q", name)
		}
	}
}
