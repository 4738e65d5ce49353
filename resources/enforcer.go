package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// EnforceOptions specifies the enforcement for one job.
type EnforceOptions struct {
	RunID      string // names the cgroup; characters other than letters, digits, "-", "_" and "." are replaced
	Allocation Allocation
	Limits     Limits // MemoryMax is the hard memory limit; 0 sets none
	// KeepsDevices means that CUDA_VISIBLE_DEVICES of the job is that of the user.
	KeepsDevices bool
	Host         Host // CPUIDs are the candidate CPUs; empty means the caller's affinity
	Roots        Roots

	tree cgroupTree // nil means that of the kernel
}

// enforcer holds one job to its allocation by the means of this machine: cgroup v2 or v1 controllers where they are
// writable, CPU affinity always, resource limits otherwise. It is safe for concurrent use. The zero value is not
// usable; see NewEnforcer.
type enforcer struct {
	mu      sync.Mutex
	s       enforcerState
	tree    cgroupTree
	release func() // of the CPUs; nil once opened
}

// cgroupControl is one control and the cgroup that provides it. Dir is empty if none does; Why is then the reason.
type cgroupControl struct {
	Dir     string `json:"dir,omitempty"`
	Version int    `json:"version,omitempty"`
	Why     string `json:"why,omitempty"`
}

func (p cgroupControl) available() bool { return p.Dir != "" }

func (p cgroupControl) file(name string) string { return filepath.Join(p.Dir, name) }

const enforcerSchema = 1

// enforcerState is the complete state that another process requires to take over.
type enforcerState struct {
	Schema       int           `json:"schema"`
	RunID        string        `json:"run_id"`
	Roots        Roots         `json:"roots"`
	Allocation   Allocation    `json:"allocation"` // currently in force
	Limits       Limits        `json:"limits"`
	KeepsDevices bool          `json:"keeps_devices,omitempty"`
	Allowed      []int         `json:"allowed_cpus"`
	CPUIDs       []int         `json:"cpu_ids"`
	Quota        cgroupControl `json:"quota"`
	Offer        string        `json:"offer,omitempty"` // v2 cgroup whose controller cpu is enabled once the job has less than all CPUs
	Cpuset       cgroupControl `json:"cpuset"`
	Memory       cgroupControl `json:"memory"`
	Account      cgroupControl `json:"account"` // CPU time accounting
	Group        cgroupControl `json:"group"`   // membership: pids and kill
	Rlimits      []rlimit      `json:"rlimits,omitempty"`
	Made         []string      `json:"made,omitempty"`    // cgroups to remove
	Enabled      []enabling    `json:"enabled,omitempty"` // v2 controllers enabled above the job's cgroup
	Notes        []string      `json:"notes,omitempty"`
	PeakBytes    uint64        `json:"peak_bytes"`
	Sampled      bool          `json:"sampled"`
}

// enabling is a set of v2 controllers enabled for the children of a cgroup.
type enabling struct {
	Dir         string   `json:"dir"`
	Controllers []string `json:"controllers"`
}

// NewEnforcer creates the job's cgroups where permitted, sets their limits, and chooses the job's CPUs. Missing
// permissions are not an error: a control that is unavailable is omitted and reported by Statement. An error means
// that the request is invalid; no cgroup remains in that case. Other jobs do not choose the same CPUs until Release.
func NewEnforcer(o EnforceOptions) (*enforcer, error) {
	if err := enforceable(o.Allocation, o.Limits); err != nil {
		return nil, fmt.Errorf("enforce %v for run %q: %w", o.Allocation, o.RunID, err)
	}
	e := &enforcer{tree: o.tree, s: enforcerState{
		Schema: enforcerSchema, RunID: o.RunID, Roots: o.Roots,
		Allocation: o.Allocation, Limits: o.Limits, KeepsDevices: o.KeepsDevices,
	}}
	if e.tree == nil {
		e.tree = osTree{}
	}
	e.s.Allowed = e.candidateCPUs(o.Host)
	e.s.CPUIDs, e.release = e.choose(o.Allocation.CPUs)
	e.place()
	if !e.s.Memory.available() && o.Allocation.GPUs == 0 && o.Limits.MemoryMax > 0 {
		b := o.Limits.MemoryMax.Bytes()
		e.s.Rlimits = []rlimit{{Resource: unix.RLIMIT_DATA, Soft: b, Hard: b}}
	}
	return e, nil
}

// Release lets other jobs choose by the processes alone: the job's first process has its CPUs, or the job does not start.
func (e *enforcer) Release() {
	if e.release != nil {
		e.release()
	}
}

