package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Least limits of the process: below them, the runtime aborts, or a run fails somewhere between its start and its report.
const (
	leastAddressSpace = 2 << 30 // bytes; also in limits_cgo.go
	leastOpenFiles    = 64
)

// checkProcessLimits returns an error if a limit of the process (ulimit) is below the least.
func checkProcessLimits() error {
	for _, c := range []struct {
		resource    int
		least, unit uint64
		what, flag  string
	}{
		{unix.RLIMIT_AS, leastAddressSpace, 1 << 10, "KiB of address space", "-v"},
		{unix.RLIMIT_NOFILE, leastOpenFiles, 1, "open files", "-n"},
	} {
		var l unix.Rlimit
		if err := unix.Getrlimit(c.resource, &l); err == nil && l.Cur < c.least {
			return fmt.Errorf("the limit of %d %s is too low: raise it by ulimit %s to at least %d", l.Cur/c.unit, c.what, c.flag, c.least/c.unit)
		}
	}
	return nil
}
