package resources

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newRealEnforcer enforces on this machine and checks at the end that nothing remains.
func newRealEnforcer(t *testing.T, a Allocation, l Limits) *enforcer {
	t.Helper()
	return newRealEnforcerOn(t, osTree{}, a, l)
}

// newRealEnforcerOn is newRealEnforcer with restricted access to the cgroups.
func newRealEnforcerOn(t *testing.T, tree cgroupTree, a Allocation, l Limits) *enforcer {
	t.Helper()
	e, err := NewEnforcer(EnforceOptions{RunID: fmt.Sprintf("test-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid()), Allocation: a, Limits: l, tree: tree})
	if err != nil {
		t.Fatal(err)
	}
	dirs := slices.Clone(e.s.Made)
	t.Cleanup(func() {
		e.Kill()
		if err := e.Remove(); err != nil {
			t.Error(err)
		}
		for _, dir := range dirs {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s was left behind (%v)", dir, err)
			}
		}
	})
	return e
}

// A job must see its share through sched_getaffinity on every machine, with or without cgroups.
func TestAffinityIsTheShare(t *testing.T) {
	allowed, err := Roots{}.allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]Roots{"as this machine is": {}, "no cgroups": {Cgroup: t.TempDir()}}
	for name, roots := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := NewEnforcer(EnforceOptions{RunID: fmt.Sprint("test-affinity-", os.Getpid()), Allocation: Allocation{CPUs: 1}, Roots: roots})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Remove(); err != nil {
					t.Error(err)
				}
			})
			c := startChild(t, "busy", e.Recipe())
			t.Cleanup(func() { _ = c.Process.Kill(); _ = c.wait() })
			if got := c.affinity(); len(got) != 1 || !slices.Contains(allowed, got[0]) {
				t.Fatalf("the job's affinity is %v, want one of %v", got, allowed)
			}
			if len(allowed) < 2 {
				return
			}
			if not, err := e.Update(Allocation{CPUs: 2}, []int{c.Process.Pid}); err != nil || len(not) > 0 {
				t.Fatalf("Update: %v, not applied %q", err, not)
			}
			for _, tid := range threads(Roots{}, fmt.Sprint(c.Process.Pid)) {
				var set unix.CPUSet
				if err := unix.SchedGetaffinity(tid, &set); err != nil {
					t.Fatal(err)
				}
				if n := set.Count(); n != 2 {
					t.Errorf("thread %d has %d CPUs after the change, want 2", tid, n)
				}
			}
		})
	}
}

// withoutCpuset is the kernel's cgroup tree without CPU sets.
type withoutCpuset struct{ osTree }

func (w withoutCpuset) write(path, value string) error {
	if strings.HasSuffix(path, "cpuset.cpus") || value == "+cpuset" {
		return unix.EACCES
	}
	return w.osTree.write(path, value)
}

// Three busy threads that have undone their affinity are held to one CPU: by the CPU set, and by the quota without one.
func TestBusyJobIsHeld(t *testing.T) {
	allowed, _ := Roots{}.allowedCPUs()
	if len(allowed) < 2 {
		t.Skip("one CPU only: a limit of one cannot be told from none")
	}
	for name, tree := range map[string]cgroupTree{"CPU set": osTree{}, "quota": withoutCpuset{}} {
		t.Run(name, func(t *testing.T) {
			e := newRealEnforcerOn(t, tree, Allocation{CPUs: 1}, Limits{})
			if name == "quota" && !e.s.Quota.available() || name != "quota" && !e.s.Cpuset.available() {
				t.Skip("no writable controller here: ", e.s.Quota.Why, e.s.Cpuset.Why)
			}
			r := e.Recipe()
			r.CPUIDs = nil
			c := startChild(t, "busy", r)
			time.Sleep(200 * time.Millisecond)
			if share := c.cpuShare(1500 * time.Millisecond); share > 1.2 || share <= 0 { // the lower bound depends on the load of the machine
				t.Errorf("three busy threads under a limit of 1 CPU used %.2f CPUs", share)
			}
			if s, ok := e.CPUSeconds(); ok != e.s.Account.available() || ok && s <= 0 {
				t.Errorf("CPUSeconds = %v, %v after a busy second; accounting by %+v", s, ok, e.s.Account)
			}
		})
	}
}

