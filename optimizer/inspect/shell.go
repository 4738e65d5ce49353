package inspect

import (
	"cmp"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// shellLine is one simple command of a shell script. A word of unknown value is the text unknown.
type shellLine struct {
	words []string
	line  int
	env   map[string]string // variables exported to it
	loop  bool              // it may run several times
}

// Bytes that stand in a value for what is not text. Words that contain unknown are kept without it.
const (
	unknown = "\x01" // part of a value that the script does not show
	working = "\x02" // the working directory
)

// Limits of a shell script: the size of its text, of a value, and of all values that are read, in bytes, the words of a
// command, the number of commands and of variables, the depth of statements and eval, and the places with a wrong syntax.
const (
	maxScript    = 128 << 10
	maxValue     = 1 << 14
	maxRead      = 1 << 20
	maxWords     = 4096
	maxCommands  = 10000
	maxVariables = 1000
	maxDepth     = 200
	maxErrors    = 20
	maxBraces    = 16 // the time of their expansion grows with the square
)

// shellReader walks the statements of a shell script in their order and collects its simple commands. It executes nothing and opens
// no file, so that the outcome of most commands is unknown: all branches of such conditions are walked, and the body of a loop or
// of a function once. It is the environment of the expansions. $1, "$@" and similar parameters have the arguments of the script as
// values outside functions, loops and case. Branches whose condition is known to be false are left out, except for the commands of
// those that want an argument of the script that is not given.
type shellReader struct {
	dir      string
	vars     map[string]expand.Variable
	exported map[string]string // a new map after each change
	args     []string          // $1, $2, …
	argsOK   bool              // args are known
	sourced  bool              // another file may have assigned variables
	done     []shellLine
	line     int // lines before the text
	read     int // bytes of values
	config   *expand.Config

	depth, blocks, functions, loops int // open ones

	missing bool   // the current command contains an argument that is not given
	missed  bool   // status depends on one
	unsure  bool   // whether the current command runs is unknown
	dead    branch // that of the current command
	status  truth  // of the last command
}

// branch tells whether the commands of a branch run.
type branch uint8

const (
	taken   branch = iota
	wanting        // not without an argument that is not given
	skipped
)

// truth is the outcome of a condition.
type truth int8

const (
	no truth = iota - 1
	perhaps
	yes
)

// shellCommands returns the simple commands of a shell script in the folder dir, run with args in an environment that env
// extends.
func shellCommands(src, dir string, args []string, env map[string]string) []shellLine {
	s := &shellReader{dir: dir, args: args, argsOK: true, exported: env, vars: map[string]expand.Variable{"PWD": scalar(working)}}
	s.config = &expand.Config{Env: s, CmdSubst: s.output} // without ReadDir no pattern becomes the names of files
	s.text(strings.NewReplacer(unknown, "", working, "").Replace(src))
	return s.done
}

func scalar(s string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: s} }

// nesting matches what may begin or end a nested construct.
var nesting = regexp.MustCompile("[(){}`!]|\\b(?:if|fi|while|until|for|select|done|case|esac|time|coproc|function)\\b")

// shallow returns the lines at the beginning of a text in which the parser, which is recursive, cannot exhaust the stack.
func shallow(text string) string {
	end, depth := min(len(text), maxScript), 0
	for _, m := range nesting.FindAllStringIndex(text[:end], -1) {
		switch text[m[0]:m[1]] {
		case ")", "}", "fi", "done", "esac":
			depth = max(0, depth-1)
		default:
			depth++
		}
		if depth > 10*maxDepth {
			end = m[0]
			break
		}
	}
	if end < len(text) {
		end = 1 + strings.LastIndexByte(text[:end], '\n')
	}
	return text[:end]
}

