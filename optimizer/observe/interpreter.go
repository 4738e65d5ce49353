package observe

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
)

// Off returns why a job with this command and environment cannot be observed; empty if it can be, provided that it
// runs Python. The observer may be switched off, or the interpreter may ignore PYTHONPATH (-I, -E) or sitecustomize
// (-S, -I).
func WhyUnobservable(argv, env []string) string {
	if slices.Contains(env, switchVariable+"=off") {
		return switchVariable + "=off is set"
	}
	if replacesPath(strings.Join(argv, " ")) || replacesPath(shellText(argv)) {
		return "the command sets PYTHONPATH without its former value, which is how Python loads it; PYTHONPATH=DIR:$PYTHONPATH in a shell keeps it"
	}
	words := argv
	if len(argv) > 0 && !isPython(argv[0]) {
		if line := interpreterLine(argv[0]); line != nil {
			words = line
		}
	}
	for i, word := range words {
		if isPython(word) {
			options := pythonOptions(words[i+1:])
			off := strings.IndexAny(options, "IES")
			switch {
			case off < 0:
				return ""
			case options[off] == 'S' || strings.Contains(options, "u"):
				return "Python runs with -" + options[off:off+1] + ", which does not load it"
			}
			return "Python runs with -" + options[off:off+1] + ", which does not load it, and buffers its output; -u shows each line at once"
		}
	}
	return ""
}

// replacesPath reports whether a shell text replaces PYTHONPATH for every Python that it names.
func replacesPath(text string) (replaced bool) {
	for line := range strings.Lines(text) {
		line, here := strings.TrimSpace(line), false
		for w := range strings.FieldsSeq(line) {
			value, sets := strings.CutPrefix(w, "PYTHONPATH=")
			switch {
			case strings.HasPrefix(line, "#"):
			case sets && !strings.Contains(value, "PYTHONPATH"):
				if here = true; line == w || strings.HasPrefix(line, "export ") {
					return true // for all that follow
				}
			case isPython(w) && !here:
				return false
			}
		}
		replaced = replaced || here
	}
	return replaced
}

// shellText returns the shell script that a command runs; empty without one, or if it is longer than headBytes.
func shellText(argv []string) string {
	i := slices.IndexFunc(argv, func(w string) bool { return !isShell(w) })
	if i < 0 || i == 0 && !slices.ContainsFunc(interpreterLine(argv[0]), isShell) {
		return ""
	}
	text, _ := regular.ReadFile(argv[i], headBytes)
	return string(text)
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, filepath.Base(word))
}

// isPython reports whether word names a Python interpreter, such as /usr/bin/python3.11.
func isPython(word string) bool {
	name := filepath.Base(word)
	for _, prefix := range []string{"python", "pypy"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.Trim(rest, "0123456789.t") == "" {
			return true
		}
	}
	return false
}

// pythonOptions returns the letters of the interpreter's own options, without their values.
func pythonOptions(args []string) string {
	letters := ""
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' || a == "--" {
			break
		}
		if strings.HasPrefix(a, "--") {
			if a == "--check-hash-based-pycs" {
				i++
			}
			continue
		}
		valued := strings.IndexAny(a, "cmWX") // the rest of the word is a value
		if valued < 0 {
			letters += a[1:]
			continue
		}
		letters += a[1:valued]
		if a[valued] == 'c' || a[valued] == 'm' { // the program; later arguments belong to it
			break
		}
		if valued == len(a)-1 {
			i++ // the value is the next argument
		}
	}
	return letters
}

// interpreterLine returns the words of the "#!" line of a program, nil if it has none.
func interpreterLine(program string) []string {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	line, _, _ := bytes.Cut(head(path, 256), []byte("\n"))
	if rest, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		return strings.Fields(string(rest))
	}
	return nil
}
