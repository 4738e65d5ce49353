package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// phrase is an expression without a technical use and the wording that replaces it.
type phrase struct {
	words   string // in lower case; a space also matches a line break
	instead string
}

// phrases lists only expressions that have practically no legitimate use in technical English, so that a match is an
// error and no list of exceptions is needed.
var phrases = []phrase{
	{"nobody", "none, or no X (the noun)"},
	{"somebody", "the user, or the noun"},
	{"anybody", "any X (the noun)"},
	{"everybody", "all X (the noun)"},
	{"whoever", "the noun: the caller, the policy, the user"},
	{"whom", "the noun"},
	{"who is there", "the running jobs, the present devices"},
	{"so many", "N, n rows, the number of"},
	{"anew", "again"},
	{"goes on", "continues"},
	{"went on", "continued"},
	{"foretold", "predicted"},
	{"foretell", "predict"},
	{"foretells", "predicts"},
	{"foresaw", "predicted"},
	{"untold", "default, unknown or unset"},
	{"there is none", "no X exists, or: if it is absent"},
	{"is told", "receives, or is given"},
	{"are told", "receive, or are given"},
	{"was told", "received, or was given"},
	{"were told", "received, or were given"},
	{"be told", "be given, or be distinguished"},
	{"told apart", "distinguished"},
	{"in words", "as text, or a description of"},
	{"says nothing", "has no effect, cannot be combined, or is unknown"},
	{"say nothing", "have no effect, cannot be combined, or are unknown"},
	{"says so", "reports this"},
	{"say so", "report this"},
	{"no more than so", "at most N"},
	{"what was left behind", "the orphaned run, or the leftover files"},
	{"of its own accord", "by itself, or without a request"},
	{"does not say", "does not contain, does not record, or is unknown"},
	{"do not say", "do not contain, do not record, or are unknown"},
}

// match is a phrase found in a text.
type match struct {
	line    int // from 0
	found   string
	instead string
}

// findPhrases returns the phrases in a text in the order of the list. A phrase may span lines.
func findPhrases(text string) []match {
	var out []match
	for i, re := range phrasePatterns {
		for _, at := range re.FindAllStringIndex(text, -1) {
			found := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			out = append(out, match{strings.Count(text[:at[0]], "\n"), found, phrases[i].instead})
		}
	}
	return out
}

// phrasePatterns are the compiled phrases, in the same order.
var phrasePatterns = func() []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(phrases))
	for i, p := range phrases {
		out[i] = regexp.MustCompile(`(?i)\b` + strings.Join(strings.Fields(regexp.QuoteMeta(p.words)), `\s+`) + `\b`)
	}
	return out
}()

// codeSpan matches inline code, which may quote messages and names.
var codeSpan = regexp.MustCompile("`[^`\n]*`")

// TestCommentsUseTechnicalEnglish scans the comments of all Go files, including those of tests.
func TestCommentsUseTechnicalEnglish(t *testing.T) {
	root, files := "..", 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			text, lines := commentText(positions, group)
			for _, m := range findPhrases(text) {
				t.Errorf("%s:%d: %q: write %s", strings.TrimPrefix(filepath.ToSlash(path), "../"), lines[m.line], m.found, m.instead)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d Go files found: the check looks in the wrong place", files)
	}
}

// identifier matches a lower-case word at the beginning of a comment, by convention the identifier that it documents.
var identifier = regexp.MustCompile(`^[ \t]*[a-z]\w*`)

// commentText returns the text of a comment group without its markers, inline code and the documented identifier, and the
// line in the file of each of its lines. Directives such as //go:embed are left blank.
func commentText(positions *token.FileSet, group *ast.CommentGroup) (text string, lines []int) {
	var out []string
	for _, c := range group.List {
		first := positions.Position(c.Pos()).Line
		for i, line := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/"), "\n") {
			body, isLine := strings.CutPrefix(line, "//")
			if isLine && body != "" && body[0] != ' ' && body[0] != '\t' {
				body = ""
			}
			out, lines = append(out, codeSpan.ReplaceAllString(body, "")), append(lines, first+i)
		}
	}
	return identifier.ReplaceAllString(strings.Join(out, "\n"), ""), lines
}

// TestDocumentsUseTechnicalEnglish scans the prose of README.md and docs, without code and tables.
func TestDocumentsUseTechnicalEnglish(t *testing.T) {
	for doc, text := range documents(t) {
		for _, m := range findPhrases(prose(text)) {
			t.Errorf("%s:%d: %q: write %s", strings.TrimPrefix(filepath.ToSlash(doc), "../"), m.line+1, m.found, m.instead)
		}
	}
}

// TestMessagesUseTechnicalEnglish scans the string literals of all Go files outside tests: messages, help and reports.
func TestMessagesUseTechnicalEnglish(t *testing.T) {
	root, found := "..", 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "house") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			found++
			for _, m := range findPhrases(literal.Value) {
				t.Errorf("%s:%d: %q: write %s", strings.TrimPrefix(filepath.ToSlash(path), "../"), positions.Position(literal.Pos()).Line+m.line, m.found, m.instead)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 1000 {
		t.Fatalf("only %d literals found: the check looks in the wrong place", found)
	}
}

// prose returns a Markdown text with code blocks, inline code and table rows left blank. Its lines keep their numbers.
func prose(text string) string {
	lines, inCode := strings.Split(text, "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence:
			inCode, lines[i] = !inCode, ""
		case inCode, strings.HasPrefix(strings.TrimSpace(line), "|"):
			lines[i] = ""
		default:
			lines[i] = codeSpan.ReplaceAllString(line, "")
		}
	}
	return strings.Join(lines, "\n")
}

// TestFindPhrases checks the matcher on text with and without the phrases, and that code and tables are ignored.
func TestFindPhrases(t *testing.T) {
	for text, want := range map[string][]int{
		"The run Goes On.\nNobody waits.":                   {0, 1},
		"It takes so\nmany rows.":                           {0},
		"The job continues; 12 rows remain.":                nil,
		"Renewal, whomsoever, foretoldness.":                nil,
		"```\nthe job goes on\n```\n| nobody |\n`is told`.": nil,
		"```\ncode\n```\nthe run goes on":                   {3},
	} {
		seen := map[int]bool{}
		for _, m := range findPhrases(prose(text)) {
			seen[m.line] = true
		}
		for _, line := range want {
			if !seen[line] {
				t.Errorf("%q: no match in line %d", text, line)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("%q: matches in %d lines, want %d", text, len(seen), len(want))
		}
	}
}
