package resources

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFault25_WhatIsEnforcedOnEachKindOfMachine(t *testing.T) {
	const app = "user.slice/user-1000.slice/user@1000.service/app.slice/"
	cases := map[string]struct {
		machine  string
		readOnly bool
		writes   []string
		join     []string // cgroup.procs files, relative
		says     []string
	}{
		"v2, everything delegated": {machine: "v2-root",
			writes: []string{
				"cgroup.subtree_control: +cpuset", "cgroup.subtree_control: +memory",
				"optimize-r1/cpuset.cpus: 0-1",
				"optimize-r1/memory.max: 8589934592", "optimize-r1/memory.high: 4294967296"},
			join: []string{"optimize-r1/cgroup.procs"},
			says: []string{"CPU time: at most 2 CPUs, by the CPU set", "CPU set: CPUs 0-1, by cgroup v2", "hard limit 8 GiB, soft limit 4 GiB (above it the job is slowed)", "killed together"}},
		"v2, under the user's slice, because the own scope holds processes": {machine: "v2-user",
			writes: []string{
				app + "run-u7.scope/cgroup.subtree_control: +memory", // refused: busy
				app + "cgroup.subtree_control: +cpu",
				app + "optimize-r1/memory.max: 8589934592", app + "optimize-r1/memory.high: 4294967296",
				app + "optimize-r1/cpu.max: 200000 100000"},
			join: []string{app + "optimize-r1/cgroup.procs"},
			says: []string{"CPU time: at most 2 CPUs", "CPU set: CPUs 0-1, by affinity alone", "hard limit 8 GiB"}},
		"v2, read-only container": {machine: "v2-container", readOnly: true,
			says: []string{"CPU time: no quota (cgroup v2 cannot be used", "by affinity alone, which new threads and processes inherit and may undo",
				"each process is held to 8 GiB of private data (RLIMIT_DATA); the sum over processes", "no cgroup holds the job"}},
		"v1 and v2 mixed": {machine: "hybrid",
			writes: []string{
				"cpuset/optimize-r1/cpuset.mems: 0", "cpuset/optimize-r1/cpuset.cpus: 0-1",
				"memory/service/a1/optimize-r1/memory.oom_control: 0",
				"memory/service/a1/optimize-r1/memory.limit_in_bytes: 8589934592", "memory/service/a1/optimize-r1/memory.soft_limit_in_bytes: 4294967296"},
			join: []string{"unified/optimize-r1/cgroup.procs", "cpuset/optimize-r1/cgroup.procs", "cpuacct/optimize-r1/cgroup.procs",
				"memory/service/a1/optimize-r1/cgroup.procs"},
			says: []string{"CPU time: at most 2 CPUs, by the CPU set", "by cgroup v1", "soft limit 4 GiB (acts when the machine runs short)", "held by cgroup v2"}},
		"v1, nested under a cgroup with limits": {machine: "v1-nested",
			writes: []string{
				"cpu,cpuacct/batch/job_7/step_0/optimize-r1/cpu.cfs_period_us: 100000", "cpu,cpuacct/batch/job_7/step_0/optimize-r1/cpu.cfs_quota_us: 200000",
				"memory/batch/job_7/step_0/optimize-r1/memory.oom_control: 0",
				"memory/batch/job_7/step_0/optimize-r1/memory.limit_in_bytes: 8589934592", "memory/batch/job_7/step_0/optimize-r1/memory.soft_limit_in_bytes: 4294967296"},
			join: []string{"cpu,cpuacct/batch/job_7/step_0/optimize-r1/cgroup.procs", "memory/batch/job_7/step_0/optimize-r1/cgroup.procs"},
			says: []string{"at most 2 CPUs, by the quota of cgroup v1", "affinity alone", "killed one by one"}},
		"v1, read-only container": {machine: "v1-container", readOnly: true,
			says: []string{"cgroup v1 cpu cannot be used: mkdir", "cgroup v1 memory cannot be used", "RLIMIT_DATA"}},
		"no cgroups": {machine: "none", says: []string{"this machine shows no cgroup hierarchy", "RLIMIT_DATA"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, c.machine)
			k := &kernelModel{root: r.Cgroup, readOnly: c.readOnly}
			e := enforceOn(t, r, k, Allocation{CPUs: 2, Memory: 4}, Limits{MemoryMax: 8})
			diff(t, "writes", k.writes, c.writes)
			recipe := e.Recipe()
			var join []string
			for _, p := range recipe.Join {
				join = append(join, k.rel(p))
			}
			diff(t, "cgroups to join", join, c.join)
			mention(t, e.Statement(), c.says...)
			if len(recipe.CPUIDs) != 2 {
				t.Errorf("affinity %v, want two CPUs whatever else holds", recipe.CPUIDs)
			}
			if held := e.s.Memory.available(); held == (len(recipe.Rlimits) > 0) {
				t.Errorf("memory cgroup %v and resource limits %v: want exactly one of them", held, recipe.Rlimits)
			}
			if err := e.Remove(); err != nil {
				t.Error(err)
			}
			if left := groupsLeft(t, r.Cgroup); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if c.machine == "v2-root" {
				if on, _ := k.read(filepath.Join(k.root, "cgroup.subtree_control")); on != "" {
					t.Errorf("controllers %q stay switched on above the removed cgroup", on)
				}
			}
		})
	}
}

