package launch

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Code and signal are reported exactly, for every code.
func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 1, 2, 75, 126, 127, 137, 255} {
		j := start(t, testLocal(), testCommand(t, "exit", strconv.Itoa(code)))
		e := waitEnd(t, j)
		if e.Reason != Exited || e.Code != code || e.Signal != "" {
			t.Errorf("code %d: exit = %+v", code, e)
		}
		if e.Ran <= 0 || e.At.IsZero() || e.CPUSeconds == nil || e.PeakMemoryGiB == nil {
			t.Errorf("code %d: exit = %+v, want times and totals", code, e)
		}
		if !e.PeakAtMost { // it is a process of the same program as the trampoline
			t.Errorf("code %d: peak memory %g GiB, and not as a bound", code, *e.PeakMemoryGiB)
		}
	}
}

func TestExitSignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{unix.SIGABRT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2} {
		j := start(t, testLocal(), testCommand(t, "die", strconv.Itoa(int(sig))))
		e := waitEnd(t, j)
		if e.Reason != Killed || e.Code != -1 || e.Signal != signalName(sig) {
			t.Errorf("%s: exit = %+v", signalName(sig), e)
		}
	}
}

func TestExitDescriptionsDistinguishSignalAndCode(t *testing.T) {
	words := map[string]bool{}
	for name, tc := range map[string]struct {
		args   []string
		reason ExitReason
		code   int
		signal string
		words  string
	}{
		"SIGSEGV":            {[]string{"die", "11"}, Killed, -1, "SIGSEGV", "crashed with SIGSEGV (segmentation fault)"},
		"SIGKILL by someone": {[]string{"die", "9"}, Killed, -1, "SIGKILL", "killed by someone with SIGKILL"},
		"own exit 137":       {[]string{"exit", "137"}, Exited, 137, "", "exited by itself with code 137"},
	} {
		t.Run(name, func(t *testing.T) {
			e := waitEnd(t, start(t, testLocal(), testCommand(t, tc.args...)))
			if e.Reason != tc.reason || e.Code != tc.code || e.Signal != tc.signal || !strings.HasPrefix(e.Detail, tc.words) {
				t.Errorf("exit = %+v, want %s, code %d, signal %q, %q", e, tc.reason, tc.code, tc.signal, tc.words)
			}
			words[e.Detail] = true
		})
	}
	if len(words) != 3 {
		t.Errorf("the three ends have %d different descriptions: %v", len(words), words)
	}
}

func exitStatus(code int) syscall.WaitStatus             { return syscall.WaitStatus(code << 8) }
func signalStatus(sig syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(sig) }

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		o      outcome
		reason ExitReason
		code   int
		signal string
		detail string // a part of it
	}{
		"exit 0":                  {outcome{reaped: true, status: exitStatus(0)}, Exited, 0, "", "code 0"},
		"out of its memory limit": {outcome{reaped: true, status: signalStatus(9), oomKills: 1}, OOM, -1, "SIGKILL", "memory limit"},
		"out of machine memory":   {outcome{reaped: true, status: signalStatus(9), oomNearby: true}, OOM, -1, "SIGKILL", "machine"},
		"the same, by a shell":    {outcome{reaped: true, status: exitStatus(137), oomNearby: true}, OOM, 137, "", "machine"},
		"a worker out of memory":  {outcome{reaped: true, status: exitStatus(1), oomKills: 1}, OOM, 1, "", "code 1"},
		"a shell's 137 for it":    {outcome{reaped: true, status: exitStatus(137), oomKills: 1}, OOM, 137, "", "code 137"},
		"recovered from it":       {outcome{reaped: true, status: exitStatus(0), oomKills: 1}, Exited, 0, "", "code 0"},
		"crash near another's":    {outcome{reaped: true, status: signalStatus(11), oomNearby: true}, Killed, -1, "SIGSEGV", "crashed"},
		"core dumped":             {outcome{reaped: true, status: signalStatus(6) | 0x80}, Killed, -1, "SIGABRT", "core dumped"},
		"stopped by TERM":         {outcome{reaped: true, status: signalStatus(15), cause: byStop}, Stopped, -1, "SIGTERM", "on request"},
		"stopped by KILL":         {outcome{reaped: true, status: signalStatus(9), cause: byStop, killed: true}, Stopped, -1, "SIGKILL", "grace"},
		"stopped without grace":   {outcome{reaped: true, status: signalStatus(9), cause: byStop, killed: true, hurried: true}, Stopped, -1, "SIGKILL", "without grace"},
		"stopped, own code":       {outcome{reaped: true, status: exitStatus(3), cause: byStop}, Stopped, 3, "", "code 3"},
		"dead-man's switch":       {outcome{reaped: true, status: exitStatus(0), cause: byLimit}, Stopped, 0, "", "time limit"},
		"checkpoint and 75":       {outcome{reaped: true, status: exitStatus(75), sinceAsk: 2e9}, Stopped, 75, "", "2.0 s after"},
		"checkpoint and 1":        {outcome{reaped: true, status: exitStatus(1), sinceAsk: 2e9}, Exited, 1, "", "code 1"},
		"75 unasked":              {outcome{reaped: true, status: exitStatus(75)}, Exited, 75, "", "code 75"},
		"checkpoint and crash":    {outcome{reaped: true, status: signalStatus(11), sinceAsk: 2e9}, Killed, -1, "SIGSEGV", "crashed"},
		"unkillable": {outcome{cause: byStop, stuck: []stat{{process: process{PID: 42}, Name: "python3", State: 'D'}}},
			Stopped, -1, "", "42 (python3, state D)"},
		"unnamed signal": {outcome{reaped: true, status: signalStatus(40)}, Killed, -1, "signal 40", "signal 40"},
		"lost output":    {outcome{reaped: true, status: exitStatus(0), lostBytes: 7}, Exited, 0, "", "7 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			e := tc.o.verdict()
			if strings.Contains(e.Detail, "as requested") { // the caller of Stop states the cause
				t.Errorf("detail %q", e.Detail)
			}
			if e.Limit != (tc.o.cause == byLimit) {
				t.Errorf("verdict() = %+v after cause %v", e, tc.o.cause)
			}
			if e.Reason != tc.reason || e.Code != tc.code || e.Signal != tc.signal || !strings.Contains(e.Detail, tc.detail) {
				t.Errorf("verdict() = %+v, want %s, code %d, signal %q, detail with %q", e, tc.reason, tc.code, tc.signal, tc.detail)
			}
		})
	}
}
