package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"trainopt/internal/regular"
	"trainopt/internal/stat"
)

// eventSchema is the version of the event log.
const eventSchema = 1

// EventKind is the kind of an Event; it determines which fields are set.
type EventKind string

// Kinds of events, with the fields that each sets besides Time and Kind.
const (
	// EventServe: a server has started. Policy, Seed, Round, Devices, Engine; Restarted if jobs existed before.
	EventServe EventKind = "serve"
	// EventSubmit: a job was admitted. Job, Name, User, Weight, GPUs, MaxGPUs, Total and Unit if known, Deadline, Budget;
	// Time is that of the submission.
	EventSubmit EventKind = "submit"
	// EventDecide: the policy has decided. Policy, Jobs (active), Seconds (wall time of the decision), Reason (an error,
	// after which jobs kept their devices), Leases (who holds what from now on), Progress (of the jobs that hold devices, as
	// it is known at the decision).
	EventDecide EventKind = "decide"
	// EventStart: a life of a job begins on devices. Job, Stretch, Device, Where, GPUs, Do (start, move, resize),
	// Predicted (steps/s that the policy used), PredictedSeconds (charged for the move; 0 for the first start), Expected.
	EventStart EventKind = "start"
	// EventRunning: the first unit of work of a life was done. Job, Stretch, Seconds (start-up: from the launch to the
	// first unit, less that unit), PreparedSeconds.
	EventRunning EventKind = "running"
	// EventRate: the measured rate of a job has changed by more than 2 %, or was measured for the first time on these
	// devices. Job, Stretch, Device, GPUs, Seen (steps/s), Blocks, Predicted (before any measurement there), Done, Total,
	// Unit; With if another job shared the devices.
	EventRate EventKind = "rate"
	// EventShare: another job shares the devices of a job from now on, or has left them. Job, Stretch, Device, GPUs, With
	// (absent: none).
	EventShare EventKind = "share"
	// EventStop: a job was asked to save and leave. Job, Stretch, Device, GPUs, Reason.
	EventStop EventKind = "stop"
	// EventLeft: a life has ended, and its devices are free. Job, Stretch, Device, GPUs, Seconds (since EventStop; absent
	// if it was not asked), Done, Reason (exit, lease, …), Exited if that was noticed late, CheckpointBytes.
	EventLeft EventKind = "left"
	// EventAdopt: a server continues a life of the last one whose training has exited meanwhile. Job, Stretch, GPUs, Exited.
	EventAdopt EventKind = "adopt"
	// EventEnd: a job will not run again. Job, State, Reason, Done, Total, Unit, CostUSD, Launches, Exited if that was noticed late.
	EventEnd EventKind = "end"
	// EventPin: whether a job keeps its work when it is stopped was found out, or has changed. Job; Save if it does. One
	// that does not keeps its devices until it ends.
	EventPin EventKind = "pin"
	// EventShrink: a job receives fewer devices, since it does not use all. Job, Device, GPUs (before), To, Reason, GainS.
	EventShrink EventKind = "shrink"
	// EventShrunk: the rate of a job on fewer devices was compared. Job, Device, GPUs (now), Seen, Predicted (the rate
	// before), Do (keep, undo).
	EventShrunk EventKind = "shrunk"
	// EventDevices: nodes are down or up again, or devices are left out or taken back. Devices (with the numbers that are up), Reason.
	EventDevices EventKind = "devices"
	// EventPolicy: the policy was changed. Policy.
	EventPolicy EventKind = "policy"
	// EventDrain: no jobs are admitted any more. Save if running jobs are saved and stopped.
	EventDrain EventKind = "drain"
	// EventCancel: a user has cancelled a job. Job.
	EventCancel EventKind = "cancel"
)

