package launch

import (
	"fmt"
	"time"
)

// StartError reports that a job never ran, why, and the remedy. It unwraps to the system's error if there is one
// (syscall.ENOENT, syscall.EACCES …).
type StartError struct {
	Args   []string
	Reason string
	Advice string // may be empty
	At     time.Time
	Err    error // may be nil
	// Internal reports that the supervisor or its files failed, not the program.
	Internal bool
}

func (e *StartError) Error() string {
	name := "the job"
	if len(e.Args) > 0 {
		name = fmt.Sprintf("%q", e.Args[0])
	}
	return fmt.Sprintf("start %s: %s", name, startFailure{Reason: e.Reason, Advice: e.Advice})
}

func (e *StartError) Unwrap() error { return e.Err }

// Exit returns the failure as the exit of a job, with Reason StartFailed.
func (e *StartError) Exit() Exit {
	return Exit{Reason: StartFailed, Code: -1, Detail: startFailure{Reason: e.Reason, Advice: e.Advice}.String(), At: e.At}
}

// String formats the failure as one line for the user.
func (f startFailure) String() string {
	if f.Advice == "" {
		return f.Reason
	}
	return f.Reason + ": " + f.Advice
}

func (f startFailure) err(args []string, at time.Time) *StartError {
	e := &StartError{Args: args, Reason: f.Reason, Advice: f.Advice, At: at, Internal: f.Internal}
	if f.Errno != 0 {
		e.Err = f.Errno
	}
	return e
}

// shortage describes why the package itself could not perform the action what.
func shortage(what string, err error) *startFailure {
	f := &startFailure{Reason: fmt.Sprintf("%s: %v", what, err), Errno: errnoOf(err), Internal: true}
	explainShortage(f)
	return f
}
