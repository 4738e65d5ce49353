package inspect

import (
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

// shellLine is one simple command of a shell script.
type shellLine struct {
	words []string
	line  int
}

// shellReader splits a shell script into simple commands. Variables with a known literal value are replaced; output
// defines the value of command substitutions. The working directory is "."; a variable that contains it is unknown after
// cd. $1, "$@" and similar parameters have the arguments of the script as values up to the first function, loop or case.
type shellReader struct {
	src    string
	at     int
	line   int
	dir    string
	vars   map[string]string
	args   []string // $1, $2, …
	argsOK bool     // args are known
	places []string // variables whose value contains the working directory
	placed bool     // the current command contains such a value
	words  []string
	first  int // line of the first word
	done   []shellLine
	marker string // end marker of a here-document that starts on the next line
}

// shellCommands returns the simple commands of a shell script in the folder dir, run with args.
func shellCommands(src, dir string, args []string) []shellLine {
	r := &shellReader{src: src, line: 1, dir: dir, args: args, argsOK: true, vars: map[string]string{"0": filepath.Join(dir, "script.sh"), "PWD": "."}}
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c == '\n':
			r.at++
			r.line++
			r.end()
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
			r.marker = strings.TrimLeft(r.word(), "-")
		case strings.IndexByte(";&|()", c) >= 0:
			if c == ')' && r.src[r.at-1] == '(' { // name() { …
				r.argsOK = false
			}
			r.at++
			r.end()
		case r.allArguments():
		default:
			line := r.line
			w := r.word()
			if len(r.words) == 0 {
				r.first = line
			}
			r.words = append(r.words, w)
		}
	}
	r.end()
	return r.done
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

// end closes a simple command: an assignment is recorded, other words are a command. Leading keywords such as export,
// then and do are removed. A loop, a function or a set -- makes the arguments unknown, and a shift removes the first
// of them.
func (r *shellReader) end() {
	words, placed := r.words, r.placed
	r.words, r.placed = nil, false
	for len(words) > 0 && (words[0] == "export" || words[0] == "then" || words[0] == "do" || words[0] == "else" || words[0] == "{" || words[0] == "exec" || words[0] == "if" || words[0] == "!") {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "while", "until", "for", "case", "select", "function", "getopts":
		r.argsOK = false
	case "set":
		r.argsOK = r.argsOK && !slices.Contains(words, "--")
	case "cd":
		for _, name := range r.places { // "." now means another folder
			r.vars[name] = ""
		}
		r.places = nil
	case "shift":
		n := 1
		if len(words) > 1 {
			n, _ = strconv.Atoi(words[1])
		}
		r.args = r.args[min(max(n, 0), len(r.args)):]
	}
	if k, v, ok := strings.Cut(words[0], "="); ok && len(words) == 1 && isShellName(k) {
		if len(r.vars) < 1000 && len(v) < 4096 {
			r.vars[k] = v
			if placed {
				r.places = append(r.places, k)
			}
		}
		return
	}
	r.done = append(r.done, shellLine{words, r.first})
}