// Event is one line of the event log of a cluster, <state directory>/cluster/events.jsonl. Fields that a kind does not
// set are absent. A unit of work of a job is called a step, as in package schedule.
type Event struct {
	Schema int       `json:"v"`
	Time   float64   `json:"t"` // Unix seconds
	Kind   EventKind `json:"kind"`

	Job     int    `json:"job,omitempty"`
	Stretch int    `json:"stretch,omitempty"` // life of the job, from 1
	Name    string `json:"name,omitempty"`
	Command string `json:"command,omitempty"` // digest of the command with its arguments, at submission
	User    string `json:"user,omitempty"`

	Weight   float64 `json:"weight,omitempty"`
	GPUs     int     `json:"gpus,omitempty"`     // devices held, or the number requested
	MaxGPUs  int     `json:"max_gpus,omitempty"` // of an elastic job; 0: GPUs
	To       int     `json:"to,omitempty"`       // number of devices after a reduction
	Deadline float64 `json:"deadline,omitempty"` // Unix seconds
	Budget   float64 `json:"budget_usd,omitempty"`
	Unit     string  `json:"unit,omitempty"` // epoch or step
	Total    float64 `json:"total,omitempty"`
	Done     float64 `json:"done,omitempty"`
	CostUSD  float64 `json:"cost_usd,omitempty"`
	Launches int     `json:"launches,omitempty"` // of the training: more than lives if it was restarted after failures
	Exited   float64 `json:"exited,omitempty"`   // Unix seconds at which the training exited, while no server ran
	// CheckpointBytes is the size of the checkpoint that the job has written; absent: none is known.
	CheckpointBytes int64 `json:"checkpoint_bytes,omitempty"`

	With   int     `json:"with,omitempty"`   // job on the same devices
	Device string  `json:"device,omitempty"` // type
	Where  []int32 `json:"where,omitempty"`  // numbers of the devices of the type
	Do     string  `json:"do,omitempty"`     // schedule.Decision
	Seen   float64 `json:"seen,omitempty"`   // steps/s
	Blocks int     `json:"blocks,omitempty"`
	// Predicted is the rate that the policy used, in steps/s; absent if it was a mere assumption.
	Predicted        float64  `json:"predicted,omitempty"`
	PredictedSeconds *float64 `json:"predicted_s,omitempty"`
	Seconds          *float64 `json:"seconds,omitempty"`
	// PreparedSeconds is the time from the start of the first life of a job until its run was prepared: later lives continue it.
	PreparedSeconds float64 `json:"prepared_s,omitempty"`
	// Expected is the first prediction of the start for which the job waited: Unix seconds, 5, 50 and 95 % quantiles.
	Expected *[3]float64 `json:"expected,omitempty"`
	GainS    *float64    `json:"gain_s,omitempty"` // predicted time by which jobs end earlier, in all

	Policy    string           `json:"policy,omitempty"`
	Seed      int64            `json:"seed,omitempty"`
	Round     float64          `json:"round_s,omitempty"`
	Engine    string           `json:"engine,omitempty"`
	Restarted bool             `json:"restarted,omitempty"`
	Devices   []Device         `json:"devices,omitempty"`
	Jobs      int              `json:"jobs,omitempty"`
	Leases    []leaseRecord    `json:"leases,omitempty"`
	Progress  []progressRecord `json:"progress,omitempty"`
	Save      bool             `json:"save,omitempty"`
	State     State            `json:"state,omitempty"`
	Reason    string           `json:"reason,omitempty"`
}

// Device is a type of device of a cluster.
type Device struct {
	Name      string  `json:"name"`
	Count     int     `json:"count"`
	PerServer int     `json:"per_server"`
	USDHour   float64 `json:"usd_hour,omitempty"` // price of one device; 0: unknown
	Speed     float64 `json:"speed,omitempty"`    // stated speed relative to the other types; 0: not stated
	CPUs      float64 `json:"cpus,omitempty"`     // CPUs that belong to one device
	MemoryGiB float64 `json:"memory_gib,omitempty"`
	GPU       bool    `json:"gpu,omitempty"` // false: the device is a CPU or a slot of several
}

// progressRecord is what a policy knows of the progress of a job: the steps that the training has reported by then.
type progressRecord struct {
	Job  int     `json:"job"`
	Done float64 `json:"done"`
}

// leaseRecord is the assignment of devices to a job, or to a pair of jobs that share them.
type leaseRecord struct {
	Job    int     `json:"job"`
	With   int     `json:"with,omitempty"` // job on the same devices; 0: none
	Device string  `json:"device"`
	Where  []int32 `json:"where"`
}

// eventLog appends to the event log. Lines are written with one call each, so that a crash tears at most the last. What
// cannot be written, since the disk is full, is written later.
type eventLog struct {
	file *os.File
	late []byte // not yet written
}

// maxLate bounds eventLog.late in bytes; events beyond it are lost.
const maxLate = 64 << 20

// openEventLog opens the log; an incomplete last line, as a crash leaves it, is completed so that later ones can be
// read.
func openEventLog(path string) (*eventLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	if end, err := f.Seek(0, io.SeekEnd); err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			_, _ = f.WriteString("\n")
		}
	}
	return &eventLog{file: f}, nil
}

func (l *eventLog) add(e Event) error {
	e.Schema = eventSchema
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write event log: %w", err)
	}
	if len(l.late) < maxLate {
		l.late = append(append(l.late, line...), '\n')
	}
	return l.flush()
}

