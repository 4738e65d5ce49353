package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"trainopt/optimizer/engine"
)

// Command is a command to execute.
type Command struct {
	Argv  []string // name, searched on PATH, and arguments
	Env   []string // the whole environment
	Stdin string
}

// Result is the outcome of a command.
type Result struct {
	Stdout, Stderr string
	Code           int // exit status; -1 if a signal ended it
}

// timeout bounds every command. Without it squeue waits a minute and longer for a controller that does not answer.
const timeout = 10 * time.Second

// maxOutput bounds each output of a command, in bytes.
const maxOutput = 64 << 20

// query executes a command whose output is parsed or ignored, in the environment of this process.
func (e *Engine) query(ctx context.Context, argv ...string) (string, error) {
	return e.execute(ctx, Command{Argv: argv, Env: queryEnvironment(os.Environ())})
}

// execute executes a command and returns its standard output. The error wraps engine.ErrUnreachable if Slurm did not
// answer, engine.ErrRefused with Slurm's own words if the command failed, and the error of the context if that ended.
func (e *Engine) execute(ctx context.Context, c Command) (string, error) {
	run := e.Run
	if run == nil {
		run = runCommand
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := run(bounded, c)
	name := c.Argv[0]
	switch {
	case err == nil && r.Code == 0:
		return r.Stdout, nil
	case err == nil && isUnreachable(r.Stderr):
		return "", fmt.Errorf("%s: %w: %s", name, engine.ErrUnreachable, quote(r))
	case err == nil:
		return "", refusal{fmt.Errorf("%s: %w: %s", name, engine.ErrRefused, quote(r)), atSubmitLimit(r.Stderr)}
	case errors.Is(ctx.Err(), context.Canceled):
		return "", fmt.Errorf("%s: %w", name, ctx.Err())
	case bounded.Err() != nil:
		return "", fmt.Errorf("%s: %w: no answer in time: %w", name, engine.ErrUnreachable, bounded.Err())
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s: %w: install the Slurm client (Debian: slurm-client), or run where it is installed", name, exec.ErrNotFound)
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// runCommand executes a command on this machine, in a process group of its own, which is killed when the context ends.
func runCommand(ctx context.Context, c Command) (Result, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env = c.Env
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	var out, errs limitedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Stdout: out.content.String(), Stderr: errs.content.String(), Code: cmd.ProcessState.ExitCode()}, nil
}

// limitedBuffer is a writer that retains at most maxOutput bytes; a longer output is an error, not a truncated table.
type limitedBuffer struct{ content bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.content.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("output of more than %d bytes", maxOutput)
	}
	return b.content.Write(p)
}

// unreachable lists parts, in lower case, of the messages of Slurm's commands when the controller, the database or the
// authentication service does not answer.
var unreachable = []string{
	"unable to contact slurm",
	"unable to connect to database",
	"connection refused",
	"connection reset by peer",
	"connection timed out",
	"timed out on send/recv",
	"no route to host",
	"communication connection failure",
	"zero bytes were transmitted",
	"transport endpoint is not connected",
	"problem talking to the database",
	"failed to open persistent connection",
	"standby mode",
	"temporarily unable to accept job",
	"resource temporarily unavailable",
	"protocol authentication error",
	"munge encode failed",
	"munge decode failed",
	"could not establish a configuration source",
}

func isUnreachable(stderr string) bool {
	text := strings.ToLower(stderr)
	return slices.ContainsFunc(unreachable, func(part string) bool { return strings.Contains(text, part) })
}

// refusal is an engine.ErrRefused.
type refusal struct {
	error
	later bool
}

func (e refusal) Unwrap() error { return e.error }

// TryLater reports whether Slurm refused a job only because the user, the account or the QOS has too many at present.
func (e refusal) TryLater() bool { return e.later }

var (
	limitName   = regexp.MustCompile(`\b(Assoc|QOS)\w+Limit\b`)
	submitLimit = regexp.MustCompile(`\b(Assoc|QOS)\w*SubmitJobs?\w*Limit\b`)
)

// atSubmitLimit reports whether a message of sbatch is that of a limit of the number of jobs. Its last line is the same for limits of
// the size and time of a job, which later attempts exceed too; the line before names the limit, except in old versions.
func atSubmitLimit(stderr string) bool {
	if limitName.MatchString(stderr) {
		return submitLimit.MatchString(stderr)
	}
	return strings.Contains(stderr, "job submit limit")
}

// hasEnded reports whether a refusal means that the job has ended.
func hasEnded(err error) bool {
	text := err.Error()
	return errors.Is(err, engine.ErrRefused) &&
		(strings.Contains(text, "Invalid job id") || strings.Contains(text, "already completing or completed"))
}

// quote returns the messages of a failed command on one line, without their prefixes and repetitions.
func quote(r Result) string {
	var lines []string
	for line := range strings.Lines(r.Stderr) {
		for _, prefix := range []string{"sbatch: ", "squeue: ", "scancel: ", "sinfo: ", "sacct: ", "error: ", "fatal: "} {
			line = strings.TrimPrefix(line, prefix)
		}
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return fmt.Sprintf("exit status %d without a message", r.Code)
	}
	const most = 1000
	text := strings.Join(lines, "; ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// queryEnvironment returns an environment in which the output of commands depends on their arguments only. Times are
// printed in UTC, in which no hour occurs twice.
func queryEnvironment(environ []string) []string {
	defaults := []string{"SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_", "SCONTROL_", "SLURM_TIME_FORMAT=", "SLURM_BITSTR_LEN=", "LC_", "LANG=", "LANGUAGE=", "TZ="}
	out := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return slices.ContainsFunc(defaults, func(prefix string) bool { return strings.HasPrefix(entry, prefix) })
	})
	return append(out, "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard")
}

// submitEnvironment returns the environment of sbatch, which the job inherits. Variables that describe the allocation of
// this process are left out: Slurm sets those that apply to the new job, and srun refuses contradictory ones. So are the
// variables by which sbatch would wait, submit an array, or submit to another cluster than the one that squeue shows.
func submitEnvironment(environ []string) []string {
	inAllocation := slices.ContainsFunc(environ, func(entry string) bool {
		return strings.HasPrefix(entry, "SLURM_JOB_ID=") || strings.HasPrefix(entry, "SLURM_JOBID=")
	})
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "SBATCH_WAIT", "SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_ERROR":
			return true
		case "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_UMASK", "SLURM_TIME_FORMAT":
			return false
		}
		return inAllocation && (strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SLURMD_"))
	})
}
