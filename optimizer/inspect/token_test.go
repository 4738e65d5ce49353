package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

var kindNames = map[kind]string{endOfFile: "EOF", newline: "NL", indent: "IN", dedent: "DE", name: "", number: "", text: "s", fstring: "f", operator: ""}

func shownTokens(tokens []token) string {
	var parts []string
	for _, t := range tokens {
		n := kindNames[t.kind]
		if t.kind == text || t.kind == fstring {
			n += "<" + t.s + ">"
		} else if n == "" {
			n = t.s
		}
		parts = append(parts, n)
	}
	return strings.Join(parts, " ")
}

func TestTokenize(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"comment":          {"a = 1 # b = 2\n# c\n", "a = 1 NL EOF"},
		"hash in string":   {`a = "# no" # yes`, "a = s<# no> NL EOF"},
		"escaped quote":    {`'a\'b' + "c\\"`, `s<a\'b> + s<c\\> NL EOF`},
		"raw":              {`r'\' + "x"'`, `s<\' + "x"> NL EOF`},
		"bytes":            {`Rb"x" u'y' BR'''z'''`, "s<x> s<y> s<z> NL EOF"},
		"not a prefix":     {`print"x"`, "print s<x> NL EOF"},
		"triple":           {"x = '''a\n\"b'\n''c''' + 1", "x = s<a\n\"b'\n''c> + 1 NL EOF"},
		"empty strings":    {`"" '' """"""`, "s<> s<> s<> NL EOF"},
		"unterminated":     {"x = 'abc\ny = 2", "x = s<abc> NL y = 2 NL EOF"},
		"string continued": {"x = 'a\\\nb'\ny", "x = s<a\\\nb> NL y NL EOF"},
		"f-string":         {`f"{a['k']} {{x}}" + 'z'`, "f<{a['k']} {{x}}> + s<z> NL EOF"},
		"f-string 3.12":    {`f"{a["k"]}" + 'z'`, `f<{a["k"]}> + s<z> NL EOF`},
		"f-string format":  {`f'{x:>{w}}' 'y'`, "f<{x:>{w}}> s<y> NL EOF"},
		"f-string broken":  {"f'{' x\ny", "f<{> x NL y NL EOF"},
		"join in brackets": {"f(a,\n  b,  # c\n\n  d)\ne", "f ( a , b , d ) NL e NL EOF"},
		"join backslash":   {"a = \\\n  1", "a = 1 NL EOF"},
		"indent":           {"if a:\n  b\n\n  # c\n  if d:\n\te\nf", "if a : NL IN b NL if d : NL IN e NL DE DE f NL EOF"},
		"odd dedent":       {"if a:\n    b\n  c\nd", "if a : NL IN b NL DE c NL d NL EOF"},
		"numbers":          {"1_000 0x1e+5 1e-5 .5 1.j 3.14", "1_000 0x1e + 5 1e-5 .5 1.j 3.14 NL EOF"},
		"operators":        {"a:=b**=c!=d->e...", "a := b **= c != d -> e ... NL EOF"},
		"unicode":          {"größe = 'ü'", "größe = s<ü> NL EOF"},
		"stray":            {"a $ ? ` )", "a $ ? ` ) NL EOF"},
		"empty":            {"", "EOF"},
	}
	for n, test := range tests {
		t.Run(n, func(t *testing.T) {
			if got := shownTokens(tokenize(test.src)); got != test.want {
				t.Errorf("have %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestTokenLines(t *testing.T) {
	for _, one := range tokenize("a\n\n'''x\ny'''\nb (\n c\n)\nd \\\n e\n'p\\\nq' r") {
		want := map[string]int32{"a": 1, "x\ny": 3, "b": 5, "c": 6, ")": 7, "d": 8, "e": 9, "p\\\nq": 10, "r": 11}
		if w, ok := want[one.s]; ok && one.line != w {
			t.Errorf("token %q is in line %d, want %d", one.s, one.line, w)
		}
	}
}

func seeds(f *testing.F, pattern string) {
	files, _ := filepath.Glob(pattern)
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && len(data) < 1<<16 {
			f.Add(string(data))
		}
	}
}

// FuzzTokenize: every token is a part of the source, in order, and indentation is balanced.
func FuzzTokenize(f *testing.F) {
	seeds(f, "testdata/*.py")
	for _, s := range []string{"f'{", "'''", "\\", "\\\r\n", "if a:\n\t b\n  c", "f\"{x[\"", "r'\\", "\f a\r", "0x", "1e+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		depth, line, at := 0, int32(1), uintptr(0)
		tokens := tokenize(src)
		for _, one := range tokens {
			switch one.kind {
			case indent:
				depth++
			case dedent:
				depth--
			}
			if depth < 0 || one.line < line {
				t.Fatalf("depth %d, line %d after %d", depth, one.line, line)
			}
			line = one.line
			if one.s != "" {
				p := uintptr(unsafe.Pointer(unsafe.StringData(one.s))) - uintptr(unsafe.Pointer(unsafe.StringData(src)))
				if p < at || int(p)+len(one.s) > len(src) {
					t.Fatalf("token %q at %d, after %d", one.s, p, at)
				}
				at = p + uintptr(len(one.s))
			}
		}
		if depth != 0 || tokens[len(tokens)-1].kind != endOfFile || int(line) > strings.Count(src, "\n")+strings.Count(src, "\r")+1 {
			t.Fatalf("ends at depth %d, line %d", depth, line)
		}
	})
}

// FuzzInspectPython: for any bytes, the lines of all findings exist.
func FuzzInspectPython(f *testing.F) {
	seeds(f, "testdata/*.py")
	f.Add("import a.\nfrom . import (\n x as\n=\nclass (:\ndef f(a=1, *, b: int = [2]): x; y = z =\n\"k\": {")
	f.Fuzz(func(t *testing.T, src string) {
		ins := inspectPython([]byte(src))
		last := strings.Count(src, "\n") + strings.Count(src, "\r") + 1
		for _, one := range []Finding{ins.Framework, ins.Model, ins.Dataset, ins.GPU, ins.BatchSize, ins.Resumable} {
			if !strings.ContainsRune(src, 0) && one.Line > last && !strings.HasPrefix(src, "\xff\xfe") && !strings.HasPrefix(src, "\xfe\xff") {
				t.Fatalf("%+v is beyond line %d", one, last)
			}
			if one.Value == "" && one.Line != 0 || strings.ContainsAny(one.Text, "\n\r") {
				t.Fatalf("%+v", one)
			}
		}
	})
}

// TestWorkingDirectoryInShell: pwd is the working directory, and a value taken before cd is unknown after it.
func TestWorkingDirectoryInShell(t *testing.T) {
	for src, want := range map[string]string{
		"python $(pwd)/train.py":                         "python ./train.py",
		"ROOT=$(pwd -P)\npython \"$ROOT\"/train.py":      "python ./train.py",
		"python `pwd`/train.py":                          "python ./train.py",
		"cd src\npython $(pwd)/train.py":                 "cd src; python ./train.py",
		"ROOT=$PWD\ncd src\npython $ROOT/train.py":       "cd src; python /train.py",
		"A=$(pwd)\nB=$A/x\nC=y\ncd src\npython $B/$C.py": "cd src; python /y.py",
		"python $(date)/train.py":                        "python /train.py",
	} {
		var got []string
		for _, c := range shellCommands(src, "dir", nil, nil) {
			got = append(got, strings.Join(c.words, " "))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%q: %q, want %q", src, text, want)
		}
	}
}

// FuzzShellCommands: parsing terminates for any text, and every command has at least one word.
func FuzzShellCommands(f *testing.F) {
	seeds(f, "testdata/*.sh")
	for _, s := range []string{"a=$(b $(c", "${", "\"$", "<<E\n", "'", "a\\", "x=1; $x ${x:-2} $9 $@", "`pwd`/`$(pwd", "cat <<-'EOF'\nEOF\nz",
		"a=(1 $2\nb+=(\"${a[@]}\" x) && $a ${b[@]:1} ${c[", "eval 'eval \"$x\"'; x='eval $x'; eval $x", "f() {\nif [ $1 ]; then a; else b; fi\n}\n", "if\n}\nfi done {", ")", "A=b; A=$A$A; ${A:=${A:-${A:+$A}}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		for _, c := range shellCommands(src, "dir", []string{"1", "a b"}, nil) {
			if len(c.words) == 0 || c.line < 1 {
				t.Fatalf("%+v", c)
			}
			findPython(c.words)
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	data, err := os.ReadFile("testdata/bert_says_resnet.py")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		inspectPython(data)
	}
}
