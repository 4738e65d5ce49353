package launch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStdin checks that the job reads the standard input of its Command, and an empty one without it.
func TestStdin(t *testing.T) {
	t.Parallel()
	file, err := os.Open(write(t, filepath.Join(t.TempDir(), "answers"), "a\nb\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	w.WriteString("y\n")
	w.Close()
	for name, tc := range map[string]struct {
		stdin *os.File
		want  string
	}{"none": {nil, ""}, "pipe": {read, "y\n"}, "file": {file, "a\nb\n"}} {
		t.Run(name, func(t *testing.T) {
			c := testCommand(t)
			c.Args, c.Stdin = []string{"cat"}, tc.stdin
			if x := waitEnd(t, start(t, testLocal(), c)); x.Code != 0 {
				t.Errorf("exit %+v", x)
			}
			if got := output(t, c.RunDir, stdoutFile); got != tc.want {
				t.Errorf("read %q, want %q", got, tc.want)
			}
		})
	}
}

// TestStdinIsTheJobsAlone checks that the job reads on after the death of its keeper, and that keeper and standby hold no
// descriptor of its input: the writer learns that the job has closed it.
func TestStdinIsTheJobsAlone(t *testing.T) {
	t.Parallel()
	read, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := testCommand(t)
	c.Args, c.Stdin = []string{"sh", "-c", "read line; echo got $line; exec sleep 60 <&-"}, read
	j := start(t, testLocal(), c)
	read.Close()
	j.keeper.signal(unix.SIGKILL)
	w.WriteString("late\n")
	deadline := time.Now().Add(patience)
	for output(t, c.RunDir, stdoutFile) != "got late\n" {
		if time.Now().After(deadline) {
			t.Fatalf("the job printed %q", output(t, c.RunDir, stdoutFile))
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, err := w.WriteString("x\n"); !errors.Is(err, unix.EPIPE); _, err = w.WriteString("x\n") {
		if time.Now().After(deadline) {
			t.Fatal("a process still holds the input that the job has closed")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