// A running job is made smaller and larger; its usage and its affinity follow immediately.
func TestUpdateOfARunningJob(t *testing.T) {
	allowed, err := Roots{}.allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		t.Skip("one CPU only: nothing to change")
	}
	e := newRealEnforcer(t, Allocation{CPUs: 2, Memory: 0.25}, Limits{MemoryMax: 0.5})
	c := startChild(t, "busy", e.Recipe())
	if not, err := e.Update(Allocation{CPUs: 1, Memory: 0.25}, []int{c.Process.Pid}); err != nil || len(not) > 0 {
		t.Fatalf("Update to 1 CPU: %v, not applied %q", err, not)
	}
	if got := c.affinity(); len(got) != 1 {
		t.Errorf("affinity %v after the change to 1 CPU", got)
	}
	if share := c.cpuShare(time.Second); share > 1.2 {
		t.Errorf("three busy threads on 1 CPU used %.2f CPUs", share)
	} else {
		t.Logf("changed to 1 CPU: used %.2f", share)
	}
	adopted, err := OpenEnforcer(e.State())
	if err != nil {
		t.Fatal(err)
	}
	if not, err := adopted.Update(Allocation{CPUs: 2, Memory: 0.25}, []int{c.Process.Pid}); err != nil || len(not) > 0 {
		t.Fatalf("Update to 2 CPUs by an other process: %v, not applied %q", err, not)
	}
	for _, tid := range threads(Roots{}, fmt.Sprint(c.Process.Pid)) {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &set); err != nil || set.Count() != 2 {
			t.Errorf("thread %d has CPUs %v after the change back to 2 (%v)", tid, members(set), err)
		}
	}
	t.Logf("changed to 2 CPUs: used %.2f", c.cpuShare(500*time.Millisecond))
}

// Without a memory cgroup, a process must observe its data limit as a failed allocation, not as an OOM kill.
func TestDataLimitHoldsAProcess(t *testing.T) {
	e, err := NewEnforcer(EnforceOptions{RunID: "r", Roots: Roots{Cgroup: t.TempDir()},
		Allocation: Allocation{CPUs: 1, Memory: 0.5}, Limits: Limits{MemoryMax: 1}})
	if err != nil {
		t.Fatal(err)
	}
	c := startChild(t, "eat", e.Recipe())
	if said := c.ask("64"); said != "ate 64" {
		t.Errorf("within the limit: %q", said)
	}
	if said := c.ask("1100"); !strings.HasPrefix(said, "refused: cannot allocate memory") {
		t.Errorf("above the limit: %q", said)
	}
}

// A recipe that cannot be applied in part reports each failure, and the rest is applied.
func TestRecipeReportsWhatFails(t *testing.T) {
	allowed, err := Roots{}.allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	c := startChildRaw(t, "sleep", Recipe{Join: []string{t.TempDir() + "/gone/cgroup.procs"}, CPUIDs: allowed[:1]})
	if said := c.line(); !strings.Contains(said, "join the job's cgroup") {
		t.Errorf("said %q", said)
	}
	if said := c.line(); said != "ready" {
		t.Fatalf("said %q, want ready", said)
	}
	if got := c.affinity(); !slices.Equal(got, allowed[:1]) {
		t.Errorf("affinity %v, want %v", got, allowed[:1])
	}
}

// A thread that the job pinned itself keeps its mask as long as the job's share contains it.
func TestAffinityKeepsTheJobsOwnPinning(t *testing.T) {
	allowed, err := Roots{}.allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		t.Skip("one CPU only")
	}
	c := startChild(t, "sleep", Recipe{CPUIDs: allowed[:2]})
	set := cpuSet(allowed[1:2])
	if err := unix.SchedSetaffinity(c.Process.Pid, &set); err != nil {
		t.Fatal(err)
	}
	if refused := setAffinity(Roots{}, []int{c.Process.Pid}, allowed[:2], allowed); len(refused) > 0 {
		t.Fatal(refused)
	}
	if got := c.affinity(); !slices.Equal(got, allowed[1:2]) {
		t.Errorf("the pinned thread was moved to %v", got)
	}
	if refused := setAffinity(Roots{}, []int{c.Process.Pid}, allowed[:2], allowed[:1]); len(refused) > 0 {
		t.Fatal(refused)
	}
	if got := c.affinity(); !slices.Equal(got, allowed[:1]) {
		t.Errorf("outside the share the thread is on %v, want %v", got, allowed[:1])
	}
}

