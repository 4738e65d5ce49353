// Package remote runs jobs on the nodes of an engine such as Slurm. An agent submits each stretch of a run as one job of
// the engine; on the node, the same program (see Node) starts the training under a keeper of package launch, so that
// output, exit record, checkpoints and the dead-man's switch are those of a local run.
//
// Agent and node communicate by files in the run directory, which must be on a file system that both see:
//
//	stretches.json    every stretch that was submitted; written by the agent
//	owner.json        the stretch that may write; a node that finds a later one kills its job (fence)
//	stretches/N/      the files of stretch N, among them those of its keeper and the output of the training
//	    spec.json     what the stretch starts, and how; written by the agent
//	    request.json  what the agent wants of it: a state, not a message
//	    node.json     its condition, written each second by the node
//	    sample        the latest sample of the node and the job's processes
//	    rank-K/       the same of its node K, from 1, and what node K starts; spec and request are those above
//
// Several stretches may share one job of the engine, see holder.
//
// A node writes below the directory of its own stretch only, and reads nothing else but the fence and, before it starts
// the training, the state of earlier stretches. So one that the engine has lost cannot act on what is meant for its
// successor, however late its file system shows it the fence.
package remote

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"trainopt/internal/regular"
	"trainopt/monitor"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

const (
	// fileSchema is the version of the files; it changes when a field changes its meaning. With 1, the files of all
	// stretches were in the run directory itself.
	fileSchema = 2
	// ownerSchema is the version of owner.json, which nodes of every version must understand.
	ownerSchema = 1
)

// maxFile bounds the size of a file that is read.
const maxFile = 16 << 20

// spec is what a stretch starts. The environment is that of the submission; Env contains the variables that differ.
type spec struct {
	Schema     int                  `json:"schema"`
	Args       []string             `json:"args"`
	Dir        string               `json:"dir"`
	Env        []string             `json:"env"`
	Unset      []string             `json:"unset"`
	Allocation resources.Allocation `json:"allocation"`
	Limits     resources.Limits     `json:"limits"`
	Grace      time.Duration        `json:"grace_ns"`
	StopAfter  time.Duration        `json:"stop_after_ns"` // from the start of the job; 0: no limit
	StopIn     time.Duration        `json:"stop_in_ns"`    // from the writing of this file; 0: no limit
	Notice     time.Duration        `json:"notice_ns"`     // from the engine's SIGTERM to its SIGKILL
	Warn       time.Duration        `json:"warn_ns"`       // from the engine's SIGUSR1 to its SIGTERM
	Interval   time.Duration        `json:"interval_ns"`   // of the samples
	PTY        bool                 `json:"pty,omitempty"`
	Nodes      int                  `json:"nodes,omitempty"` // on each of which Args is started; 0 means 1
	// Reports is the directory of the observer's reports; empty without an observer.
	Reports string `json:"reports,omitempty"`
}

// request is the state that the agent wants of a stretch.
type request struct {
	Schema int `json:"schema"`
	// Limit counts the changes of StopAfter, which runs from the moment at which the node reads it, so that clocks need
	// not agree.
	Limit       int            `json:"limit"`
	StopAfter   time.Duration  `json:"stop_after_ns"` // 0: no limit
	Checkpoints int            `json:"checkpoints"`
	Stop        *time.Duration `json:"stop_grace_ns,omitempty"` // ends the job, with this grace
	// Leave ends the job as a SIGTERM of the engine would: save, then exit.
	Leave      bool `json:"leave,omitempty"`
	Interrupts int  `json:"interrupts,omitempty"` // number of SIGINTs to send
}

// phase is the condition of a stretch on its node.
type phase string

const (
	ready   phase = "ready"   // the node is held; the job is not started yet
	running phase = "running" // the job runs
	ended   phase = "ended"   // Exit is set
	fenced  phase = "fenced"  // another stretch owns the run; the job was killed
)

