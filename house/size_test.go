package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// size is the extent of the Go code outside tests.
type size struct {
	lines    int
	exported int            // package-level names outside package main
	files    map[string]int // by folder; a folder is a package
}

// limits bounds the extent. A limit may be lowered, not raised without a reason in the commit.
var limits = struct{ lines, packages, exported, files int }{lines: 193071, packages: 64, exported: 1_483, files: 30}

// aims are the values at which a maintainer can know the whole repository.
var aims = struct{ lines, packages, exported, files int }{lines: 106_000, packages: 50, exported: 900, files: 30}

func TestSize(t *testing.T) {
	s, err := measure("..")
	if err != nil {
		t.Fatal(err)
	}
	folders := slices.SortedFunc(maps.Keys(s.files), func(a, b string) int { return s.files[b] - s.files[a] })
	if len(folders) < 10 {
		t.Fatalf("only %d packages found: the check looks in the wrong place", len(folders))
	}
	largest := folders[0]
	for _, c := range []struct {
		what             string
		have, limit, aim int
	}{
		{"lines of Go outside tests", s.lines, limits.lines, aims.lines},
		{"packages", len(folders), limits.packages, aims.packages},
		{"exported names", s.exported, limits.exported, aims.exported},
		{fmt.Sprintf("files in the largest folder (%s)", largest), s.files[largest], limits.files, aims.files},
	} {
		t.Logf("%-60s %7d   limit %7d   aim %7d", c.what, c.have, c.limit, c.aim)
		if c.have > c.limit {
			t.Errorf("%s: %d, limit %d", c.what, c.have, c.limit)
		}
	}
}

// measure counts the Go files below a root, without tests and testdata.
func measure(root string) (size, error) {
	s := size{files: map[string]int{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || strings.HasPrefix(name, ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.lines += bytes.Count(text, []byte("\n"))
		s.files[filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, root+string(filepath.Separator))))]++
		if file.Name.Name != "main" {
			s.exported += exportedNames(file)
		}
		return nil
	})
	return s, err
}

// exportedNames returns the number of exported package-level names of a file; methods and fields do not count.
func exportedNames(file *ast.File) int {
	n := 0
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					count(s.Name)
				case *ast.ValueSpec:
					count(s.Names...)
				}
			}
		}
	}
	return n
}