// flush writes what could not be written before.
func (l *eventLog) flush() error {
	if len(l.late) == 0 {
		return nil
	}
	n, err := l.file.Write(l.late)
	if l.late = l.late[n:]; err != nil {
		return fmt.Errorf("write event log: %w", err)
	}
	l.late = nil
	return nil
}

func (l *eventLog) close() error { return l.file.Close() }

// notServedError names a state directory that was never served; it is fs.ErrNotExist.
type notServedError string

func (e notServedError) Error() string {
	return "read event log: no cluster was served with the state directory " + string(e)
}
func (notServedError) Is(target error) bool { return target == fs.ErrNotExist }

// LogSize returns the size of the event log of a state directory in bytes; 0 if no cluster was served from it.
func LogSize(stateDir string) int64 {
	info, err := os.Stat(eventsPath(stateDir))
	if err != nil {
		return 0
	}
	return info.Size()
}

// ReadEvents returns the event log of a state directory in order, and the number of lines that are not events, such as
// one torn by a crash, or contain numbers or times that none can have. With most above 0, it reads no more than that number
// of bytes, the last. A directory without a log is an error (fs.ErrNotExist).
func ReadEvents(stateDir string, most int64) (events []Event, torn int, err error) {
	f, err := regular.Open(eventsPath(stateDir), regular.NoLimit)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, 0, notServedError(stateDir)
		}
		return nil, 0, fmt.Errorf("read event log: %w", err)
	}
	defer f.Close()
	cut := false
	if info, err := f.Stat(); err == nil && most > 0 && info.Size() > most {
		_, err = f.Seek(-most, io.SeekEnd)
		cut = err == nil
	}
	lines := bufio.NewReader(f)
	for ; ; cut = false {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 && !cut {
			var e Event
			if json.Unmarshal(line, &e) == nil && e.Kind != "" && e.plausible() {
				events = append(events, e)
			} else {
				torn++
			}
		}
		if errors.Is(err, io.EOF) {
			sorted := byTime(events)
			return lastStarts(sorted), torn + len(events) - len(sorted), nil
		}
		if err != nil {
			return events, torn, fmt.Errorf("read event log: %w", err)
		}
	}
}

// lastStarts removes the starts that a killed server recorded and did not make: the next server records that life again.
func lastStarts(events []Event) []Event {
	again := map[[2]int]bool{} // lives that start later, before they leave
	for i, e := range slices.Backward(events) {
		life, start := [2]int{e.Job, e.Stretch}, e.Kind == EventStart
		if start && e.Stretch > 0 && again[life] {
			events = slices.Delete(events, i, i+1)
		}
		if start || e.Kind == EventLeft {
			again[life] = start
		}
	}
	return events
}

// plausible reports whether a server can have written the numbers of an event.
func (e *Event) plausible() bool {
	numbers := []float64{e.Time, e.Weight, e.Deadline, e.Total, e.Done, e.CostUSD, e.Exited, e.Seen, e.Predicted, e.Round}
	counts := []int{e.GPUs, e.MaxGPUs, e.To, e.Launches}
	for _, d := range e.Devices {
		numbers, counts = append(numbers, d.USDHour, d.Speed, d.CPUs), append(counts, d.Count, d.PerServer)
	}
	return !slices.ContainsFunc(numbers, func(v float64) bool { return v < 0 || v > 1e15 }) && !slices.ContainsFunc(counts, func(n int) bool { return n < 0 || n > 1<<20 }) &&
		e.Time < unix(time.Now())+366*24*3600 && (e.Round == 0 || e.Round >= 1e-3) // the clock may have been set back since
}

// byTime returns the events without those that are later than most that follow while the same server runs, or earlier than those
// before. Submissions are earlier than their place.
func byTime(events []Event) (out []Event) {
	const precision = 1e-3
	last := 0.0
	for i, e := range events {
		var next []float64
		for k := i + 1; k < len(events) && events[k].Kind != EventServe && len(next) < 8; k++ {
			if events[k].Kind != EventSubmit && (e.Kind == EventServe || events[k].Time >= last-precision) {
				next = append(next, events[k].Time)
			}
		}
		earlier := stat.Count(next, func(t float64) bool { return t < e.Time-precision })
		if 2*earlier > len(next) || e.Time < last-precision && e.Kind != EventSubmit && e.Kind != EventServe {
			continue
		}
		if out = append(out, e); e.Kind != EventSubmit {
			last = e.Time
		}
	}
	return out
}