// A cgroup that limits us must not be left for controllers elsewhere, because the job would escape its limits.
func TestALimitedCgroupIsNotLeft(t *testing.T) {
	r := machine(t, "v2-user")
	scope := filepath.Join(r.Cgroup, "user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope")
	if err := os.WriteFile(filepath.Join(scope, "memory.max"), []byte("1073741824"), 0o644); err != nil {
		t.Fatal(err)
	}
	k := &kernelModel{root: r.Cgroup}
	e := enforceOn(t, r, k, Allocation{CPUs: 2, Memory: 1}, Limits{MemoryMax: 8})
	if e.s.Memory.available() {
		t.Errorf("the job was put into %s, out of the limited cgroup", e.s.Memory.Dir)
	}
	if !strings.HasPrefix(e.s.Group.Dir, scope+"/") {
		t.Errorf("pids and kill: in %q, want a child of the own scope, which needs no controller", e.s.Group.Dir)
	}
	mention(t, e.Statement(), "limits memory.max and is not left")
}

// Controllers enabled in a cgroup that is not chosen are disabled again.
func TestAPassedOverCgroupIsLeftAsItWas(t *testing.T) {
	r := machine(t, "v2-user")
	service := filepath.Join(r.Cgroup, "user.slice/user-1000.slice/user@1000.service")
	for path, text := range map[string]string{"app.slice/cgroup.controllers": "memory pids", "app.slice/cgroup.subtree_control": "pids", "cgroup.subtree_control": "memory pids"} {
		if err := os.WriteFile(filepath.Join(service, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := &kernelModel{root: r.Cgroup}
	e := enforceOn(t, r, k, Allocation{CPUs: 2, Memory: 1}, Limits{MemoryMax: 8})
	if want := filepath.Join(service, "optimize-r1"); e.s.Quota.Dir != want || e.s.Memory.Dir != want {
		t.Errorf("quota in %q, memory in %q, want both in %q", e.s.Quota.Dir, e.s.Memory.Dir, want)
	}
	if on, _ := k.read(filepath.Join(service, "app.slice/cgroup.subtree_control")); on != "pids" {
		t.Errorf("the passed-over cgroup now hands down %q", on)
	}
}

func TestWithoutWritePermissionNothingIsTouched(t *testing.T) {
	for _, name := range []string{"v2-root", "v2-user", "hybrid"} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, name)
			k := &kernelModel{root: r.Cgroup, denied: func(string) bool { return true }}
			e := enforceOn(t, r, k, Allocation{CPUs: 1, Memory: 1}, Limits{MemoryMax: 2})
			diff(t, "writes", k.writes, nil)
			if len(e.Recipe().Join) > 0 {
				t.Errorf("cgroups to join: %v", e.Recipe().Join)
			}
			if _, ok := e.PIDs(); ok {
				t.Error("PIDs without a cgroup says ok")
			}
			if e.Kill() {
				t.Error("Kill without a cgroup says ok")
			}
			if _, _, ok := e.Memory(); ok {
				t.Error("Memory without a cgroup says ok")
			}
		})
	}
}

