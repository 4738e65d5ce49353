package monitor

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/mem"
)

// Host collects hostSample for the whole machine, also inside a container. The zero value reads /proc. CPUPercent
// covers the time since the previous call and is therefore unknown in the first one.
type Host struct {
	// Proc is the root of the proc file system; empty means /proc. Tests set it to recorded trees.
	Proc string

	last cpu.TimesStat
	have bool
}

var _ Collector = (*Host)(nil)

// Name returns "host".
func (h *Host) Name() string { return "host" }

// Collect reads /proc/stat and /proc/meminfo.
func (h *Host) Collect(ctx context.Context, s *Sample) error {
	if h.Proc != "" {
		ctx = context.WithValue(ctx, common.EnvKey, common.EnvMap{common.HostProcEnvKey: h.Proc})
	}
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil || len(times) == 0 {
		return fmt.Errorf("read CPU times of the machine: %w", orNoData(err))
	}
	if h.have {
		s.Host.CPUPercent = busyPercent(&h.last, &times[0])
	}
	h.last, h.have = times[0], true
	vm, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return fmt.Errorf("read memory of the machine: %w", err)
	}
	if vm.Total > 0 && vm.Available <= vm.Total {
		s.Host.MemoryGiB = float64(vm.Total-vm.Available) / (1 << 30)
	}
	return nil
}

// orNoData returns err, or ErrNoData if err is nil.
func orNoData(err error) error {
	if err == nil {
		return ErrNoData
	}
	return err
}

// busyPercent returns the percentage of time that was neither idle, nor waiting for I/O, nor stolen by the
// hypervisor. Guest time is part of user time.
func busyPercent(from, to *cpu.TimesStat) float64 {
	sum := func(t *cpu.TimesStat) (busy, all float64) {
		busy = t.User + t.Nice + t.System + t.Irq + t.Softirq
		return busy, busy + t.Idle + t.Iowait + t.Steal
	}
	b0, a0 := sum(from)
	b1, a1 := sum(to)
	if a1 <= a0 {
		return math.NaN()
	}
	return math.Max(0, math.Min(100, 100*(b1-b0)/(a1-a0)))
}

// MachineCPUs counts the CPUs of the machine, including those that this process may not use.
func MachineCPUs() float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return float64(runtime.NumCPU())
	}
	return math.Max(1, float64(strings.Count(string(data), "\ncpu")))
}
