// Package house checks repository conventions: import directions, names of files and packages, references in the
// documentation, and wording.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "trainopt/"

// floors lists the top-level folders that each top-level folder may import. Imports point down only. Every folder may
// import foundation.
var floors = map[string][]string{
	"resources": {},
	"sla":       {},
	"monitor":   {"monitor"},
	"morl":      {"morl"},
	"cost":      {"resources"},
	"optimizer": {"optimizer", "resources", "sla", "monitor", "morl", "cost"},
	"simulator": {"simulator", "optimizer", "resources", "sla", "monitor", "morl", "cost"},
	"cmd":       {"cmd", "optimizer", "simulator", "resources", "sla", "monitor", "morl", "cost"},
	"internal":  {"internal", "optimizer", "simulator", "resources", "sla", "monitor", "morl", "cost"},
	"examples":  {"cmd", "optimizer", "simulator", "resources", "sla", "monitor", "morl", "cost"},
	"house":     {},
}

// foundation lists the folders that every folder may import. They import nothing of ours.
var foundation = []string{"internal/regular", "internal/stat", "internal/wording"}

// below lists the packages of optimizer that each package of optimizer may import.
var below = map[string][]string{
	"optimizer/inspect":       {},
	"optimizer/perf":          {},
	"optimizer/plan":          {"optimizer/perf", "optimizer/report/page"},
	"optimizer/launch":        {},
	"optimizer/engine":        {"optimizer/schedule/order"},
	"optimizer/notify":        {"optimizer/launch"},
	"optimizer/tracker":       {"optimizer/cluster", "optimizer/history", "optimizer/journal"},
	"optimizer/engine/slurm":  {"optimizer/engine"},
	"optimizer/launch/remote": {"optimizer/engine", "optimizer/launch", "optimizer/observe"},
	"optimizer/journal":       {"optimizer/engine", "optimizer/launch", "optimizer/perf", "optimizer/plan"},
	"optimizer/history":       {"optimizer/inspect", "optimizer/journal", "optimizer/perf", "optimizer/plan"},
	"optimizer/report/page":   {},

	"optimizer/history/transfer": {"optimizer/history", "optimizer/perf"},

	"optimizer/report":   {"optimizer/journal", "optimizer/engine", "optimizer/launch", "optimizer/plan", "optimizer/history", "optimizer/report/page"},
	"optimizer/serve":    {"optimizer/cluster", "optimizer/journal", "optimizer/plan", "optimizer/report", "optimizer/report/page"},
	"optimizer/analysis": {"optimizer/engine/slurm", "optimizer/history", "optimizer/journal", "optimizer/perf", "optimizer/plan", "optimizer/report", "optimizer/report/page"},
	"optimizer/predict":  {"optimizer/history", "optimizer/journal", "optimizer/history/transfer", "optimizer/plan", "optimizer/inspect", "optimizer/report/page"},

	"optimizer/colocate": {"optimizer/engine", "optimizer/schedule/place"},

	"optimizer/cluster": {"optimizer/engine", "optimizer/history", "optimizer/history/transfer", "optimizer/inspect", "optimizer/journal", "optimizer/launch", "optimizer/launch/remote", "optimizer/run", "optimizer/schedule", "optimizer/schedule/share"},

	"optimizer/schedule":          {},
	"optimizer/schedule/capacity": {},
	"optimizer/schedule/share":    {"optimizer/schedule", "optimizer/schedule/solve"},
	"optimizer/schedule/solve":    {},
	"optimizer/schedule/place":    {"optimizer/schedule"},
}

// testSupport lists the packages that only tests import.
var testSupport = []string{"internal/conformance", "internal/lab"}

// forbidden lists names of packages and files that do not describe their contents.
var forbidden = []string{"util", "utils", "common", "helpers", "misc", "types", "base", "manager"}

func TestImportsPointDown(t *testing.T) {
	root := ".."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		if contains(foundation, filepath.ToSlash(filepath.Dir(rel))) {
			checkFoundation(t, path, rel)
		}
		files++
		checkName(t, rel)
		checkImports(t, path, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d Go files found: the check looks in the wrong place", files)
	}
}

func checkName(t *testing.T, rel string) {
	t.Helper()
	for _, part := range strings.Split(strings.TrimSuffix(strings.TrimSuffix(rel, ".go"), "_test"), string(os.PathSeparator)) {
		for _, w := range forbidden {
			if part == w {
				t.Errorf("%s: the name %q says nothing about what is inside", rel, w)
			}
		}
	}
}

// checkImports reports every import of one file that floors or below do not allow. Test files may also import simulator
// and testSupport.
func checkImports(t *testing.T, path, rel string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("parse %s: %v", rel, err)
		return
	}
	folder := filepath.ToSlash(filepath.Dir(rel))
	top, _, _ := strings.Cut(rel, "/")
	allowed, known := floors[top]
	if !known {
		t.Errorf("%s: the folder %q has no floor: add it to the table with what it may import", rel, top)
		return
	}
	for _, imp := range f.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		if !strings.HasPrefix(p, module) {
			continue
		}
		target := strings.TrimPrefix(p, module)
		if target == folder || contains(foundation, target) { // target == folder: external test of the package itself
			continue
		}
		targetTop, _, _ := strings.Cut(target, "/")
		if strings.HasSuffix(rel, "_test.go") && (targetTop == "simulator" || contains(testSupport, target)) {
			continue // tests may use simulated worlds
		}
		if !contains(allowed, targetTop) && targetTop != top || len(allowed) == 0 {
			t.Errorf("%s imports %s: %s may import %v", rel, target, top, allowed)
		}
		if chain, ok := below[folder]; ok && targetTop == "optimizer" && !contains(chain, target) {
			t.Errorf("%s imports %s: %s may import %v of optimizer", rel, target, folder, chain)
		}
	}
}

func checkFoundation(t *testing.T, path, rel string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("parse %s: %v", rel, err)
		return
	}
	for _, imp := range f.Imports {
		if p, _ := strconv.Unquote(imp.Path.Value); strings.HasPrefix(p, module) {
			t.Errorf("%s imports %s: the foundation may import nothing of ours", rel, p)
		}
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
