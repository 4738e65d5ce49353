package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestProcessLimits: a limit below which the runtime or a run would fail is refused in one line before anything starts.
func TestProcessLimits(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"-v 500000":  "limit of 500000 KiB of address space is too low: raise it by ulimit -v to at least 2097152",
		"-v 1300000": "limit of 1300000 KiB of address space is too low",
		"-n 16":      "limit of 16 open files is too low: raise it by ulimit -n to at least 64",
	} {
		cmd := exec.Command("/bin/sh", "-c", "ulimit "+limit+"; exec \"$0\" version", os.Args[0])
		cmd.Env = append(os.Environ(), agentVariable+"=1")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != int(run.CodeOurs) || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("ulimit %s: %v\n%s", limit, err, out)
		}
	}
}
