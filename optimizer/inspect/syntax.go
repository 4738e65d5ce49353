package inspect

import (
	"cmp"
	"strings"
)

// statement is one simple statement, or the head of a compound one (up to its colon).
type statement struct {
	tokens []token
	line   int
	scope  string // dotted path of the enclosing functions and classes, "" at module level
	// indent is the number of leading white-space characters of its line. parent is the index of the statement whose block
	// contains it within the same function, -1 without one.
	indent, parent int
	head           int  // index of the if or elif before an elif or else, -1 for another statement
	looped         bool // in a loop of its function
	branched       bool // its line runs in some cases only: in a branch for tests, for one data set
}

// call is one call expression.
type call struct {
	// callee is the called expression as written: "torch.device", ".cuda" for a method of an expression that is not a
	// name.
	callee string
	// full is the callee with its first name replaced by the imported path.
	full   string
	args   []argument
	line   int
	scope  string
	module bool // at module level
	listed bool // in a comprehension: [train(fold) for fold in folds]
}

// argument is one argument of a call; key is "" for a positional one.
type argument struct {
	key    string
	tokens []token
}

// assignment is target = value, a parameter's default, or a dictionary entry with a literal key.
type assignment struct {
	target string // dotted: "args.epochs"; the key for a dictionary entry
	value  []token
	line   int
	scope  string
	how    how
}

// how is the kind of an assignment.
type how uint8

const (
	assigned how = iota
	defaulted
	entry
)

// definition is a def or a class.
type definition struct {
	name  string
	bases []token // of a class
	class bool
	line  int
	scope string
}

// imported is one name bound by an import: alias is the name, path the imported object.
type imported struct {
	alias, path string
	line        int
}

// script is a parsed source file, the input of all findings.
type script struct {
	lines       []string
	args        []string          // sys.argv[1:]
	env         map[string]string // variables that extend its environment
	stated      map[string]string // options on its command line, in canonical form → the value
	modules     []module          // other files at the end of lines
	omitted     []string          // SHA-256 of the local modules that do not fit there
	statements  []statement
	imports     []imported
	calls       []call
	assignments []assignment
	definitions []definition
	strings     []token // every string of the program except docstrings
	names       map[string]int
	options     []option
	functions   map[string]int     // function → index of the statement that defines it
	assigned    map[string]int     // target → index of its last assignment
	certain     map[string]int     // target → index of its last assignment outside branches
	defaults    map[string][]token // option, parameter or key → its default
	aliases     map[string]string  // alias → path
	matched     map[*vocabulary]map[string]string

	// How the script uses its options: whether a variable holds the parsed ones, whether a statement passes all of them to
	// code outside the script.
	holders map[string]bool
	passing map[int]bool
}

var keywords = map[string]bool{
	"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true, "async": true, "await": true, "break": true,
	"class": true, "continue": true, "def": true, "del": true, "elif": true, "else": true, "except": true, "finally": true, "for": true,
	"from": true, "global": true, "if": true, "import": true, "in": true, "is": true, "lambda": true, "nonlocal": true, "not": true,
	"or": true, "pass": true, "raise": true, "return": true, "try": true, "while": true, "with": true, "yield": true,
}

var compound = map[string]bool{
	"if": true, "elif": true, "else": true, "for": true, "while": true, "with": true, "try": true, "except": true, "finally": true,
	"def": true, "class": true, "async": true,
}

// parse parses Python source, at the end of which the modules are. It never fails.
func parse(src string, modules ...module) *script {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	s := &script{lines: strings.Split(src, "\n"), modules: modules, names: map[string]int{}, aliases: map[string]string{},
		matched: map[*vocabulary]map[string]string{}, functions: map[string]int{}, passing: map[int]bool{}}
	s.split(tokenize(src))
	s.nest()
	for i := range s.statements {
		s.readImports(&s.statements[i])
	}
	for _, im := range s.imports {
		if _, ok := s.aliases[im.alias]; !ok {
			s.aliases[im.alias] = im.path
		}
	}
	for i := range s.statements {
		s.readStatement(&s.statements[i])
	}
	s.index()
	return s
}

// maxEvidence is the length, in bytes, of the beginning of a line that is looked at as evidence.
const maxEvidence = 512

// line returns source line n (from 1), with white space normalised, cut to 160 bytes.
func (s *script) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	l := s.lines[n-1]
	l = strings.Join(strings.Fields(l[:min(len(l), maxEvidence)]), " ")
	if len(l) > 160 {
		l = strings.ToValidUTF8(l[:157], "") + "..."
	}
	return l
}

