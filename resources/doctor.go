package resources

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Status is the result of one check of Doctor.
type Status string

const (
	OK      Status = "ok"
	Warn    Status = "warn"    // works with restrictions
	Missing Status = "missing" // not available
)

// Finding is the result of one check of Doctor.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Found describes the state, as free text.
	Found string `json:"found"`
	// Cost is the consequence for the user and Do the remedy. Both are empty if the check passed.
	Cost string `json:"cost,omitempty"`
	Do   string `json:"do,omitempty"`
}

// passed returns a finding of a passed check.
func passed(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: OK, Found: fmt.Sprintf(format, args...)}
}

// Doctor checks the capabilities of the machine for the optimizer. Its only side effects are the creation and
// removal of one cgroup, without which the available controls cannot be determined, and RemoveStale. It takes at most about 20 seconds, when a
// driver or an interpreter hangs. For a recorded tree, it skips the checks that query the kernel or start programs
// (trial cgroup, limits, interpreters, Slurm, clock).
func Doctor(ctx context.Context, r Roots) []Finding {
	h, err := Discover(ctx, r)
	if err != nil {
		return []Finding{{Name: "machine", Status: Missing, Found: err.Error(),
			Cost: "nothing can be planned or run here", Do: "mount /proc, or run on Linux"}}
	}
	fs := []Finding{
		passed("machine", "%.4g CPUs (affinity %s), %.4g GiB of memory", h.CPUs, formatCPUList(h.CPUIDs), float64(h.Memory)),
		checkGPUs(h),
	}
	fs = append(fs, checkCgroups(r)...)
	if r != (Roots{}) {
		return append(fs, checkInotify(r))
	}
	fs = append(fs, checkControl(h)...)
	fs = append(fs, checkRlimits(ctx)...)
	fs = append(fs, checkInotify(r), checkClock(), checkSlurm(ctx))
	fs = append(fs, checkBatch(enclosingWithEnd(ctx))...)
	return append(fs, checkPythons(ctx)...)
}

// checkGPUs lists the GPUs, or the reasons why there are none.
func checkGPUs(h Host) Finding {
	f := Finding{Name: "GPUs"}
	if len(h.GPUs) > 0 {
		var names []string
		for _, g := range h.GPUs {
			names = append(names, g.Name+" "+g.Memory.size())
		}
		slices.Sort(names)
		f.Status, f.Found = OK, fmt.Sprintf("%d: %s", len(h.GPUs), strings.Join(slices.Compact(names), ", "))
		return f
	}
	f.Status, f.Found = Missing, "none"
	for _, n := range h.Notes {
		if strings.Contains(n, "GPU") || strings.Contains(n, "CUDA") {
			f.Found += "; " + n
		}
	}
	f.Cost = "only CPU jobs run here; GPU machines can be planned for with --host"
	f.Do = "where there is a GPU: install the driver until nvidia-smi lists it, and give the container its devices"
	if !nvmlBuilt {
		f.Do = "build with cgo (a C compiler) to see GPUs"
	}
	return f
}

// checkCgroups reports the mounted hierarchies; checkControl reports the usable controls.
func checkCgroups(r Roots) []Finding {
	hs, err := hierarchies(r, osTree{})
	f := Finding{Name: "cgroups mounted"}
	switch {
	case err != nil:
		f.Status, f.Found = Missing, err.Error()
	case len(hs) == 0:
		f.Status, f.Found = Missing, "no hierarchy"
	default:
		var said []string
		for _, h := range hs {
			said = append(said, fmt.Sprintf("v%d at %s (%s)", h.version, h.mount, strings.Join(h.controllers, " ")))
		}
		return []Finding{passed(f.Name, "%s", strings.Join(said, "; "))}
	}
	f.Cost, f.Do = noCgroupCost, noCgroupDo
	return []Finding{f}
}

const (
	noCgroupCost = "memory of a job as a whole is not limited, CPUs are held by affinity alone, and an out-of-memory kill is only guessed"
	noCgroupDo   = "run under a delegated cgroup: systemd-run --user --scope -p Delegate=yes optimize …, or as root, or have the administrator delegate one"
)

