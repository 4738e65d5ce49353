package run

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func pipeInput(t *testing.T, text string) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	write.WriteString(text)
	return read, write
}

// TestInputUsed checks which input a restarted job could read again.
func TestInputUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers")
	if err := os.WriteFile(path, []byte("first\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.Seek(6, io.SeekStart) // an earlier command has read the first line
	complete, writer := pipeInput(t, "yes\n")
	writer.Close()
	empty, writer := pipeInput(t, "")
	writer.Close()
	open, _ := pipeInput(t, "")
	answered, _ := pipeInput(t, "yes\n")
	ended, end := pipeInput(t, "")
	for name, c := range map[string]struct {
		stdin        *os.File
		before, read bool // whether it is used at the launch, and after the job has read 2 bytes
	}{"none": {}, "file": {stdin: file}, "complete pipe": {stdin: complete, read: true}, "empty pipe": {stdin: empty}, "open pipe": {stdin: open},
		"open pipe with an answer": {stdin: answered, read: true}, "pipe closed later": {stdin: ended, read: true}} {
		t.Run(name, func(t *testing.T) {
			r := &run{Agent: Agent{Stdin: c.stdin}}
			f := r.jobInput()
			if f != c.stdin || r.inputUsed() != c.before {
				t.Errorf("input %v, used %v; want %v, %v", f, r.inputUsed(), c.stdin, c.before)
			}
			switch c.stdin {
			case nil, open:
			case ended:
				end.Write([]byte("no"))
				end.Close()
				fallthrough
			default:
				f.Read(make([]byte, 2))
			}
			if r.inputUsed() != c.read {
				t.Errorf("used %v after reading, want %v", r.inputUsed(), c.read)
			}
			if c.stdin == file {
				if rest, _ := io.ReadAll(r.jobInput()); string(rest) != "second\nthird\n" {
					t.Errorf("the next launch reads %q", rest)
				}
			}
			if c.stdin != nil {
				later := &run{facts: facts{Input: r.Input}}
				if !later.inputUsed() {
					t.Error("another agent would restart the job without the input")
				}
			}
		})
	}
}
