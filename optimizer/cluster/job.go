package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/optimizer/run"
	"trainopt/resources"
)

// State is the condition of a job.
type State string

// States of a job.
const (
	Waiting   State = "waiting"   // for devices
	Starting  State = "starting"  // it has devices; no unit of work was done on them yet
	Running   State = "running"   // it has devices
	Stopping  State = "stopping"  // it saves and leaves its devices
	Done      State = "done"      // all work was done
	Failed    State = "failed"    // the training, or its start, failed
	Stopped   State = "stopped"   // by its deadline or budget
	Cancelled State = "cancelled" // by a user
)

// Ended reports whether a job in this state will not run again.
func (s State) Ended() bool { return s == Done || s == Failed || s == Stopped || s == Cancelled }

// holds reports whether a job in this state occupies devices.
func (s State) holds() bool { return s == Starting || s == Running || s == Stopping }

// Spec is a submitted job: the file spec.json of its directory, written once.
type Spec struct {
	Schema    int       `json:"schema"`
	Submitted time.Time `json:"submitted"`
	// BootID and Uptime are the boot of the machine, and the time since in seconds at Submitted; empty: unknown.
	BootID string  `json:"boot_id,omitempty"`
	Uptime float64 `json:"uptime_s,omitempty"`
	User   string  `json:"user"`
	Weight float64 `json:"weight"` // priority, 1 is normal
	// Min and Max are the numbers of devices on which the job may run; 0: 1 and Min. Policies that do not choose the
	// number use Min. If CPUs is set, they count CPUs on a cluster whose devices are CPUs.
	Min  int  `json:"min"`
	Max  int  `json:"max"`
	CPUs bool `json:"cpus,omitempty"`
	// Distributed is true for a training that can run on several nodes. It receives all devices of each.
	Distributed bool `json:"distributed,omitempty"`
	// Config is that of its run; SLA.TimeMax counts from Submitted.
	Config run.Config `json:"config"`
}

// fit replaces numbers of CPUs by those of devices, and returns an error for a job that no type has enough devices for, or
// no node the memory.
func (s *Spec) fit(server *Server) error {
	devices := server.Devices
	if err := s.countDevices(devices); err != nil {
		return err
	}
	if least, node := s.leastMemory(), server.nodeMemory(); node > 0 && least > node {
		return fmt.Errorf("--memory %s: no node has more than %.4g GiB", s.Config.Memory, node)
	}
	least := max(s.Min, 1)
	if slices.ContainsFunc(devices, func(d Device) bool { return d.Count >= least && s.spans(least, d.PerServer) }) {
		return nil
	}
	var have []string
	for _, d := range devices {
		if d.Count >= least {
			have = append(have, fmt.Sprintf("%d of %s", d.PerServer, d.Name))
		}
	}
	switch {
	case have == nil:
		return tooFew(least)
	case !s.Distributed:
		return fmt.Errorf("no node has %d devices (%s), and the training does not run on several: start it by torchrun, or connect its processes by MASTER_ADDR, RANK and WORLD_SIZE", least, strings.Join(have, ", "))
	}
	return fmt.Errorf("no node has %d devices (%s): a job on several nodes receives all devices of each, so request a multiple", least, strings.Join(have, ", "))
}

// leastMemory returns the GiB that the job needs at least; 0: unknown.
func (s *Spec) leastMemory() float64 {
	within := resources.Limits{MemoryMax: math.MaxFloat32}
	if within.Restrict(resources.Ranges{Memory: s.Config.Memory}) != nil {
		return 0
	}
	return float64(within.MemoryMin)
}

// spans reports whether the job can run on a number of devices where a node has perServer.
func (s *Spec) spans(gpus, perServer int) bool {
	return gpus <= max(perServer, 1) || s.Distributed && gpus%max(perServer, 1) == 0
}

func tooFew(n int) error { return fmt.Errorf("no device type has %d devices for one job", n) }

// countDevices replaces numbers of CPUs by those of the devices that have as many.
func (s *Spec) countDevices(devices []Device) error {
	if !s.CPUs {
		return nil
	}
	least := math.Inf(1)
	for _, d := range devices {
		if d.GPU {
			return errors.New("--cpus: the devices of this cluster are GPUs, use --gpus")
		}
		least = min(least, d.CPUs)
	}
	count := func(cpus int) int { return int(math.Ceil(float64(cpus)/least - 1e-9)) }
	s.CPUs, s.Min, s.Max = false, count(max(s.Min, 1)), count(s.Max)
	return nil
}

