package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"trainopt/internal/wording"
)

// errScript is wrapped by every error of Resolve: the given script or command cannot be started.
var errScript = errors.New("cannot be started")

// ResolveOptions configures Resolve. The zero value uses python3 from PATH and paths relative to the working
// directory.
type ResolveOptions struct {
	// Python is the interpreter for .py scripts, a path or a name; empty means python3, then python.
	Python string
	// Dir is the base of relative paths; empty means the working directory.
	Dir string
	// LookPath finds a program by name; nil means exec.LookPath.
	LookPath func(name string) (string, error)
}

// Resolve converts the user's input to an argv that requires no shell, and inspects it. If train is empty, args is
// the whole command (everything after --). Paths in the argv are absolute, so that neither a leading dash nor the
// working directory changes their meaning. Errors wrap errScript; each is one line with the operation, its object,
// the problem and a remedy.
func Resolve(train string, args []string, o ResolveOptions) (argv []string, ins Inspection, err error) {
	defer func() {
		if err != nil {
			err = &refusal{err.Error()}
		}
	}()
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if train == "" {
		return o.command(args)
	}
	path, err := filepath.Abs(at(o.Dir, train))
	if err != nil {
		return nil, ins, fmt.Errorf("find script %s: %w", quote(train), err)
	}
	if ins, err = Inspect(path); err != nil {
		return nil, Inspection{}, err
	}
	start, err := o.start(path, ins.Kind)
	if err != nil {
		return nil, ins, err
	}
	ins.Override(args)
	return append(start, args...), ins, nil
}

type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return errScript }

// command resolves a whole command line.
func (o ResolveOptions) command(args []string) ([]string, Inspection, error) {
	if len(args) == 0 || args[0] == "" {
		return nil, Inspection{}, errors.New("start training: no script and no command; give --train SCRIPT, or a command after --")
	}
	if name, _, ok := strings.Cut(args[0], "="); ok && isShellName(name) && len(args) > 1 { // as a shell does it
		args = append([]string{"env"}, args...)
	}
	program, err := o.program(args[0])
	if err != nil {
		return nil, Inspection{}, err
	}
	dir := o.Dir
	ins, ok := inspectArgv(args, dir, 0)
	if !ok {
		ins = Inspection{Warnings: ins.Warnings}
	} else if ins.Script == "" {
		ins.Script = ins.Path
	}
	ins.Kind = kindCommand
	if ins.Path == "" { // a program of its own, or code in an argument
		ins.Path = program
	} else if ins.Path, err = filepath.Abs(ins.Path); err != nil {
		return nil, Inspection{}, err
	}
	return append([]string{program}, args[1:]...), ins, nil
}

// program returns the path of a command's program: a path relative to Dir, or a name on PATH.
func (o ResolveOptions) program(name string) (string, error) {
	if !strings.Contains(name, "/") {
		found, err := o.LookPath(name)
		if err != nil {
			hint := "install it or give its path"
			if isFile(at(o.Dir, name)) {
				hint = "did you mean ./" + name + "?"
			}
			return "", fmt.Errorf("start command %s: no such program on PATH; %s", quote(name), hint)
		}
		return filepath.Abs(found)
	}
	path, err := filepath.Abs(at(o.Dir, name))
	if err != nil {
		return "", err
	}
	if err := regular(path); err != nil {
		return "", err
	}
	if unix.Access(path, unix.X_OK) != nil {
		return "", fmt.Errorf("start command %s: not executable; chmod +x it, or name its interpreter before it", quote(path))
	}
	return path, nil
}

// start returns the argv that starts the script at path, without its arguments. A .py file is started by Python, an
// executable with a #! line directly, another file with one by its interpreter, and a shell script without one by
// bash or /bin/sh. Other files must be executable binaries.
func (o ResolveOptions) start(path, kind string) ([]string, error) {
	if kind == kindPython && strings.EqualFold(filepath.Ext(path), ".py") {
		python, err := o.python()
		if err != nil {
			return nil, err
		}
		return []string{python, path}, nil
	}
	head, err := readHead(path)
	if err != nil {
		return nil, err
	}
	line := shebang(head)
	executable := unix.Access(path, unix.X_OK) == nil
	if len(line) > 0 {
		interpreter, err := o.interpreter(path, line)
		if err != nil {
			return nil, err
		}
		if executable {
			return []string{path}, nil
		}
		return append(interpreter, path), nil
	}
	switch {
	case kind == kindShell:
		sh, err := o.LookPath("bash")
		if err != nil {
			sh = "/bin/sh"
		}
		return []string{sh, path}, nil // without a #! line the kernel would reject it
	case len(head) == 0:
		return nil, fmt.Errorf("start %s: the file is empty; name the script that trains", quote(path))
	case !executable:
		return nil, fmt.Errorf("start %s: not executable and not .py or .sh; chmod +x it, or give the whole command after --", quote(path))
	case !bytes.HasPrefix(head, []byte("\x7fELF")) && bytes.IndexByte(head, 0) < 0:
		return nil, fmt.Errorf("start %s: neither a program nor a script with a #! line; add one (such as #!/usr/bin/env python3)", quote(path))
	}
	return []string{path}, nil
}

