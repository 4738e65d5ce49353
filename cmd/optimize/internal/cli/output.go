package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// JSON writes a value as indented JSON to standard output.
func (e *Env) PrintJSON(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return e.Print(string(data) + "\n")
}

// Print writes a text to standard output.
func (e *Env) Print(text string) error {
	_, err := io.WriteString(e.Stdout, text)
	return err
}

// Write writes a complete output to a file, or to standard output if file is "". A file has either its old or its new
// content, whatever fails; what names the output in errors.
func (e *Env) Write(file, what string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	var err error
	if file == "" {
		_, err = e.Stdout.Write(b.Bytes())
	} else {
		err = replace(e.Path(file), b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// replace writes a file atomically. An existing path that is not a regular file (a pipe, a device, a link) is written
// to directly.
func replace(path string, data []byte) error {
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no effect after the rename
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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
