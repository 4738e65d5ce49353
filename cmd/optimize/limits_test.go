//go:build cgo

package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestAddressSpaceLimit: a limit of the address space below which the runtime aborts is refused in one line before anything starts; at
// the limit that the refusal names, a command runs.
func TestAddressSpaceLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"-v 500000":  "limit of 500000 KiB of address space is too low: raise it by ulimit -v to at least 1572864",
		"-v 1300000": "limit of 1300000 KiB of address space is too low",
	} {
		cmd := exec.Command("/bin/sh", "-c", "ulimit "+limit+"; exec \"$0\" version", os.Args[0])
		cmd.Env = append(os.Environ(), agentVariable+"=1")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != int(run.CodeOurs) || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("ulimit %s: %v\n%s", limit, err, out)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", "ulimit -v 1572864; exec \"$0\" version", os.Args[0])
	cmd.Env = append(os.Environ(), agentVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("at the least limit: %v\n%s", err, out)
	}
}
