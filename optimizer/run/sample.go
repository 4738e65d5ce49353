package run

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"

	"trainopt/monitor"
	"trainopt/optimizer/launch"
)

// sampling samples the machine and the job.
type sampling struct {
	sampler *monitor.Sampler
	tree    launch.ProcessTree // of the running job; nil if unknown
	remote  remoteSampler      // samples the running job where it is; nil for this machine
	last    monitor.Sample
	energy  map[string]float64 // last reading per device, joules
	// machineCPUs is the number of CPUs of the whole machine, to which the host's utilisation refers.
	machineCPUs float64
	haveJ       bool
	cpuJoules   float64 // last reading of the CPU energy
}

func (s *sampling) pids() ([]int, error) {
	if s.tree == nil {
		return nil, monitor.ErrNoData
	}
	return s.tree.PIDs()
}

func (s *sampling) detach() {
	s.tree, s.remote = nil, nil
	s.last = monitor.NoSample(s.last.At)
}

// openInstruments opens the observer, the finder of checkpoints, the log, the sampler and the tables of the run.
func (r *run) openInstruments() {
	r.openObserver()
	r.openCheckpoints()
	r.log = r.openLog()
	r.sampler = &sampling{energy: map[string]float64{}, last: monitor.NoSample(r.Clock.Now()), machineCPUs: monitor.MachineCPUs()}
	r.sampler.sampler = &monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: r.sampler.pids}, r.powerCounters()}}
	if r.Config.elsewhere() {
		r.sampler.sampler.Collectors = nil // the load of this machine does not concern the job
	} else if r.Limits.GPUs.Max > 0 && r.Host.Described == "" {
		r.sampler.sampler.Collectors = append(r.sampler.sampler.Collectors, monitor.OpenNVML())
	}
	if dir := lookup(r.Environ, "OPTIMIZER_DEVICE_ACTIVITY"); dir != "" {
		r.sampler.sampler.Collectors = append(r.sampler.sampler.Collectors, &monitor.Activity{Dir: dir})
	}
	r.openNotices()
	var err error
	if r.tables, err = monitor.OpenTables(r.dir.Dir()); err != nil {
		r.event(Warning, "%v", err)
	}
}

// powerCounters returns the collector of CPU energy; HOST_SYS is where a container has the machine's /sys, as for gopsutil.
func (r *run) powerCounters() *monitor.RAPL {
	return &monitor.RAPL{Root: filepath.Join(cmp.Or(lookup(r.Environ, "HOST_SYS"), "/sys"), "class", "powercap")}
}

func (r *run) closeInstruments() {
	r.log.Close()
	r.sampler.sampler.Close()
	r.tables.Close()
	r.closeNotices()
}

// sample reads host, process tree and devices once, and adds the readings to the current segment.
func (r *run) sample(ctx context.Context) {
	s, errs := r.sampler.sampler.Sample(ctx, r.Clock.Now())
	for _, err := range errs {
		r.warnOnce(err.Error())
	}
	if remote := r.sampler.remote; remote != nil {
		s = remote.Sample()
	} else {
		s.GPUs = slices.DeleteFunc(s.GPUs, func(g monitor.GPUSample) bool {
			return !slices.Contains(r.Current.GPUIDs, g.UUID) && !(r.Lease != nil && slices.Contains(r.Lease.Devices, g.UUID))
		})
	}
	r.sampler.last = s
	r.Joules += r.sampler.energyUsed(s.GPUs)
	if v := s.Host.CPUEnergyJ; !math.IsNaN(v) {
		if r.CPUJoules == nil {
			r.CPUJoules = new(float64)
		}
		*r.CPUJoules += v - r.sampler.cpuJoules
		r.sampler.cpuJoules = v
	}
	seg := r.Progress.Current()
	if seg == nil || r.job == nil {
		return
	}
	if v := s.Tree.MemoryGiB; v > seg.PeakGiB {
		seg.PeakGiB = v
	}
	if v := s.Tree.CPUPercent; !math.IsNaN(v) && r.Current.CPUs > 0 {
		seg.CPUSum += v / float64(r.Current.CPUs)
		seg.CPUN++
		if host := s.Host.CPUPercent; !math.IsNaN(host) {
			seg.Foreign += math.Max(0, (host*r.sampler.machineCPUs-v)/100)
		}
	}
	if v := s.GPUMean(); !math.IsNaN(v) {
		seg.GPUSum += v
		seg.GPUN++
	}
}

// energyUsed returns the increase of the devices' energy counters since the last sample, joules. Decreasing counters (a
// driver restart) add nothing.
func (s *sampling) energyUsed(gpus []monitor.GPUSample) (joules float64) {
	for _, g := range gpus {
		if math.IsNaN(g.EnergyJ) {
			continue
		}
		if before, ok := s.energy[g.UUID]; ok && g.EnergyJ > before {
			joules += g.EnergyJ - before
		}
		s.energy[g.UUID], s.haveJ = g.EnergyJ, true
	}
	return joules
}