// found returns a Finding with the evidence of a line.
func (s *script) found(value string, line int) Finding {
	return Finding{Value: value, Line: line, Text: s.line(line)}
}

// maxScopeName is the length, in bytes, to which a name in a scope is cut, so that the scopes of a script stay short.
const maxScopeName = 80

// split divides the tokens into statements and sets the scope of each.
func (s *script) split(tokens []token) {
	var open []string // scopes, one per indentation level
	var next string   // that of the block opened by the last head
	outer := func() string {
		if len(open) == 0 {
			return ""
		}
		return open[len(open)-1]
	}
	start, depth, lambdas := 0, 0, 0
	flush := func(end int, head bool) {
		if end <= start {
			return
		}
		s.statements = append(s.statements, statement{tokens: tokens[start:end], line: int(tokens[start].line), scope: next})
		if head {
			around, defined := outer(), definedName(tokens[start:end])
			defined = defined[:min(len(defined), maxScopeName)]
			if around != "" && defined != "" {
				defined = around + "." + defined
			}
			next = cmp.Or(defined, around)
		}
	}
	for i, t := range tokens {
		switch {
		case t.kind == indent:
			open = append(open, next)
			start = i + 1
		case t.kind == dedent:
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			next, start = outer(), i+1
		case t.kind == newline || t.kind == endOfFile:
			head := i > start && isHead(tokens[start:i])
			if !head {
				flush(i, false)
				if i+1 < len(tokens) && tokens[i+1].kind != indent {
					next = outer()
				}
			} else {
				flush(i, true)
			}
			start, depth, lambdas = i+1, 0, 0
		case t.kind == name && t.s == "lambda" && depth == 0:
			lambdas++
		case t.kind != operator:
		case strings.Contains("([{", t.s):
			depth++
		case strings.Contains(")]}", t.s):
			depth = max(0, depth-1)
		case t.s == ";" && depth == 0:
			flush(i, false)
			start = i + 1
		case t.s == ":" && depth == 0 && i > start && compound[tokens[start].s] && tokens[start].kind == name:
			if lambdas > 0 {
				lambdas--
			} else if i+1 < len(tokens) && tokens[i+1].kind != newline { // the body follows on this line
				next = outer()
				flush(i, true)
				start = i + 1
			}
		}
	}
}

// nest finds the functions, and the blocks that contain each statement, in one pass with a stack of the open ones.
func (s *script) nest() {
	var open []int
	for i := range s.statements {
		st := &s.statements[i]
		if t := st.tokens; len(t) < maxExpression && (t[0].s == "def" || t[0].s == "async") {
			if _, ok := s.functions[definedName(t)]; !ok {
				s.functions[definedName(t)] = i
			}
		}
		if i > 0 && s.statements[i-1].line == st.line { // if debug: epochs = 1
			st.indent, st.branched = s.statements[i-1].indent, s.statements[i-1].branched
		} else {
			l := s.lines[st.line-1]
			st.indent = len(l) - len(strings.TrimLeft(l, " \t"))
		}
		st.head = -1
		for len(open) > 0 {
			p := &s.statements[open[len(open)-1]]
			if p.indent < st.indent || p.line == st.line && compound[p.tokens[0].s] { // for fold in folds: train(fold)
				break
			}
			if p.indent == st.indent && (st.tokens[0].s == "elif" || st.tokens[0].s == "else") {
				st.head = open[len(open)-1]
			}
			open = open[:len(open)-1]
		}
		st.parent = -1
		if n := len(open); n > 0 && s.statements[open[n-1]].scope == st.scope {
			st.parent = open[n-1]
			p := &s.statements[st.parent]
			st.looped = p.looped || p.tokens[0].s == "for" || p.tokens[0].s == "while"
			st.branched = st.branched || p.branched
		}
		st.branched = st.branched || isBranch(st.tokens)
		open = append(open, i)
	}
}

// isBranch recognises the head of a block that runs in some cases only. The main part of a module and "if True:" are not.
func isBranch(t []token) bool {
	switch t[0].s {
	case "if", "elif", "else", "except", "case":
		return len(t) < 3 || t[1].s != "__name__" && (t[1].s != "True" || t[2].s != ":")
	}
	return false
}

func isHead(tokens []token) bool {
	return tokens[0].kind == name && compound[tokens[0].s] && tokens[len(tokens)-1].s == ":" && tokens[len(tokens)-1].kind == operator
}