// python returns the path of the interpreter for .py scripts. A named interpreter must be an executable whose name,
// or link target, is that of a Python.
func (o ResolveOptions) python() (string, error) {
	if o.Python == "" {
		for _, n := range []string{"python3", "python"} {
			if p, err := o.LookPath(n); err == nil {
				return filepath.Abs(p)
			}
		}
		return "", errors.New("find Python: neither python3 nor python is on PATH; install Python 3 or name an interpreter with --python")
	}
	p := o.Python
	if st, err := os.Stat(at(o.Dir, p)); strings.Contains(p, "/") || err == nil && st.IsDir() {
		p = at(o.Dir, p)
		switch st, err := os.Stat(p); {
		case err != nil:
			return "", fmt.Errorf("use interpreter %s: %s; name a Python 3 with --python", quote(o.Python), reason(err))
		case st.IsDir():
			hint := "name the program in it"
			if inside := filepath.Join(p, "bin", "python3"); isFile(inside) {
				hint = "did you mean " + quote(inside) + "?"
			}
			return "", fmt.Errorf("use interpreter %s: it is a directory; %s", quote(o.Python), hint)
		}
	}
	found, err := o.LookPath(p)
	if err != nil {
		return "", fmt.Errorf("use interpreter %s: not an executable program; name a Python 3 with --python", quote(o.Python))
	}
	real := found
	if resolved, err := filepath.EvalSymlinks(found); err == nil {
		real = resolved
	}
	if !isPythonName(filepath.Base(found)) && !isPythonName(filepath.Base(real)) {
		return "", fmt.Errorf("use interpreter %s: %s is not a Python; name a Python 3 with --python", quote(o.Python), quote(filepath.Base(real)))
	}
	return filepath.Abs(found)
}

// shebang returns the words of the #! line, nil without one.
func shebang(data []byte) []string {
	if !bytes.HasPrefix(data, []byte("#!")) {
		return nil
	}
	line, _, _ := bytes.Cut(data[2:min(len(data), 4096)], []byte{'\n'})
	return strings.Fields(string(line))
}

// interpreterName returns the program of a #! line, or the program that env runs.
func interpreterName(words []string) string {
	n := filepath.Base(words[0])
	if n != "env" {
		return n
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return filepath.Base(w)
		}
	}
	return n
}

// interpreter checks the #! line of a script and returns the corresponding argv.
func (o ResolveOptions) interpreter(path string, words []string) ([]string, error) {
	head, _ := readHead(path)
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	if bytes.HasSuffix(line, []byte{'\r'}) {
		return nil, fmt.Errorf("start %s: line 1 ends with a carriage return, so its interpreter is not found; convert its line ends (dos2unix)", quote(path))
	}
	if unix.Access(words[0], unix.X_OK) != nil || !isFile(words[0]) {
		return nil, fmt.Errorf("start %s: its interpreter %s (line 1) is not an executable program here; correct line 1 or give the whole command after --", quote(path), quote(words[0]))
	}
	if n := interpreterName(words); filepath.Base(words[0]) == "env" && n != "env" {
		if _, err := o.LookPath(n); err != nil {
			return nil, fmt.Errorf("start %s: its interpreter %s (line 1) is not on PATH; install it or correct line 1", quote(path), quote(n))
		}
	}
	if len(words) > 2 && filepath.Base(words[0]) != "env" {
		words = []string{words[0], strings.Join(words[1:], " ")} // the kernel passes the rest as one argument
	}
	return words, nil
}

// readHead returns the first 4096 bytes of a file.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read script %s: %s; make it readable for this user", quote(path), reason(err))
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := f.Read(b)
	return b[:n], nil
}

// regular returns an error for paths other than regular files, with a suggestion.
func regular(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		if _, lerr := os.Lstat(path); lerr == nil {
			return fmt.Errorf("find script %s: it is a link to something that is not there; correct the link", quote(path))
		}
		hint := "check the path"
		if near := nearest(path); near != "" {
			hint = "did you mean " + quote(near) + "?"
		}
		return fmt.Errorf("find script %s: no such file; %s", quote(path), hint)
	case err != nil:
		return fmt.Errorf("find script %s: %s; check the path and its permissions", quote(path), reason(err))
	case st.IsDir():
		hint := "name the script in it"
		for _, n := range []string{"train.py", "main.py", "__main__.py", "train.sh", "run.sh"} {
			if inside := filepath.Join(path, n); isFile(inside) {
				hint = "did you mean " + quote(inside) + "?"
				break
			}
		}
		return fmt.Errorf("read script %s: it is a directory; %s", quote(path), hint)
	case !st.Mode().IsRegular():
		return fmt.Errorf("read script %s: not a regular file; name a script file", quote(path))
	}
	return nil
}

// nearest returns the path of a file in the same folder with a similar name, "" without one.
func nearest(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) > 10000 {
		return ""
	}
	wanted := filepath.Base(path)
	best, distance := "", 3
	for _, e := range entries {
		if d := wording.Distance(strings.ToLower(e.Name()), strings.ToLower(wanted)); !e.IsDir() && d < distance {
			best, distance = e.Name(), d
		}
		if stem, ok := strings.CutSuffix(e.Name(), filepath.Ext(e.Name())); ok && stem == wanted && !e.IsDir() {
			best, distance = e.Name(), 0
		}
	}
	if best == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), best)
}

// quote returns a path in a form that fits on one line and has visible ends.
func quote(path string) string {
	odd := slices.ContainsFunc([]rune(path), func(r rune) bool {
		return !unicode.IsGraphic(r) || r == ' ' || r == '"' || r == unicode.ReplacementChar
	})
	if odd || path == "" {
		return strconv.Quote(path)
	}
	return path
}

// reason returns the text of the innermost error, without the path.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
