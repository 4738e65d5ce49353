// Package engine describes systems that run jobs on machines other than this one, such as Slurm. A run consists of
// stretches; a stretch is one job of the engine, which is never changed after it has started: another allocation is
// another stretch.
//
// An engine only decides where and when a process runs. What a training does, and how it ended, is recorded by the
// supervisor of package launch, which the engine starts on the compute node.
package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/sla"
)

// Engine is a system that runs jobs. Methods that ask the engine fail with ErrUnreachable if it does not answer; the
// condition of the jobs is then unknown.
type Engine interface {
	// Name is the name of the engine in --engine, such as "slurm".
	Name() string
	// Offers lists the kinds of nodes that the user may ask for.
	Offers(ctx context.Context) ([]Offer, error)
	// Submit submits one stretch and returns the engine's id of the job. It is idempotent on Request.Key: a job of
	// that key that is pending or running is returned and not submitted again.
	Submit(ctx context.Context, r Request) (id string, err error)
	// List returns the jobs of the given keys that the engine knows, in one request. A key without a job is absent,
	// which does not mean that its job has ended.
	List(ctx context.Context, keys ...string) ([]Status, error)
	// Signal sends a signal to the supervisor of a running job.
	Signal(ctx context.Context, id string, sig syscall.Signal) error
	// Cancel ends a pending or running job. A job that has ended is no error.
	Cancel(ctx context.Context, id string) error
	// Account returns every life of the jobs from the engine's accounting, in order of their start. It lags behind
	// the events: only a Life with Final set is the last word.
	Account(ctx context.Context, ids ...string) ([]Life, error)
}

// ErrUnreachable reports that the engine did not answer: its controller or its database is down, or too slow.
var ErrUnreachable = errors.New("the engine does not answer")

// ErrRefused reports that the engine refused a request; the text that wraps it quotes the engine's reason.
var ErrRefused = errors.New("the engine refused")

