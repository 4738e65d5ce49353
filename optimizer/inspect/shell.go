package inspect

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var shells = set("sh", "bash", "dash", "zsh", "ksh", "ash")

// launchers start a Python script given among their arguments.
var launchers = set("torchrun", "accelerate", "deepspeed", "horovodrun", "ipython", "composer", "colossalai")

// isPythonName reports whether n is a Python interpreter: python, python3, python3.11, pypy3.
func isPythonName(n string) bool {
	return strings.HasPrefix(n, "python") && strings.Trim(n[len("python"):], "0123456789.w-d") == "" || strings.HasPrefix(n, "pypy")
}

// pythonCommand is the Python program of a command line.
type pythonCommand struct {
	script string // path of the script as written
	module string // of -m
	code   string // of -c
	args   []string
}

// findPython finds the Python program in an argv: after environment assignments, wrappers (nohup, srun …) and
// launchers (torchrun, accelerate launch, python -m torch.distributed.run).
func findPython(argv []string) (pythonCommand, bool) {
	l := readLine(argv)
	if l.shell || l.script == "" && l.module == "" && l.code == "" {
		return pythonCommand{}, false
	}
	return pythonCommand{script: l.script, module: l.module, code: l.code, args: argv[l.args:]}, true
}

// shellLine is one simple command of a shell script. A word of unknown value is the text unknown.
type shellLine struct {
	words []string
	line  int
	env   map[string]string // variables exported to it
}

// Bytes that stand in a value for what is not text. Words that contain unknown are kept without it.
const (
	unknown = "\x00" // part of a value that the script does not show
	between = "\x01" // the end of an element in the list of "$@" or "${NAME[@]}"
	nothing = "\x02" // such a list without elements
)

// Limits of a shell script: the size in bytes of a value, the number of variables, the depth of expansions and eval.
const (
	maxValue     = 1 << 14
	maxVariables = 1000
	maxExpanded  = 8
)

// shellReader splits a shell script into simple commands. Variables with a known literal value are replaced and, outside
// quotes, split into words; output defines the value of command substitutions. The working directory is "."; a variable
// that contains it is unknown after cd. $1, "$@" and similar parameters have the arguments of the script as values
// outside functions, loops and case. Branches whose condition is known to be false are left out, except for
// the commands of those that want an argument of the script that is not given.
type shellReader struct {
	src      string
	at       int
	line     int
	dir      string
	vars     map[string]string
	arrays   map[string][]string
	exported map[string]string // a new map after each change
	args     []string          // $1, $2, …
	argsOK   bool              // args are known
	sourced  bool              // another file may have assigned variables
	places   []string          // variables whose value contains the working directory
	placed   bool              // the current command contains such a value
	words    []string
	pending  []shellAssignment // those at the beginning of words
	command  bool              // words contain the name of a command
	first    int               // line of the first word
	done     []shellLine
	marker   string // end marker of a here-document that starts on the next line
	nested   int    // depth of expansions and eval
	grown    int    // bytes that expansions added

	blocks    []shellBlock // open ones, outermost first
	functions int          // how many of them are functions
	missing   bool         // the current command contains an argument that is not given
	missed    bool         // status depends on one
	dead      branch       // that of the current command
	after     string       // "&&" or "||" before the current command
	status    truth        // of the last command
}

// shellAssignment is NAME=value, NAME+=value or NAME=(elements).
type shellAssignment struct {
	name              string
	plus, list, other bool // other: NAME[index]=value
	values            []string
}

// shellBlock is an if, a loop, a case or a function, with the state that its end restores.
type shellBlock struct {
	begin    string // "if", "for", "case", "{"
	argsOK   bool
	dead     branch
	taken    truth // whether an earlier branch of an if was taken
	missed   bool  // that depends on an argument that is not given
	unsure   bool  // whether the commands run is unknown
	function bool
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
	r := &shellReader{src: strings.NewReplacer(unknown, "", between, "", nothing, "").Replace(src), line: 1, dir: dir, args: args, argsOK: true, exported: env,
		vars: map[string]string{"0": filepath.Join(dir, "script.sh"), "PWD": "."}, arrays: map[string][]string{}}
	r.read()
	return r.done
}