func isShellName(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isNameByte(s[i]) || i == 0 && isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// allArguments consumes a word for all arguments: "$@", $*, "${@:2}", with or without quotes.
func (r *shellReader) allArguments() bool {
	m := allArguments.FindStringSubmatch(r.src[r.at:])
	if m == nil || !r.argsOK {
		return false
	}
	from := 1
	if m[1] != "" {
		from, _ = strconv.Atoi(m[1])
	}
	if len(r.words) == 0 {
		r.first = r.line
	}
	r.words = append(r.words, r.args[min(max(from-1, 0), len(r.args)):]...)
	r.at += len(m[0]) - len(m[2])
	return true
}

var allArguments = regexp.MustCompile(`^"?\$(?:[@*]|\{[@*](?::(\d))?\})"?([ \t\r\n;&|()]|$)`)

// word reads one word with its quotes removed. A word is limited to 64 KiB.
func (r *shellReader) word() string {
	var b strings.Builder
	for r.at < len(r.src) && b.Len() < 1<<16 {
		c := r.src[r.at]
		switch {
		case strings.IndexByte(" \t\r\n;&|()", c) >= 0:
			return b.String()
		case c == '\'':
			end := strings.IndexByte(r.src[r.at+1:], '\'')
			if end < 0 {
				end = len(r.src) - r.at - 1
			}
			s := r.src[r.at+1 : r.at+1+end]
			r.line += strings.Count(s, "\n")
			b.WriteString(s)
			r.at = min(len(r.src), r.at+end+2)
		case c == '"':
			r.at++
			for r.at < len(r.src) && r.src[r.at] != '"' && b.Len() < 1<<16 {
				r.piece(&b)
			}
			r.at = min(len(r.src), r.at+1)
		default:
			r.piece(&b)
		}
	}
	if r.at < len(r.src) && b.Len() >= 1<<16 {
		r.skipLine()
	}
	return b.String()
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
		b.WriteString(r.substitute())
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

// substitute reads the substitution after a dollar sign. It handles $(…), ${NAME}, ${NAME:-text}, ${BASH_SOURCE…},
// $NAME and special parameters; an unknown substitution is empty.
func (r *shellReader) substitute() string {
	switch c := r.src[r.at]; {
	case c == '(':
		depth, i := 0, r.at
		for ; i < len(r.src); i++ {
			if r.src[i] == '(' {
				depth++
			} else if r.src[i] == ')' {
				if depth--; depth == 0 {
					break
				}
			}
		}
		inside := r.src[min(r.at+1, i):min(i, len(r.src))]
		r.line += strings.Count(inside, "\n")
		r.at = min(len(r.src), i+1)
		return r.output(inside)
	case c == '{':
		end := strings.IndexByte(r.src[r.at:], '}')
		if end < 0 {
			r.at++
			return ""
		}
		inside := r.src[r.at+1 : r.at+end]
		r.line += strings.Count(inside, "\n")
		r.at += end + 1
		n := 0
		for n < len(inside) && isNameByte(inside[n]) {
			n++
		}
		if v, ok := r.variable(inside[:n]); ok {
			return v
		}
		if _, fallback, ok := strings.Cut(inside[n:], "-"); ok && (strings.HasPrefix(inside[n:], ":-") || strings.HasPrefix(inside[n:], "-")) {
			return r.fallback(fallback)
		}
		if strings.Contains(inside, "BASH_SOURCE") {
			return filepath.Join(r.dir, "script.sh")
		}
		return ""
	case isNameByte(c):
		end := r.at + 1
		for end < len(r.src) && isNameByte(r.src[end]) && !isDigit(c) {
			end++
		}
		v, _ := r.variable(r.src[r.at:end])
		r.at = end
		return v
	}
	if strings.IndexByte("@*#?$!-", r.src[r.at]) >= 0 {
		r.at++ // "$@": unknown here
		return ""
	}
	return "$"
}

// output returns the output of a command substitution: the folder of the script if the command mentions dirname or $0,
// the working directory for pwd; "" for any other command.
func (r *shellReader) output(command string) string {
	switch words := strings.Fields(command); {
	case strings.Contains(command, "dirname") || strings.Contains(command, "$0"):
		return r.dir
	case len(words) > 0 && words[0] == "pwd":
		v, _ := r.variable("PWD")
		return v
	}
	return ""
}

// variable returns the value of a variable of the script or the environment, or of a numbered argument; false when it
// is unset. An unknown argument has the value "".
func (r *shellReader) variable(name string) (string, bool) {
	n, err := strconv.Atoi(name)
	switch {
	case err != nil || n == 0:
		r.placed = r.placed || name == "PWD" || slices.Contains(r.places, name)
		if v, ok := r.vars[name]; ok {
			return v, true
		}
		return os.LookupEnv(name)
	case !r.argsOK:
		return "", true
	case n > len(r.args):
		return "", false
	}
	return r.args[n-1], true
}

// fallback returns the value of text in "${NAME:-text}", which may name another variable.
func (r *shellReader) fallback(text string) string {
	if !strings.HasPrefix(text, "$") {
		return text
	}
	v, _ := r.variable(strings.Trim(text, "${}"))
	return v
}
