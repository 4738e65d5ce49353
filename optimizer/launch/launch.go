package launch

import (
	"context"
	"os"
	"time"

	"trainopt/resources"
)

// Command is the program to start and its run-time settings.
type Command struct {
	Args []string // argv; Args[0] is a path or a name looked up on PATH. No shell is involved.
	Dir  string   // working directory
	Env  []string // the whole environment of the job
	// Stdin is the standard input of the job, which reads it directly: no process of this package does. nil means an
	// empty one. Engines that run jobs elsewhere ignore it.
	Stdin *os.File
	// PTY gives the job a pseudo-terminal for each of stdout and stderr, instead of pipes.
	PTY bool
	// RunDir is the directory of the run's own files: job.stdout, job.stderr, keeper.json, exit.json.
	RunDir string
	// Allocation and Limits are enforced as far as the machine allows; Job.Enforced reports the result.
	Allocation resources.Allocation
	Limits     resources.Limits
	// KeepsDevices means that CUDA_VISIBLE_DEVICES in Env is that of the user.
	KeepsDevices bool
	// Grace is the time between SIGTERM and SIGKILL; 0 means 30 s.
	Grace time.Duration
	// StopAfter limits the run time of the job even if the agent is dead (the guard's dead-man's switch); 0 means no
	// limit.
	StopAfter time.Duration
	// StopBy is the wall-clock time of a deadline that also passes while the job waits for its place; zero means none.
	// An engine without a queue ignores it.
	StopBy time.Time
	// Tied stops the job, as StopAfter does, if the process that started it dies.
	Tied bool
	// Reports is the directory in which an observer inside the job answers requests to save; empty without one.
	Reports string
}

// ExitReason is why a job has ended.
type ExitReason string

const (
	Exited      ExitReason = "exited"       // by itself, with Code
	Killed      ExitReason = "killed"       // by a signal that this package did not send
	OOM         ExitReason = "oom"          // by the kernel, at the memory limit or for lack of memory on the machine
	Stopped     ExitReason = "stopped"      // by this package, on Stop, Checkpoint or StopAfter
	StartFailed ExitReason = "start-failed" // the program was never executed
	Lost        ExitReason = "lost"         // ended without a record (machine restart, keeper and standby killed)
	Preempted   ExitReason = "preempted"    // ended by the engine: preemption, time limit, failure of a node
	Cancelled   ExitReason = "cancelled"    // cancelled in the engine by a person
)

// Exit is the end of a job. Code is the exit code, -1 if the job died of a signal; Signal is then its name
// ("SIGSEGV"), otherwise empty.
type Exit struct {
	Reason ExitReason `json:"reason"`
	Code   int        `json:"code"`
	Signal string     `json:"signal,omitempty"`
	Detail string     `json:"detail,omitempty"` // one line for the user
	// Limit is true if the supervisor stopped the job at its time limit (Command.StopAfter).
	Limit bool `json:"limit,omitempty"`
	// MemoryHeld is true if the kernel is known to have killed no process of the job, and of its machine or container, for lack of
	// memory since it began.
	MemoryHeld bool `json:"memory_held,omitempty"`
	// LostBytes is the amount of output that could not be written, as on a full disk.
	LostBytes int64 `json:"lost_bytes,omitempty"`
	// Outlived describes the processes that were ended because they ran on after the main process had ended by itself; empty
	// without any.
	Outlived string `json:"outlived,omitempty"`
	// MainRan is the time after which the main process had ended, with Outlived.
	MainRan time.Duration `json:"main_ran_ns,omitempty"`
	At      time.Time     `json:"at"`
	Ran     time.Duration `json:"ran_ns"` // start to end on the monotonic clock
	// PeakMemoryGiB and CPUSeconds are the kernel's totals; nil (null in JSON) where it keeps none.
	PeakMemoryGiB *float64 `json:"peak_memory_gib"`
	CPUSeconds    *float64 `json:"cpu_seconds"`
	// PeakAtMost reports that PeakMemoryGiB is that of the process that became the job: its own peak is no more.
	PeakAtMost bool `json:"peak_at_most,omitempty"`
	// PeakResident reports that PeakMemoryGiB is the largest resident set of one process, which includes the pages of files that
	// it maps: no measurement of the job's memory.
	PeakResident bool `json:"peak_resident,omitempty"`
	// Held is the time for which an engine held the job's place, and charges; 0 means Ran.
	Held time.Duration `json:"held_ns,omitempty"`
	// Share is the part of Held that is paid of a place shared with other jobs; 0: all of it.
	Share time.Duration `json:"share_ns,omitempty"`
}

