package launch

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outcome holds the facts from which the exit of a job is derived.
type outcome struct {
	status syscall.WaitStatus
	reaped bool // status is known; false when the main process could not be killed

	unseen bool // the main process has ended, and its status was lost with the keeper that reaped it

	cause     cause
	killed    bool          // SIGKILL of the main process was sent by the keeper
	hurried   bool          // a stop without grace was requested
	sinceAsk  time.Duration // from the last checkpoint request to the end; 0 means no request
	oomKills  uint64        // processes of the job that the kernel killed for memory, by its cgroup
	oomNearby bool          // the kernel killed a process of the machine for lack of memory at the same time
	stuck     []stat        // processes that could not be killed
	lostBytes int64         // output that could not be written
	outlived  []stat        // processes that ran on after the main process, until they were ended
}

// codeSaved is, besides 0, the exit code of a script that has saved a checkpoint on request.
const codeSaved = 75

// verdict derives Reason, Code, Signal and Detail of the Exit. An orderly stop overrides the reason that the wait
// status alone would give.
func (o outcome) verdict() Exit {
	e := Exit{Reason: Exited, Code: -1, LostBytes: o.lostBytes, Outlived: describe(o.outlived)}
	var detail string
	switch s := o.status; {
	case o.unseen:
		e.Reason, detail = Lost, "its supervisor was killed after the main process had ended, so its exit code is not known"
	case !o.reaped:
		e.Reason, detail = Killed, "its main process did not end"
	case s.Signaled():
		e.Reason, e.Signal = Killed, signalName(s.Signal())
		detail = o.signalled(&e)
	default:
		e.Code = s.ExitStatus()
		detail = o.exited(&e)
	}
	switch {
	case o.cause == byStop:
		e.Reason, detail = Stopped, "stopped on request; "+detail
	case o.cause == byLimit:
		e.Reason, e.Limit, detail = Stopped, true, "stopped at the time limit by its supervisor; "+detail
	}
	notes := []string{detail}
	if len(o.stuck) > 0 {
		notes = append(notes, "could not be killed: "+describe(o.stuck))
	}
	if o.lostBytes > 0 {
		notes = append(notes, fmt.Sprintf("%d bytes of its output could not be written", o.lostBytes))
	}
	e.Detail = strings.Join(notes, "; ")
	return e
}

// signalled describes a death by signal, and sets e.Reason if the signal was sent by the kernel for lack of memory or
// by a checkpoint request.
func (o outcome) signalled(e *Exit) string {
	sig := o.status.Signal()
	switch {
	case sig == syscall.SIGKILL && o.hurried && o.cause == byStop:
		return "killed without grace"
	case sig == syscall.SIGKILL && (o.killed || o.cause != itself):
		return "it did not end within the grace and was killed"
	case sig == syscall.SIGTERM && o.cause != itself:
		return "ended by SIGTERM"
	case sig == syscall.SIGKILL && o.oomKills > 0:
		e.Reason = OOM
		return "killed by the kernel: the job reached its memory limit"
	case sig == syscall.SIGKILL && o.oomNearby:
		e.Reason = OOM
		return "killed by the kernel: the machine or the container was out of memory"
	case sig == syscall.SIGKILL:
		return "killed by someone with SIGKILL; the kernel reports no shortage of memory"
	case sig == syscall.SIGUSR1 && o.sinceAsk > 0:
		e.Reason = Stopped
		return "died of the checkpoint signal SIGUSR1"
	}
	if word, ok := crashes[sig]; ok {
		if o.status.CoreDump() {
			word += ", core dumped"
		}
		return fmt.Sprintf("crashed with %s (%s)", e.Signal, word)
	}
	return fmt.Sprintf("ended by %s from someone else", e.Signal)
}

// exited describes an exit with a code, and sets e.Reason if it follows a checkpoint request or the kernel killed a
// process of the job.
func (o outcome) exited(e *Exit) string {
	switch code := e.Code; {
	case o.sinceAsk > 0 && (code == 0 || code == codeSaved):
		e.Reason = Stopped
		return fmt.Sprintf("left with code %d, %.1f s after the request for a checkpoint", code, o.sinceAsk.Seconds())
	case code != 0 && o.oomKills > 0:
		e.Reason = OOM
		return fmt.Sprintf("the kernel killed a process of the job at its memory limit; the job then exited with code %d", code)
	case code == 0 && o.oomKills > 0:
		return "exited by itself with code 0, though the kernel had killed a process of it at its memory limit"
	case code == 128+int(syscall.SIGKILL) && o.oomNearby:
		e.Reason = OOM
		return fmt.Sprintf("exited with code %d, by which a shell reports SIGKILL: the machine or the container was out of memory", code)
	case code == 126:
		return "exited by itself with code 126 (a shell found a command that it could not run)"
	case code == 127:
		return "exited by itself with code 127 (a shell or env did not find a command)"
	case code > 128 && code <= 128+64 && unix.SignalName(syscall.Signal(code-128)) != "":
		return fmt.Sprintf("exited by itself with code %d (the code with which a shell reports that its command died of %s)", code, signalName(syscall.Signal(code-128)))
	default:
		return fmt.Sprintf("exited by itself with code %d", code)
	}
}

var crashes = map[syscall.Signal]string{
	syscall.SIGSEGV: "segmentation fault",
	syscall.SIGBUS:  "bus error",
	syscall.SIGABRT: "abort",
	syscall.SIGILL:  "illegal instruction",
	syscall.SIGFPE:  "arithmetic error",
	syscall.SIGTRAP: "trap",
	syscall.SIGSYS:  "forbidden system call",
	syscall.SIGXCPU: "CPU time limit",
	syscall.SIGXFSZ: "file size limit",
}

// signalName returns "SIGTERM", or "signal 40" for a signal without a name.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// describe formats up to eight processes for messages: "123 (python3, state D)".
func describe(list []stat) string {
	const most = 8
	var b strings.Builder
	for i, s := range list {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(list)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d (%s, state %c)", s.PID, s.Name, s.State)
	}
	return b.String()
}
