package launch

import (
	"slices"
	"strings"
	"testing"

	"trainopt/resources"
)

// heldMemory starts a job with a hard memory limit, and skips where no cgroup can hold it.
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

// Case 26: the job outgrows its cgroup. SIGKILL was the kernel's, and that is what is reported.
func TestCase26OutOfMemory(t *testing.T) {
	t.Parallel()
	t.Run("the main process", func(t *testing.T) {
		e := waitEnd(t, heldMemory(t, 0.0625, "eat", "512", "0"))
		if e.Reason != OOM || e.Signal != "SIGKILL" || !strings.Contains(e.Detail, "memory limit") {
			t.Errorf("exit = %+v, want oom", e)
		}
		if e.PeakMemoryGiB == nil || *e.PeakMemoryGiB < 0.05 || *e.PeakMemoryGiB > 0.07 {
			t.Errorf("peak = %v GiB, want the limit of 0.0625", e.PeakMemoryGiB)
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

// Totals of memory and processor time come from the kernel, with or without a cgroup.
func TestTotals(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		e := waitEnd(t, start(t, testLocal(), testCommand(t, "eat", "200", "0")))
		if e.PeakMemoryGiB == nil || *e.PeakMemoryGiB < 0.19 || *e.PeakMemoryGiB > 0.4 {
			t.Errorf("peak = %+v, want a little above 200 MiB", e)
		}
	})
	t.Run("processor", func(t *testing.T) {
		e := waitEnd(t, start(t, testLocal(), testCommand(t, "burners", "2", "300")))
		if e.CPUSeconds == nil || *e.CPUSeconds < 0.59 || *e.CPUSeconds > 3 {
			t.Errorf("exit = %+v, want the processor time of both children, a little above 0.6 s", e)
		}
	})
}
