package resources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Discover determines the usable resources of this machine, container or job slot: CPUs are the minimum of the
// affinity mask and the CPU quotas of all enclosing cgroups, memory the minimum of the machine's memory and the
// limits of all enclosing cgroups, GPUs those that NVML lists and the caller's CUDA_VISIBLE_DEVICES permits.
//
// Inside a Slurm job, its allocation limits all three; see EnclosingJob.
//
// Resources that cannot be determined become notes of the Host. An error means that even the CPUs or the memory are
// unknown. A hanging driver costs at most 15 seconds (or the context's deadline) and a note.
func Discover(ctx context.Context, r Roots) (Host, error) {
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	h, err := discover(ctx, r, visibleDevices{list: visible, set: set, byBus: os.Getenv("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"}, readGPUs)
	if b := EnclosingJob(os.Environ()); b != nil && err == nil && r == (Roots{}) {
		b.limit(&h)
	}
	return h, err
}

// discover is Discover with the environment and the GPU reader as arguments.
func discover(ctx context.Context, r Roots, visible visibleDevices, read gpuReader) (Host, error) {
	h, err := discoverProcessor(r)
	if err != nil {
		return Host{}, err
	}
	all, notes := listGPUs(ctx, read)
	h.Notes = append(h.Notes, notes...)
	h.GPUs, notes = visible.choose(all)
	h.Notes = append(h.Notes, notes...)
	return h, nil
}

// discoverProcessor determines CPUs and memory.
func discoverProcessor(r Roots) (Host, error) {
	var h Host
	ids, cpuErr := r.allowedCPUs()
	machine, memErr := r.machineMemory()
	if err := errors.Join(cpuErr, memErr); err != nil {
		return h, fmt.Errorf("take stock of the machine: %w", err)
	}
	h.CPUIDs, h.CPUs, h.Memory = ids, float64(len(ids)), gib(machine)
	h.CPUModel = r.processorModel()
	hs, err := hierarchies(r, osTree{})
	if err != nil {
		h.Notes = append(h.Notes, fmt.Sprintf("cgroup limits unknown, the machine's own figures are taken: %v", err))
	}
	for _, lim := range enclosingLimits(hs, osTree{}) {
		if lim.cpus > 0 && lim.cpus < h.CPUs {
			h.CPUs = lim.cpus
			h.Notes = append(h.Notes, fmt.Sprintf("CPUs: %.4g by the quota of cgroup v%d %s", lim.cpus, lim.version, lim.dir))
		}
		if lim.memory > 0 && lim.memory < h.Memory.Bytes() {
			h.Memory = gib(lim.memory)
			h.Notes = append(h.Notes, fmt.Sprintf("memory: %.4g GiB by the limit of cgroup v%d %s", float64(h.Memory), lim.version, lim.dir))
		}
	}
	return h, nil
}

// processorModel returns the model name of the first processor in cpuinfo; "" if the architecture does not report one.
func (r Roots) processorModel() string {
	f, err := os.Open(r.proc("cpuinfo"))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 4096)) // the name is among the first lines of many
	for _, line := range strings.Split(string(b), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// machineMemory returns MemTotal of meminfo in bytes.
func (r Roots) machineMemory() (uint64, error) {
	path := r.proc("meminfo")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		v, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
		if err != nil || kib > math.MaxUint64>>10 {
			return 0, fmt.Errorf("read the machine's memory: %s: MemTotal %q", path, v)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("read the machine's memory: %s has no MemTotal", path)
}

// cgroupLimit contains the limits of one enclosing cgroup; 0 means no limit.
type cgroupLimit struct {
	dir     string
	version int
	cpus    float64
	memory  uint64
}

// enclosingLimits returns the limits of all cgroups from the own one up to each mount point. A v2 memory.high counts
// as a limit, because above it the kernel throttles the job until it makes no progress.
func enclosingLimits(hs []hierarchy, t cgroupTree) []cgroupLimit {
	var out []cgroupLimit
	for _, h := range hs {
		for _, dir := range h.chain() {
			l := cgroupLimit{dir: dir, version: h.version}
			l.cpus, _ = readQuota(t, h.version, dir)
			files := []string{"memory.max", "memory.high"}
			if h.version == 1 {
				files = []string{"memory.limit_in_bytes"}
			}
			for _, f := range files {
				if n, ok := readLimit(t, filepath.Join(dir, f)); ok && n > 0 && (l.memory == 0 || n < l.memory) {
					l.memory = n
				}
			}
			if h.version == 1 && h.has("memory") && dir == h.own {
				// Includes the cgroups above the mount point, which are invisible in a container.
				text, _ := t.read(filepath.Join(dir, "memory.stat"))
				if n, ok := readKey(text, "hierarchical_memory_limit"); ok && n > 0 && n < unlimited && (l.memory == 0 || n < l.memory) {
					l.memory = n
				}
			}
			if l.cpus > 0 || l.memory > 0 {
				out = append(out, l)
			}
		}
	}
	return out
}
