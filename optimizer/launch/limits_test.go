package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/resources"
)

// heldMemory starts a job with a hard memory limit; it skips the test if no cgroup can enforce one.
func heldMemory(t *testing.T, gib resources.GiB, args ...string) Job {
	c := testCommand(t, args...)
	c.Limits.MemoryMax, c.Allocation.Memory = gib, gib
	j := start(t, testLocal(), c)
	if !slices.ContainsFunc(j.Enforced(), func(s string) bool {
		return strings.HasPrefix(s, "memory:") && strings.Contains(s, "by cgroup")
	}) {
		t.Skipf("no cgroup holds memory on this machine: %q", j.Enforced())
	}
	return j
}

// The job exceeds its cgroup's limit: the SIGKILL is attributed to the kernel.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	t.Run("the main process", func(t *testing.T) {
		e := waitEnd(t, heldMemory(t, 0.0625, "eat", "512", "0"))
		if e.Reason != OOM || e.Signal != "SIGKILL" || !strings.Contains(e.Detail, "memory limit") {
			t.Errorf("exit = %+v, want oom", e)
		}
		if *e.PeakMemoryGiB < 0.05 || *e.PeakMemoryGiB > 0.07 {
			t.Errorf("peak = %v GiB, want the limit of 0.0625", *e.PeakMemoryGiB)
		}
	})
	t.Run("a worker, and main goes on to fail", func(t *testing.T) {
		e := waitEnd(t, heldMemory(t, 0.0625, "feed", "5", "512"))
		if e.Reason != OOM || e.Code != 5 {
			t.Errorf("exit = %+v, want oom with the main process's code 5", e)
		}
	})
	t.Run("killed by someone within the limit", func(t *testing.T) {
		e := waitEnd(t, heldMemory(t, 0.0625, "die", "9"))
		if e.Reason != Killed || e.Signal != "SIGKILL" {
			t.Errorf("exit = %+v, want killed", e)
		}
	})
}

// The totals of memory and processor time are the kernel's, with or without a cgroup.
func TestTotals(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		e := waitEnd(t, start(t, testLocal(), testCommand(t, "eat", "200", "0")))
		if *e.PeakMemoryGiB < 0.19 || *e.PeakMemoryGiB > 0.4 || e.PeakAtMost {
			t.Errorf("peak = %v GiB, want a little above 200 MiB", *e.PeakMemoryGiB)
		}
	})
	t.Run("processor", func(t *testing.T) {
		e := waitEnd(t, start(t, testLocal(), testCommand(t, "burners", "2", "300")))
		if e.CPUSeconds == nil || *e.CPUSeconds < 0.59 || *e.CPUSeconds > 3 {
			t.Errorf("exit = %+v, want the processor time of both children, a little above 0.6 s", e)
		}
	})
}

// sampledMemory is an enforcer that has sampled a peak below the mark of the kernel.
type sampledMemory struct {
	enforcer
	peak, mark resources.GiB
}

func (s sampledMemory) Memory() (now, peak resources.GiB, ok bool) { return 0, s.peak, s.peak > 0 }
func (s sampledMemory) KernelPeak() (resources.GiB, bool)          { return s.mark, true }
func (sampledMemory) CPUSeconds() (float64, bool)                  { return 0, false }

// TestPeakResident: the resident set of a process, which includes the pages of files that it maps, is recorded as such, and only
// where no better value of the peak memory is known.
func TestPeakResident(t *testing.T) {
	if err := exec.Command(selfExe(), asChild, "exit", "0").Run(); err != nil { // whose memory the kernel records
		t.Fatal(err)
	}
	const tiny, huge = resources.GiB(1e-6), resources.GiB(1e6)
	for name, c := range map[string]struct {
		enforce  enforcer
		samples  int
		oom      bool
		peak     resources.GiB // 0: that of the kernel's process
		resident bool
	}{
		"without a cgroup":      {nil, 20, false, 0, true},
		"a cgroup without data": {sampledMemory{peak: 0}, 20, false, 0, true},
		"few samples":           {sampledMemory{peak: tiny}, fewSamples - 1, false, 0, true},
		"few, but larger":       {sampledMemory{peak: huge}, fewSamples - 1, false, huge, false},
		"enough samples":        {sampledMemory{peak: tiny}, fewSamples, false, tiny, false},
		"at the limit":          {sampledMemory{peak: tiny, mark: 2 * tiny}, 1, true, 2 * tiny, false},
	} {
		var e Exit
		k := &keeper{samples: c.samples}
		if c.enforce != nil {
			k.enforce = c.enforce
		}
		k.usage(&e, c.oom)
		if e.PeakMemoryGiB == nil || e.PeakResident != c.resident || !c.resident && *e.PeakMemoryGiB != float64(c.peak) || c.resident && (*e.PeakMemoryGiB <= float64(tiny) || *e.PeakMemoryGiB >= float64(huge)) {
			t.Errorf("%s: %+v, want %g, resident: %t", name, e, float64(c.peak), c.resident)
		}
	}
}

func TestOOMCounters(t *testing.T) {
	for name, tc := range map[string]struct {
		cgroups string
		want    []oomCounter
	}{
		"v2":        {"0::/user.slice/a\n", []oomCounter{"/sys/fs/cgroup/user.slice/a/memory.events"}},
		"container": {"0::/\n", []oomCounter{"/sys/fs/cgroup/memory.events"}},
		"hybrid": {"3:cpu,cpuacct:/x\n2:memory:/y\n0::/z\n",
			[]oomCounter{"/sys/fs/cgroup/memory/y/memory.oom_control", "/sys/fs/cgroup/z/memory.events"}},
		"colon in the path": {"2:memory:/a:b\n", []oomCounter{"/sys/fs/cgroup/memory/a:b/memory.oom_control"}},
		"nothing":           {"", nil},
		"nonsense":          {"x\n1:2\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := oomCounters(tc.cgroups); !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// TestMemoryHeld: that memory sufficed is known only with a count from before the job which has not changed.
func TestMemoryHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.events")
	if err := os.WriteFile(path, []byte("oom_kill 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := func(n uint64) *uint64 { return &n }
	for name, c := range map[string]struct {
		k    *keeper
		want bool
	}{
		"no kill":         {&keeper{oomNear: oomCounter(path), oomBefore: before(3)}, true},
		"a kill":          {&keeper{oomNear: oomCounter(path), oomBefore: before(2)}, false},
		"by a standby":    {&keeper{oomNear: oomCounter(path)}, false},
		"without a count": {&keeper{oomNear: oomCounter(path + "x"), oomBefore: before(0)}, false},
	} {
		if have := c.k.memoryHeld(); have != c.want {
			t.Errorf("%s: %t, want %t", name, have, c.want)
		}
	}
}

func TestOOMCounterReads(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		n    uint64
		ok   bool
	}{
		"v1":     {"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3, true},
		"v2":     {"low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n", 1, true},
		"old v1": {"oom_kill_disable 0\nunder_oom 0\n", 0, false},
		"empty":  {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := oomCounter(write(t, filepath.Join(t.TempDir(), "f"), tc.text, 0o600))
			if n, ok := c.read(); n != tc.n || ok != tc.ok {
				t.Errorf("%d, %v; want %d, %v", n, ok, tc.n, tc.ok)
			}
		})
	}
}
