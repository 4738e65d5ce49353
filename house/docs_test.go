package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// inRepository matches paths below a top-level folder in prose and in commands.
	inRepository = regexp.MustCompile("(?m)(?:^|[\\s(\"'`=])(?:\\./)?((?:cmd|cost|docs|examples|house|internal|monitor|morl|optimizer|resources|simulator|sla)/[\\w./*-]+)")
	// exported matches the name in `folder.Name`.
	exported   = regexp.MustCompile(`\.[A-Z]\w*$`)
	testName   = regexp.MustCompile(`\b((?:Test|Benchmark)[A-Z]\w+)\b`)
	makeTarget = regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+)")
)

// documents returns README.md and the files of docs by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no documents in ../docs: %v", err)
	}
	out := map[string]string{}
	for _, path := range append(paths, "../README.md") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(data)
	}
	return out
}

// found returns the distinct submatches of a pattern in a text.
func found(re *regexp.Regexp, text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		out[strings.TrimRight(m[1], "./")] = true
	}
	return out
}

// TestReadmeIsShort holds the first page to what a user reads before the first run; docs contains the rest.
func TestReadmeIsShort(t *testing.T) {
	const limit = 7 << 10
	if n := len(documents(t)["../README.md"]); n > limit {
		t.Errorf("README.md has %d bytes, limit %d", n, limit)
	}
}

func TestDocumentsNameWhatExists(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tests := testFunctions(t)
	exists := func(path string) bool {
		matches, err := filepath.Glob(path)
		return err == nil && len(matches) > 0
	}
	seen := 0
	for doc, text := range documents(t) {
		for target := range found(link, text) {
			path, _, _ := strings.Cut(target, "#")
			if seen++; path != "" && !strings.Contains(path, "://") && !exists(filepath.Join(filepath.Dir(doc), path)) {
				t.Errorf("%s links to %s, which is not there", doc, target)
			}
		}
		for path := range found(inRepository, text) {
			if seen++; !exists(filepath.Join("..", exported.ReplaceAllString(path, ""))) {
				t.Errorf("%s names %s, which is not there", doc, path)
			}
		}
		for name := range found(testName, text) {
			if seen++; !tests[name] {
				t.Errorf("%s names the test %s, which is not there", doc, name)
			}
		}
		for target := range found(makeTarget, text) {
			if seen++; !strings.Contains(string(makefile), "\n"+target+":") {
				t.Errorf("%s says make %s, which the Makefile does not know", doc, target)
			}
		}
	}
	if seen < 100 {
		t.Fatalf("only %d names found in the documents: the check looks in the wrong place", seen)
	}
}

// testFunctions returns the names of the tests, benchmarks and fuzz targets of all packages.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	out := map[string]bool{}
	for _, depth := range []string{"", "*/", "*/*/", "*/*/*/"} {
		paths, err := filepath.Glob("../*/" + depth + "*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for name := range found(function, string(data)) {
				out[name] = true
			}
		}
	}
	return out
}

// TestDocumentsKeepTheHouseRules rejects paths that exist only on the machine where a text was written.
func TestDocumentsKeepTheHouseRules(t *testing.T) {
	own := regexp.MustCompile(`(?:^|[\s"'=(])/(?:work|tmp|home|root|Users)/`)
	for doc, text := range documents(t) {
		for i, line := range strings.Split(text, "\n") {
			if own.MatchString(line) {
				t.Errorf("%s, line %d: a path of one machine: %s", doc, i+1, line)
			}
		}
	}
}