// text walks the statements of a text. It continues on the line after the beginning of one with a wrong syntax.
func (s *shellReader) text(text string) {
	text = shallow(text)
	for range maxErrors {
		end, wrong := 0, false
		syntax.NewParser().StmtsSeq(strings.NewReader(text))(func(st *syntax.Stmt, err error) bool { // range panics when there are two errors
			if wrong = wrong || err != nil; !wrong {
				end = min(len(text), int(st.End().Offset()))
				s.stmt(st)
			}
			return !wrong
		})
		if !wrong {
			return
		}
		_, after, _ := strings.Cut(strings.TrimLeft(text[end:], " \t\r\n;&"), "\n")
		s.line += strings.Count(text[:len(text)-len(after)], "\n")
		text = after
	}
}

func (s *shellReader) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		s.stmt(st)
	}
}

// stmt walks a statement and sets status.
func (s *shellReader) stmt(st *syntax.Stmt) {
	if s.depth >= maxDepth || s.dead == skipped {
		return
	}
	s.depth++
	s.command(st.Cmd)
	s.depth--
	if st.Negated {
		s.status = -s.status
	}
}

func (s *shellReader) command(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		s.call(c)
	case *syntax.DeclClause:
		s.declare(c)
	case *syntax.BinaryCmd:
		s.binary(c)
	case *syntax.IfClause:
		s.block(func() { s.branches(c) })
	case *syntax.WhileClause:
		s.loop(func() {
			s.status, s.missed = perhaps, false
			s.stmts(c.Cond)
			if s.status == no && !c.Until || s.status == yes && c.Until {
				s.pass(s.missed)
			}
			s.unsure = s.unsure || s.status == perhaps
		}, c.Do)
	case *syntax.ForClause:
		s.loop(func() {
			if words, ok := c.Loop.(*syntax.WordIter); ok {
				s.assign(words.Name.Value, scalar(unknown), false)
			}
		}, c.Do)
	case *syntax.CaseClause:
		s.block(func() {
			s.argsOK, s.unsure = false, true
			for _, item := range c.Items {
				s.stmts(item.Stmts)
			}
		})
	case *syntax.FuncDecl:
		s.block(func() {
			argsOK := s.argsOK
			s.functions++
			s.argsOK = false
			s.stmt(c.Body)
			s.functions--
			s.argsOK = argsOK
		})
	case *syntax.Block:
		s.block(func() { s.stmts(c.Stmts) })
	case *syntax.Subshell:
		s.stmts(c.Stmts)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			s.stmt(c.Stmt)
		}
	case *syntax.CoprocClause:
		s.stmt(c.Stmt)
	case *syntax.TestClause:
		s.missing = false
		s.status, s.missed = s.expression(c.X), s.missing
	case *syntax.ArithmCmd, *syntax.LetClause:
		s.status, s.missed = perhaps, false
	}
}

// block walks a compound command. A loop or case may have removed arguments.
func (s *shellReader) block(walk func()) {
	argsOK, dead, unsure := s.argsOK, s.dead, s.unsure
	s.blocks++
	walk()
	s.blocks--
	s.argsOK = s.argsOK || argsOK && len(s.args) == 0
	s.dead, s.unsure = dead, unsure
}

// loop walks the body of a loop after its head.
func (s *shellReader) loop(head func(), body []*syntax.Stmt) {
	s.block(func() {
		s.loops++
		head()
		s.argsOK = false
		s.stmts(body)
		s.loops--
		s.status, s.missed = perhaps, false
	})
}

// branches walks those of an if.
func (s *shellReader) branches(c *syntax.IfClause) {
	outer, done, missed := s.dead, no, false
	for ; c != nil; c = c.Else {
		if s.dead = outer; done == yes {
			s.pass(missed)
		}
		met := perhaps // of else
		s.status, s.missed = perhaps, false
		if len(c.Cond) > 0 {
			s.stmts(c.Cond)
			met, missed = s.status, missed || s.missed
			s.unsure = s.unsure || met == perhaps
		}
		if s.dead = outer; done == yes || met == no {
			s.pass(missed)
		}
		s.stmts(c.Then)
		done = max(done, met)
	}
	s.status, s.missed = perhaps, false
}