// checkControl creates a cgroup as for a job, examines the resulting controls and removes it.
func checkControl(h Host) []Finding {
	e, err := NewEnforcer(EnforceOptions{RunID: "doctor-" + strconv.Itoa(os.Getpid()), Host: h,
		Allocation: Allocation{CPUs: 1, Memory: h.Memory / 2}, Limits: Limits{MemoryMax: h.Memory}})
	if err != nil {
		return []Finding{{Name: "cgroup control", Status: Missing, Found: err.Error(), Cost: noCgroupCost, Do: noCgroupDo}}
	}
	quota := e.s.Quota
	if e.s.Offer != "" { // one CPU is the whole machine
		quota = e.s.Group
	}
	parts := []struct {
		name, cost string
		p          cgroupControl
	}{
		{"CPU quota", "CPU time is bounded by affinity alone", quota},
		{"CPU set", "a process of the job may undo its affinity", e.s.Cpuset},
		{"memory limit", "memory of a job as a whole is not limited, and an out-of-memory kill is only guessed", e.s.Memory},
		{"process group", "processes of a job are followed by parent and session instead of by cgroup", e.s.Group},
	}
	var fs []Finding
	for _, p := range parts {
		if p.p.Why == quotaNotNeeded {
			fs = append(fs, passed(p.name, "not needed: %s", p.p.Why))
			continue
		}
		if p.p.available() {
			fs = append(fs, passed(p.name, "by cgroup v%d %s", p.p.Version, filepath.Dir(p.p.Dir)))
			continue
		}
		fs = append(fs, Finding{Name: p.name, Status: Missing, Found: p.p.Why, Cost: p.cost, Do: noCgroupDo})
	}
	if n := e.RemoveStale(); n > 0 {
		fs = append(fs, passed("cgroups of earlier runs", "%d empty ones of agents that were killed, removed", n))
	}
	if err := e.Remove(); err != nil {
		fs = append(fs, Finding{Name: "cgroup removal", Status: Warn, Found: err.Error(), Cost: "an empty cgroup stays behind", Do: "rmdir it"})
	}
	return fs
}

// checkRlimits checks the resource limits that long runs with many worker processes reach.
func checkRlimits(ctx context.Context) []Finding {
	cases := []struct {
		name     string
		resource int
		enough   uint64
		cost, do string
	}{
		{"open files", unix.RLIMIT_NOFILE, 4096, "data loaders with many workers fail with \"too many open files\"", "ulimit -n 65536 (the hard limit is set in /etc/security/limits.conf)"},
		{"processes", unix.RLIMIT_NPROC, 1024, "jobs with many workers and threads cannot start them", "ulimit -u 4096, or limits.conf"},
		{"address space", unix.RLIMIT_AS, unix.RLIM_INFINITY, "CUDA reserves far more address space than it uses and fails to start", "ulimit -v unlimited"},
	}
	var fs []Finding
	for _, c := range cases {
		var l unix.Rlimit
		if err := unix.Getrlimit(c.resource, &l); err != nil {
			fs = append(fs, Finding{Name: c.name, Status: Warn, Found: "unknown: " + err.Error()})
			continue
		}
		if n, ok := jobOpenFileLimit(ctx); ok && c.resource == unix.RLIMIT_NOFILE {
			l.Cur = n
		}
		found := "at most " + strconv.FormatUint(l.Cur, 10)
		if l.Cur == unix.RLIM_INFINITY {
			found = "not limited"
		}
		f := passed(c.name, "%s", found)
		if l.Cur < c.enough {
			f.Status, f.Cost, f.Do = Warn, c.cost, c.do
		}
		fs = append(fs, f)
	}
	return fs
}

// jobOpenFileLimit returns the limit of open files of a started program. Go raises its own limit and starts programs
// with the original one, so only a started program reports it.
func jobOpenFileLimit(ctx context.Context) (n uint64, ok bool) {
	out, err := exec.CommandContext(ctx, "cat", procRoot+"/self/limits").Output()
	if err != nil {
		return 0, false
	}
	_, after, _ := strings.Cut(string(out), "Max open files")
	f := strings.Fields(after)
	if len(f) == 0 {
		return 0, false
	}
	if f[0] == "unlimited" {
		return unix.RLIM_INFINITY, true
	}
	n, err = strconv.ParseUint(f[0], 10, 64)
	return n, err == nil
}

// checkInotify checks that the inotify limits suffice to watch logs.
func checkInotify(r Roots) Finding {
	f := Finding{Name: "inotify", Cost: "logs are polled instead of watched: rows are seen up to 1 s later"}
	read := func(name string) (int, error) {
		b, err := os.ReadFile(r.proc("sys", "fs", "inotify", name))
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(b)))
	}
	instances, err1 := read("max_user_instances")
	watches, err2 := read("max_user_watches")
	if err1 != nil || err2 != nil {
		f.Status, f.Found = Missing, "its limits cannot be read"
		return f
	}
	f.Found = fmt.Sprintf("%d instances, %d watches a user", instances, watches)
	if instances < 16 || watches < 1024 {
		f.Status, f.Do = Warn, "sysctl fs.inotify.max_user_instances=128 fs.inotify.max_user_watches=65536"
		return f
	}
	f.Status, f.Cost = OK, ""
	return f
}

// checkClock checks whether the kernel considers the clock synchronised.
func checkClock() Finding {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	if err != nil {
		return Finding{Name: "clock", Status: Warn, Found: "its state cannot be read: " + err.Error()}
	}
	if state == unix.TIME_ERROR || tx.Status&unix.STA_UNSYNC != 0 {
		return Finding{Name: "clock", Status: Warn, Found: "not synchronised",
			Cost: "start and finish times in reports may be off; deadlines and budgets are kept on the monotonic clock and are not",
			Do:   "run a time service (systemd-timesyncd, chrony)"}
	}
	return passed("clock", "synchronised")
}
