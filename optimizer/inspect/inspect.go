package inspect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxSource is the size in bytes of the inspected part of a script; the rest is only hashed.
const maxSource = 4 << 20

// Kinds of a job.
const (
	kindPython     = "python"     // a Python script
	kindShell      = "shell"      // a shell script; findings refer to the Python script that it runs
	kindExecutable = "executable" // any other program file
	kindCommand    = "command"    // a command line without a known script
)

// Inspect reads the script at path and determines the properties of its training without running it. It parses at
// most maxSource bytes. It returns an error when the file cannot be read; irregularities in a readable file are in
// Warnings.
func Inspect(path string) (Inspection, error) {
	data, sum, err := read(path)
	if err != nil {
		return Inspection{}, err
	}
	ins := inspectSource(path, data)
	ins.Path, ins.SHA256 = path, sum
	return ins, nil
}

// read returns the first maxSource+1 bytes of a file and the SHA-256 of the whole file.
func read(path string) (data []byte, sum string, err error) {
	if err := regular(path); err != nil {
		return nil, "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("read script %s: %s; make it readable for this user", quote(path), reason(err))
	}
	defer f.Close()
	h := sha256.New()
	var b bytes.Buffer
	if _, err = io.CopyN(&b, io.TeeReader(f, h), maxSource+1); err == nil {
		_, err = io.Copy(h, f)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("read script %s: %s", quote(path), reason(err))
	}
	return b.Bytes(), hex.EncodeToString(h.Sum(nil)), nil
}

// inspectSource inspects the contents of the file at path. It reads no other files except those named in a shell
// script.
func inspectSource(path string, data []byte) Inspection {
	switch fileKind(path, data) {
	case kindPython:
		return inspectPython(data)
	case kindShell:
		return inspectShellAt(path, data, nil, 0)
	}
	return Inspection{Kind: kindExecutable}
}

// fileKind determines the kind by the suffix, then by the interpreter line.
func fileKind(path string, data []byte) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".py", ".pyw":
		return kindPython
	case ".sh", ".bash", ".zsh", ".ksh":
		return kindShell
	}
	argv := shebang(data)
	if len(argv) == 0 {
		return kindExecutable
	}
	switch n := interpreterName(argv); {
	case isPythonName(n):
		return kindPython
	case shells[n]:
		return kindShell
	}
	return kindExecutable
}

// inspectPython inspects Python source: it decodes and parses the text once and derives each finding from the parsed
// script.
func inspectPython(data []byte) Inspection {
	ins := Inspection{Kind: kindPython}
	if len(data) > maxSource {
		data = data[:maxSource]
		ins.Warnings = append(ins.Warnings, fmt.Sprintf("longer than %d MiB: only the start was inspected", maxSource>>20))
	}
	src, odd := decode(data)
	ins.Warnings = append(ins.Warnings, odd...)
	ins.find(parse(src))
	return ins
}

// find derives the findings from a parsed script.
func (ins *Inspection) find(s *script) {
	ins.Framework = s.framework()
	ins.Model = s.model()
	ins.Dataset = s.dataset()
	ins.GPU = s.gpu(ins.Framework.Value)
	ins.MultiGPU = s.multiGPU()
	ins.BatchSize = s.batchSize()
	ins.setsLength = len(s.lengths()) > 0
	ins.Replay = s.replay()
	var note string
	ins.Resumable, ins.StopSignal, note = s.resumable()
	ins.HandlesInterrupt = s.handlesInterrupt()
	ins.Likeness = s.likeness()
	var notes []string
	ins.Reads, notes = s.reads(ins.Framework.Value, ins.GPU.Value == "yes")
	if note != "" {
		notes = append(notes, note)
	}
	if line := s.python2(); line > 0 {
		notes = append(notes, fmt.Sprintf("print statement in line %d: this is Python 2", line))
	}
	if ins.GPU.Value == "yes" && ins.MultiGPU.Value == "" && (ins.Framework.Value == "pytorch" || ins.Framework.Value == "huggingface") && !s.hidden() && !s.beyondFirstGPU() {
		notes = append(notes, OneGPU)
	}
	ins.Warnings = append(ins.Warnings, notes...)
}

// NotResumable ends the warning about an almost resumable script. It does not apply to one that the user has declared
// resumable or not, or that has an argument for its checkpoint.
const NotResumable = ": treated as not resumable (--resumable yes if it is)"

// OneGPU is the warning about a script that uses one GPU at most, the first, which concerns a machine with several.
const OneGPU = "nothing in the script spreads work over several GPUs: more than one would be idle"

// python2 returns the line of a print statement, 0 without one.
func (s *script) python2() int {
	for _, st := range s.statements {
		if t := st.tokens; len(t) > 1 && t[0].s == "print" && t[0].kind == name && (t[1].kind == text || t[1].kind == name && !keywords[t[1].s]) {
			return st.line
		}
	}
	return 0
}

func itoa(n int) string { return strconv.Itoa(n) }
