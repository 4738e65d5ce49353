package launch

import (
	"context"
	"os"
	"time"

	"trainopt/resources"
)

// Command is what to start and how.
type Command struct {
	Args []string // argv; Args[0] is a path or a name looked up on PATH. No shell is involved.
	Dir  string   // working directory
	Env  []string // the whole environment of the job
	// PTY gives the job a pseudo-terminal for each of stdout and stderr, instead of pipes.
	PTY bool
	// RunDir is where the job's own files go: job.stdout, job.stderr, keeper.json, exit.json.
	RunDir string
	// Allocation and Limits are enforced as far as this machine allows.
	Allocation resources.Allocation
	Limits     resources.Limits
	// Grace is the time between SIGTERM and SIGKILL; 0 means 30 s.
	Grace time.Duration
	// StopAfter is the longest the job may run even if the agent is dead (the guard's dead-man's
	// switch); 0 means no limit.
	StopAfter time.Duration
}

// ExitReason is why a job is no longer running.
type ExitReason string

const (
	Exited      ExitReason = "exited"       // by itself, with Code
	Killed      ExitReason = "killed"       // by a signal that was not ours
	OOM         ExitReason = "oom"          // by the kernel, memory limit or machine memory
	Stopped     ExitReason = "stopped"      // by us, on Stop, Checkpoint or StopAfter
	StartFailed ExitReason = "start-failed" // never ran
	Lost        ExitReason = "lost"         // gone without a record (machine restart, keeper killed)
)

// Exit is how a job ended. Code is the exit code, -1 when it died of a signal; Signal is then its
// name ("SIGSEGV"), else empty.
type Exit struct {
	Reason ExitReason    `json:"reason"`
	Code   int           `json:"code"`
	Signal string        `json:"signal,omitempty"`
	Detail string        `json:"detail,omitempty"` // one line for people
	At     time.Time     `json:"at"`
	Ran    time.Duration `json:"ran_ns"` // start to end on the monotonic clock
	// PeakMemoryGiB and CPUSeconds are the kernel's own totals where it has them, else NaN (written as null).
	PeakMemoryGiB *float64 `json:"peak_memory_gib"`
	CPUSeconds    *float64 `json:"cpu_seconds"`
}

// Handle names a job so that another agent can find it again: process ids with their start times.
type Handle struct {
	RunDir      string `json:"run_dir"`
	KeeperPID   int    `json:"keeper_pid"`
	KeeperStart uint64 `json:"keeper_start"` // clock ticks since boot, /proc/PID/stat field 22
	PID         int    `json:"pid"`
	Start       uint64 `json:"start"`
	BootID      string `json:"boot_id"`
	// StandbyPID is the parent of the keeper, which replaces it should it die; 0 when it has none.
	StandbyPID   int    `json:"standby_pid,omitempty"`
	StandbyStart uint64 `json:"standby_start,omitempty"`
}

// Job is a running process tree under control.
type Job interface {
	Handle() Handle
	// PIDs lists the processes of the tree now.
	PIDs() ([]int, error)
	// Enforced says in words what of the allocation is enforced and what is not, and why.
	Enforced() []string
	// Apply changes the CPU and memory part of the allocation on the running tree; it returns what could not be changed.
	Apply(a resources.Allocation) (notApplied []string, err error)
	// SetStopAfter moves the dead-man's switch to d from now; 0 removes it.
	SetStopAfter(d time.Duration) error
	// Checkpoint asks the job to save and leave (SIGUSR1 to its main process). It does not wait.
	Checkpoint() error
	// Signal sends a signal to the process group.
	Signal(sig os.Signal) error
	// Stop ends the tree: SIGTERM to the group, grace, SIGKILL to whatever is left. It waits at most grace + 15 s.
	Stop(ctx context.Context, grace time.Duration) (Exit, error)
	// Done is closed when the tree has ended; then Exit says how.
	Done() <-chan struct{}
	Exit() Exit
	// Close lets go of the job without stopping it.
	Close() error
}

// Launcher starts jobs and finds them again.
type Launcher interface {
	Name() string // "local", "slurm"
	Start(ctx context.Context, c Command) (Job, error)
	// Adopt takes control of a job that an earlier agent started: running, or ended while nobody watched.
	Adopt(ctx context.Context, h Handle) (Job, error)
}