// definedName returns the name that the head of a def or class defines, otherwise "".
func definedName(tokens []token) string {
	for i := 0; i+1 < len(tokens) && i < 2; i++ {
		if tokens[i].kind == name && (tokens[i].s == "def" || tokens[i].s == "class") && tokens[i+1].kind == name {
			return tokens[i+1].s
		}
	}
	return ""
}

// readStatement collects calls, assignments, definitions, strings and names. Imports and docstrings are skipped.
func (s *script) readStatement(st *statement) {
	t := st.tokens
	if isImport := t[0].kind == name && (t[0].s == "import" || t[0].s == "from"); isImport {
		return
	}
	docstring := true
	for _, one := range t {
		docstring = docstring && (one.kind == text || one.kind == fstring)
	}
	if docstring {
		return
	}
	match := brackets(t)
	for i, one := range t {
		switch one.kind {
		case text, fstring:
			s.strings = append(s.strings, one)
			s.dictEntry(st, match, i)
		case name:
			if !keywords[one.s] {
				s.names[one.s]++
			}
		case operator:
			if one.s == "(" && i > 0 && t[i-1].kind == name && !keywords[t[i-1].s] {
				s.readCall(st, match, i)
			}
		}
	}
	s.readAssignment(st, match)
}

// brackets returns for each opening bracket the index of its closing one (the number of tokens without one).
func brackets(t []token) []int {
	match := make([]int, len(t))
	var open []int
	for i, one := range t {
		if one.kind != operator {
			continue
		}
		switch one.s {
		case "(", "[", "{":
			match[i] = len(t)
			open = append(open, i)
		case ")", "]", "}":
			if n := len(open); n > 0 {
				match[open[n-1]] = i
				open = open[:n-1]
			}
		}
	}
	return match
}

// readCall records the call whose parenthesis opens at i, or the parameters of the definition.
func (s *script) readCall(st *statement, match []int, i int) {
	t := st.tokens
	j := i - 1
	for j >= 2 && t[j-1].kind == operator && t[j-1].s == "." && t[j-2].kind == name && !keywords[t[j-2].s] {
		j -= 2
	}
	var b strings.Builder
	if j >= 1 && t[j-1].kind == operator && t[j-1].s == "." {
		b.WriteByte('.')
	}
	for _, one := range t[j:i] {
		b.WriteString(one.s)
	}
	args := arguments(t, match, i)
	if j >= 1 && t[j-1].kind == name && t[j-1].s == "def" {
		for _, a := range args {
			if a.key != "" {
				s.assignments = append(s.assignments, assignment{a.key, a.tokens, int(a.tokens[0].line), st.scope, defaulted})
			}
		}
		return
	}
	if j >= 1 && t[j-1].kind == name && t[j-1].s == "class" {
		return
	}
	c := call{callee: b.String(), args: args, line: int(t[j].line), scope: st.scope, module: st.scope == "", listed: listed(t, match, i)}
	c.full = s.resolve(c.callee)
	s.calls = append(s.calls, c)
}

// listed reports whether the call whose parenthesis opens at i is repeated by a comprehension around it.
func listed(t []token, match []int, i int) bool {
	for k := match[i] + 1; k < len(t) && t[k].s != ","; k++ {
		switch {
		case t[k].kind == name && t[k].s == "for":
			return true
		case t[k].kind == operator && strings.Contains("([{", t[k].s):
			k = min(match[k], len(t))
		}
	}
	return false
}

// resolve replaces the first part of a dotted name by its imported path.
func (s *script) resolve(dottedName string) string {
	first, rest, more := strings.Cut(dottedName, ".")
	path, ok := s.aliases[first]
	if !ok || first == "" {
		return dottedName
	}
	if more {
		return path + "." + rest
	}
	return path
}

// arguments splits the tokens between the bracket at i and its match at commas.
func arguments(t []token, match []int, i int) []argument {
	end := min(match[i], len(t))
	var args []argument
	from := i + 1
	cut := func(to int) {
		if to <= from {
			return
		}
		a := argument{tokens: t[from:to]}
		for k, one := range a.tokens { // key = value; key: type = value in a definition
			if one.kind == operator && strings.Contains("([{", one.s) {
				break
			}
			if one.kind == operator && one.s == "=" && k+1 < len(a.tokens) {
				a.key, a.tokens = a.tokens[0].s, a.tokens[k+1:]
				break
			}
		}
		args = append(args, a)
	}
	for k := from; k < end; k++ {
		if t[k].kind != operator {
			continue
		}
		switch t[k].s {
		case "(", "[", "{":
			k = min(match[k], end)
		case ",":
			cut(k)
			from = k + 1
		}
	}
	cut(end)
	return args
}