// candidateCPUs returns the host's CPUs that this process may use. A described host is another machine and is
// ignored.
func (e *enforcer) candidateCPUs(h Host) []int {
	mine, err := e.s.Roots.allowedCPUs()
	if err != nil {
		e.s.Notes = append(e.s.Notes, fmt.Sprintf("affinity: %v", err))
		return slices.Clone(h.CPUIDs)
	}
	if h.Described != "" {
		return mine
	}
	both := slices.DeleteFunc(slices.Clone(h.CPUIDs), func(id int) bool { return !slices.Contains(mine, id) })
	if len(both) == 0 {
		return mine
	}
	return both
}

// enforceable returns all reasons why no machine could enforce the allocation, joined.
func enforceable(a Allocation, l Limits) error {
	var errs []error
	if a.CPUs < 1 {
		errs = append(errs, fmt.Errorf("%d CPUs: at least 1 is needed", a.CPUs))
	}
	if a.GPUs < 0 {
		errs = append(errs, fmt.Errorf("%d GPUs: cannot be negative", a.GPUs))
	}
	if m := float64(a.Memory); m < 0 || math.IsNaN(m) || math.IsInf(m, 0) {
		errs = append(errs, fmt.Errorf("%v GiB of memory is not an amount", m))
	}
	if l.MemoryMax > 0 && a.Memory > l.MemoryMax {
		errs = append(errs, fmt.Errorf("%.4g GiB of memory is above the hard limit of %.4g GiB", float64(a.Memory), float64(l.MemoryMax)))
	}
	return errors.Join(errs...)
}

// OpenEnforcer takes over the enforcement by another process from its State. If the cgroups no longer exist, the
// methods report ok=false and Remove has no effect.
func OpenEnforcer(state []byte) (*enforcer, error) {
	return openEnforcer(state, osTree{})
}

// openEnforcer is OpenEnforcer on a given cgroup tree. It rejects directories that this package would not create.
func openEnforcer(state []byte, t cgroupTree) (*enforcer, error) {
	e := &enforcer{tree: t}
	if err := json.Unmarshal(state, &e.s); err != nil {
		return nil, fmt.Errorf("read the enforcement state: %w", err)
	}
	if e.s.Schema != enforcerSchema {
		return nil, fmt.Errorf("read the enforcement state: schema %d, this program knows %d", e.s.Schema, enforcerSchema)
	}
	for _, dir := range e.s.Made {
		if !strings.HasPrefix(filepath.Base(dir), groupPrefix) || !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("read the enforcement state: %q is not a cgroup that this program makes", dir)
		}
	}
	return e, nil
}

// State returns the input of OpenEnforcer as JSON. It changes with Update and with a new peak of Memory.
func (e *enforcer) State() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := json.Marshal(e.s)
	if err != nil {
		panic(fmt.Sprintf("resources: enforcement state: %v", err)) // plain data: cannot fail
	}
	return b
}

// Recipe returns the recipe for the job's first process; see Recipe.Apply.
func (e *enforcer) Recipe() Recipe {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Recipe{CPUIDs: slices.Clone(e.s.CPUIDs), Rlimits: slices.Clone(e.s.Rlimits)}
	for _, dir := range e.s.Made {
		r.Join = append(r.Join, filepath.Join(dir, "cgroup.procs"))
	}
	return r
}