// read reads src to its end.
func (r *shellReader) read() {
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c == '\n':
			r.at++
			r.line++
			r.end("")
			r.skipHere()
		case c == '#':
			r.skipLine()
		case c == ' ' || c == '\t' || c == '\r':
			r.at++
		case c == '\\' && r.at+1 < len(r.src) && r.src[r.at+1] == '\n':
			r.at += 2
			r.line++
		case strings.HasPrefix(r.src[r.at:], "<<") && !strings.HasPrefix(r.src[r.at:], "<<<"):
			r.at += 2
			r.marker = strings.TrimLeft(strings.Join(r.word(false), ""), "-")
		case strings.HasPrefix(r.src[r.at:], "&&") || strings.HasPrefix(r.src[r.at:], "||"):
			r.at += 2
			r.end(r.src[r.at-2 : r.at])
		case strings.IndexByte(";&|()", c) >= 0:
			if n := len(r.blocks); strings.HasPrefix(r.src[max(0, r.at-1):], "()") && c == ')' && (n == 0 || r.blocks[n-1].begin != "function") { // name() { …
				r.open("function")
			}
			r.at++
			r.end("")
			if c == '(' {
				r.after = ""
			}
		default:
			line := r.line
			before := len(r.words)
			if !r.assignment() {
				r.words = append(r.words, r.word(true)...)
				for _, w := range r.words[before:] {
					r.command = r.command || !leading[w] && !(strings.HasPrefix(w, "-") && before > 0 && declaring[r.words[before-1]])
				}
			}
			if before == 0 {
				r.first = line
			}
		}
	}
	r.end("")
}

var (
	declaring = set("export", "declare", "typeset", "local", "readonly")
	leading   = set("export", "declare", "typeset", "local", "readonly", "then", "do", "else", "{", "exec", "if", "elif", "!", "while", "until")
)

// assigning matches the beginning of an assignment.
var assigning = regexp.MustCompile(`^([A-Za-z_]\w*)(\[[^\]\s]*\])?(\+?)=`)

// assignment reads an assignment, whose value is not split into words; false when the next word is not one.
func (r *shellReader) assignment() bool {
	if r.command {
		return false
	}
	m := assigning.FindStringSubmatch(r.src[r.at:min(len(r.src), r.at+maxValue)])
	if m == nil {
		return false
	}
	r.at += len(m[0])
	a := shellAssignment{name: m[1], plus: m[3] != "", other: m[2] != ""}
	if a.list = r.at < len(r.src) && r.src[r.at] == '('; a.list {
		r.at++
		a.values = r.elements()
	} else {
		a.values = []string{strings.Join(r.word(false), "")}
	}
	r.pending = append(r.pending, a)
	r.words = append(r.words, m[0]+strings.Join(a.values, " "))
	return true
}

// elements reads the words of an array up to its parenthesis.
func (r *shellReader) elements() (out []string) {
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c == ')':
			r.at++
			return out
		case c == '#':
			r.skipLine()
		case c == '\\' && r.at+1 < len(r.src) && r.src[r.at+1] == '\n':
			r.at += 2
			r.line++
		case strings.IndexByte(" \t\r\n;&|(", c) >= 0:
			if r.at++; c == '\n' {
				r.line++
			}
		default:
			out = append(out, r.word(true)...)
		}
	}
	return out
}

// skipLine continues at the end of the line.
func (r *shellReader) skipLine() {
	if n := strings.IndexByte(r.src[r.at:], '\n'); n >= 0 {
		r.at += n
	} else {
		r.at = len(r.src)
	}
}

// skipHere skips the here-document announced on the previous line.
func (r *shellReader) skipHere() {
	for r.marker != "" && r.at < len(r.src) {
		line, _, _ := strings.Cut(r.src[r.at:], "\n")
		r.at = min(len(r.src), r.at+len(line)+1)
		r.line++
		if strings.TrimSpace(line) == r.marker {
			break
		}
	}
	r.marker = ""
}