// pass marks the branch of the current command as not taken.
func (s *shellReader) pass(missed bool) {
	if missed {
		s.dead = max(s.dead, wanting)
	} else {
		s.dead = skipped
	}
}

// binary walks two commands that an operator connects.
func (s *shellReader) binary(c *syntax.BinaryCmd) {
	s.stmt(c.X)
	first, missed, dead, unsure := s.status, s.missed, s.dead, s.unsure
	switch {
	case c.Op != syntax.AndStmt && c.Op != syntax.OrStmt:
		s.stmt(c.Y)
	case c.Op == syntax.AndStmt && first == no || c.Op == syntax.OrStmt && first == yes:
		s.pass(missed)
		s.stmt(c.Y)
		s.status, s.missed, s.dead = first, missed, dead
	default:
		s.unsure = s.unsure || first == perhaps
		s.stmt(c.Y)
		if s.unsure, s.missed = unsure, s.missed || missed; first == perhaps && c.Op == syntax.AndStmt {
			s.status = min(s.status, perhaps)
		} else if first == perhaps {
			s.status = max(s.status, perhaps)
		}
	}
}

// call walks a simple command: assignments, or a command in an environment that they extend.
func (s *shellReader) call(c *syntax.CallExpr) {
	s.missing = false
	line := s.line + int(c.Pos().Line()) // before hide
	words := s.fields(c.Args...)
	for len(words) > 0 && (words[0] == "exec" || words[0] == unknown && len(words) > 1) {
		words = words[1:]
	}
	switch {
	case len(words) == 0 && s.dead != taken:
	case len(words) == 0:
		for _, a := range c.Assigns {
			s.set(a, false)
		}
		s.status, s.missed = yes, s.missing
	default:
		for i, a := range c.Assigns {
			words = slices.Insert(words, i, a.Name.Value+"="+s.value(a).String())
		}
		if s.dead != taken {
			s.record(words, line)
			return
		}
		s.status = s.run(words, line)
		s.missed = s.missing
	}
}

// declare walks export, declare, local and similar commands.
func (s *shellReader) declare(c *syntax.DeclClause) {
	exports := c.Variant.Value == "export"
	if s.missing = false; s.dead != taken {
		return
	}
	for _, a := range c.Args {
		switch {
		case a.Name == nil: // an option
		case !a.Naked:
			s.set(a, exports)
		case exports && s.vars[a.Name.Value].Set:
			s.export(a.Name.Value, s.vars[a.Name.Value].String())
		}
	}
	s.status, s.missed = yes, s.missing
}

// run records a command and returns its status.
func (s *shellReader) run(words []string, line int) truth {
	switch words[0] {
	case "set":
		if i := slices.Index(words, "--"); i > 0 && s.functions == 0 {
			if s.args = words[i+1:]; s.blocks > 0 { // perhaps
				s.args = []string{unknown}
			}
		}
	case "cd":
		for i, w := range words {
			words[i] = strings.ReplaceAll(w, unknown, "")
		}
		for name, v := range s.vars { // the working directory is another one
			if name != "PWD" && strings.Contains(whole(v), working) {
				s.vars[name] = scalar(unknown)
			}
		}
	case "shift":
		n := 1
		if len(words) > 1 {
			n, _ = strconv.Atoi(words[1])
		}
		if s.functions == 0 {
			s.args = s.args[min(max(n, 0), len(s.args)):]
		}
	case "source", ".":
		s.sourced = true
	case "unset":
		for _, name := range words[1:] {
			delete(s.vars, name)
		}
	case "read", "getopts", "mapfile", "readarray":
		for _, name := range append(words[1:], "OPTARG", "REPLY") {
			if isShellName(name) {
				s.assign(name, scalar(unknown), false)
			}
		}
	case "eval":
		code := strings.Join(words[1:], " ")
		if s.read += len(code); s.read < maxRead && s.depth < maxDepth {
			defer func(line, depth int) { s.line, s.depth = line, depth }(s.line, s.depth)
			s.line, s.depth = line-1, s.depth+maxDepth/8
			s.text(code)
		}
		return perhaps
	case "true", ":", "echo", "printf":
		return yes
	case "false":
		return no
	case "[":
		return s.test(words[1:max(1, len(words)-1)]) // without ]
	case "test":
		return s.test(words[1:])
	}
	s.record(words, line)
	return perhaps
}

