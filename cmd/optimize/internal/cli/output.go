package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
)

// PrintError prints the error of a command as one line on standard error. With --json it is the object
//
//	{"error": "find run x: …", "exit": 2}
//
// which is also the output of the command if it printed no result, so that the output is JSON in any case. An error
// without a message is not printed.
func (e *Env) PrintError(err error) {
	if err == nil || err.Error() == "" {
		return
	}
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	if before, ok := strings.CutSuffix(text, "EOF"); ok {
		text = strings.TrimSuffix(before, "unexpected ") + "the file is empty or cut off"
	}
	own := e.Args
	if i := slices.Index(own, "--"); i >= 0 {
		own = own[:i]
	}
	if !e.JSON && !slices.Contains(own, "--json") { // the flags are not parsed if one of them is unknown
		fmt.Fprintf(e.Stderr, "optimize: %s\n", text)
		return
	}
	line, _ := json.Marshal(struct {
		Error string `json:"error"`
		Exit  int    `json:"exit"`
	}{text, int(ExitCode(err))})
	fmt.Fprintf(e.Stderr, "%s\n", line)
	if !e.printed {
		_ = e.Print(string(line) + "\n")
	}
}

// PrintJSON writes a value as indented JSON to standard output.
func (e *Env) PrintJSON(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return e.Print(string(data) + "\n")
}

// PrintResult writes a line of text to standard output, or with --json an object with the fields and the text.
func (e *Env) PrintResult(text string, fields map[string]any) error {
	if !e.JSON {
		return e.Print(text + "\n")
	}
	all := map[string]any{"schema": 1, "text": text}
	maps.Copy(all, fields)
	return e.PrintJSON(all)
}

// Print writes a text to standard output.
func (e *Env) Print(text string) error {
	e.printed = true
	_, err := io.WriteString(e.Stdout, text)
	return err
}

// Write writes a complete output to a file, or to standard output if file is "" or "-". A file has either its old or its new
// content, whatever fails; what names the output in errors.
func (e *Env) Write(file, what string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if file == "" || file == "-" {
		e.printed = true
		_, err := e.Stdout.Write(b.Bytes())
		return err
	}
	path := e.Path(file)
	put := func() error {
		return regular.WriteFile(path, 0o644, b.Bytes())
	}
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() { // a pipe, a device, a link
		put = func() error { return os.WriteFile(path, b.Bytes(), 0o644) }
	}
	if err := put(); err != nil {
		return fmt.Errorf("write %s %s: %w", what, file, regular.Reason(err))
	}
	return nil
}

// Writable returns an error if the file of a flag cannot be written, before hours of work. Pipes and devices are not tried.
func (e *Env) Writable(flag, file string) error {
	path := e.Path(file)
	info, err := os.Stat(path)
	if file == "" || file == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil && info.IsDir() {
		return fmt.Errorf("--%s %s: is a directory", flag, file)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".optimize-*")
	if err != nil {
		return fmt.Errorf("--%s %s: cannot write into its directory: %w", flag, file, regular.Reason(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// OneLine replaces control characters so that hostile text cannot move the cursor.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < 32 || r >= 127 && r < 160 {
			return -1
		}
		return r
	}, s)
}

// Quote quotes a file name for a shell, if necessary.
func Quote(name string) string {
	if strings.ContainsAny(name, " \t\n'\"$&;|<>()*?[]#~`\\!") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
