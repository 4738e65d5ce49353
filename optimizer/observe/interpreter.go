package observe

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Off returns why a job with this command and environment cannot be observed; empty if it can be, provided that it
// runs Python. The observer may be switched off, or the interpreter may ignore PYTHONPATH (-I, -E) or sitecustomize
// (-S, -I).
func WhyUnobservable(argv, env []string) string {
	for _, item := range env {
		if item == switchVariable+"=off" {
			return switchVariable + "=off is set"
		}
	}
	words := argv
	if len(argv) > 0 && !isPython(argv[0]) {
		if line := interpreterLine(argv[0]); line != nil {
			words = line
		}
	}
	for i, word := range words {
		if isPython(word) {
			if option := isolatingOption(words[i+1:]); option != "" {
				return "Python runs with " + option + ", which leaves no room for it"
			}
			return ""
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

// isolatingOption returns the interpreter option that disables the observer, empty if none does.
func isolatingOption(args []string) string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' || a == "--" {
			return ""
		}
		if strings.HasPrefix(a, "--") {
			if a == "--check-hash-based-pycs" {
				i++
			}
			continue
		}
		for j, c := range a[1:] {
			switch c {
			case 'I', 'E', 'S':
				return "-" + string(c)
			case 'c', 'm': // the program; later arguments belong to it
				return ""
			case 'W', 'X':
				if j == len(a)-2 {
					i++ // the value is the next argument
				}
			default:
				continue
			}
			break
		}
	}
	return ""
}

// interpreterLine returns the words of the "#!" line of a program, nil if it has none.
func interpreterLine(program string) []string {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if s, err := f.Stat(); err != nil || !s.Mode().IsRegular() {
		return nil
	}
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	if rest, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		return strings.Fields(string(rest))
	}
	return nil
}