// Job is the present state of a job: the file job.json of its directory, written by the server.
type Job struct {
	Schema int    `json:"schema"`
	ID     int    `json:"id"`
	Name   string `json:"name"`
	State  State  `json:"state"`
	// Reason says why the job waits or has ended. ExitCode is the exit code of its last run; nil: none has ended the job.
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Run      string `json:"run,omitempty"` // id of its run; empty before its first start

	// Device, Where and Stretch are those of the present life, or of the last one.
	Device  string    `json:"device,omitempty"`
	Where   []int32   `json:"where,omitempty"`
	Stretch int       `json:"stretch"`
	Since   time.Time `json:"since,omitzero"` // of State
	Asked   time.Time `json:"asked,omitzero"` // when it was asked to leave
	// Queued is set while the present life waits in the queue of the engine: other jobs receive no devices for it, and it has none.
	Queued bool `json:"queued,omitempty"`

	Unit     string  `json:"unit,omitempty"`
	Done     float64 `json:"done"`
	Total    float64 `json:"total,omitempty"` // 0: unknown
	CostUSD  float64 `json:"cost_usd"`
	Attained float64 `json:"device_seconds"`
	// Keeps is whether the job keeps its work when it is stopped; nil: not yet known. A job that does not is never
	// preempted. Unsaved is set once its devices were taken before it had saved anything: it is not preempted again before it
	// has.
	Keeps   *bool `json:"keeps_work"`
	Unsaved bool  `json:"unsaved,omitempty"`
	// Rates are the measured rates by device type and number of devices.
	Rates []Rate `json:"rates,omitempty"`
	// Pairs are the measured rates beside other jobs. Beside is the job that shares its devices now; 0: none. Apart is set
	// once it has failed in a life in which it shared devices: it never does again. EarlierUSD is the cost of its runs
	// before the present one. Sole is set while no other job can join the allocation that its present life has of an engine.
	// Memory is its largest measured memory.
	Pairs      []pairRate `json:"pairs,omitempty"`
	Memory     memory     `json:"memory,omitzero"`
	Beside     int        `json:"beside,omitempty"`
	Apart      bool       `json:"apart,omitempty"`
	Sole       bool       `json:"sole,omitempty"`
	EarlierUSD float64    `json:"earlier_usd,omitempty"`
	// Starts and Saves are the measured seconds of its start-ups and of its orderly stops, latest last.
	Starts []float64 `json:"start_s,omitempty"`
	Saves  []float64 `json:"save_s,omitempty"`
	// CheckpointBytes is the size of its last checkpoint; 0: none is known.
	CheckpointBytes int64 `json:"checkpoint_bytes,omitempty"`
	Moves           int   `json:"moves"` // starts after the first
	// FailedOn are the devices, or nodes, on which it has failed before its first unit of work there, until it has worked elsewhere.
	FailedOn []string `json:"failed_on,omitempty"`
	// Again is set while the job starts again after a failure that may not be its own: from the beginning if it had saved nothing.
	Again bool `json:"again,omitempty"`
	// Cancelled is set once a user has cancelled the job, which may have to leave its devices first.
	Cancelled bool `json:"cancelled,omitempty"`
	// Shrink is the reduction of its devices to those that it uses; nil: none.
	Shrink *shrink `json:"shrink,omitempty"`
	// Finish is the predicted end with the present devices: 5, 50 and 95 % quantiles; nil: unknown.
	Finish    *[3]time.Time `json:"finish,omitempty"`
	Submitted time.Time     `json:"submitted"`
	Began     time.Time     `json:"began,omitzero"` // first start
	Ended     time.Time     `json:"ended,omitzero"`
	WaitS     float64       `json:"wait_s"`     // seconds without devices up to Counted
	Counted   float64       `json:"counted_at"` // Unix seconds up to which WaitS and Attained are counted
}

// Waited returns the seconds for which a job had no devices: before its first start, between its lives and in the queue of the engine.
func (j *Job) Waited(now time.Time) float64 {
	if j.State != Waiting && !j.Queued {
		return j.WaitS
	}
	from := j.Submitted
	if j.Counted > 0 {
		from = fromUnix(j.Counted)
	}
	return j.WaitS + max(0, now.Sub(from).Seconds())
}

// Rate is a measured rate of a job.
type Rate struct {
	Device string  `json:"device"`
	GPUs   int     `json:"gpus"`
	PerSec float64 `json:"steps_per_s"`
	Blocks int     `json:"blocks"`
	// Predicted is what the policy used before the first measurement there; 0: it was an assumption.
	Predicted float64 `json:"predicted,omitempty"`
}
