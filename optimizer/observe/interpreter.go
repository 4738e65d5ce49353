package observe

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Off returns why a job with this command and environment cannot be observed; empty if it can be, provided that it
// runs Python. The observer may be switched off, or the interpreter may ignore PYTHONPATH (-I, -E) or sitecustomize
// (-S, -I).
func WhyUnobservable(argv, env []string) string {
	if slices.Contains(env, switchVariable+"=off") {
		return switchVariable + "=off is set"
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
