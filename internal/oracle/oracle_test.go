package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

func catalogueOf(t *testing.T) *catalogue {
	t.Helper()
	c, err := parseCatalogue(commandList)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDocumentedCommandsAreListed checks that commands.txt lists every command in README.md and docs.
func TestDocumentedCommandsAreListed(t *testing.T) {
	commands, err := documentedCommands(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 60 {
		t.Fatalf("only %d documented commands found", len(commands))
	}
	c := catalogueOf(t)
	for _, line := range c.unlisted(commands) {
		t.Errorf("neither run nor skipped in commands.txt: %s", line)
	}
	for line, reason := range c.skipped {
		if commands[line] == "" {
			t.Errorf("commands.txt skips what no document contains (%s): %s", reason, line)
		}
	}
	if got := c.unlisted(map[string]string{"simulate queue --nothing": "a.md"}); len(got) != 1 {
		t.Errorf("an unlisted command is not found: %v", got)
	}
}

// TestEveryCommandHasADigest checks that commands.txt and digests.txt agree. Help commands are found only by running
// them.
func TestEveryCommandHasADigest(t *testing.T) {
	stored, err := readDigests("digests.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalogueOf(t).scenes {
		for _, c := range s.commands {
			if stored[c.key] == "" {
				t.Errorf("no digest: %s", c.key)
			}
			delete(stored, c.key)
		}
	}
	for key := range stored {
		if !strings.HasPrefix(key, "help: ") {
			t.Errorf("digest without a command: %s", key)
		}
	}
}

// TestShort runs the scenes marked short and compares their output with the digests.
func TestShort(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("digests are of amd64: other processors fuse multiplications and additions")
	}
	var out bytes.Buffer
	o := options{root: root, run: regexp.MustCompile(""), short: true, jobs: 2, limit: 5 * time.Minute}
	if err := oracle(t.Context(), &out, o, false); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestCatalogue(t *testing.T) {
	c, err := parseCatalogue("== a short\n@file x.csv a,b\\n1,2\\n\n[json] simulate {rounds,queue} --set \"a b\" -- {}\nruns\nruns\n[skip trains] train x.py\n")
	if err != nil {
		t.Fatal(err)
	}
	s := c.scenes[0]
	var keys []string
	for _, cmd := range s.commands {
		keys = append(keys, cmd.key)
	}
	want := "a: simulate rounds --set a b -- {}|a: simulate queue --set a b -- {}|a: simulate rounds --set a b --json -- {}|a: simulate queue --set a b --json -- {}|a: runs|a: runs (2)"
	if got := strings.Join(keys, "|"); got != want || !s.short || s.files[0][1] != "a,b\n1,2\n" || c.skipped["train x.py"] != "trains" || s.commands[0].args[3] != "a b" {
		t.Errorf("parsed %+v", c)
	}
	for _, text := range []string{"runs", "== a\n[skip] runs", "== a\n@copy x", "== a\n@move x y", "@file a b"} {
		if _, err := parseCatalogue(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{
		"script  /usr/local/bin/python3 a.py":         "script  python3 a.py",
		"wrote it with go1.26.8":                      "wrote it with GO",
		"150 of 300 steps, 6 steps/s, loss 1\nkept":   "kept",
		`"mean_jct_s": 59770.44101776743, "seed": 42`: `"mean_jct_s": 59770.44101776743, "seed": 42`,
	} {
		if got := normalise(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestDifferencesAreShown checks that a changed output is shown as a diff against the stored copy and that new and
// missing commands are listed.
func TestDifferencesAreShown(t *testing.T) {
	kept := outputs(t.TempDir())
	was, err1 := kept.keep("same\nold\n")
	is, err2 := kept.keep("same\nnew\n")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	var out bytes.Buffer
	stored, found := digests{"a": was, "b": is, "gone": is, "lost": "0123"}, digests{"a": is, "b": is, "c": is, "lost": is}
	if n := compare(&out, kept, stored, found, true); n != 4 {
		t.Errorf("%d differences, want 4", n)
	}
	for _, want := range []string{"differs: a\n", "-old\n+new\n", "no digest: c\n", "not run: gone\n", "no copy of the earlier output"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "differs: b") {
		t.Error("an equal output differs")
	}
	if n := compare(&out, kept, digests{"gone": is}, digests{}, false); n != 0 {
		t.Error("a part of the list misses what was not asked for")
	}
}

func TestCommandsAreStopped(t *testing.T) {
	r := &runner{binary: "/bin/sleep", limit: 50 * time.Millisecond}
	if _, err := r.execute(t.Context(), command{args: []string{"1000"}}, t.TempDir(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "stopped after 50ms") {
		t.Errorf("a command that takes too long: %v", err)
	}
}

// documented matches a command line of optimize in a fenced block or in inline code.
var documented = regexp.MustCompile("(?m)(?:^[ \\t$]*|`)optimize ((?:\"[^\"\n]*\"|[^\"`\n])+)")

// documentedCommands returns the command lines in README.md and docs, each with one of the files that contain it.
func documentedCommands(root string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read documented commands: %w", err)
		}
		for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
			line := words(m[1])
			if end := slices.IndexFunc(line, func(w string) bool { return w == "#" || w == "|" || w == ">" }); end >= 0 {
				line = line[:end]
			}
			out[strings.Join(line, " ")] = filepath.Base(path)
		}
	}
	return out, nil
}

// unlisted returns the documented command lines that the catalogue neither runs nor skips.
func (c *catalogue) unlisted(documented map[string]string) []string {
	known := map[string]bool{}
	for _, s := range c.scenes {
		for _, cmd := range s.commands {
			known[strings.Join(cmd.args, " ")] = true
		}
	}
	var out []string
	for line, file := range documented {
		if _, skipped := c.skipped[line]; !skipped && !known[line] {
			out = append(out, fmt.Sprintf("%s: optimize %s", file, line))
		}
	}
	slices.Sort(out)
	return out
}