// nodeState is the content of node.json.
type nodeState struct {
	Schema    int           `json:"schema"`
	Phase     phase         `json:"phase"`
	Host      string        `json:"host"`
	Node      string        `json:"node"` // the engine's name of the host
	EngineID  string        `json:"engine_id,omitempty"`
	Life      string        `json:"life,omitempty"` // how often the engine had started the stretch before
	Held      time.Time     `json:"held"`           // start of the stretch on its node, wall clock of the node
	Started   time.Time     `json:"started"`
	Wall      time.Time     `json:"wall"`         // of this state
	Monotonic time.Duration `json:"monotonic_ns"` // the same moment on the node's monotonic clock
	Beat      int           `json:"beat"`         // increases with each state
	Enforced  []string      `json:"enforced,omitempty"`
	Handle    launch.Handle `json:"handle"` // of the job on the node
	CPUs      float64       `json:"cpus"`   // of the machine
	// Signal is the signal by which the engine ended the stretch, or announced its end; empty if it did not.
	Signal string       `json:"signal,omitempty"`
	Asked  bool         `json:"asked,omitempty"` // the job was asked to save and exit on that signal
	Exit   *launch.Exit `json:"exit,omitempty"`
	// Meeting is where the processes of several nodes find each other, HOST:PORT; of the first node.
	Meeting string `json:"meeting,omitempty"`
	// Over is set when the job of the first node has ended, and those of the others are awaited.
	Over bool `json:"over,omitempty"`
	// Failure is why the job was not started.
	Failure string `json:"failure,omitempty"`
}

type owner struct {
	Schema  int `json:"schema"`
	Stretch int `json:"stretch"`
}

const (
	ownerFile     = "owner.json" // in the run directory, as the next
	stretchesFile = "stretches.json"
	specFile      = "spec.json" // in that of a stretch, as the following
	requestFile   = "request.json"
	nodeFile      = "node.json"
	sampleFile    = "sample"
	logFile       = "supervisor.out" // the output of the supervisor itself
)

// readJSON reads a file of a directory. A network file system revalidates a file when it is opened, so each call
// opens it again.
func readJSON(dir, name string, into any) error {
	data, err := regular.ReadFile(filepath.Join(dir, name), maxFile)
	if err != nil {
		return err
	}
	var v struct{ Schema int }
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if v.Schema > fileSchema {
		return fmt.Errorf("read %s: schema %d, this program knows %d: %w", name, v.Schema, fileSchema, launch.ErrNewer)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// writeJSON replaces a file of a directory atomically and durably.
func writeJSON(dir, name string, v any) error {
	return regular.WriteJSON(filepath.Join(dir, name), 0o600, v)
}

// replace writes a file that is only of interest while its writer lives: atomically, but without a sync of the disk.
func replace(dir, name string, encode func(w io.Writer) error) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(encode(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, regular.Reason(err))
	}
	return os.Rename(path+".new", path)
}

// stretches is the content of stretches.json.
type stretches struct {
	Schema int              `json:"schema"`
	List   []engine.Stretch `json:"stretches"`
}

// Stretches returns the stretches of a run, oldest first; none if the run was never submitted to an engine.
func Stretches(runDir string) ([]engine.Stretch, error) {
	var s stretches
	err := readJSON(runDir, stretchesFile, &s)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return s.List, err
}

// writeSample replaces the sample of a stretch. The encoding keeps readings that are not available (NaN).
func writeSample(dir string, s monitor.Sample) error {
	return replace(dir, sampleFile, func(w io.Writer) error { return gob.NewEncoder(w).Encode(s) })
}

// shift moves the wall-clock times of a state.
func (s *nodeState) shift(by time.Duration) {
	for _, t := range []*time.Time{&s.Held, &s.Started, &s.Wall} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	if s.Exit != nil {
		s.Exit.At = s.Exit.At.Add(by)
	}
}

func readSample(dir string) (monitor.Sample, error) {
	var s monitor.Sample
	f, err := regular.Open(filepath.Join(dir, sampleFile), maxFile)
	if err != nil {
		return s, err
	}
	defer f.Close()
	err = gob.NewDecoder(f).Decode(&s)
	return s, err
}