// An address-space limit breaks CUDA: a GPU job must never get one, and Statement must report this.
func TestAGPUJobGetsNoDataLimit(t *testing.T) {
	e, _ := modelEnforcer(t, "none", Allocation{GPUs: 1, CPUs: 1, Memory: 1}, Limits{MemoryMax: 2})
	if r := e.Recipe(); len(r.Rlimits) > 0 {
		t.Errorf("resource limits %v for a GPU job", r.Rlimits)
	}
	mention(t, e.Statement(), "CUDA reserves far more address space")
	cpu, _ := modelEnforcer(t, "none", Allocation{CPUs: 1, Memory: 1}, Limits{MemoryMax: 2})
	want := rlimit{Resource: unix.RLIMIT_DATA, Soft: 2 << 30, Hard: 2 << 30}
	if r := cpu.Recipe(); !slices.Equal(r.Rlimits, []rlimit{want}) {
		t.Errorf("resource limits %v for a CPU job, want %v", r.Rlimits, want)
	}
}

func TestReadingsOfTheCgroup(t *testing.T) {
	for _, name := range []string{"v2-root", "hybrid"} {
		t.Run(name, func(t *testing.T) {
			e, k := modelEnforcer(t, name, Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
			now, peak, ok := e.Memory()
			if now != 1.5 || peak != 1.5 || !ok {
				t.Errorf("Memory = %v, %v, %v; want 1.5 GiB: anonymous and shared, without the page cache", now, peak, ok)
			}
			stat := e.s.Memory.file("memory.stat")
			if err := os.WriteFile(stat, []byte("anon 1\nshmem 0\ntotal_rss 1\ntotal_shmem 0"), 0o644); err != nil {
				t.Fatal(err)
			}
			again, err := openEnforcer(e.State(), k)
			if err != nil {
				t.Fatal(err)
			}
			if now, peak, ok := again.Memory(); now > 0.001 || peak != 1.5 || !ok {
				t.Errorf("after adoption Memory = %v, peak %v, %v; want the peak kept", now, peak, ok)
			}
			if p, ok := e.KernelPeak(); p != 3 || !ok {
				t.Errorf("KernelPeak = %v, %v", p, ok)
			}
			if n, ok := again.OOMKills(); n != 2 || !ok {
				t.Errorf("OOMKills = %d, %v", n, ok)
			}
			want := map[string]float64{"v2-root": 1.5, "hybrid": 2.5}[name]
			if s, ok := again.CPUSeconds(); s != want || !ok {
				t.Errorf("CPUSeconds = %v, %v; want %v", s, ok, want)
			}
		})
	}
}

func TestPIDsIncludeCgroupsBelow(t *testing.T) {
	e, k := modelEnforcer(t, "v2-root", Allocation{CPUs: 1}, Limits{})
	dir := e.s.Group.Dir
	if err := k.mkdir(filepath.Join(dir, "inner")); err != nil {
		t.Fatal(err)
	}
	for path, pids := range map[string]string{"cgroup.procs": "31\n7\n", "inner/cgroup.procs": "9\n"} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if pids, ok := e.PIDs(); !ok || !slices.Equal(pids, []int{7, 9, 31}) {
		t.Errorf("PIDs = %v, %v", pids, ok)
	}
	begin := time.Now()
	err := e.Remove()
	if err == nil || !strings.Contains(err.Error(), "[7 9 31]") {
		t.Errorf("Remove of a cgroup in use = %v, want the pids named", err)
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("Remove held on for %v", d)
	}
	k.writes = nil
	if !e.Kill() {
		t.Error("Kill = false")
	}
	diff(t, "writes", k.writes, []string{"optimize-r1/cgroup.kill: 1"})
	if err := e.Remove(); err != nil {
		t.Error(err)
	}
	if err := e.Remove(); err != nil {
		t.Errorf("second Remove: %v", err)
	}
}

// A restart of a run recreates its cgroup; one that still contains processes is left unchanged.
func TestTheCgroupOfAnEarlierStart(t *testing.T) {
	e, k := modelEnforcer(t, "v2-root", Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	first := e.s.Group.Dir
	marker := filepath.Join(first, "memory.events")
	if err := os.WriteFile(marker, []byte("oom_kill 99"), 0o644); err != nil {
		t.Fatal(err)
	}
	second := enforceOn(t, e.s.Roots, k, Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	if n, _ := second.OOMKills(); second.s.Group.Dir != first || n != 2 {
		t.Errorf("in %s with %d kills counted, want the empty cgroup made anew", second.s.Group.Dir, n)
	}
	if err := os.WriteFile(filepath.Join(first, "cgroup.procs"), []byte("77"), 0o644); err != nil {
		t.Fatal(err)
	}
	third := enforceOn(t, e.s.Roots, k, Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	if third.s.Group.Dir != first+".2" {
		t.Errorf("in %s, want one beside the cgroup that is in use", third.s.Group.Dir)
	}
}

// Disabling controllers above a running job would silently remove its limits.
func TestRemoveLeavesOtherRunsTheirControllers(t *testing.T) {
	first, k := modelEnforcer(t, "v2-root", Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	other, err := NewEnforcer(EnforceOptions{RunID: "r2", Allocation: Allocation{CPUs: 1}, Roots: first.s.Roots, tree: k})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	if on, _ := k.read(filepath.Join(k.root, "cgroup.subtree_control")); on != "cpuset memory" {
		t.Errorf("controllers %q are left for %s", on, other.s.Group.Dir)
	}
}

func TestADescribedHostChoosesNoCPUsHere(t *testing.T) {
	h := Host{Described: "big", CPUs: 96}
	for i := range 96 {
		h.CPUIDs = append(h.CPUIDs, 95-i)
	}
	e, err := NewEnforcer(EnforceOptions{RunID: "r", Allocation: Allocation{CPUs: 64}, KeepsDevices: true, Host: h, Roots: machine(t, "none")})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Recipe().CPUIDs; !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("affinity %v, want the six CPUs of this machine", got)
	}
	mention(t, e.Statement(), "(64 requested, 6 may be used)", "CUDA_VISIBLE_DEVICES is unchanged")
}

// If a change fails half-way, the reported state must match the state in force.
func TestARefusedChangeOfCPUsChangesNothing(t *testing.T) {
	e, k := modelEnforcer(t, "v2-root", Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	k.denied = func(rel string) bool { return strings.HasSuffix(rel, "cpuset.cpus") }
	not, err := e.Update(Allocation{CPUs: 3, Memory: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mention(t, not, "CPUs: stay at 1: CPU set")
	mention(t, e.Statement(), "at most 1 CPU,", "CPUs 0,")
}

func TestAnEmptyMemoryCgroupIsNoData(t *testing.T) {
	e, _ := modelEnforcer(t, "v2-root", Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	if err := os.WriteFile(e.s.Memory.file("memory.stat"), []byte("anon 0\nshmem 0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if now, peak, ok := e.Memory(); ok || !math.IsNaN(float64(peak)) {
		t.Errorf("Memory = %v, %v, %v before the job is in it", now, peak, ok)
	}
}

func TestFault29_MemoryLimitBelowCurrentUse(t *testing.T) { // 1.5 GiB are in use
	cases := map[string]struct {
		machine string
		to      GiB
		said    string
		write   string // value of the soft limit written; empty for none
		now     GiB    // allocation in force
	}{
		"v2, above the use":            {machine: "v2-root", to: 2, write: "2147483648", now: 2},
		"v2, below the use":            {machine: "v2-root", to: 1, said: "the job uses 1.5 GiB now, more than the 1 GiB requested; stays at 4 GiB", now: 4},
		"v2, up to the hard limit":     {machine: "v2-root", to: 8, write: "max", now: 8},
		"v2, above the hard limit":     {machine: "v2-root", to: 9, said: "above the hard limit of 8 GiB; stays at 4 GiB", now: 4},
		"v1, above the use":            {machine: "hybrid", to: 2, write: "2147483648", now: 2},
		"v1, below the use":            {machine: "hybrid", to: 1, said: "only set as the soft limit", write: "1073741824", now: 1},
		"no cgroup: limit per process": {machine: "none", to: 2, said: "only the limit of 8 GiB per process holds", now: 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e, k := modelEnforcer(t, c.machine, Allocation{CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
			k.writes = nil
			not, err := e.Update(Allocation{CPUs: 1, Memory: c.to}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.said == "" && len(not) > 0 {
				t.Errorf("not applied: %q", not)
			}
			if c.said != "" {
				mention(t, not, c.said)
			}
			var want []string
			if c.write != "" {
				file := map[int]string{1: "memory.soft_limit_in_bytes", 2: "memory.high"}[e.s.Memory.Version]
				want = []string{k.rel(e.s.Memory.file(file)) + ": " + c.write}
			}
			diff(t, "writes", k.writes, want)
			if got := e.s.Allocation.Memory; got != c.now {
				t.Errorf("in force: %v GiB, want %v", got, c.now)
			}
		})
	}
}

func TestUpdateSaysWhatItCannotChange(t *testing.T) {
	e, k := modelEnforcer(t, "v2-root", Allocation{GPUs: 1, CPUs: 1, Memory: 4}, Limits{MemoryMax: 8})
	k.writes = nil
	not, err := e.Update(Allocation{GPUs: 2, CPUs: 3, Memory: 4, BatchSize: 64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mention(t, not, "GPUs: a running process keeps", "batch size and workers")
	diff(t, "writes", k.writes, []string{"optimize-r1/cpuset.cpus: 0-2"})
	mention(t, e.Statement(), "at most 3 CPUs", "CPUs 0-2")
	not, err = e.Update(Allocation{GPUs: 1, CPUs: 64, Memory: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mention(t, not, "64 requested, only 4 may be used here; stays at 3")
	if _, err := e.Update(Allocation{CPUs: 0, Memory: -1}, nil); err == nil {
		t.Error("no CPUs and negative memory accepted")
	}
}

// A quota puts the job into a group of its own in the CPU scheduler, which slows it; it is set only where nothing else
// bounds the CPU time.
func TestQuotaOnlyWhereNeeded(t *testing.T) {
	for _, name := range []string{"v2-root", "v2-user", "hybrid", "v1-nested"} {
		r := machine(t, name)
		allowed, err := r.allowedCPUs()
		if err != nil {
			t.Fatal(err)
		}
		k := &kernelModel{root: r.Cgroup}
		e := enforceOn(t, r, k, Allocation{CPUs: len(allowed), Memory: 1}, Limits{MemoryMax: 2})
		if e.s.Quota.available() || !e.s.Memory.available() || slices.ContainsFunc(k.writes, func(w string) bool { return strings.Contains(w, "+cpu") && !strings.Contains(w, "+cpuset") }) {
			t.Errorf("%s: all CPUs: quota %v, memory %v, writes %q", name, e.s.Quota, e.s.Memory, k.writes)
		}
		for _, p := range e.Recipe().Join {
			if hierarchy, _, _ := strings.Cut(k.rel(p), "/"); slices.Contains(strings.Split(hierarchy, ","), "cpu") {
				t.Errorf("%s: all CPUs: the job joins %s", name, k.rel(p))
			}
		}
		if err := e.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// A job that had all CPUs and gets fewer while it runs gets the quota then where there is no CPU set.
func TestQuotaOfALaterCut(t *testing.T) {
	const app = "user.slice/user-1000.slice/user@1000.service/app.slice/"
	for name, want := range map[string][]string{
		"v2-root": {"optimize-r1/cpuset.cpus: 0"},
		"v2-user": {app + "cgroup.subtree_control: +cpu", app + "optimize-r1/cpu.max: 100000 100000"},
	} {
		r := machine(t, name)
		allowed, err := r.allowedCPUs()
		if err != nil {
			t.Fatal(err)
		}
		k := &kernelModel{root: r.Cgroup}
		launched := enforceOn(t, r, k, Allocation{CPUs: len(allowed), Memory: 1}, Limits{MemoryMax: 2})
		e, err := openEnforcer(launched.State(), k) // by a later agent
		if err != nil {
			t.Fatal(err)
		}
		k.writes = nil
		if _, err := e.Update(Allocation{CPUs: 1, Memory: 1}, nil); err != nil {
			t.Fatal(err)
		}
		diff(t, name+": writes", k.writes, want)
		mention(t, e.Statement(), "CPU time: at most 1 CPU, by the")
		if _, err := e.Update(Allocation{CPUs: 2, Memory: 1}, nil); err != nil {
			t.Fatal(err)
		}
		mention(t, e.Statement(), "CPU time: at most 2 CPUs, by the")
		e, err = openEnforcer(e.State(), k) // by the keeper
		if err == nil {
			err = e.Remove()
		}
		if left := groupsLeft(t, r.Cgroup); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
		if on, _ := k.read(filepath.Join(k.root, app, "cgroup.subtree_control")); strings.Contains(on, "cpu") {
			t.Errorf("%s: controllers %q stay switched on above the removed cgroup", name, on)
		}
	}
}

// A job that had all CPUs gets no quota of cgroup v1 later: affinity alone holds it then, and the statement says why.
func TestLaterCutOnV1WithoutCPUSet(t *testing.T) {
	r := machine(t, "v1-nested")
	allowed, err := r.allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	k := &kernelModel{root: r.Cgroup}
	e := enforceOn(t, r, k, Allocation{CPUs: len(allowed), Memory: 1}, Limits{MemoryMax: 2})
	mention(t, e.Statement(), "CPU time: not bounded, the job may use all CPUs")
	k.writes = nil
	if not, err := e.Update(Allocation{CPUs: 1, Memory: 1}, nil); err != nil || len(not) > 0 || len(k.writes) > 0 {
		t.Errorf("not applied %q, writes %q, %v", not, k.writes, err)
	}
	mention(t, e.Statement(), "CPU time: no quota (the job was launched with all CPUs); affinity alone bounds it",
		"CPU set: CPUs 0, by affinity alone, which new threads and processes inherit and may undo")
}

// A CPU set that is offered but refuses leaves the quota.
func TestQuotaWhereTheCPUSetRefuses(t *testing.T) {
	r := machine(t, "v2-root")
	noSet := func(rel string) bool { return strings.HasSuffix(rel, "cpuset.cpus") }
	e := enforceOn(t, r, &kernelModel{root: r.Cgroup, denied: noSet}, Allocation{CPUs: 1, Memory: 1}, Limits{MemoryMax: 2})
	mention(t, e.Statement(), "CPU time: at most 1 CPU, by the quota of cgroup v2")
}

// v1 rejects a child's quota above the parent's; the other limits must still be enforced.
func TestQuotaAboveTheParents(t *testing.T) {
	r := machine(t, "hybrid")
	if err := os.WriteFile(filepath.Join(r.Cgroup, "cpu/cpu.cfs_quota_us"), []byte("50000"), 0o644); err != nil {
		t.Fatal(err)
	}
	noSet := func(rel string) bool { return strings.HasSuffix(rel, "cpuset.cpus") }
	e := enforceOn(t, r, &kernelModel{root: r.Cgroup, denied: noSet}, Allocation{CPUs: 1, Memory: 1}, Limits{MemoryMax: 2})
	if e.s.Quota.available() || !e.s.Memory.available() || e.s.Cpuset.available() {
		t.Errorf("quota %v, memory %v, cpuset %v", e.s.Quota, e.s.Memory, e.s.Cpuset)
	}
	mention(t, e.Statement(), "CPU time: no quota (cgroup v1 cpu refuses")
}

func TestOpenEnforcerRefusesForeignState(t *testing.T) {
	cases := map[string]string{
		"not JSON":         `{`,
		"empty":            ``,
		"newer schema":     `{"schema": 99}`,
		"somebody's group": `{"schema": 1, "made": ["/sys/fs/cgroup/system.slice"]}`,
		"relative":         `{"schema": 1, "made": ["optimize-x"]}`,
	}
	for name, state := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenEnforcer([]byte(state)); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestImpossibleRequestsAreRefused(t *testing.T) {
	cases := map[string]struct {
		a Allocation
		l Limits
	}{
		"no CPUs":              {a: Allocation{Memory: 1}},
		"negative GPUs":        {a: Allocation{GPUs: -1, CPUs: 1}},
		"negative memory":      {a: Allocation{CPUs: 1, Memory: -1}},
		"above the hard limit": {a: Allocation{CPUs: 1, Memory: 4}, l: Limits{MemoryMax: 2}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, "v2-root")
			k := &kernelModel{root: r.Cgroup}
			if _, err := NewEnforcer(EnforceOptions{RunID: "r", Allocation: c.a, Limits: c.l, Roots: r, tree: k}); err == nil {
				t.Error("accepted")
			}
			if len(k.writes) > 0 || len(groupsLeft(t, r.Cgroup)) > 0 {
				t.Errorf("traces left: %v", k.writes)
			}
		})
	}
}

func TestGroupNameIsOnePathElement(t *testing.T) {
	cases := map[string]string{
		"2026-11-20_a.1": "optimize-2026-11-20_a.1", "../../etc": "optimize-..-..-etc", "": "optimize-run",
		"a b/é\n": "optimize-a-b---", strings.Repeat("x", 500): "optimize-" + strings.Repeat("x", 100),
	}
	for in, want := range cases {
		if got := groupName(in); got != want {
			t.Errorf("groupName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestChooseCPUs(t *testing.T) {
	cases := map[string]struct {
		allowed, held []int
		load          map[int]int
		n             int
		want          []int
	}{
		"lowest first":                  {allowed: []int{2, 3, 5, 7}, n: 2, want: []int{2, 3}},
		"away from other pinned jobs":   {allowed: []int{0, 1, 2, 3}, load: map[int]int{0: 2, 1: 1}, n: 2, want: []int{2, 3}},
		"a running job keeps its CPUs":  {allowed: []int{0, 1, 2, 3}, held: []int{1}, load: map[int]int{1: 5}, n: 2, want: []int{0, 1}},
		"all when there are not enough": {allowed: []int{4, 5}, n: 9, want: []int{4, 5}},
		"none to choose from":           {n: 2, want: nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := leastLoaded(c.allowed, c.held, c.load, c.n); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPinnedLoadCountsOtherJobs(t *testing.T) {
	r := machine(t, "none")
	procs := map[string]string{
		"10/status": "Name:\tjob\nVmSize:\t 1 kB\nCpus_allowed_list:\t0-1\n",
		"11/status": "Name:\tjob\nVmSize:\t 1 kB\nCpus_allowed_list:\t1\n",
		"12/status": "Name:\tshell\nVmSize:\t 1 kB\nCpus_allowed_list:\t0-5\n",
		"13/status": "Name:\tkworker/2\nCpus_allowed_list:\t2\n",
		"14/status": "garbage",
	}
	for path, text := range procs {
		full := filepath.Join(r.Proc, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	load := pinnedLoad(r, 6, []string{"1", "4-5", "", "of another version"})
	if len(load) != 4 || load[0] != 1 || load[1] != 3 || load[4] != 1 || load[5] != 1 {
		t.Errorf("load %v, want CPU 0: 1, CPU 1: 3, CPUs 4 and 5: 1", load)
	}
}
