package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/journal"
)

// Files below <state directory>/cluster:
//
//	events.jsonl        the log of all events
//	server.json         the running server, or the last one
//	state.json          leases and policy of the server
//	lock                held by the running server
//	state               renewed by it, for those who cannot see its process
//	spool/              requests that the server has not yet taken
//	jobs/7/spec.json    a job as submitted
//	jobs/7/job.json     its present state
//	jobs/7/life.json    both at the start of its last life, while it has not ended
//	jobs/7/lease.json   its lease
//	jobs/7/agent.log    messages of its agent
const (
	clusterDir = "cluster"
	schema     = 1
	maxFile    = 16 << 20 // bytes of any file here but the event log
)

func dirOf(stateDir string, parts ...string) string {
	return filepath.Join(append([]string{stateDir, clusterDir}, parts...)...)
}

func eventsPath(stateDir string) string { return dirOf(stateDir, "events.jsonl") }

func jobDir(stateDir string, id int) string { return dirOf(stateDir, "jobs", strconv.Itoa(id)) }

// writeJSON replaces a file.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = regular.WriteFile(path, 0o600, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, regular.Reason(err))
	}
	return nil
}

func readJSON(path string, v any) error { return regular.ReadJSON(path, maxFile, v) }

// makeDirs creates the directories of a cluster.
func makeDirs(stateDir string) error {
	return cmp.Or(journal.MakeStateDir(stateDir), os.MkdirAll(dirOf(stateDir, "jobs"), 0o700), os.MkdirAll(dirOf(stateDir, "spool"), 0o700))
}

// ErrRefused reports a job that the devices of the running server do not suffice for.
var ErrRefused = errors.New("refused")

// Submit stores a job and returns its id. The server takes it as soon as it runs. A job that the running server would
// refuse is ErrRefused.
func Submit(stateDir string, spec Spec) (id int, err error) {
	if server, alive, err := ReadServer(stateDir); err == nil && alive {
		counted := spec
		if err := counted.fit(&server); err != nil {
			return 0, fmt.Errorf("submit job: %w: %w", ErrRefused, err)
		}
	}
	if err := makeDirs(stateDir); err != nil {
		return 0, fmt.Errorf("submit job: %w", err)
	}
	ids, err := jobIDs(stateDir)
	if err != nil {
		return 0, fmt.Errorf("submit job: %w", err)
	}
	if len(ids) > 0 {
		id = ids[len(ids)-1]
	}
	for {
		id++
		err := os.Mkdir(jobDir(stateDir, id), 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, fmt.Errorf("submit job: %w", err)
		}
	}
	spec.Schema = schema
	if err = writeJSON(filepath.Join(jobDir(stateDir, id), "spec.json"), spec); err == nil {
		err = send(stateDir, request{Op: opSubmit, Job: id})
	}
	if err != nil { // a submission that fails leaves no job behind
		_ = os.RemoveAll(jobDir(stateDir, id))
		return 0, fmt.Errorf("submit job: %w", err)
	}
	return id, nil
}