// record adds a command.
func (s *shellReader) record(words []string, line int) {
	for i, w := range words {
		if w != unknown {
			words[i] = strings.NewReplacer(unknown, "", working, ".").Replace(w)
		}
	}
	if len(s.done) < maxCommands {
		s.done = append(s.done, shellLine{words, line, s.exported, s.loops > 0})
	}
}

// expression returns the outcome of the expression of [[ … ]].
func (s *shellReader) expression(x syntax.TestExpr) truth {
	switch x := x.(type) {
	case *syntax.Word:
		return s.test([]string{s.literal(x)})
	case *syntax.ParenTest:
		return s.expression(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			return -s.expression(x.X)
		}
		if w, ok := x.X.(*syntax.Word); ok {
			return s.test([]string{x.Op.String(), s.literal(w)})
		}
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.AndTest:
			return min(s.expression(x.X), s.expression(x.Y))
		case syntax.OrTest:
			return max(s.expression(x.X), s.expression(x.Y))
		}
		left, ok := x.X.(*syntax.Word)
		right, both := x.Y.(*syntax.Word)
		if ok && both {
			if w := []string{s.literal(left), x.Op.String(), s.literal(right)}; !strings.ContainsAny(w[2], "*?[(") { // no pattern
				return s.test(w)
			}
		}
	}
	return perhaps
}

// test returns the outcome of the command test with known words.
func (s *shellReader) test(w []string) truth {
	if s.functions > 0 || strings.Contains(strings.Join(w, ""), unknown) {
		return perhaps
	}
	negated := len(w) > 1 && w[0] == "!"
	if negated {
		w = w[1:]
	}
	met := func(is bool) truth {
		if is != negated {
			return yes
		}
		return no
	}
	switch {
	case len(w) == 1:
		return met(w[0] != "")
	case len(w) == 2 && (w[0] == "-n" || w[0] == "-z"):
		return met((w[0] == "-n") == (w[1] != ""))
	case len(w) == 3 && (w[1] == "=" || w[1] == "==" || w[1] == "!="):
		return met((w[1] != "!=") == (w[0] == w[2]))
	case len(w) != 3 || orders[w[1]] == "":
		return perhaps
	}
	a, bad := strconv.Atoi(w[0])
	b, worse := strconv.Atoi(w[2])
	if bad != nil || worse != nil {
		return perhaps
	}
	return met(strings.Contains(orders[w[1]], "<=>"[1+cmp.Compare(a, b):][:1]))
}

// orders are the outcomes of a comparison for which the operators of test are true.
var orders = map[string]string{"-eq": "=", "-ne": "<>", "-gt": ">", "-ge": "=>", "-lt": "<", "-le": "<="}

// value returns the value that an assignment gives its variable.
func (s *shellReader) value(a *syntax.Assign) expand.Variable {
	var old expand.Variable
	if a.Append {
		old = s.vars[a.Name.Value]
	}
	list := append([]string{}, old.List...) // nil would be one empty word
	switch {
	case a.Index != nil || a.Array != nil && slices.ContainsFunc(a.Array.Elems, func(e *syntax.ArrayElem) bool { return e.Index != nil }):
		return scalar(unknown)
	case a.Array == nil && len(list) == 0:
		return scalar(old.Str + s.literal(a.Value))
	case a.Array == nil:
		list[0] += s.literal(a.Value)
	case old.Kind == expand.String:
		list = []string{old.Str}
		fallthrough
	default:
		for _, e := range a.Array.Elems {
			list = append(list, s.fields(e.Value)...)
		}
	}
	return expand.Variable{Set: true, Kind: expand.Indexed, List: list}
}