func TestFault26_OOMInsideTheJobsCgroup(t *testing.T) {
	e := newRealEnforcer(t, Allocation{CPUs: 1, Memory: 0.0625}, Limits{MemoryMax: 0.125})
	if !e.s.Memory.available() {
		t.Skip("no writable memory controller here: ", e.s.Memory.Why)
	}
	before, ok := e.OOMKills()
	if !ok || before != 0 {
		t.Fatalf("OOMKills = %d, %v in a fresh cgroup", before, ok)
	}
	c := startChild(t, "eat", e.Recipe())
	if said := c.ask("32"); said != "ate 32" {
		t.Fatalf("within the limit: %q", said)
	}
	now, peak, ok := e.Memory()
	if !ok || now < 0.031 || now > 0.125 || peak < now {
		t.Errorf("Memory = %.4f GiB, peak %.4f, %v with 32 MiB touched", now, peak, ok)
	}
	if said := c.ask("400"); said != "" {
		t.Fatalf("above the hard limit the job went on: %q", said)
	}
	err := c.wait()
	ws, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	if !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("the job ended with %v, want SIGKILL", err)
	}
	if n, ok := e.OOMKills(); !ok || n == 0 {
		t.Errorf("OOMKills = %d, %v after the kill", n, ok)
	}
	if _, kept, ok := e.Memory(); !ok || kept < peak {
		t.Errorf("the peak fell from %.4f to %.4f when the job ended", peak, kept)
	}
}

func TestKillReachesAProcessThatLeftTheGroup(t *testing.T) {
	e := newRealEnforcer(t, Allocation{CPUs: 1}, Limits{})
	if !e.s.Group.available() {
		if e.Kill() {
			t.Error("Kill without a cgroup says that it killed")
		}
		t.Skip("no writable cgroup here: ", e.s.Group.Why)
	}
	c := startChild(t, "tree", e.Recipe())
	var grandchild int
	if _, err := fmt.Sscanf(c.line(), "child %d", &grandchild); err != nil {
		t.Fatal(err)
	}
	pids, ok := e.PIDs()
	if !ok || !slices.Contains(pids, c.Process.Pid) || !slices.Contains(pids, grandchild) {
		t.Fatalf("PIDs = %v, %v; want %d and %d in it", pids, ok, c.Process.Pid, grandchild)
	}
	go c.wait()
	if !e.Kill() {
		t.Fatal("Kill says that something is left")
	}
	if pids, _ := e.PIDs(); len(pids) > 0 {
		t.Errorf("%v are still there after Kill", pids)
	}
	t.Log(strings.Join(e.Statement(), "\n"))
}

// BenchmarkTick measures one sample of a running job: its processes, memory, OOM kills and CPU time.
func BenchmarkTick(b *testing.B) {
	e, err := NewEnforcer(EnforceOptions{RunID: fmt.Sprint("bench-", os.Getpid()), Allocation: Allocation{CPUs: 1}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := e.Remove(); err != nil {
			b.Error(err)
		}
	}()
	if !e.s.Memory.available() {
		b.Skip("no writable memory controller here: ", e.s.Memory.Why)
	}
	b.ReportAllocs()
	for b.Loop() {
		e.PIDs()
		e.Memory()
		e.OOMKills()
		e.CPUSeconds()
	}
}

// BenchmarkNewEnforcer measures the time that enforcement adds to the start of a job.
func BenchmarkNewEnforcer(b *testing.B) {
	for b.Loop() {
		e, err := NewEnforcer(EnforceOptions{RunID: fmt.Sprint("bench-", os.Getpid()), Allocation: Allocation{CPUs: 1, Memory: 1}, Limits: Limits{MemoryMax: 1}})
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
