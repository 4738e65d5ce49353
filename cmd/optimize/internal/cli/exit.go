package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"trainopt/optimizer/run"
)

// usageError is an error in the command line or the configuration: exit code 2.
type usageError struct{ Err error }

func (e usageError) Error() string { return e.Err.Error() }
func (e usageError) Unwrap() error { return e.Err }

// Usage returns err as a usageError. It returns nil and errors with an exit code of their own unchanged.
func Usage(err error) error {
	var exit ExitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	return usageError{err}
}

// Usagef returns a formatted usageError.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// ExitError carries an exit code other than 1, with or without a message.
type ExitError struct {
	Code run.Code
	Err  error
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}
func (e ExitError) Unwrap() error { return e.Err }

// Infeasiblef returns a formatted error with the exit code of a task that has no solution.
func Infeasiblef(format string, args ...any) error {
	return ExitError{run.CodeInfeasible, fmt.Errorf(format, args...)}
}

// ExitCode returns the exit code of a command that returned err.
func ExitCode(err error) run.Code {
	var usage usageError
	var exit ExitError
	switch {
	case err == nil:
		return run.CodeDone
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage):
		return run.CodeUsage
	}
	return run.CodeOurs
}

// signalError is an interrupt by a signal of the user.
type signalError struct{ Signal os.Signal }

// Error describes the effect of the signal: "stopped by Ctrl-C".
func (s signalError) Error() string {
	switch s.Signal {
	case os.Interrupt:
		return "stopped by Ctrl-C"
	case syscall.SIGQUIT:
		return `stopped by Ctrl-\`
	case syscall.SIGTERM:
		return "stopped by SIGTERM"
	case syscall.SIGHUP:
		return "stopped because the terminal closed"
	}
	return fmt.Sprintf("stopped by signal %v", s.Signal)
}

// Exitf returns a formatted error with the exit code of the signal.
func (s signalError) Exitf(format string, args ...any) error {
	code := run.CodeInterrupt
	if s.Signal == syscall.SIGTERM || s.Signal == syscall.SIGHUP {
		code = run.CodeTerminated
	}
	return ExitError{code, fmt.Errorf(format, args...)}
}

// UntilSignal returns a context that is cancelled at the first signal, and a function that releases its resources.
func (e *Env) UntilSignal() (context.Context, func()) {
	signals, stop := e.Listen()
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case s := <-signals:
			cancel(signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		stop()
	}
}

// Interrupted returns the signal that cancelled a context of UntilSignal, nil if no signal did.
func Interrupted(ctx context.Context) *signalError {
	var s signalError
	if !errors.As(context.Cause(ctx), &s) {
		return nil
	}
	return &s
}

// Work runs work that takes long, with a progress bar, until it ends or the user interrupts it. interrupt is nil unless
// a signal arrived; the error is that of work.
func (e *Env) Work(name string, work func(ctx context.Context, progress func(done, total int)) error) (elapsed time.Duration, interrupt *signalError, err error) {
	ctx, stop := e.UntilSignal()
	defer stop()
	from := e.Clock.Monotonic()
	bar := e.Bar(name, nil)
	err = work(ctx, bar.At)
	bar.Done()
	return e.Clock.Monotonic() - from, Interrupted(ctx), err
}