// set executes an assignment.
func (s *shellReader) set(a *syntax.Assign, exports bool) {
	v := s.value(a)
	if s.unsure && s.contested(a, v) {
		v = scalar(unknown)
	}
	s.assign(a.Name.Value, v, exports)
}

// assign sets a variable. A value above maxValue is unknown.
func (s *shellReader) assign(name string, v expand.Variable, exports bool) {
	if _, ok := s.vars[name]; !ok && len(s.vars) >= maxVariables {
		return
	}
	if size(v) > maxValue {
		v = scalar(unknown)
	}
	s.vars[name] = v
	if _, before := s.exported[name]; exports || before || os.Getenv(name) != "" {
		s.export(name, v.String())
	}
}

// contested reports whether the length depends on whether an assignment is executed: of an option for it, or of another number
// than before.
func (s *shellReader) contested(a *syntax.Assign, v expand.Variable) bool {
	old, value := whole(s.vars[a.Name.Value]), whole(v)
	if a.Append {
		value = strings.TrimPrefix(value, old)
	} else {
		if _, ok := amount(old); ok || old == value {
			return old != value
		}
		value += " " + old
	}
	return slices.ContainsFunc(strings.Fields(value), func(w string) bool {
		key, _, _ := strings.Cut(w, "=")
		return strings.HasPrefix(w, "-") && unitOf(canonical(key), "") != ""
	})
}

// whole returns all elements of a variable.
func whole(v expand.Variable) string { return v.Str + strings.Join(v.List, " ") }

func size(v expand.Variable) int { return len(whole(v)) + 16*len(v.List) }

// export sets a variable of the environment of the following commands.
func (s *shellReader) export(name, value string) {
	if exported := maps.Clone(s.exported); len(exported) < maxVariables/10 {
		if exported == nil {
			exported = map[string]string{}
		}
		exported[name] = strings.ReplaceAll(value, working, ".")
		s.exported = exported
	}
}

func isShellName(s string) bool { return syntax.ValidName(s) }

// fields returns the words to which some of the script expand, with unknown for what cannot be expanded.
func (s *shellReader) fields(words ...*syntax.Word) (out []string) {
	for _, w := range words {
		braces := 0
		for _, p := range w.Parts {
			if l, ok := p.(*syntax.Lit); ok {
				braces += strings.Count(l.Value, "{")
			}
		}
		if braces > maxBraces {
			out = append(out, unknown)
			continue
		}
		s.hide(w)
		for f, err := range expand.FieldsSeq(s.config, w) {
			if s.read += len(f) + 16; err != nil || s.read > maxRead || len(out) > maxWords {
				out = append(out, unknown)
				break
			}
			out = append(out, f)
		}
	}
	return out
}

// literal returns the text to which a word expands that is not split.
func (s *shellReader) literal(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	s.hide(w)
	v, err := expand.Literal(s.config, w)
	if s.read += len(v); err != nil || s.read > maxRead {
		return unknown
	}
	return v
}

// hide replaces the parts of a word whose value is unknown.
func (s *shellReader) hide(w *syntax.Word) {
	syntax.Walk(w, func(n syntax.Node) bool {
		var parts []syntax.WordPart
		switch n := n.(type) {
		case *syntax.CmdSubst:
			return false
		case *syntax.Word:
			parts = n.Parts
		case *syntax.DblQuoted:
			parts = n.Parts
		}
		for i, p := range parts {
			e, ok := p.(*syntax.ParamExp)
			switch p.(type) {
			case *syntax.ArithmExp, *syntax.ProcSubst, *syntax.ExtGlob:
				parts[i] = &syntax.Lit{Value: unknown}
			}
			if ok && s.hidden(e) {
				parts[i] = &syntax.Lit{Value: unknown}
			}
		}
		return true
	})
}

