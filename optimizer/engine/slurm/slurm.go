// Package slurm runs stretches as batch jobs of Slurm, from version 20.11 on. It uses Slurm's commands, not its library
// and not its REST interface, whose schema changes with every release: the commands sbatch, squeue, scancel, sinfo,
// scontrol and sacct are called with fixed output formats, and their output is parsed by the names of its columns.
//
// Every command is bounded in time, has a process group of its own, and does not depend on the user's locale, time zone
// or SQUEUE_FORMAT and similar variables. The package decides nothing: it neither repeats a request nor interprets the
// end of a job.
//
//	e := &slurm.Engine{}
//	id, err := e.Submit(ctx, engine.Request{Key: "optimize.r1.1", Argv: []string{"/opt/optimize", "--version"}, Dir: "/scratch", Output: "/scratch/out"})
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"trainopt/optimizer/engine"
)

// Engine is the Slurm that the commands on PATH belong to. The zero value is ready to use, and its methods may be called
// concurrently.
type Engine struct {
	// Run executes a command; nil executes it on this machine. It fails if the command could not be started, or with the
	// error of the context if that ended first. Any exit status is a Result.
	Run func(ctx context.Context, c Command) (Result, error)
	// Folder holds the answer of squeue, which all processes of the user on this machine share. It must be accessible to
	// the user alone. "" is the user's runtime folder; if Run is set, nothing is shared then.
	Folder string

	now func() time.Time // nil: time.Now; for tests
}

var _ engine.Engine = (*Engine)(nil)

// Name returns "slurm".
func (e *Engine) Name() string { return "slurm" }

// Signal sends a signal to the batch script of a running job, whose process exec has replaced with the supervisor, and
// to no other process of the job. The state of the job is queried first: scancel tries for more than a minute to signal
// a job that waits. Slurm accepts a signal for a job that is just ending without an error.
func (e *Engine) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("signal job: %w", err)
	}
	err := e.requireRunning(ctx, id)
	if err == nil {
		_, err = e.query(ctx, "scancel", "--batch", "--signal="+strconv.Itoa(int(sig)), id)
	}
	if err != nil {
		return fmt.Errorf("send signal %d to job %s: %w", int(sig), id, err)
	}
	return nil
}

// requireRunning returns an error unless squeue lists the job as running.
func (e *Engine) requireRunning(ctx context.Context, id string) error {
	out, err := e.query(ctx, "squeue", "--all", "--jobs="+id, "--states=all", "--Format="+queueFormat)
	if err != nil {
		return err
	}
	jobs, err := parseQueue(out)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if job.ID != id {
			continue
		}
		if job.State == engine.Running {
			return nil
		}
		return fmt.Errorf("%w: the job is %s", engine.ErrRefused, job.Raw)
	}
	return fmt.Errorf("%w: squeue does not list the job", engine.ErrRefused)
}

// Cancel ends a job: all processes of a running one receive SIGCONT and SIGTERM, and after the site's KillWait SIGKILL.
// A job that has ended, or that the controller has removed, is no error.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("cancel job: %w", err)
	}
	if _, err := e.query(ctx, "scancel", id); err != nil && !hasEnded(err) {
		return fmt.Errorf("cancel job %s: %w", id, err)
	}
	return nil
}

// Account returns the lives of jobs from sacct. A number that Slurm has assigned again after the site lost its records
// belongs to the job that was submitted last; lives of other names are left out. The lives are valid also with an error
// that wraps *BadLines.
func (e *Engine) Account(ctx context.Context, ids ...string) ([]engine.Life, error) {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, fmt.Errorf("account jobs: %w", err)
		}
	}
	var lives []engine.Life
	var skipped error
	for chunk := range slices.Chunk(ids, maxAccounted) {
		out, err := e.query(ctx, "sacct", "--duplicates", "--parsable2", "--format="+AccountingFields, "--jobs="+strings.Join(chunk, ","))
		if err != nil {
			return nil, fmt.Errorf("account jobs: %w", err)
		}
		jobs, err := ReadAccounting(strings.NewReader(out))
		if bad := (*BadLines)(nil); errors.As(err, &bad) {
			skipped = fmt.Errorf("account jobs: %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("account jobs: %w", err)
		}
		lives = append(lives, toLives(jobs)...)
	}
	sortLives(lives)
	return lives, skipped
}

// maxAccounted bounds the jobs of one sacct, whose list of jobs is one argument of limited length.
const maxAccounted = 2000

// number matches the id of a job, which is passed to commands as an argument.
var number = regexp.MustCompile(`^[1-9][0-9]{0,9}$`)

func checkID(id string) error {
	if !number.MatchString(id) {
		return fmt.Errorf("%q is not the number of a Slurm job", id)
	}
	return nil
}

// key matches the names of jobs that squeue --name accepts in a list and that its output shows unchanged.
var key = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

func checkKey(k string) error {
	if !key.MatchString(k) {
		return fmt.Errorf("%q as the name of a job: only letters, digits and . _ + - are possible", k)
	}
	return nil
}

// user is the user whose jobs are listed, by number, which squeue accepts without a look-up of the name.
func user() string { return strconv.Itoa(os.Getuid()) }