// open begins a block. In functions, loops and case the arguments are unknown.
func (r *shellReader) open(begin string) {
	r.blocks = append(r.blocks, shellBlock{begin: begin, argsOK: r.argsOK, dead: r.dead, taken: no, function: begin == "function",
		unsure: begin == "case" || r.within().unsure})
	if begin == "function" {
		r.functions++
	}
	r.argsOK = r.argsOK && (begin == "if" || begin == "{")
}

// within returns the innermost block.
func (r *shellReader) within() (b shellBlock) {
	if n := len(r.blocks); n > 0 {
		b = r.blocks[n-1]
	}
	return b
}

// close ends the innermost block if it is one of those that begin so. A loop or case may have removed arguments.
func (r *shellReader) close(begins ...string) {
	n := len(r.blocks) - 1
	if n < 0 || !slices.Contains(begins, r.blocks[n].begin) {
		return
	}
	b := r.blocks[n]
	r.blocks, r.dead = r.blocks[:n], b.dead
	if b.function {
		r.functions--
	}
	r.argsOK = r.argsOK || b.argsOK && (b.function || len(r.args) == 0)
}

// pass marks the branch of the current command as not taken.
func (r *shellReader) pass(missed bool) {
	if missed {
		r.dead = max(r.dead, wanting)
	} else {
		r.dead = skipped
	}
}

// end closes a simple command, which a newline or an operator follows: an assignment is recorded, other words are a
// command. Leading keywords are removed. A shift removes the first arguments of the script.
func (r *shellReader) end(operator string) {
	words, pending, placed, missing, after := r.words, r.pending, r.placed, r.missing, r.after
	if len(words) == 0 {
		return
	}
	r.words, r.pending, r.placed, r.missing, r.command, r.after = nil, nil, false, false, false, operator
	negated, declared, exports := false, false, false
	for ; len(words) > 0 && (leading[words[0]] || words[0] == unknown && len(words) > 1); words = words[1:] {
		switch words[0] {
		case "if", "while", "until":
			if words[0] != "if" && r.dead != skipped {
				r.record(words[:1])
			}
			r.open(words[0])
			r.status, r.missed = perhaps, false
		case "{":
			if n := len(r.blocks); n > 0 && r.blocks[n-1].begin == "function" {
				r.blocks[n-1].begin = "{"
			} else {
				r.open("{")
			}
			if after == "&&" && r.status == no || after == "||" && r.status == yes {
				r.pass(r.missed)
			}
			after = ""
		case "then", "do":
			if n := len(r.blocks); n > 0 && r.functions == 0 {
				b := &r.blocks[n-1]
				met := map[string]truth{"if": r.status, "while": r.status, "until": -r.status}[b.begin]
				b.missed = b.missed || r.missed
				if r.dead = b.dead; b.taken == yes || met == no {
					r.pass(b.missed)
				}
				b.unsure = b.unsure || met == perhaps
				b.taken = max(b.taken, met)
			}
		case "elif", "else":
			if n := len(r.blocks); n > 0 && r.blocks[n-1].begin == "if" {
				b := r.blocks[n-1]
				if r.dead = b.dead; b.taken == yes {
					r.pass(b.missed)
				}
			}
			r.status, r.missed = perhaps, false
		case "!":
			negated = !negated
		case "export", "declare", "typeset", "local", "readonly":
			declared, exports = true, exports || words[0] == "export"
			for len(words) > 1 && strings.HasPrefix(words[1], "-") {
				words = words[1:]
			}
		}
	}
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "for", "case", "select":
		r.open(words[0])
		if words[0] != "case" && len(words) > 1 {
			r.assign(shellAssignment{name: words[1], values: []string{unknown}}, false, false)
		}
	case "function":
		r.open("function")
		if words[len(words)-1] == "{" {
			r.blocks[len(r.blocks)-1].begin = "{"
		}
	case "fi":
		r.close("if")
	case "esac":
		r.close("case")
	case "done":
		r.close("for", "while", "until", "select")
	case "}":
		r.close("{")
	}
	if r.dead != taken || after == "&&" && r.status == no || after == "||" && r.status == yes {
		if len(pending) < len(words) && !declared && (r.dead == wanting || r.dead == taken && r.missed) {
			r.record(words)
		}
		return
	}
	status := yes
	if declared || len(pending) == len(words) {
		unsure := r.within().unsure || after != "" && r.status == perhaps
		for _, a := range pending {
			if unsure && r.contested(a) {
				a.values = []string{unknown}
			}
			r.assign(a, placed, exports)
		}
		for _, name := range words {
			if v, ok := r.vars[name]; ok && exports {
				r.export(name, v)
			}
		}
	} else {
		status = r.run(words)
	}
	if negated {
		status = -status
	}
	switch {
	case after == "&&" && r.status == perhaps:
		status = min(status, perhaps)
	case after == "||" && r.status == perhaps:
		status = max(status, perhaps)
	}
	r.status, r.missed = status, missing || after != "" && r.missed
}