// hidden reports whether the value of a parameter expansion is unknown although that of its variable need not be: it is computed,
// or it changes an unknown value.
func (s *shellReader) hidden(e *syntax.ParamExp) bool {
	literal := func(x syntax.ArithmExpr) bool {
		w, ok := x.(*syntax.Word)
		return x == nil || ok && w.Lit() != ""
	}
	changed := e.Length || e.Slice != nil || e.Repl != nil || e.Exp != nil && e.Exp.Op >= syntax.RemSmallSuffix
	if w, ok := e.Index.(*syntax.Word); ok {
		changed = changed || w.Lit() != "@" && w.Lit() != "*"
	}
	return e.Param == nil || e.Names != 0 || !literal(e.Index) || e.Slice != nil && !(literal(e.Slice.Offset) && literal(e.Slice.Length)) ||
		e.Repl != nil && e.Repl.With != nil && len(e.Repl.With.Lit()) > 64 || changed && strings.Contains(whole(s.variable(e.Param.Value)), unknown)
}

// output writes the output of a command substitution: the folder of the script if a command in it is dirname or mentions $0, the
// working directory for pwd; any other is unknown.
func (s *shellReader) output(w io.Writer, c *syntax.CmdSubst) error {
	value := unknown
	syntax.Walk(c, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			if n.Value == "dirname" {
				value = s.dir
			} else if n.Value == "pwd" && value == unknown {
				value = s.vars["PWD"].Str
			}
		case *syntax.ParamExp:
			if n.Param != nil && n.Param.Value == "0" {
				value = s.dir
			}
		}
		return true
	})
	_, err := io.WriteString(w, value)
	return err
}

// Get returns a variable for an expansion; it is unknown after too many of them.
func (s *shellReader) Get(name string) expand.Variable {
	v := s.variable(name)
	if s.read += size(v); s.read > maxRead {
		return scalar(unknown)
	}
	return v
}

// Set executes ${NAME:=value}.
func (s *shellReader) Set(name string, v expand.Variable) error {
	s.assign(name, v, false)
	return nil
}

// Each completes expand.Environ; only expansions that hide replaces would use it.
func (s *shellReader) Each(func(string, expand.Variable) bool) {}

// setLater matches the variables that a shell, a scheduler or a launcher sets when the script runs.
var setLater = regexp.MustCompile(`^((SLURM|PBS|LSB|OMPI|PMI)_\w+|RANDOM|SECONDS|LINENO|UID|EUID|HOSTNAME|RANK|LOCAL_RANK|WORLD_SIZE)$`)

// variable returns a variable of the script or the environment, an argument or a special parameter. One that a file may have set
// that the script reads, the caller of a function or a scheduler, is unknown.
func (s *shellReader) variable(name string) expand.Variable {
	n, err := strconv.Atoi(name)
	switch {
	case err == nil && n == 0 || name == "BASH_SOURCE":
		return scalar(filepath.Join(s.dir, "script.sh"))
	case strings.ContainsAny(name, "?$!-"):
		return scalar(unknown)
	case !s.argsOK && (err == nil || strings.ContainsAny(name, "@*#")):
		return scalar(unknown)
	case name == "#":
		return scalar(strconv.Itoa(len(s.args)))
	case name == "@" || name == "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, s.args...)} // nil would be one empty word
	case err == nil && n > len(s.args):
		s.missing = true
		return expand.Variable{}
	case err == nil:
		return scalar(s.args[n-1])
	}
	if v, ok := s.vars[name]; ok {
		return v
	}
	if v, ok := s.exported[name]; ok {
		return scalar(v)
	}
	if v, ok := os.LookupEnv(name); ok {
		return scalar(v)
	}
	if name != "IFS" && (s.sourced || s.functions > 0 || setLater.MatchString(name)) {
		return scalar(unknown)
	}
	return expand.Variable{}
}
