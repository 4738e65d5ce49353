package launch

import (
	"os"
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