// Handle identifies a job, so that another agent can find it again: process ids with their start times.
type Handle struct {
	RunDir      string `json:"run_dir"`
	KeeperPID   int    `json:"keeper_pid"`
	KeeperStart uint64 `json:"keeper_start"` // clock ticks since boot, /proc/PID/stat field 22
	PID         int    `json:"pid"`
	Start       uint64 `json:"start"`
	BootID      string `json:"boot_id"`
	// StandbyPID is the parent of the keeper, which replaces a dead keeper; 0 means no standby.
	StandbyPID   int    `json:"standby_pid,omitempty"`
	StandbyStart uint64 `json:"standby_start,omitempty"`
	// Engine is the engine of a job on other machines, and EngineID its job there; the process ids are then 0. Stretch
	// is the number of the stretch in the run.
	Engine   string `json:"engine,omitempty"`
	EngineID string `json:"engine_id,omitempty"`
	Stretch  int    `json:"stretch,omitempty"`
}

// Job is a supervised job of any engine. What only some engines can do is in Resizer and ProcessTree, which a Job may
// implement too.
type Job interface {
	Handle() Handle
	// Enforced describes, one line each, which parts of the allocation are enforced, which are not, and why.
	Enforced() []string
	// SetStopAfter moves the dead-man's switch to d from now; 0 removes it.
	SetStopAfter(d time.Duration) error
	// Checkpoint asks the job to save a checkpoint and exit (SIGUSR1 to its main process). It does not wait.
	Checkpoint() error
	// Stop ends the job: SIGTERM, grace, SIGKILL to the remaining processes. It waits at most grace + 15 s.
	Stop(ctx context.Context, grace time.Duration) (Exit, error)
	// Done is closed when all processes of the job have ended; Exit then returns the exit record.
	Done() <-chan struct{}
	Exit() Exit
	// Close releases the job without stopping it.
	Close() error
}

// Resizer is a Job whose allocation can be changed while it runs.
type Resizer interface {
	// Apply changes the CPU and memory part of the allocation of the running job; it returns the parts that could not
	// be changed.
	Apply(a resources.Allocation) (notApplied []string, err error)
}

// ProcessTree is a Job whose processes run on this machine.
type ProcessTree interface {
	// Began is the reading of the machine's monotonic clock at the start of the program; 0 if unknown.
	Began() time.Duration
	// PIDs lists the living processes of the job.
	PIDs() ([]int, error)
	// Signal sends a signal to the process group of the job.
	Signal(sig os.Signal) error
}

// Queued is a Job that may wait for its place: Start has returned, but nothing runs and nothing is charged yet.
type Queued interface {
	// Started is closed when the job runs. A job that ends before that only closes Done.
	Started() <-chan struct{}
	// HeldSince is the time from which the place is held and charged, on this machine's wall clock; zero if unknown.
	HeldSince() time.Time
	// Waiting describes what the job waits for, or where it runs, as one phrase.
	Waiting() string
}

// Preparer is a Launcher that can obtain the place of the next job of a run while the present one still runs. Start then
// uses it if it asks for the same place.
type Preparer interface {
	Prepare(ctx context.Context, c Command) (Preparation, error)
}

// Preparation is a place that is being obtained.
type Preparation interface {
	// Ready is closed when the place is held; it is charged from then on.
	Ready() <-chan struct{}
	// Done is closed when the engine has ended it.
	Done() <-chan struct{}
	// Waiting describes what it waits for, as one phrase.
	Waiting() string
	// Withdraw gives the place up. It does not wait.
	Withdraw()
}

// Launcher starts jobs and finds them again.
type Launcher interface {
	Start(ctx context.Context, c Command) (Job, error)
	// Adopt takes control of a job that an earlier agent started, whether it still runs or has ended meanwhile.
	Adopt(ctx context.Context, h Handle) (Job, error)
	// Find returns the handle of the job that was last started in a run directory, as recorded by its supervisor, for an
	// agent whose predecessor died before it had saved the handle. The error is fs.ErrNotExist if no job was started.
	Find(runDir string) (Handle, error)
}