// run records a command and returns its status.
func (r *shellReader) run(words []string) truth {
	switch words[0] {
	case "set":
		if i := slices.Index(words, "--"); i > 0 && r.functions == 0 {
			if r.args = words[i+1:]; len(r.blocks) > 0 { // perhaps
				r.args = []string{unknown}
			}
		}
	case "cd":
		for i, w := range words {
			words[i] = strings.ReplaceAll(w, unknown, "")
		}
		for _, name := range r.places { // "." now means another folder
			r.vars[name] = unknown
		}
		r.places = nil
	case "shift":
		n := 1
		if len(words) > 1 {
			n, _ = strconv.Atoi(words[1])
		}
		if r.functions == 0 {
			r.args = r.args[min(max(n, 0), len(r.args)):]
		}
	case "source", ".":
		r.sourced = true
	case "unset":
		for _, name := range words[1:] {
			delete(r.vars, name)
			delete(r.arrays, name)
		}
	case "read", "getopts", "mapfile", "readarray":
		for _, name := range append(words[1:], "OPTARG", "REPLY") {
			if isShellName(name) {
				r.assign(shellAssignment{name: name, values: []string{unknown}}, false, false)
			}
		}
	case "eval":
		if text := strings.Join(words[1:], " "); r.nested < maxExpanded && r.grow(text) {
			defer func(src string, at, line int) { r.src, r.at, r.line, r.nested = src, at, line, r.nested-1 }(r.src, r.at, r.line)
			r.src, r.at, r.nested = text, 0, r.nested+1
			operator := r.after
			r.read()
			r.after = operator
		}
		return perhaps
	case "true", ":", "echo", "printf":
		return yes
	case "false":
		return no
	case "[", "[[", "test":
		return r.test(words)
	}
	r.record(words)
	return perhaps
}

// record adds a command.
func (r *shellReader) record(words []string) {
	for i, w := range words {
		if w != unknown {
			words[i] = strings.ReplaceAll(w, unknown, "")
		}
	}
	r.done = append(r.done, shellLine{words, r.first, r.exported})
}

// test returns the outcome of [ … ], [[ … ]] or test … with known words.
func (r *shellReader) test(words []string) truth {
	closing := map[string]string{"[": "]", "[[": "]]"}[words[0]]
	n := len(words)
	if closing != "" {
		if n--; words[n] != closing {
			return perhaps
		}
	}
	w := words[1:max(1, n)]
	if r.functions > 0 || strings.Contains(strings.Join(w, ""), unknown) {
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
	case len(w) == 2 && w[0] == "-n":
		return met(w[1] != "")
	case len(w) == 2 && w[0] == "-z":
		return met(w[1] == "")
	case len(w) != 3 || words[0] == "[[" && strings.ContainsAny(w[2], "*?[("):
		return perhaps
	}
	a, bad := strconv.Atoi(w[0])
	b, worse := strconv.Atoi(w[2])
	switch w[1] {
	case "=", "==":
		return met(w[0] == w[2])
	case "!=":
		return met(w[0] != w[2])
	}
	if bad != nil || worse != nil {
		return perhaps
	}
	switch w[1] {
	case "-eq":
		return met(a == b)
	case "-ne":
		return met(a != b)
	case "-gt":
		return met(a > b)
	case "-ge":
		return met(a >= b)
	case "-lt":
		return met(a < b)
	case "-le":
		return met(a <= b)
	}
	return perhaps
}