// PIDs returns the processes of the job from its cgroups, in ascending order; ok is false without a cgroup. It reads
// all hierarchies, because one of them may have rejected a process.
func (e *enforcer) PIDs() (pids []int, ok bool) {
	e.mu.Lock()
	dirs := slices.Clone(e.s.Made)
	e.mu.Unlock()
	for _, dir := range dirs {
		some, err := groupPIDs(e.tree, dir)
		if err == nil {
			pids, ok = append(pids, some...), true
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), ok
}

// Memory returns the current anonymous and shared memory of the job's cgroup and the maximum over all calls; neither
// includes page cache. Call it at the sampling interval, because a peak between two calls is not observed. ok is
// false without a memory cgroup and before it contains any memory; peak is NaN until the first success.
func (e *enforcer) Memory() (anonPlusShmem GiB, peak GiB, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	peak = GiB(math.NaN())
	now, ok := e.memoryUse()
	if ok = ok && (now > 0 || e.s.Sampled); ok {
		e.s.PeakBytes, e.s.Sampled = max(e.s.PeakBytes, now), true
	}
	if e.s.Sampled {
		peak = gib(e.s.PeakBytes)
	}
	return gib(now), peak, ok
}

// memoryUse returns the anonymous and shared memory of the cgroup in bytes.
func (e *enforcer) memoryUse() (uint64, bool) {
	m := e.s.Memory
	if !m.available() {
		return 0, false
	}
	text, err := e.tree.read(m.file("memory.stat"))
	if err != nil {
		return 0, false
	}
	keys := []string{"anon", "shmem"}
	if m.Version == 1 {
		keys = []string{"total_rss", "total_shmem"}
	}
	anon, ok := readKey(text, keys[0])
	shmem, _ := readKey(text, keys[1]) // absent in v1 before Linux 4.x
	return anon + shmem, ok
}

// KernelPeak returns the kernel's high-water mark of the memory cgroup. It covers every moment but includes page
// cache, so for a job that reads much data it approaches the limit. ok is false without a memory cgroup and on
// kernels without the mark (v2 before Linux 5.19).
func (e *enforcer) KernelPeak() (withCache GiB, ok bool) {
	e.mu.Lock()
	m := e.s.Memory
	e.mu.Unlock()
	name := "memory.peak"
	if m.Version == 1 {
		name = "memory.max_usage_in_bytes"
	}
	if !m.available() {
		return 0, false
	}
	n, ok := readLimit(e.tree, m.file(name))
	return gib(n), ok
}

// OOMKills returns the number of processes that the kernel has killed for the cgroup's memory limit since the cgroup
// was created; ok is false without a memory cgroup.
func (e *enforcer) OOMKills() (n uint64, ok bool) {
	e.mu.Lock()
	m := e.s.Memory
	e.mu.Unlock()
	if !m.available() {
		return 0, false
	}
	name := "memory.events"
	if m.Version == 1 {
		name = "memory.oom_control"
	}
	text, err := e.tree.read(m.file(name))
	if err != nil {
		return 0, false
	}
	return readKey(text, "oom_kill")
}

// CPUSeconds returns the CPU time of all processes of the job's cgroup, ended ones included; ok is false without CPU
// accounting.
func (e *enforcer) CPUSeconds() (seconds float64, ok bool) {
	e.mu.Lock()
	a := e.s.Account
	e.mu.Unlock()
	if !a.available() {
		return 0, false
	}
	if a.Version == 1 {
		ns, ok := readLimit(e.tree, a.file("cpuacct.usage"))
		return float64(ns) / 1e9, ok
	}
	text, err := e.tree.read(a.file("cpu.stat"))
	if err != nil {
		return 0, false
	}
	us, ok := readKey(text, "usage_usec")
	return float64(us) / 1e6, ok
}

// Kill kills every process of the job's cgroup: by cgroup.kill where the kernel supports it (v2, Linux 5.14),
// otherwise by SIGKILL to each until none remains. ok is false without a cgroup, or if a process still exists after
// one second (unkillable in the kernel); PIDs returns the remaining ones.
func (e *enforcer) Kill() (ok bool) {
	e.mu.Lock()
	group := e.s.Group
	e.mu.Unlock()
	if !group.available() {
		return false
	}
	if group.Version == 2 {
		_ = e.tree.write(group.file("cgroup.kill"), "1") // not supported by older kernels: the loop below kills one by one
	}
	for deadline := time.Now().Add(time.Second); ; time.Sleep(2 * time.Millisecond) {
		pids, _ := e.PIDs()
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
		if len(pids) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // an already ended process is not an error
		}
	}
}

// Remove removes the job's cgroups and disables the controllers enabled for them. The job must have ended: a cgroup
// that still has a process after one second is kept, and the error contains the pids. A second call has no effect.
func (e *enforcer) Remove() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	var left []string
	deadline := time.Now().Add(time.Second)
	for _, dir := range e.s.Made {
		err := removeTree(e.tree, dir)
		for ; errors.Is(err, unix.EBUSY) && time.Now().Before(deadline); err = removeTree(e.tree, dir) {
			time.Sleep(5 * time.Millisecond) // the last process is being reaped
		}
		if err != nil {
			if pids, _ := groupPIDs(e.tree, dir); len(pids) > 0 {
				err = fmt.Errorf("%w (processes %v are still in it)", err, pids)
			}
			errs, left = append(errs, err), append(left, dir)
		}
	}
	e.s.Made = left
	if len(left) > 0 {
		return errors.Join(errs...)
	}
	defer exclusive(nameOn("cgroups", e.s.Roots.Cgroup))() // a job that starts may need the controllers
	for _, on := range e.s.Enabled {
		if !e.othersUnder(on.Dir) {
			e.disable(on)
		}
	}
	e.s.Enabled = nil
	gone := cgroupControl{Why: "the job's cgroup has been removed"}
	e.s.Quota, e.s.Cpuset, e.s.Memory, e.s.Account, e.s.Group = gone, gone, gone, gone, gone
	return nil
}

// othersUnder reports whether dir contains the cgroup of another run, which would silently lose its limits with the
// controllers.
func (e *enforcer) othersUnder(dir string) bool {
	subs, err := e.tree.subdirs(dir)
	return err != nil || slices.ContainsFunc(subs, func(s string) bool { return strings.HasPrefix(filepath.Base(s), groupPrefix) })
}

func gib(bytes uint64) GiB { return GiB(float64(bytes) / (1 << 30)) }
