package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// buffering is a C program whose library buffers whole blocks on a pipe. It prints two lines, waits for a file "on",
// prints a third, and ends with code 3.
const buffering = `
#include <stdio.h>
#include <unistd.h>
int main(void) {
	printf("first\ttab\r50 %%\n");
	printf("second\n");
	fprintf(stderr, "to stderr\n");
	while (access("on", F_OK) != 0) usleep(10000);
	printf("%s", "third without an end");
	return 3;
}
`

// bufferingCommand returns the command that runs buffering, with a pseudo-terminal.
func bufferingCommand(t *testing.T) Command {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler on PATH")
	}
	c := testCommand(t)
	source, program := filepath.Join(c.Dir, "buffering.c"), filepath.Join(c.Dir, "buffering")
	if err := os.WriteFile(source, []byte(buffering), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	c.Args, c.PTY = []string{program}, true
	return c
}

// awaitOutput waits until a stream of a run contains a text.
func awaitOutput(t *testing.T, dir, name, text string) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(output(t, dir, name), text) {
			return true
		}
	}
	t.Errorf("%s is %q, want %q in it", name, output(t, dir, name), text)
	return false
}

func letGo(t *testing.T, c Command) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.Dir, "on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The output of a program that buffers on a pipe is read line by line from a pseudo-terminal, unchanged, with
// separate streams, to the end of its last line.
func TestPTYReadsABufferingProgramByLine(t *testing.T) {
	t.Parallel()
	c := bufferingCommand(t)
	j := start(t, testLocal(), c)
	awaitOutput(t, c.RunDir, stdoutFile, "second\n")
	awaitOutput(t, c.RunDir, stderrFile, "to stderr\n")
	letGo(t, c)
	if e := waitEnd(t, j); e.Reason != Exited || e.Code != 3 {
		t.Errorf("exit %+v, want code 3", e)
	}
	if got, want := output(t, c.RunDir, stdoutFile), "first\ttab\r50 %\nsecond\nthird without an end"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got := output(t, c.RunDir, stderrFile); got != "to stderr\n" {
		t.Errorf("stderr %q", got)
	}
	if got := output(t, c.RunDir, keeperLog); got != "" {
		t.Errorf("the keeper reports %q", got)
	}
}

// On a pipe the same program prints nothing before its end, which validates the previous test.
func TestPipeHoldsABufferingProgramBack(t *testing.T) {
	t.Parallel()
	c := bufferingCommand(t)
	c.PTY = false
	j := start(t, testLocal(), c)
	awaitOutput(t, c.RunDir, stderrFile, "to stderr\n") // printed after the two lines
	if got := output(t, c.RunDir, stdoutFile); got != "" {
		t.Errorf("stdout %q before the end of a program that buffers", got)
	}
	letGo(t, c)
	waitEnd(t, j)
}

// The pseudo-terminals survive the death of the keeper: the standby continues to read them.
func TestPTYOutlivesTheKeeper(t *testing.T) {
	t.Parallel()
	c := bufferingCommand(t)
	j := start(t, testLocal(), c)
	awaitOutput(t, c.RunDir, stdoutFile, "second\n")
	killKeeper(t, j.Handle())
	letGo(t, c)
	if e := waitEnd(t, j); e.Reason != Exited || e.Code != 3 {
		t.Errorf("exit %+v, want code 3", e)
	}
	awaitOutput(t, c.RunDir, stdoutFile, "third without an end")
}

// The job has terminals of the given size, none of which is its controlling terminal.
func TestPTYOfTheJob(t *testing.T) {
	t.Parallel()
	c := testCommand(t)
	c.Args = []string{"sh", "-c", `test -t 1 && test -t 2 && echo terminals; stty size <&1; stty -a <&2 | grep -o -e '-opost'; (: </dev/tty) 2>/dev/null || echo uncontrolled`}
	c.PTY = true
	waitEnd(t, start(t, testLocal(), c))
	size := strings.SplitN(terminalSize(), "x", 2)
	want := "terminals\n" + size[1] + " " + size[0] + "\n-opost\nuncontrolled\n"
	if got := output(t, c.RunDir, stdoutFile); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each read of the terminal for the input finds its end; an input that was given is kept.
func TestPTYOfTheInput(t *testing.T) {
	t.Parallel()
	c := testCommand(t)
	c.Args = []string{"sh", "-c", `stty size; for i in 1 2; do read line && echo "$line" || echo end; done`}
	c.PTY = true
	waitEnd(t, start(t, testLocal(), c))
	size := strings.SplitN(terminalSize(), "x", 2)
	if got, want := output(t, c.RunDir, stdoutFile), size[1]+" "+size[0]+"\nend\nend\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.RunDir = t.TempDir()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte("answer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	c.Stdin = input
	waitEnd(t, start(t, testLocal(), c))
	if got, want := output(t, c.RunDir, stdoutFile), "answer\nend\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// All data left in a pseudo-terminal when the last process ends is read.
func TestPTYReadsAFloodToItsEnd(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "flood", "20000", "0")
	c.PTY = true
	waitEnd(t, start(t, testLocal(), c))
	out := output(t, c.RunDir, stderrFile)
	if n := strings.Count(out, "\n"); n != 20000 || strings.Contains(out, "\r") {
		t.Errorf("%d lines arrived, want 20000 without carriage returns", n)
	}
}

func TestTerminalSizes(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "80", "x24", "-1x4", "99999999x1"} {
		if m, s, err := openPTY(bad); err == nil {
			unix.Close(m)
			unix.Close(s)
			t.Errorf("size %q is accepted", bad)
		}
	}
}