// Place is what a stretch asks for. Zero fields are left to the engine.
type Place struct {
	Partition string        `json:"partition,omitempty"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Nodes     int           `json:"nodes,omitempty"` // 0 means 1
	GPUs      int           `json:"gpus,omitempty"`  // per node
	CPUs      int           `json:"cpus,omitempty"`  // per node
	Memory    resources.GiB `json:"memory_gib,omitempty"`
	Avoid     []string      `json:"avoid,omitempty"` // names of nodes not to be used
	// Hold is a directory by which stretches find each other that run in the same job of the engine and share what it
	// holds; empty: a job of its own.
	Hold string `json:"hold,omitempty"`
}

// Kind identifies a kind of node, as a job can ask for it.
type Kind struct {
	Partition string `json:"partition,omitempty"`
	GPUType   string `json:"gpu_type,omitempty"` // empty: any, or no GPU
}

// String formats the kind as a short phrase.
func (k Kind) String() string {
	if k.GPUType == "" {
		return "nodes of partition " + k.Partition
	}
	return k.GPUType + " of partition " + k.Partition
}

// String formats the place as a short phrase.
func (p Place) String() string {
	var parts []string
	if p.Partition != "" {
		parts = append(parts, "partition "+p.Partition)
	}
	if p.Nodes > 1 {
		parts = append(parts, fmt.Sprintf("%d nodes", p.Nodes))
	}
	if p.GPUs > 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d GPU %s", p.GPUs, p.GPUType)))
	}
	if p.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d CPU", p.CPUs))
	}
	if p.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.4g GiB", float64(p.Memory)))
	}
	return strings.Join(parts, ", ")
}

// Request is one stretch to submit.
type Request struct {
	Key       string        // the name of the job, unique to the stretch: optimize.RUN.STRETCH
	Comment   string        // stored with the job; for people and for finding it again
	Argv      []string      // absolute path of the program and its arguments, the same on every node
	Env       []string      // environment of the submission, which the job inherits; nil: that of this process
	Dir       string        // working directory, absolute
	Output    string        // file for the output of the supervisor itself, absolute
	Place     Place         // what it runs on
	TimeLimit time.Duration // 0: that of the partition for jobs that ask for none
	Unlimited bool          // asks for no limit, instead of TimeLimit
	// Warn is the time before the end of TimeLimit at which the supervisor is sent SIGUSR1; 0: no signal.
	Warn  time.Duration
	Extra []string // options of the site, passed through: --account=…, --qos=…; those for GPUs only if Place has none
	// Tasks is the number of independent processes that the job consists of; 0: one, which is not an array. The number
	// of the process, from 0, is appended to Argv and, after a dot, to Output. Place is that of each. Status and Life
	// are of one process; Cancel with the id that Submit returned ends all.
	Tasks    int
	Parallel int // processes of Tasks that may run at the same time; 0: all
}

// runKey matches the key of a stretch, whose run id is a time, the name of the training and random digits.
var runKey = regexp.MustCompile(`^optimize\.\d{8}-\d{6}-(.+)-[0-9a-f]+\.\d+$`)

// TrainingOf returns the name of the training in the key of a stretch: jobs of one name have similar run times. Any other
// name of a job is returned unchanged.
func TrainingOf(key string) string {
	if m := runKey.FindStringSubmatch(key); m != nil {
		return m[1]
	}
	return key
}

// State is the condition of a job.
type State string

// States of a job. Unknown is any state that does not tell whether the job runs.
const (
	Pending State = "pending"
	Running State = "running"
	Ending  State = "ending" // it has been asked to end, or its resources are being released
	Ended   State = "ended"
	Unknown State = "unknown"
)

// Status is the engine's present view of a job. Unknown times are zero.
type Status struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	State     State     `json:"state"`
	Raw       string    `json:"raw"`              // the engine's own word, such as COMPLETING
	Reason    string    `json:"reason,omitempty"` // why it waits or ended, in the engine's words
	Submitted time.Time `json:"submitted"`
	Started   time.Time `json:"started"`
	Expected  time.Time `json:"expected"` // the engine's own estimate of the start
	Nodes     []string  `json:"nodes,omitempty"`
	Restarts  int       `json:"restarts"` // how often the engine has started the job again
}

// Entry is the present view of a job of any user, such as the one that contains this process.
type Entry struct {
	State State
	Raw   string    // the engine's own word, such as TIMEOUT
	End   time.Time // by the time limit or, once it has ended, the real end; zero: no limit, or unknown
	// Restarts is how often the engine has started the job again.
	Restarts int
}

// Life is one life of a job in the engine's accounting: a job that was requeued has several, all of which are paid.
// Pointers are nil where the site records nothing, which differs from 0.
type Life struct {
	ID        string        `json:"id"`
	Key       string        `json:"key"`                 // that of the request; an engine that lost its records may assign an ID again
	State     string        `json:"state"`               // the engine's own word, such as NODE_FAIL
	Final     bool          `json:"final"`               // it has ended and has an end time
	Cancelled string        `json:"cancelled,omitempty"` // the user who cancelled it; empty if none did
	Submitted time.Time     `json:"submitted"`
	Started   time.Time     `json:"started"` // zero: it never ran
	Ended     time.Time     `json:"ended"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	Nodes     []string      `json:"nodes,omitempty"`
	Code      int           `json:"code"`
	Signal    int           `json:"signal"`
	GPUs      int           `json:"gpus"` // of all nodes, as CPUs and Memory
	GPUType   string        `json:"gpu_type,omitempty"`
	CPUs      int           `json:"cpus"`
	Memory    resources.GiB `json:"memory_gib"`
	PeakGiB   *float64      `json:"peak_memory_gib"` // of the step that used most
	CPUSecs   *float64      `json:"cpu_seconds"`
	Joules    *float64      `json:"energy_joules"`
	// Share is the part of Elapsed that is paid of an allocation shared with others; nil: all of it.
	Share *time.Duration `json:"share_ns,omitempty"`
}

// Stretch is one job of the engine in the record of a run. Unknown times are zero.
type Stretch struct {
	N         int                  `json:"n"` // from 1
	Engine    string               `json:"engine"`
	Key       string               `json:"key"`
	ID        string               `json:"id"` // empty until the engine has accepted it
	Place     Place                `json:"place"`
	Alloc     resources.Allocation `json:"allocation"`
	Submitted time.Time            `json:"submitted"`
	Started   time.Time            `json:"started"`
	Ended     time.Time            `json:"ended"`
	State     string               `json:"state,omitempty"` // the engine's word for its end
	Nodes     []string             `json:"nodes,omitempty"`
	// Confirmed is set when Started and Ended are those of the engine's accounting.
	Confirmed bool `json:"confirmed"`
	// Corrected is the paid time by the accounting less that which was charged, if it was confirmed after the charge.
	Corrected time.Duration `json:"corrected_ns,omitempty"`
	// Share is the part of the time from Started to Ended that is paid of an allocation shared with others, once it has
	// ended; 0: all of it.
	Share time.Duration `json:"share_ns,omitempty"`
}

// Forecast is the predicted start of a job at a place.
type Forecast struct {
	Place    Place
	Wait     sla.Interval // seconds
	ByLimits float64      // seconds, if every job used up its time limit; NaN if unknown
	Ahead    int          // jobs that are considered before it
	Observed int          // jobs whose run lengths the forecast is based on
	Rates    *cost.Rates  // of the place; nil: those of the run
	Words    string       // the start as one phrase: "starts 14:10 (13:50–15:30): 3 jobs ahead"
	// Same is true for nodes of the kind that the run plans for, where its predicted run time applies.
	Same bool
}