// contested reports whether the length depends on whether an assignment is executed: of an option for it, or of another number
// than before.
func (r *shellReader) contested(a shellAssignment) bool {
	value := strings.Join(a.values, " ")
	if old := r.vars[a.name]; !a.plus {
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

// assign sets a variable. A value above maxValue is unknown.
func (r *shellReader) assign(a shellAssignment, placed, exports bool) {
	if _, ok := r.vars[a.name]; !ok && len(r.vars) >= maxVariables {
		return
	}
	values := a.values
	switch old, known := r.arrays[a.name]; {
	case a.other:
		values, a.list = []string{unknown}, known
	case a.plus && a.list && known:
		values = append(slices.Clone(old), values...)
	case a.plus && !a.list:
		v, _ := r.variable(a.name)
		values = []string{v + values[0]}
	}
	size := 0
	for _, v := range values {
		size += len(v) + 16
	}
	if size > maxValue {
		values = []string{unknown}
	}
	if delete(r.arrays, a.name); a.list {
		r.arrays[a.name] = values
	}
	r.vars[a.name] = strings.Join(values[:min(1, len(values))], "")
	if placed {
		r.places = append(r.places, a.name)
	}
	if _, before := r.exported[a.name]; exports || before || os.Getenv(a.name) != "" {
		r.export(a.name, r.vars[a.name])
	}
}

// export sets a variable of the environment of the following commands.
func (r *shellReader) export(name, value string) {
	if exported := maps.Clone(r.exported); len(exported) < maxVariables/10 {
		if exported == nil {
			exported = map[string]string{}
		}
		exported[name] = value
		r.exported = exported
	}
}

func isShellName(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isNameByte(s[i]) || i == 0 && isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// shellFields are the words to which one word of the source expands.
type shellFields struct {
	done []string
	b    strings.Builder
	open bool // the last word exists, although it may be empty
}

func (f *shellFields) close() {
	if f.open {
		f.done = append(f.done, f.b.String())
		f.b.Reset()
		f.open = false
	}
}

// add appends a value: in quotes it is split between the elements of a list, otherwise also at white space.
func (f *shellFields) add(v string, quoted bool) {
	f.open = f.open || quoted && v != nothing
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == between[0]:
			f.close()
			f.open = quoted
		case !quoted && strings.IndexByte(" \t\r\n", v[i]) >= 0:
			f.close()
		case v[i] != nothing[0]:
			f.b.WriteByte(v[i])
			f.open = true
		}
	}
}

// word reads one word with its quotes removed and returns those to which it expands; a single one without split. A word
// is limited to 64 KiB.
func (r *shellReader) word(split bool) []string {
	var f shellFields
	var b strings.Builder
	from := r.at
	for r.at < len(r.src) && f.b.Len() < 1<<16 {
		c := r.src[r.at]
		b.Reset()
		switch {
		case strings.IndexByte(" \t\r\n;&|()", c) >= 0:
			return f.all(split)
		case c == '\'':
			end := strings.IndexByte(r.src[r.at+1:], '\'')
			if end < 0 {
				end = len(r.src) - r.at - 1
			}
			s := r.src[r.at+1 : r.at+1+end]
			r.line += strings.Count(s, "\n")
			f.add(s, true)
			r.at = min(len(r.src), r.at+end+2)
		case c == '"':
			r.at++
			for r.at < len(r.src) && r.src[r.at] != '"' && b.Len() < 1<<16 {
				r.piece(&b)
			}
			f.add(r.flat(b.String(), split), true)
			r.at = min(len(r.src), r.at+1)
		case c == '$' || c == '`':
			r.piece(&b)
			f.add(r.flat(b.String(), split), !split)
		default:
			r.piece(&f.b)
			f.open = f.open || f.b.Len() > 0
		}
	}
	if r.at < len(r.src) && r.at-from >= 1<<16 {
		r.skipLine()
	}
	return f.all(split)
}

// flat returns a value in which a list is text, unless it is split into words.
func (r *shellReader) flat(v string, split bool) string {
	if split {
		return v
	}
	return strings.NewReplacer(between, " ", nothing, "").Replace(v)
}

// all returns the words; without split one, which may be empty.
func (f *shellFields) all(split bool) []string {
	f.open = f.open || !split
	f.close()
	return f.done
}

// piece reads one character, escape or substitution.
func (r *shellReader) piece(b *strings.Builder) {
	c := r.src[r.at]
	r.at++
	switch {
	case c == '\n':
		r.line++
		b.WriteByte(c)
	case c == '\\' && r.at < len(r.src):
		if r.src[r.at] == '\n' {
			r.line++
		} else {
			b.WriteByte(r.src[r.at])
		}
		r.at++
	case c == '$' && r.at < len(r.src):
		if v := r.substitute(); r.grow(v) {
			b.WriteString(v)
		} else {
			b.WriteString(unknown)
		}
	case c == '`':
		inside, _, closed := strings.Cut(r.src[r.at:], "`")
		r.line += strings.Count(inside, "\n")
		if r.at += len(inside); closed {
			r.at++
		}
		b.WriteString(r.output(inside))
	default:
		b.WriteByte(c)
	}
}

// grow counts the text of an expansion; false when it and those before are larger than a script.
func (r *shellReader) grow(text string) bool {
	r.grown += len(text)
	return r.grown < maxSource
}

// substitute reads the substitution after a dollar sign: $(…), ${…}, $NAME and special parameters.
func (r *shellReader) substitute() string {
	switch c := r.src[r.at]; {
	case c == '(':
		inside := r.inside('(', ')')
		return r.output(inside)
	case c == '{':
		return r.parameter(r.inside('{', '}'))
	case isNameByte(c):
		end := r.at + 1
		for end < len(r.src) && isNameByte(r.src[end]) && !isDigit(c) {
			end++
		}
		v, _ := r.variable(r.src[r.at:end])
		r.at = end
		return v
	case strings.IndexByte("@*#", c) >= 0:
		r.at++
		return r.parameter(string(c))
	case strings.IndexByte("?$!-", c) >= 0:
		r.at++
		return unknown
	}
	return "$"
}

// inside reads to the closing bracket of the opening one and returns the text between them.
func (r *shellReader) inside(open, closing byte) string {
	depth, i := 0, r.at
	for ; i < len(r.src); i++ {
		if c := r.src[i]; c == '\\' {
			i++
		} else if c == open {
			depth++
		} else if c == closing {
			if depth--; depth == 0 {
				break
			}
		}
	}
	i = min(i, len(r.src))
	text := r.src[min(r.at+1, i):i]
	r.line += strings.Count(text, "\n")
	r.at = min(len(r.src), i+1)
	return text
}

// parameter returns the value of ${…}: NAME, NAME[index], NAME:-text, NAME:=text, NAME:+text, @ and BASH_SOURCE.
func (r *shellReader) parameter(inside string) string {
	n := 0
	for n < len(inside) && isNameByte(inside[n]) {
		n++
	}
	name, rest := inside[:n], inside[n:]
	switch {
	case name == "BASH_SOURCE":
		return filepath.Join(r.dir, "script.sh")
	case name == "" && (strings.HasPrefix(inside, "@") || strings.HasPrefix(inside, "*")):
		from := 1
		if k, ok := strings.CutPrefix(inside[1:], ":"); ok {
			var err error
			if from, err = strconv.Atoi(k); err != nil {
				return unknown
			}
		}
		if !r.argsOK || r.grown >= maxSource {
			return unknown
		}
		return list(r.args[min(max(from-1, 0), len(r.args)):])
	case inside == "#" && r.argsOK:
		return strconv.Itoa(len(r.args))
	case name == "" || r.grown >= maxSource:
		return unknown
	}
	v, set := r.variable(name)
	if strings.HasPrefix(rest, "[") {
		index, after, _ := strings.Cut(rest[1:], "]")
		elements, ok := r.arrays[name]
		if !ok && set {
			elements = []string{v}
		}
		k, err := strconv.Atoi(index)
		switch {
		case index == "@" || index == "*":
			set = len(elements) > 0
			if v = list(elements); !set && v != unknown && (r.sourced || r.functions > 0) && !ok {
				v = unknown
			}
		case err == nil && k >= 0 && k < len(elements):
			v = elements[k]
		default:
			v = unknown
		}
		rest = after
	}
	empty := v == "" || v == nothing
	operator, text := "", ""
	if m := defaulting.FindStringSubmatch(rest); m != nil {
		operator, text = m[1], m[2]
		if !strings.HasPrefix(rest, ":") {
			empty = !set
		}
	}
	switch {
	case operator == "+" && !empty:
		return r.expand(text)
	case operator == "+", !empty, operator == "":
		return v
	}
	if v = r.expand(text); operator == "=" {
		r.assign(shellAssignment{name: name, values: []string{v}}, r.placed, false)
	}
	return v
}

// defaulting matches the operators of ${NAME:-text} and its relatives.
var defaulting = regexp.MustCompile(`(?s)^:?([-=+])(.*)$`)

// list returns the value of a list.
func list(elements []string) string {
	if len(elements) == 0 {
		return nothing
	}
	return strings.Join(elements, between)
}

// expand returns the value of a text with substitutions and quotes.
func (r *shellReader) expand(text string) string {
	if r.nested >= maxExpanded {
		return unknown
	}
	defer func(src string, at, line int) { r.src, r.at, r.line, r.nested = src, at, line, r.nested-1 }(r.src, r.at, r.line)
	r.src, r.at, r.nested = text, 0, r.nested+1
	var b strings.Builder
	for quoted := false; r.at < len(r.src) && b.Len() < 1<<16; {
		switch c := r.src[r.at]; {
		case c == '"':
			quoted = !quoted
			r.at++
		case c == '\'' && !quoted:
			inside, _, _ := strings.Cut(r.src[r.at+1:], "'")
			b.WriteString(inside)
			r.at = min(len(r.src), r.at+len(inside)+2)
		default:
			r.piece(&b)
		}
	}
	return b.String()
}

// output returns the output of a command substitution: the folder of the script if the command mentions dirname or $0,
// the working directory for pwd; any other is unknown.
func (r *shellReader) output(command string) string {
	switch words := strings.Fields(command); {
	case strings.Contains(command, "dirname") || strings.Contains(command, "$0"):
		return r.dir
	case len(words) > 0 && words[0] == "pwd":
		v, _ := r.variable("PWD")
		return v
	}
	return unknown
}

// setLater matches the variables that a shell, a scheduler or a launcher sets when the script runs.
var setLater = regexp.MustCompile(`^((SLURM|PBS|LSB|OMPI|PMI)_\w+|RANDOM|SECONDS|LINENO|UID|EUID|HOSTNAME|RANK|LOCAL_RANK|WORLD_SIZE)$`)

// variable returns the value of a variable of the script or the environment, or of a numbered argument; false when it
// is unset. One that a file may have set that the script reads, the caller of a function or a scheduler, is unknown.
func (r *shellReader) variable(name string) (string, bool) {
	n, err := strconv.Atoi(name)
	switch {
	case err != nil || n == 0:
		r.placed = r.placed || name == "PWD" || slices.Contains(r.places, name)
		if v, ok := r.vars[name]; ok {
			return v, true
		}
		v, ok := r.exported[name]
		if !ok {
			v, ok = os.LookupEnv(name)
		}
		if !ok && (r.sourced || r.functions > 0 || setLater.MatchString(name)) {
			return unknown, true
		}
		return v, ok
	case !r.argsOK:
		return unknown, true
	case n > len(r.args):
		r.missing = true
		return "", false
	}
	return r.args[n-1], true
}