// jobIDs returns the ids of all jobs in ascending order.
func jobIDs(stateDir string) ([]int, error) {
	entries, err := os.ReadDir(dirOf(stateDir, "jobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil && id > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// DamagedError reports damaged files of jobs.
type DamagedError []damage

// Error implements error.
func (e DamagedError) Error() string { return fmt.Sprint([]damage(e)) }

// damage is a damaged file of a job.
type damage struct {
	id int
	error
}

// begun is a job at the start of a life: the file life.json.
type begun struct {
	Job  *Job  `json:"job"`
	Spec *Spec `json:"spec"`
}

func lifePath(stateDir string, id int) string {
	return filepath.Join(jobDir(stateDir, id), "life.json")
}

// Jobs returns all jobs of a state directory in order of their ids, with their specifications. A job that the server
// has not yet taken is in state Waiting. With damaged files the error is a DamagedError: jobs that cannot be restored are left
// out, and the others are valid.
func Jobs(stateDir string) ([]Job, []Spec, error) {
	ids, err := jobIDs(stateDir)
	if err != nil {
		return nil, nil, fmt.Errorf("list jobs: %w", err)
	}
	var jobs []Job
	var specs []Spec
	var damaged DamagedError
	for _, id := range ids {
		job, spec, err := ReadJob(stateDir, id)
		if d := (damage{}); errors.As(err, &d) {
			damaged = append(damaged, d)
		}
		if job == nil { // damaged, or its submission is in progress, or was interrupted
			continue
		}
		jobs, specs = append(jobs, *job), append(specs, *spec)
	}
	if damaged != nil {
		return jobs, specs, damaged
	}
	return jobs, specs, nil
}

// ReadJob returns a job and its specification. A job that does not exist is fs.ErrNotExist. If a file of a job that has begun is
// damaged, the job is valid, as at the start of its last life, in spite of the error.
func ReadJob(stateDir string, id int) (*Job, *Spec, error) {
	var job Job
	var spec Spec
	specErr := readJSON(filepath.Join(jobDir(stateDir, id), "spec.json"), &spec)
	jobErr := readJSON(filepath.Join(jobDir(stateDir, id), "job.json"), &job)
	if jobErr == nil && job.ID != id {
		jobErr = fmt.Errorf("read %s: not the state of this job", filepath.Join(jobDir(stateDir, id), "job.json"))
	}
	err := specErr
	if err == nil {
		err = jobErr
	}
	if err == nil {
		return &job, &spec, nil
	}
	var last begun
	switch lifeErr := readJSON(lifePath(stateDir, id), &last); {
	case lifeErr == nil && last.Job != nil && last.Spec != nil:
		if specErr != nil {
			spec = *last.Spec
		}
		if jobErr != nil {
			job = *last.Job
		}
		return &job, &spec, damage{id, fmt.Errorf("read job %d: %w: restored from the start of its last life", id, err)}
	case !errors.Is(lifeErr, fs.ErrNotExist) || !errors.Is(err, fs.ErrNotExist):
		return nil, nil, damage{id, fmt.Errorf("read job %d: %w: left out", id, err)}
	case specErr != nil:
		return nil, nil, fmt.Errorf("read job %d: %w", id, err)
	}
	return &Job{Schema: schema, ID: id, Name: cmp.Or(spec.Config.Name, "job"), State: Waiting, Reason: "not yet taken by a server", Submitted: spec.Submitted, Since: spec.Submitted}, &spec, nil
}

// request is a file of the spool.
type request struct {
	Op     string `json:"op"`
	Job    int    `json:"job,omitempty"`
	Policy string `json:"policy,omitempty"`
	Save   bool   `json:"save,omitempty"`
}

const (
	opSubmit = "submit"
	opCancel = "cancel"
	opPolicy = "policy"
	opDrain  = "drain"
)

// send puts a request into the spool, whose files are taken in the order of their names: after those that wait, also if the clock
// was set back since.
func send(stateDir string, r request) error {
	if err := makeDirs(stateDir); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	at := time.Now().UnixNano()
	entries, _ := os.ReadDir(dirOf(stateDir, "spool"))
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			at = max(at, n+1)
		}
	}
	name := fmt.Sprintf("%020d-%d-%d.json", at, os.Getpid(), sent.Add(1))
	if err := writeJSON(dirOf(stateDir, "spool", name), r); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// sent distinguishes the requests that this process sends at the same time.
var sent atomic.Int64

// Cancel asks the server to stop a job for good.
func Cancel(stateDir string, id int) error { return send(stateDir, request{Op: opCancel, Job: id}) }

// SetPolicy asks the server to decide by another policy from now on.
func SetPolicy(stateDir, name string) error {
	return send(stateDir, request{Op: opPolicy, Policy: name})
}

// Drain asks the server to admit no more jobs, and to exit once the admitted ones have ended. With save, running jobs
// are saved and stopped, and the server exits; a later server continues them.
func Drain(stateDir string, save bool) error { return send(stateDir, request{Op: opDrain, Save: save}) }

// readRequests returns the requests of the spool and the paths of its files, also of those that cannot be read.
func readRequests(stateDir string) (requests []request, paths []string, errs []error) {
	entries, _ := os.ReadDir(dirOf(stateDir, "spool"))
	for _, e := range entries { // sorted by name
		if filepath.Ext(e.Name()) != ".json" || e.Name()[0] == '.' {
			continue
		}
		path := dirOf(stateDir, "spool", e.Name())
		var r request
		if err := readJSON(path, &r); err != nil {
			errs = append(errs, err)
		} else {
			requests = append(requests, r)
		}
		paths = append(paths, path)
	}
	return requests, paths, errs
}

// Server describes a server: the file server.json.
type Server struct {
	Schema   int       `json:"schema"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Engine   string    `json:"engine"`
	Policy   string    `json:"policy"`
	RoundS   float64   `json:"round_s"`
	Devices  []Device  `json:"devices"`
	Draining bool      `json:"draining"`
	// Down are the numbers of Devices, by type, whose nodes are down.
	Down map[string]int `json:"down,omitempty"`
	// Faults are the devices and nodes that are left out, or were lately, since jobs failed there.
	Faults []fault `json:"faults,omitempty"`
	// DiskFull is true while the disk of the state directory is full, so that its files are as of Stored; zero: unknown.
	DiskFull bool      `json:"disk_full,omitempty"`
	Stored   time.Time `json:"-"`
	// BootID is that of the machine, and BootedAt the time of its boot in Unix seconds, by the clock of the server.
	BootID   string  `json:"boot_id,omitempty"`
	BootedAt float64 `json:"booted_at,omitempty"`
	// MoveS is the cost of a move that decisions charge, in seconds; 0 before one was measured.
	MoveS float64 `json:"move_s"`
}

// nodeMemory returns the memory of the largest node, GiB; 0: unknown. All device types of the local engine are on one node.
func (s *Server) nodeMemory() (most float64) {
	sum := 0.0
	for _, d := range s.Devices {
		node := d.MemoryGiB * float64(max(d.PerServer, 1))
		most, sum = max(most, node), sum+node
	}
	if s.Engine == "local" {
		return sum
	}
	return most
}

// ReadServer returns the server of a state directory; alive is false if it is the last one. Without any, the error is
// fs.ErrNotExist.
func ReadServer(stateDir string) (s Server, alive bool, err error) {
	err = readJSON(dirOf(stateDir, "server.json"), &s)
	if s.DiskFull = diskFull(stateDir); s.DiskFull {
		if info, err := os.Stat(dirOf(stateDir, "state.json")); err == nil {
			s.Stored = info.ModTime()
		}
	}
	return s, journal.HolderOf(dirOf(stateDir)) != nil, err
}

// leaseFile is the lease of a job as its processes read it: lease.json.
type leaseFile struct {
	Schema int `json:"schema"`
	// N counts the changes.
	N int `json:"n"`
	// Until is the time in Unix seconds at which the job must save and leave unless the lease was extended; 0: now;
	// nil: never.
	Until *float64 `json:"until"`
	// At is the time in Unix seconds at which this was written.
	At float64 `json:"at"`
	// Epoch is the number of the life that owns the lease; any earlier one must leave without saving.
	Epoch int `json:"epoch"`
	// Grace is the time in seconds after Until for which a job may wait for a silent scheduler.
	Grace  float64 `json:"grace_s"`
	Device string  `json:"device"`
	GPUs   int     `json:"gpus"`
}
