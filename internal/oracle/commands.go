package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed commands.txt
var commandList string

// scene is a list of commands that run in sequence in one folder with one state directory.
type scene struct {
	name  string
	short bool
	// copies holds pairs of a path in the repository and a path in the folder, files pairs of a name and its content.
	copies, files [][2]string
	commands      []command
	// help marks a scene that runs the help of every command and subcommand, found by walking the help texts.
	help bool
}

// command is one command line of the program.
type command struct {
	key  string // identifies the command in the digest file: its scene and its line
	args []string
}

// catalogue is the parsed command list.
type catalogue struct {
	scenes []scene
	// skipped holds the documented command lines that are not run, with the reason.
	skipped map[string]string
}

var tag = regexp.MustCompile(`^\[(json|skip)(?: ([^\]]+))?\]\s+`)

// parseCatalogue parses the format described at the head of commands.txt.
func parseCatalogue(text string) (*catalogue, error) {
	c := &catalogue{skipped: map[string]string{}}
	keys := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		var err error
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "== "):
			words := strings.Fields(line[3:])
			c.scenes = append(c.scenes, scene{name: words[0], short: slices.Contains(words, "short"), help: words[0] == "help"})
		case len(c.scenes) == 0 && !strings.HasPrefix(line, "[skip "):
			err = fmt.Errorf("command before the first scene")
		case strings.HasPrefix(line, "@"):
			err = c.scenes[len(c.scenes)-1].prepare(line)
		default:
			err = c.add(line, keys)
		}
		if err != nil {
			return nil, fmt.Errorf("read command list: line %d: %w", i+1, err)
		}
	}
	return c, nil
}

// prepare parses a line that begins with @.
func (s *scene) prepare(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	first, second, found := strings.Cut(rest, " ")
	switch {
	case kind == "@copy" && found:
		s.copies = append(s.copies, [2]string{first, second})
	case kind == "@file" && found:
		s.files = append(s.files, [2]string{first, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(second)})
	default:
		return fmt.Errorf("%q: want @copy SOURCE TARGET or @file NAME CONTENT", line)
	}
	return nil
}

// add parses one command line with its tag.
func (c *catalogue) add(line string, keys map[string]bool) error {
	var kind, reason string
	if m := tag.FindStringSubmatch(line); m != nil {
		kind, reason, line = m[1], m[2], line[len(m[0]):]
	}
	if kind == "skip" {
		if reason == "" {
			return fmt.Errorf("%q is skipped without a reason", line)
		}
		c.skipped[canonical(line)] = reason
		return nil
	}
	last := &c.scenes[len(c.scenes)-1]
	lines := alternatives(line)
	if kind == "json" {
		for _, l := range slices.Clone(lines) {
			lines = append(lines, withJSON(l))
		}
	}
	for _, l := range lines {
		key := last.name + ": " + canonical(l)
		for n := 2; keys[key]; n++ {
			key = fmt.Sprintf("%s: %s (%d)", last.name, canonical(l), n)
		}
		keys[key] = true
		last.commands = append(last.commands, command{key: key, args: words(l)})
	}
	return nil
}

// withJSON inserts --json before the arguments of a script.
func withJSON(line string) string {
	before, after, found := strings.Cut(line, " -- ")
	if !found {
		return line + " --json"
	}
	return before + " --json -- " + after
}

var braces = regexp.MustCompile(`\{([^{}]*,[^{}]*)\}`)

// alternatives returns the lines to which braces expand.
func alternatives(line string) []string {
	at := braces.FindStringSubmatchIndex(line)
	if at == nil {
		return []string{line}
	}
	var out []string
	for _, choice := range strings.Split(line[at[2]:at[3]], ",") {
		out = append(out, alternatives(line[:at[0]]+choice+line[at[1]:])...)
	}
	return out
}

var word = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)

// words splits a command line at spaces outside quotes. A word that consists only of quotes is an empty argument.
func words(line string) []string {
	out := word.FindAllString(line, -1)
	for i, w := range out {
		if len(w) > 1 && (w[0] == '"' || w[0] == '\'') && w[len(w)-1] == w[0] {
			out[i] = w[1 : len(w)-1]
		}
	}
	return out
}

// canonical returns a command line with single spaces and without quotes.
func canonical(line string) string { return strings.Join(words(line), " ") }
